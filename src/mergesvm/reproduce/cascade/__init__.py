"""Cascade of Zhang and Zhu: speedup and efficiency of parallel ranks."""
