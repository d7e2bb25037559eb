"""Smaller kernel models: the best expansion over few rows, chosen greedily and fitted to the scores of a full model."""
