"""The path of C: models at many values of C from one decomposition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.threads import Threads
from mergesvm.errors import ParameterError
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.definiteness import check_sound
from mergesvm.methods.proximal.eigen_path import solve_path
from mergesvm.methods.proximal.error_estimate import warn_if_rounded
from mergesvm.methods.proximal.factor import small_blas
from mergesvm.methods.proximal.options import SolveOptions, check_C
from mergesvm.methods.proximal.solve import solvable
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.models.solution import Solution
from mergesvm.multiclass.decomposition import Problems

DEFAULT_CS = np.logspace(-6, 6, 25)
"""Default values of C, two per power of ten."""


@dataclass(frozen=True)
class Path:
    """The models at all values of C; ``path[i]`` is the model at ``path.Cs[i]``.

    Attributes
    ----------
    Cs : array of shape (Cs,)
    knowledge : Knowledge
    options : SolveOptions
        All options but C.
    problems : Problems
    solutions : list of Solution
    """

    Cs: NDArray[np.float64]
    knowledge: Knowledge
    options: SolveOptions
    problems: Problems
    solutions: list[Solution]

    def __len__(self) -> int:
        return len(self.Cs)

    def __getitem__(self, index: int) -> LinearModel | PairwiseModel:
        options = replace(self.options, C=float(self.Cs[index]))
        return options.model(self.knowledge, self.problems, self.solutions[index])

    def __iter__(self) -> Iterator[LinearModel | PairwiseModel]:
        return (self[index] for index in range(len(self)))

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients, (Cs, problems, features)."""
        return np.array([solution.coefs for solution in self.solutions])

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Intercepts, (Cs, problems)."""
        return np.array([solution.offsets - solution.coefs @ self.knowledge.anchor for solution in self.solutions])


def path(
    knowledge: Knowledge | Folds,
    Cs: Sequence[float] | NDArray[Any] | None = None,
    class_weight: Mapping[Any, float] | str | None = None,
    multiclass: str = "ovr",
    standardize: bool = False,
    *,
    penalize_intercept: bool = True,
    fit_intercept: bool = True,
    ties: str = "recount",
    n_jobs: int | None = None,
) -> Path:
    """Solve knowledge at many values of C, at about the cost of a few solutions.

    The parameters are those of :func:`solve`, but for ``Cs``, by default 25 from 1e-6 to 1e6. Each model
    equals that of :func:`solve` to 1e-9. With few features 25 values cost about as much as two; with many, the
    eigendecomposition takes as long as about twenty solutions, whatever the number of values.

    Examples
    --------
    >>> import mergesvm as ms
    >>> k = ms.learn([[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"])
    >>> ms.path(k, [0.01, 100.0]).coef_.round(2).ravel()
    array([-0.04, -0.79])
    """
    whole = solvable(knowledge)
    values = values_of(Cs)
    options = SolveOptions(
        values[0], class_weight, multiclass, standardize, penalize_intercept, ties, fit_intercept
    ).check()
    with small_blas(whole.width):
        check_sound(whole)
        problems = options.problems(whole)
        (solutions,) = solve_path(
            whole,
            [problems],
            values,
            standardize=options.standardize,
            intercept_penalty=options.intercept_penalty,
            engine=Threads.of_jobs(n_jobs),
        )
        warn_if_rounded(solutions, whole.precision)
    return Path(values, whole, options, problems, solutions)


def values_of(Cs: Any) -> NDArray[np.float64]:
    """Values of C as an array, in the order given."""
    if Cs is None:
        return DEFAULT_CS
    try:
        values = np.atleast_1d(np.asarray(Cs, dtype=np.float64))
    except (TypeError, ValueError):
        raise ParameterError(f"Cs must be a list of positive numbers, not {Cs!r}.") from None
    if values.ndim != 1 or not len(values):
        raise ParameterError(f"Cs must be a list of positive numbers, not {Cs!r}.")
    for value in values.tolist():
        check_C(value, "Each of Cs")
    return values
