"""Recursive least squares in one pass beside other linear methods (Cassioli and others)."""
