"""Compiled functions of the kernel method. Importing any module of this package imports numba."""
