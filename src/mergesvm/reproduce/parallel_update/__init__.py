"""Convergence of the parallel update, and the active-set algorithm by units (Alpcan and Bauckhage)."""
