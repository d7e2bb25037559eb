"""Solve knowledge into a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mergesvm.engines.threads import Threads
from mergesvm.errors import KnowledgeError
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.definiteness import check_sound
from mergesvm.methods.proximal.error_estimate import warn_if_rounded
from mergesvm.methods.proximal.factor import small_blas
from mergesvm.methods.proximal.options import SolveOptions
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel


def solve(
    knowledge: Knowledge | Folds,
    C: float = 1.0,
    class_weight: Mapping[Any, float] | str | None = None,
    multiclass: str = "ovr",
    standardize: bool = False,
    *,
    penalize_intercept: bool = True,
    fit_intercept: bool = True,
    ties: str = "recount",
    n_jobs: int | None = None,
) -> LinearModel | PairwiseModel:
    """Solve knowledge into a model. This needs no data, so it can be repeated with other options at any time.

    Parameters
    ----------
    knowledge : Knowledge or Folds
    C : float
        Weight of the errors relative to the penalty. A larger C fits the data more closely.
    class_weight : {None, "inverse", "complement", "balanced"} or mapping of class to weight
        Weights against imbalance, from the counts of the two sides of each binary problem: 1/n_c, n_other/n, or
        n/(2 n_c). They have the same ratio between the sides and differ in the scale of C. A mapping is used as given.
    multiclass : {"ovr", "ovo"}
        One-vs-rest or one-vs-one. They are the same for two classes.
    standardize : bool
        Penalise the coefficients of features about their mean and in units of their standard deviation.
    penalize_intercept : bool
        True as in the papers, False as in scikit-learn's ridge classifier.
    fit_intercept : bool
        Whether there is an intercept. Without one, scores are ``X @ coef_.T``, and ``standardize`` scales features
        without moving them.
    ties : {"recount", "sequential", "margin"}
        How ties of votes are broken in one-vs-one; see :mod:`mergesvm.multiclass.votes`.
    n_jobs : int, optional
        Number of threads (default: one per core).

    Examples
    --------
    >>> import mergesvm as ms
    >>> k = ms.learn([[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"])
    >>> ms.solve(k, C=100.0).coef_.round(2), ms.solve(k, C=0.01).coef_.round(2)
    (array([[-0.79]]), array([[-0.04]]))
    """
    knowledge = solvable(knowledge)
    options = SolveOptions(C, class_weight, multiclass, standardize, penalize_intercept, ties, fit_intercept).check()
    with small_blas(knowledge.width):
        check_sound(knowledge)
        problems = options.problems(knowledge)
        solution = options.solution(knowledge, problems, Threads.of_jobs(n_jobs))
        warn_if_rounded([solution], knowledge.precision)
        return options.model(knowledge, problems, solution)


def solvable(knowledge: Any) -> Knowledge:
    """Knowledge with at least one row; folds are merged."""
    if isinstance(knowledge, Folds):
        knowledge = knowledge.total
    if not isinstance(knowledge, Knowledge):
        kind = type(knowledge).__name__
        raise TypeError(f"Only knowledge can be solved, not {kind}. A fitted estimator has it as knowledge_.")
    if not knowledge.labels:
        raise KnowledgeError(
            "The knowledge has no rows, or only rows of weight zero, so it cannot be solved. Learn or merge rows first."
        )
    return knowledge
