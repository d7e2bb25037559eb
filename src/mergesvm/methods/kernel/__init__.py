"""Kernel support vector machines, trained in parallel by units that each hold their own rows."""
