"""Backward elimination of features by updating the inverse, without solving again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotri

from mergesvm.errors import warn_solver
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.equations import CoefficientScaling, Equations
from mergesvm.methods.proximal.factor import by_triangles, cholesky_tolerance, trusted_cholesky
from mergesvm.methods.proximal.losses import LinearScores, squared_losses
from mergesvm.methods.proximal.options import SolveOptions
from mergesvm.methods.proximal.rounding import CancellationGuard
from mergesvm.models.solution import Solution
from mergesvm.multiclass.decomposition import Problems

Numbers = NDArray[np.float64]

N_INVERSES, MIN_STEPS_PER_INVERSE = 16, 8
"""Number of times that the inverse is recomputed, evenly over the features, and minimum number of steps between."""

MAX_SHRINKAGE, MAX_SHRINKAGE_AT_ONCE = 1e6, 1e10
"""The inverse is recomputed if an entry has shrunk (and lost digits) by this factor, after the minimum or at once."""

SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)

BLOCK_BYTES = 2**25
"""Limit of the memory for coefficients whose losses are computed together."""


class EliminationSteps(NamedTuple):
    """Features in the order of their removal; objective (steps + 1,) and loss of each problem (steps + 1, problems)."""

    order: NDArray[np.intp]
    objectives: Numbers
    losses: Numbers


def run_elimination(
    elimination: BackwardElimination,
    test: Knowledge,
    signs: NDArray[np.int8],
    steps: int,
    order: Sequence[int] | None = None,
) -> EliminationSteps:
    """Remove features that raise the objective least, or in a given order.

    Losses are computed on the rows of ``test``, whose classes have the ``signs`` (problems, classes).
    """
    removed, objectives = np.empty(steps, dtype=np.intp), np.empty(steps + 1)
    losses: list[Numbers] = []
    solutions: list[Solution] = []
    for step in range(steps + 1):
        if step:
            removed[step - 1] = np.argmin(elimination.rises()) if order is None else order[step - 1]
            elimination.remove(int(removed[step - 1]))
        objectives[step] = elimination.objectives().sum()
        solutions.append(elimination.solution())
        if step == steps or len(solutions) * solutions[0].coefs.nbytes > BLOCK_BYTES:
            coefs = np.concatenate([each.coefs for each in solutions])
            bundle = LinearScores(coefs, np.concatenate([each.offsets for each in solutions]), elimination.anchor)
            found = squared_losses(test, bundle, np.tile(signs, (len(solutions), 1)))
            losses.append(found.reshape(len(solutions), -1))
            solutions = []
    return EliminationSteps(removed, objectives, np.concatenate(losses))


class BackwardElimination:
    """The hyperplanes of all binary problems, updated as features are removed.

    With the system A w = t of :func:`~mergesvm.methods.proximal.closed_form.solve_problems`, and the objective
    1/2 |w|^2 + C/2 sum ..., removing feature j raises the objective by exactly ::

        C/2 w_j^2 / [A^-1]_jj        and then        w -= w_j / [A^-1]_jj a,   A^-1 -= a a' / [A^-1]_jj

    where a is column j of the inverse. Problems with the same class weights use the same inverse: two matrices are
    kept for them. Standardised features stay standardised when others are removed.

    >>> import mergesvm as ms
    >>> from mergesvm.multiclass.decomposition import one_vs_rest
    >>> k = ms.learn([[0.0, 5.0], [1.0, 4.0], [2.0, 5.0], [3.0, 4.0]], ["low", "low", "high", "high"])
    >>> elimination = BackwardElimination(k, one_vs_rest(k), SolveOptions(C=1.0))
    >>> elimination.rises().round(3)
    array([1.188, 0.162])
    >>> elimination.remove(1)
    >>> elimination.solution().coefs.round(3), ms.solve(k.select([0])).coef_.round(3)
    (array([[-0.513,  0.   ]]), array([[-0.513]]))
    """

    def __init__(self, knowledge: Knowledge, problems: Problems, options: SolveOptions) -> None:
        self.anchor, self.left = knowledge.anchor, np.ones(knowledge.width, dtype=bool)
        self._C, self._n_problems = options.C, len(problems)
        scaling = CoefficientScaling.of(knowledge, options.standardize, options.fit_intercept)
        guard = CancellationGuard.of(knowledge)
        self._members, self._groups = [np.array(members) for members in problems.groups()], []
        for members in self._members:
            weights, signs = problems.weights(members[0]), problems.signs[members].astype(np.float64)
            equations = Equations.of(knowledge, weights, signs, scaling, guard, options.intercept_penalty)
            self._groups.append(_Group(equations, options.C, max(MIN_STEPS_PER_INVERSE, knowledge.width // N_INVERSES)))
        ridge = max(group.ridge for group in self._groups)
        if ridge:
            warn_solver(
                f"The system is singular to rounding, so a ridge of {ridge:.0e} times the diagonal was added, as by a "
                f"smaller C. Causes are duplicate or constant features and a very large C."
            )

    def rises(self) -> Numbers:
        """Rise of the summed objective if each feature is removed, (features,); infinite if it is removed already."""
        total = np.where(self.left, 0.0, np.inf)
        for group in self._groups:
            total[group.at] += self._C / 2 * group.rises()
        return total

    def remove(self, feature: int) -> None:
        """Remove a feature."""
        self.left[feature] = False
        for group in self._groups:
            group.remove(feature)

    def objectives(self) -> Numbers:
        """Objective of each problem: 1/2 (|w|^2 + b^2) + C/2 sum_i omega_i (1 - y_i (w.x_i + b))^2."""
        values = np.empty(self._n_problems)
        for members, group in zip(self._members, self._groups, strict=True):
            values[members] = self._C / 2 * group.minimum()
        return values

    def solution(self) -> Solution:
        """The present hyperplanes; coefficients of removed features are 0."""
        coefs, offsets = np.zeros((self._n_problems, len(self.left))), np.empty(self._n_problems)
        for members, group in zip(self._members, self._groups, strict=True):
            coefs[np.ix_(members, group.at)], offsets[members] = group.hyperplanes()
        return Solution(coefs, offsets, ("ridge" if any(g.ridge for g in self._groups) else "cholesky",) * len(coefs))


class _Group:
    """Problems with the same class weights: one inverse, and one solution per right-hand side.

    As in the closed form, the penalty on the intercept is not part of the inverse but one more right-hand side g, with
    solution q. Rank-one updates since the last refresh are kept beside the inverse, so that a step costs features x
    updates products.
    """

    def __init__(self, equations: Equations, C: float, period: int) -> None:
        self._equations, self._C, self._period = equations, C, period
        self._penalised, self._penalty = equations.towards is not None, equations.slack * C + 1 / equations.count
        self._columns = equations.columns.T
        self.at, self._left = np.arange(len(equations.gram)), np.ones(len(equations.gram), dtype=bool)
        self._refresh()

    def _refresh(self) -> None:
        """Recompute the inverse for the features that are left, with a ridge if it is singular."""
        self.at = self.at[self._left]
        system = self._equations.gram[np.ix_(self.at, self.at)]
        diagonal = system.diagonal() + 1 / self._C
        noise = float((self._equations.noise[self.at] / diagonal).max(initial=0.0))
        tolerance, self.ridge = cholesky_tolerance(len(self.at), noise), 0.0
        np.fill_diagonal(system, diagonal)
        lower = trusted_cholesky(system, tolerance)
        while lower is None:
            self.ridge = 4 * self.ridge or tolerance
            np.fill_diagonal(system, (1 + self.ridge) * diagonal)
            lower = trusted_cholesky(system, tolerance / 2)
        self._left = np.ones(len(self.at), dtype=bool)
        self._given = self._columns[:, self.at]
        self._solved = np.ascontiguousarray(by_triangles(lower)(self._given.T).T)
        self._inverse = dpotri(lower, lower=1)[0]  # its lower triangle
        self._fresh = self._inverse.diagonal().copy()
        self._diagonal = self._fresh.copy()
        self._updates, self._n_updates = np.empty((self._period, len(self.at))), 0

    def remove(self, feature: int) -> None:
        """Remove a feature from the inverse and all solutions, by setting its entries to 0."""
        place = int(np.searchsorted(self.at, feature))
        updates, pivot = self._updates[: self._n_updates], self._diagonal[place]
        column = np.concatenate([self._inverse[place, :place], self._inverse[place:, place]])
        column -= updates[:, place] @ updates
        self._left[place] = False
        column *= self._left
        self._solved -= np.outer(self._solved[:, place] / pivot, column)
        self._solved[:, place], self._given[:, place] = 0.0, 0.0
        self._diagonal -= column**2 / pivot
        self._diagonal[place] = self._fresh[place] = 1.0
        self._updates[self._n_updates] = column / np.sqrt(pivot)
        self._n_updates += 1
        shrunk = float((self._fresh / np.maximum(self._diagonal, SMALLEST_NORMAL * self._fresh)).max())
        if self._n_updates == self._period or shrunk > (
            MAX_SHRINKAGE if self._n_updates >= MIN_STEPS_PER_INVERSE else MAX_SHRINKAGE_AT_ONCE
        ):
            self._refresh()

    def _pull(self) -> tuple[Numbers, Numbers, float]:
        """Solution q for the penalty on the intercept, residuals of the hyperplanes without it, and its strength."""
        if not self._penalised:
            return np.zeros(len(self.at)), np.zeros(len(self._solved)), 0.0
        along = self._solved @ self._given[-1]
        return self._solved[-1], self._equations.means - along[:-1], 1 / (self._penalty + float(along[-1]))

    def rises(self) -> Numbers:
        """w_j^2 / [A^-1]_jj summed over the problems, for each feature."""
        q, residuals, strength = self._pull()
        w = self._solved[: len(residuals)] + np.outer(strength * residuals, q)
        # A lower bound by the Cauchy-Schwarz inequality, in case of cancellation.
        least = self._penalty * strength * self._diagonal
        rises: Numbers = (w**2).sum(axis=0) / np.maximum(self._diagonal - strength * q**2, least)
        return rises

    def minimum(self) -> Numbers:
        """Minimum of (|w|^2 + b^2) / C + sum_i omega_i (1 - y_i (w.x_i + b))^2 of each problem."""
        _, residuals, strength = self._pull()
        explained = np.einsum("pd,pd->p", self._given, self._solved)[: len(residuals)]
        least: Numbers = self._equations.count * (1 - self._equations.means**2) - explained + strength * residuals**2
        return least

    def hyperplanes(self) -> tuple[Numbers, Numbers]:
        """Coefficients of the features at :attr:`at`, (problems, features), and offsets at the anchor."""
        q, residuals, strength = self._pull()
        pull = strength * residuals
        w = (self._solved[: len(residuals)] + np.outer(pull, q)) / self._equations.scale[self.at]
        return w, self._equations.means - pull / self._equations.count - w @ self._equations.mean[self.at]
