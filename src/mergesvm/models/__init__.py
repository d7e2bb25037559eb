"""What predicts: linear models, pairwise votes, how knowledge is solved into them, and their files."""

from mergesvm.models.calibration import Calibration
from mergesvm.models.evaluation import Evaluation
from mergesvm.models.expected import Expected, expected
from mergesvm.models.file import load_model
from mergesvm.models.importance import Elimination, Importance, eliminate, standardized_coefficients
from mergesvm.models.influence import Influence, influence
from mergesvm.models.kernel import KernelModel
from mergesvm.models.linear import LinearModel
from mergesvm.models.model import Model
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.models.path import Path, path
from mergesvm.models.planes import Planes
from mergesvm.models.solve import check_terms, solve
from mergesvm.models.threshold import OperatingCurve, OperatingPoint, operating_curve, operating_point
from mergesvm.models.validation import Validation, validate

__all__ = [
    "Calibration",
    "Elimination",
    "Evaluation",
    "Expected",
    "Importance",
    "Influence",
    "KernelModel",
    "LinearModel",
    "Model",
    "OperatingCurve",
    "OperatingPoint",
    "PairwiseModel",
    "Path",
    "Planes",
    "Validation",
    "check_terms",
    "eliminate",
    "expected",
    "influence",
    "load_model",
    "operating_curve",
    "operating_point",
    "path",
    "solve",
    "standardized_coefficients",
    "validate",
]
