"""What predicts: linear models, pairwise votes, and how knowledge is solved into them."""

from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.models.solve import check_terms, solve

__all__ = ["LinearModel", "PairwiseModel", "check_terms", "solve"]
