"""Rows from files, arrays, tables and clusters as validated batches."""
