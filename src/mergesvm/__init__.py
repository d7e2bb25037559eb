"""mergesvm: support vector machines that add, subtract and forget.

What a support vector machine of the least-squares kind learns from data is a sum. Learn the pieces anywhere, add them,
take any piece back: the model is the one that all the remaining rows at once would have given.

>>> import mergesvm as ms
>>> morning = ms.learn([[0.0, 0.1], [1.0, 0.9]], ["no", "yes"])
>>> evening = ms.learn([[0.2, 0.0], [0.9, 1.1]], ["no", "yes"])
>>> model = ms.solve(morning + evening, C=10.0)
>>> model.predict([[0.1, 0.1], [1.0, 1.0]])
array(['no', 'yes'], dtype='<U3')
"""

from mergesvm import engines, errors, features
from mergesvm.data import Scan, scan
from mergesvm.estimators import MergeSVC, MergeSVCCV, ParallelKernelSVC, PegasosSVC, RecursiveSVC
from mergesvm.knowledge import Folds, Knowledge, Signature, learn, load_kernels, merge
from mergesvm.models import (
    KernelModel,
    LinearModel,
    PairwiseModel,
    eliminate,
    expected,
    influence,
    load_model,
    operating_curve,
    operating_point,
    path,
    solve,
    standardized_coefficients,
    validate,
)
from mergesvm.solvers import drift

__version__ = "0.1.0"

__all__ = [
    "Folds",
    "KernelModel",
    "Knowledge",
    "LinearModel",
    "MergeSVC",
    "MergeSVCCV",
    "PairwiseModel",
    "ParallelKernelSVC",
    "PegasosSVC",
    "RecursiveSVC",
    "Scan",
    "Signature",
    "drift",
    "eliminate",
    "engines",
    "errors",
    "expected",
    "features",
    "influence",
    "learn",
    "load_kernels",
    "load_model",
    "merge",
    "operating_curve",
    "operating_point",
    "path",
    "scan",
    "solve",
    "standardized_coefficients",
    "validate",
]
