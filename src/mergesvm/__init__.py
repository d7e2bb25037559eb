"""mergesvm: support vector machines that add, subtract and forget.

The training of a least-squares support vector machine is a sum over rows. Learn pieces of the data anywhere, add them,
subtract any of them: the model equals the one trained on the remaining rows at once.

>>> import mergesvm as ms
>>> morning = ms.learn([[0.0, 0.1], [1.0, 0.9]], ["no", "yes"])
>>> evening = ms.learn([[0.2, 0.0], [0.9, 1.1]], ["no", "yes"])
>>> model = ms.solve(morning + evening, C=10.0)
>>> model.predict([[0.1, 0.1], [1.0, 1.0]])
array(['no', 'yes'], dtype='<U3')
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mergesvm import engines, errors, features
    from mergesvm.analysis.cross_validation.validation import validate
    from mergesvm.analysis.expected import expected
    from mergesvm.analysis.importance import eliminate, standardized_coefficients
    from mergesvm.analysis.pieces.drift import drift
    from mergesvm.analysis.pieces.influence import influence
    from mergesvm.analysis.threshold import operating_curve, operating_point
    from mergesvm.data.scan import Scan, scan
    from mergesvm.estimators.merge_svc import MergeSVC
    from mergesvm.estimators.merge_svc_cv import MergeSVCCV
    from mergesvm.estimators.parallel_kernel_svc import ParallelKernelSVC
    from mergesvm.estimators.pegasos_svc import PegasosSVC
    from mergesvm.estimators.precompile import precompile
    from mergesvm.estimators.recursive_svc import RecursiveSVC
    from mergesvm.knowledge.combine import merge, subtract
    from mergesvm.knowledge.folds import Folds
    from mergesvm.knowledge.knowledge import Knowledge
    from mergesvm.knowledge.learning.learn import learn
    from mergesvm.knowledge.signature import Signature
    from mergesvm.methods.proximal.path import path
    from mergesvm.methods.proximal.solve import solve
    from mergesvm.models.kernel import KernelModel
    from mergesvm.models.linear import LinearModel
    from mergesvm.models.load import load, load_model
    from mergesvm.models.pairwise import PairwiseModel
    from mergesvm.reports.evaluation import evaluate
    from mergesvm.reports.write import report

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
    "evaluate",
    "expected",
    "features",
    "influence",
    "learn",
    "load",
    "load_model",
    "merge",
    "operating_curve",
    "operating_point",
    "path",
    "precompile",
    "report",
    "scan",
    "solve",
    "standardized_coefficients",
    "subtract",
    "validate",
]

_MODULES = {
    "Folds": "knowledge.folds",
    "KernelModel": "models.kernel",
    "Knowledge": "knowledge.knowledge",
    "LinearModel": "models.linear",
    "MergeSVC": "estimators.merge_svc",
    "MergeSVCCV": "estimators.merge_svc_cv",
    "PairwiseModel": "models.pairwise",
    "ParallelKernelSVC": "estimators.parallel_kernel_svc",
    "PegasosSVC": "estimators.pegasos_svc",
    "RecursiveSVC": "estimators.recursive_svc",
    "Scan": "data.scan",
    "Signature": "knowledge.signature",
    "drift": "analysis.pieces.drift",
    "eliminate": "analysis.importance",
    "evaluate": "reports.evaluation",
    "expected": "analysis.expected",
    "influence": "analysis.pieces.influence",
    "learn": "knowledge.learning.learn",
    "load": "models.load",
    "load_model": "models.load",
    "merge": "knowledge.combine",
    "operating_curve": "analysis.threshold",
    "operating_point": "analysis.threshold",
    "path": "methods.proximal.path",
    "precompile": "estimators.precompile",
    "report": "reports.write",
    "scan": "data.scan",
    "solve": "methods.proximal.solve",
    "standardized_coefficients": "analysis.importance",
    "subtract": "knowledge.combine",
    "validate": "analysis.cross_validation.validation",
}
"""The module of each public name: imported when the name is first used, so that ``import mergesvm`` is fast."""


def __getattr__(name: str) -> Any:
    if name in ("engines", "errors", "features"):
        return import_module(f"mergesvm.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'mergesvm' has no attribute {name!r}")
    value = getattr(import_module(f"mergesvm.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
