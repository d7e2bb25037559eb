"""From knowledge to a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mergesvm.engines.threads import Threads
from mergesvm.errors import KnowledgeError, ParameterError
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.closed_form import solve_problems
from mergesvm.methods.proximal.definiteness import check_sound
from mergesvm.methods.proximal.factor import small_blas
from mergesvm.models.base import Domain
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.models.score_moments import class_moments, side_moments
from mergesvm.models.solution import Solution
from mergesvm.multiclass.class_weights import check_scheme, known_weights
from mergesvm.multiclass.decomposition import Problems, one_vs_one, one_vs_rest
from mergesvm.multiclass.votes import TIE_RULES

SMALLEST_C = 1e-300


def solve(
    knowledge: Knowledge | Folds,
    C: float = 1.0,
    class_weight: Mapping[Any, float] | str | None = None,
    multiclass: str = "ovr",
    standardize: bool = False,
    *,
    penalize_intercept: bool = True,
    ties: str = "recount",
    n_jobs: int | None = None,
) -> LinearModel | PairwiseModel:
    """Solve knowledge into a model. No data are needed, so it can be done again on other terms at any time.

    Parameters
    ----------
    knowledge : Knowledge or Folds
    C : float
        Weight of the errors against that of the coefficients. Larger follows the data more closely.
    class_weight : {None, "inverse", "complement", "balanced"} or mapping of class to weight
        Weights against imbalance, by the counts of the two sides of each binary problem: 1/n_c, n_other/n, or
        n/(2 n_c). They have the same ratio between the sides and differ in the scale of C. A mapping is used as given.
    multiclass : {"ovr", "ovo"}
        Each class against all others, or each pair of classes by itself. With two classes they are the same.
    standardize : bool
        Penalise the coefficients of features about their mean and in units of their standard deviation.
    penalize_intercept : bool
        True as in the papers, False as in scikit-learn's ridge classifier.
    ties : {"recount", "sequential", "margin"}
        What decides between classes with as many votes, one-vs-one.
    n_jobs : int, optional
        Number of threads; one a core by default.

    Examples
    --------
    >>> import mergesvm as ms
    >>> k = ms.learn([[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"])
    >>> ms.solve(k, C=100.0).coef_.round(2), ms.solve(k, C=0.01).coef_.round(2)
    (array([[-0.79]]), array([[-0.04]]))
    """
    knowledge = solvable(knowledge)
    check_terms(C, class_weight, multiclass, ties)
    terms = SolveOptions(float(C), class_weight, multiclass, bool(standardize), bool(penalize_intercept), ties)
    with small_blas(knowledge.width):
        check_sound(knowledge)
        problems = terms.problems(knowledge)
        solution = solve_problems(
            knowledge,
            problems,
            terms.C,
            standardize=terms.standardize,
            penalize_intercept=terms.penalize_intercept,
            engine=Threads(n_jobs),
        )
        return terms.model(knowledge, problems, solution)


@dataclass(frozen=True)
class SolveOptions:
    """The terms on which knowledge is solved; see :func:`solve`."""

    C: float = 1.0
    class_weight: Any = None
    multiclass: str = "ovr"
    standardize: bool = False
    penalize_intercept: bool = True
    ties: str = "recount"

    def given(self) -> dict[str, Any]:
        """The terms as :func:`solve` takes them."""
        return asdict(self) | {"class_weight": self.class_weight}

    def in_pairs(self, n_classes: int) -> bool:
        """Whether each pair of classes has a plane. Two classes are one pair, and one against the rest."""
        return self.multiclass == "ovo" and n_classes > 2

    def problems(self, knowledge: Knowledge) -> Problems:
        """The binary problems into which that of many classes falls."""
        in_pairs = self.in_pairs(len(knowledge.labels))
        return (one_vs_one if in_pairs else one_vs_rest)(knowledge, self.class_weight)

    def model(self, knowledge: Knowledge, problems: Problems, solution: Solution) -> LinearModel | PairwiseModel:
        """The model of these planes."""
        domain = Domain.of(
            knowledge,
            C=self.C,
            class_weight=known_weights(self.class_weight, knowledge.labels),
            multiclass=self.multiclass,
            standardize=self.standardize,
            penalize_intercept=self.penalize_intercept,
        )
        if self.in_pairs(len(knowledge.labels)):
            return PairwiseModel(domain, solution, side_moments(knowledge, problems, solution), self.ties)
        if len(knowledge.labels) > 2:
            return LinearModel(domain, solution, class_moments(knowledge, solution))
        return LinearModel(domain, solution, side_moments(knowledge, problems, solution))


def solvable(knowledge: Any) -> Knowledge:
    """Knowledge of some rows; of folds the whole."""
    if isinstance(knowledge, Folds):
        knowledge = knowledge.total
    if not isinstance(knowledge, Knowledge):
        kind = type(knowledge).__name__
        raise TypeError(f"Only knowledge can be solved, not {kind}. A fitted estimator has it as knowledge_.")
    if not knowledge.labels:
        raise KnowledgeError(
            "There is nothing to solve: the knowledge is of no rows, or of rows of weight zero only. "
            "Learn or merge some first."
        )
    return knowledge


def check_terms(C: Any, class_weight: Any, multiclass: Any, ties: Any) -> None:
    """Raise an error for terms on which nothing can be solved, whatever the knowledge.

    >>> check_terms(C=-1, class_weight=None, multiclass="ovr", ties="recount")
    Traceback (most recent call last):
    ...
    mergesvm.errors.ParameterError: C has to be a positive number, not -1.
    """
    if not isinstance(C, (int, float, np.integer, np.floating)) or not SMALLEST_C <= C <= 1 / SMALLEST_C:
        beyond = isinstance(C, (int, float)) and C > 0
        raise ParameterError(f"C has to be a positive number{', up to 1e299' if beyond else ''}, not {C!r}.")
    check_scheme(class_weight)
    if multiclass not in ("ovr", "ovo"):
        raise ParameterError(f"multiclass has to be 'ovr' (one-vs-rest) or 'ovo' (one-vs-one), not {multiclass!r}.")
    if ties not in TIE_RULES:
        raise ParameterError(f"ties has to be one of {', '.join(map(repr, TIE_RULES))}, not {ties!r}.")
