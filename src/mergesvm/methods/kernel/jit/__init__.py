"""Compiled functions of the kernel SVM."""
