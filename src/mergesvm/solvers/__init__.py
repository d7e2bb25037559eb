"""What is concluded: binary problems, their weights, and their solutions in closed form."""

from mergesvm.solvers.closed_form import Solution, solve_problems
from mergesvm.solvers.drift import Drift, drift
from mergesvm.solvers.problems import Problems, one_vs_one, one_vs_rest
from mergesvm.solvers.scores import ClassMoments, SideMoments, class_moments, side_moments

__all__ = [
    "ClassMoments",
    "Drift",
    "Problems",
    "SideMoments",
    "Solution",
    "class_moments",
    "drift",
    "one_vs_one",
    "one_vs_rest",
    "side_moments",
    "solve_problems",
]
