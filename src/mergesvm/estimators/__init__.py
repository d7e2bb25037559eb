"""The scikit-learn estimators. They validate, call the methods, and keep the result."""
