"""Damaged and forged files of every kind, and what is done with them in processes of their own."""
