"""The scikit-learn faces, thin: they check, call learn and solve, and keep the result."""

from mergesvm.estimators.merge_svc import MergeSVC
from mergesvm.estimators.merge_svc_cv import MergeSVCCV
from mergesvm.estimators.parallel_kernel_svc import ParallelKernelSVC
from mergesvm.estimators.pegasos_svc import PegasosSVC
from mergesvm.estimators.recursive_svc import RecursiveSVC

__all__ = ["MergeSVC", "MergeSVCCV", "ParallelKernelSVC", "PegasosSVC", "RecursiveSVC"]
