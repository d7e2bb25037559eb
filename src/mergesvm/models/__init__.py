"""What predicts: linear models, pairwise votes, how knowledge is solved into them, and their files."""

from mergesvm.models.evaluation import Evaluation
from mergesvm.models.file import load_model
from mergesvm.models.kernel import KernelModel
from mergesvm.models.linear import LinearModel
from mergesvm.models.model import Model
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.models.planes import Planes
from mergesvm.models.solve import check_terms, solve

__all__ = [
    "Evaluation",
    "KernelModel",
    "LinearModel",
    "Model",
    "PairwiseModel",
    "Planes",
    "check_terms",
    "load_model",
    "solve",
]
