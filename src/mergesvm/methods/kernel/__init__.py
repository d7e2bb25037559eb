"""The distributed kernel SVM by parallel updates."""
