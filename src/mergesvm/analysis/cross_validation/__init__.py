"""Cross-validation of a grid of candidates."""
