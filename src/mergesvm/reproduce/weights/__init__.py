"""Weighting of unbalanced classes by Zhang and Zhu."""
