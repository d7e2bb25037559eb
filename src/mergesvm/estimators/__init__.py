"""Estimators with the scikit-learn API: they validate, call a method, and keep the result."""
