"""Recursive least squares: exact coefficients after every row."""
