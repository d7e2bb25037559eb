"""The scikit-learn faces, thin: they check, call learn and solve, and keep the result."""

from mergesvm.estimators.merge_svc import MergeSVC

__all__ = ["MergeSVC"]
