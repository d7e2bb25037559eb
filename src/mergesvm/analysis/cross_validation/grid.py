"""The grid of candidates: all combinations of C, class weights and multi-class scheme, and their hyperplanes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.engines.threads import Threads
from mergesvm.errors import ParameterError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.eigen_path import solve_path
from mergesvm.methods.proximal.factor import small_blas
from mergesvm.methods.proximal.losses import LinearScores
from mergesvm.methods.proximal.options import SolveOptions
from mergesvm.methods.proximal.path import values_of
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.models.solution import Solution
from mergesvm.multiclass.decomposition import Problems
from mergesvm.multiclass.schemes import check_class_weight


@dataclass(frozen=True)
class Grid:
    """Candidates: all values of C, increasing, for each setting of class weights and multi-class scheme."""

    Cs: NDArray[np.float64]
    settings: tuple[SolveOptions, ...]

    @classmethod
    def of(
        cls,
        Cs: Any,
        class_weights: Any,
        multiclass: Any,
        standardize: bool = False,
        penalize_intercept: bool = True,
        ties: str = "recount",
        fit_intercept: bool = True,
    ) -> Grid:
        """The grid of all combinations; a single value stands for a list of one."""
        values = np.unique(values_of(Cs))
        weightings, schemes = _as_list(class_weights, "class_weights"), _as_list(multiclass, "multiclass")
        for weight in weightings:
            check_class_weight(weight, "class_weights")
        settings = (
            SolveOptions(values[0], weight, scheme, standardize, penalize_intercept, ties, fit_intercept).check()
            for scheme, weight in product(schemes, weightings)
        )
        return cls(values, tuple(settings))

    def __len__(self) -> int:
        return len(self.Cs) * len(self.settings)

    def __getitem__(self, index: int) -> SolveOptions:
        setting, at = divmod(range(len(self))[index], len(self.Cs))
        return replace(self.settings[setting], C=float(self.Cs[at]))

    def __iter__(self) -> Iterator[SolveOptions]:
        return (self[index] for index in range(len(self)))

    def parts(self, count: int) -> Iterator[tuple[list[int], Grid]]:
        """Split into about ``count`` grids, with the places of their candidates in this one."""
        # Settings with the same C share decompositions, so they are split only if there are too few values of C.
        everything = list(range(len(self.settings)))
        for own in [[each] for each in everything] if count > len(self.Cs) else [everything]:
            for some in np.array_split(np.arange(len(self.Cs)), min(count, len(self.Cs))):
                places = [setting * len(self.Cs) + int(at) for setting in own for at in some]
                yield places, Grid(self.Cs[some], tuple(self.settings[setting] for setting in own))

    def solve(self, knowledge: Knowledge, engine: Threads) -> list[SolvedSetting]:
        """Solve all candidates, setting by setting."""
        with small_blas(knowledge.width):
            sets = [setting.problems(knowledge) for setting in self.settings]
            fixed = self.settings[0]
            paths = solve_path(
                knowledge,
                sets,
                self.Cs,
                standardize=fixed.standardize,
                intercept_penalty=fixed.intercept_penalty,
                engine=engine,
            )
        solved = zip(self.settings, sets, paths, strict=True)
        return [SolvedSetting(knowledge, setting, self.Cs, problems, path) for setting, problems, path in solved]


@dataclass(frozen=True)
class SolvedSetting:
    """The hyperplanes of one setting at all values of C."""

    knowledge: Knowledge
    setting: SolveOptions
    Cs: NDArray[np.float64]
    problems: Problems
    solutions: Sequence[Solution]

    @property
    def labels(self) -> tuple[Label, ...]:
        """The classes, sorted."""
        return self.knowledge.labels

    @property
    def in_pairs(self) -> bool:
        """Whether each pair of classes has a hyperplane."""
        return self.setting.in_pairs(len(self.labels))

    def bundle(self) -> LinearScores:
        """All hyperplanes: those of the first C, then those of the next."""
        coefs = np.concatenate([solution.coefs for solution in self.solutions])
        offsets = np.concatenate([solution.offsets for solution in self.solutions])
        return LinearScores(coefs, offsets, self.knowledge.anchor)

    def models(self) -> Iterator[LinearModel | PairwiseModel]:
        """The models at all values of C."""
        for C, solution in zip(self.Cs, self.solutions, strict=True):
            yield replace(self.setting, C=float(C)).model(self.knowledge, self.problems, solution)


def _as_list(given: Any, name: str) -> list[Any]:
    """The distinct values of a list; a single value stands for a list of one."""
    items = [given] if given is None or isinstance(given, (str, Mapping)) else list(given)
    if not items:
        raise ParameterError(f"{name} is empty. Give at least one value.")
    return [item for at, item in enumerate(items) if item not in items[:at]]
