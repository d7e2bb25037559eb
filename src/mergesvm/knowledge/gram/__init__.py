"""Gram matrices and totals of batches, by class."""
