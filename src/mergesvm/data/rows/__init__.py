"""Rows in memory: dense, sparse, column-wise and tables, read block by block."""
