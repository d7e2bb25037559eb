"""Options of solving, checked."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from mergesvm.checks import check_flag
from mergesvm.engines.threads import Threads
from mergesvm.errors import ParameterError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.closed_form import solve_problems
from mergesvm.models.domain import Domain
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.models.score_moments import class_moments, side_moments
from mergesvm.models.solution import Solution
from mergesvm.multiclass.class_weights import known_weights
from mergesvm.multiclass.decomposition import Problems, decompose, in_pairs
from mergesvm.multiclass.schemes import check_class_weight, check_multiclass, check_ties

MIN_C, MAX_C = 1e-300, 1e300


@dataclass(frozen=True)
class SolveOptions:
    """The options of :func:`~mergesvm.solve`.

    >>> SolveOptions(C=-1).check()
    Traceback (most recent call last):
    ...
    mergesvm.errors.ParameterError: C must be a positive number, not -1.
    """

    C: float = 1.0
    class_weight: Any = None
    multiclass: str = "ovr"
    standardize: bool = False
    penalize_intercept: bool = True
    ties: str = "recount"
    fit_intercept: bool = True

    def check(self) -> SolveOptions:
        """The same options as plain Python values, or an error that names the invalid one."""
        C = check_C(self.C)
        check_class_weight(self.class_weight)
        check_multiclass(self.multiclass)
        check_ties(self.ties)
        return replace(
            self,
            C=C,
            standardize=check_flag("standardize", self.standardize),
            penalize_intercept=check_flag("penalize_intercept", self.penalize_intercept),
            fit_intercept=check_flag("fit_intercept", self.fit_intercept),
        )

    def as_dict(self, *, ties: bool = True) -> dict[str, Any]:
        """Keyword arguments of :func:`~mergesvm.solve`; without ``ties`` those of functions that do not predict."""
        options = asdict(self) | {"class_weight": self.class_weight}
        if not ties:
            del options["ties"]
        return options

    @property
    def intercept_penalty(self) -> float:
        """The penalty on the intercept relative to that on coefficients; infinite if the intercept is 0."""
        return float(self.penalize_intercept) if self.fit_intercept else math.inf

    def in_pairs(self, n_classes: int) -> bool:
        """Whether each pair of classes gets a hyperplane."""
        return in_pairs(self.multiclass, n_classes)

    def problems(self, knowledge: Knowledge) -> Problems:
        """The binary problems of knowledge."""
        return decompose(knowledge, self.multiclass, self.class_weight)

    def solution(self, knowledge: Knowledge, problems: Problems, engine: Threads | None = None) -> Solution:
        """The hyperplanes of the binary problems."""
        return solve_problems(
            knowledge,
            problems,
            self.C,
            standardize=self.standardize,
            intercept_penalty=self.intercept_penalty,
            engine=engine,
        )

    def model(self, knowledge: Knowledge, problems: Problems, solution: Solution) -> LinearModel | PairwiseModel:
        """The model of solved problems."""
        domain = Domain.of(
            knowledge,
            C=self.C,
            class_weight=known_weights(self.class_weight, knowledge.labels),
            multiclass=self.multiclass,
            standardize=self.standardize,
            penalize_intercept=self.penalize_intercept,
            fit_intercept=self.fit_intercept,
        )
        if self.in_pairs(len(knowledge.labels)):
            return PairwiseModel(domain, solution, side_moments(knowledge, problems, solution), self.ties)
        if len(knowledge.labels) > 2:
            return LinearModel(domain, solution, class_moments(knowledge, solution))
        return LinearModel(domain, solution, side_moments(knowledge, problems, solution))


def check_C(C: Any, name: str = "C") -> float:  # noqa: N802
    """Return C as a float; raise an error if it is not a positive number within range."""
    number = isinstance(C, (int, float, np.integer, np.floating)) and not isinstance(C, bool)
    if not number or not MIN_C <= C <= MAX_C:
        limits = f" from {MIN_C:g} to {MAX_C:g}" if number and C > 0 else ""
        raise ParameterError(f"{name} must be a positive number{limits}, not {C!r}.")
    return float(C)
