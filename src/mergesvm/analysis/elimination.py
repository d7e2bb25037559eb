"""Backward elimination: features leave one by one, and all planes follow without being solved again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotri

from mergesvm.errors import SolverWarning, warn_caller
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.equations import CoefficientScaling, Equations
from mergesvm.methods.proximal.factor import EPSILON, by_triangles, trusted_cholesky
from mergesvm.methods.proximal.losses import Bundle, squared_losses
from mergesvm.methods.proximal.rounding import CancellationGuard
from mergesvm.models.solution import Solution
from mergesvm.multiclass.decomposition import Problems

Numbers = NDArray[np.float64]

ROUNDS, SHORTEST = 16, 8
"""The inverse is computed anew so many times, spread evenly over the features; but never after fewer steps than these.

Sixteen times keep the whole at so many solutions. Of 784 features, correlated or in pairs of twins, the objective then
rises as predicted to 1e-13; with one inverse for all steps only to 1e-12 to 1e-7, as C grows.
"""

SHRUNK, GONE = 1e6, 1e10
"""Entries of the inverse that have shrunk by so much have lost as many digits: time for a new one; and at once."""

TINY = float(np.finfo(np.float64).tiny)

BLOCK_BYTES = 2**25
"""Losses are computed for so many bytes of coefficients at a time."""


@dataclass(frozen=True)
class Trail:
    """What became of the planes while features left; step 0 is with all of them.

    Attributes
    ----------
    order : array of int, shape (steps,)
        The features in the order in which they left.
    objectives : array of shape (steps + 1,)
        The regularised objective, summed over the problems.
    losses : array of shape (steps + 1, problems)
        The summed squared loss of each problem on the rows that were to judge.
    """

    order: NDArray[np.intp]
    objectives: Numbers
    losses: Numbers


def walk_back(
    planes: Backward, judges: Knowledge, signs: NDArray[np.int8], steps: int, order: Sequence[int] | None = None
) -> Trail:
    """Remove features: those that raise the objective least, or in a given order.

    ``judges`` is the knowledge of the rows on which losses are computed, and ``signs`` (problems, their classes) the
    side that each of their classes takes.

    >>> import mergesvm as ms
    >>> from mergesvm.multiclass.decomposition import one_vs_rest
    >>> k = ms.learn([[0.0, 5.0], [1.0, 4.0], [2.0, 5.0], [3.0, 4.0]], ["low", "low", "high", "high"])
    >>> problems = one_vs_rest(k)
    >>> trail = walk_back(Backward(k, problems, C=1.0), k, problems.signs, steps=1)
    >>> trail.order, trail.objectives.round(2), trail.losses.round(2).tolist()
    (array([1]), array([0.81, 0.97]), [[1.21], [1.31]])
    """
    left, objectives = np.empty(steps, dtype=np.intp), np.empty(steps + 1)
    losses: list[Numbers] = []
    solutions: list[Solution] = []
    for step in range(steps + 1):
        if step:
            left[step - 1] = np.argmin(planes.rises()) if order is None else order[step - 1]
            planes.remove(int(left[step - 1]))
        objectives[step] = planes.objectives().sum()
        solutions.append(planes.solution())
        if step == steps or len(solutions) * solutions[0].coefs.nbytes > BLOCK_BYTES:
            coefs = np.concatenate([each.coefs for each in solutions])
            bundle = Bundle(coefs, np.concatenate([each.offsets for each in solutions]), planes.anchor)
            found = squared_losses(judges, bundle, np.tile(signs, (len(solutions), 1)))
            losses.append(found.reshape(len(solutions), -1))
            solutions = []
    return Trail(left, objectives, np.concatenate(losses))


class Backward:
    """The planes of all binary problems, while features are removed from them.

    With the system A w = t of :func:`~mergesvm.methods.proximal.closed_form.solve_problems`, and the objective
    1/2 |w|^2 + C/2 sum ..., removing feature j raises the objective by exactly ::

        C/2 w_j^2 / [A^-1]_jj        and then        w -= w_j / [A^-1]_jj a,   A^-1 -= a a' / [A^-1]_jj

    where a is column j of the inverse. Problems with the same weights share one inverse; two matrices are kept for each
    set of weights. Standardised features stay so when others leave.

    Parameters
    ----------
    knowledge : Knowledge
    problems : Problems
    C : float
    standardize, penalize_intercept : bool
        As in :func:`~mergesvm.methods.proximal.closed_form.solve_problems`.

    Attributes
    ----------
    left : array of bool, shape (features,)
        Which features are still there.

    Examples
    --------
    >>> import mergesvm as ms
    >>> from mergesvm.multiclass.decomposition import one_vs_rest
    >>> k = ms.learn([[0.0, 5.0], [1.0, 4.0], [2.0, 5.0], [3.0, 4.0]], ["low", "low", "high", "high"])
    >>> planes = Backward(k, one_vs_rest(k), C=1.0)
    >>> planes.rises().round(3)
    array([1.188, 0.162])
    >>> planes.remove(1)
    >>> planes.solution().coefs.round(3), ms.solve(k.select([0])).coef_.round(3)
    (array([[-0.513,  0.   ]]), array([[-0.513]]))
    """

    def __init__(
        self,
        knowledge: Knowledge,
        problems: Problems,
        C: float,
        *,
        standardize: bool = False,
        penalize_intercept: bool = True,
    ) -> None:
        self.anchor, self.left = knowledge.anchor, np.ones(knowledge.width, dtype=bool)
        self._C, self._n_problems = C, len(problems)
        frame, lost = CoefficientScaling.of(knowledge, standardize), CancellationGuard.of(knowledge)
        alike: dict[bytes, list[int]] = {}
        for problem in range(len(problems)):
            alike.setdefault(problems.weights(problem).tobytes(), []).append(problem)
        self._members, self._groups = [np.array(members) for members in alike.values()], []
        for members in self._members:
            weights, signs = problems.weights(members[0]), problems.signs[members].astype(np.float64)
            equations = Equations.of(knowledge, weights, signs, frame, lost, penalize_intercept)
            self._groups.append(_Group(equations, C, max(SHORTEST, knowledge.width // ROUNDS)))
        ridge = max(group.ridge for group in self._groups)
        if ridge:
            warn_caller(
                f"The system is singular to rounding, and has no inverse to take features from: a ridge of {ridge:.0e} "
                f"of the diagonal was added, as a smaller C would. Duplicate or constant features and a very large C "
                f"lead to this.",
                SolverWarning,
            )

    def rises(self) -> Numbers:
        """By how much the summed objective would rise without each feature, (features,); infinite if it has left."""
        total = np.where(self.left, 0.0, np.inf)
        for group in self._groups:
            total[group.at] += self._C / 2 * group.rises()
        return total

    def remove(self, feature: int) -> None:
        """Let a feature leave."""
        self.left[feature] = False
        for group in self._groups:
            group.remove(feature)

    def objectives(self) -> Numbers:
        """1/2 (|w|^2 + b^2) + C/2 sum_i omega_i (1 - y_i (w.x_i + b))^2 of each problem."""
        values = np.empty(self._n_problems)
        for members, group in zip(self._members, self._groups, strict=True):
            values[members] = self._C / 2 * group.minimum()
        return values

    def solution(self) -> Solution:
        """The planes as they are now; coefficients of features that have left are 0."""
        coefs, offsets = np.zeros((self._n_problems, len(self.left))), np.empty(self._n_problems)
        for members, group in zip(self._members, self._groups, strict=True):
            coefs[np.ix_(members, group.at)], offsets[members] = group.planes()
        return Solution(coefs, offsets, ("ridge" if any(g.ridge for g in self._groups) else "cholesky",) * len(coefs))


class _Group:
    """Problems with the same weights: one inverse, and one solution for each right-hand side.

    The penalty on the intercept is kept out of the inverse, as in the closed form: what it needs is one more right-hand
    side, g, with solution q. Rank-one terms since the last new inverse are kept beside it, so that a step costs as many
    products as there are features and terms, and the inverse itself is never written to.
    """

    def __init__(self, equations: Equations, C: float, period: int) -> None:
        self._equations, self._C, self._period = equations, C, period
        self._penalised, self._penalty = equations.towards is not None, C + 1 / equations.count
        self._columns = equations.columns.T
        self.at, self._left = np.arange(len(equations.gram)), np.ones(len(equations.gram), dtype=bool)
        self._refresh()

    def _refresh(self) -> None:
        """A new inverse of the features that are left, with a ridge if it needs one."""
        self.at = self.at[self._left]
        system = self._equations.gram[np.ix_(self.at, self.at)]
        diagonal = system.diagonal() + 1 / self._C
        noise = float((self._equations.noise[self.at] / diagonal).max(initial=0.0))
        tolerance, self.ridge = 8 * max(len(self.at), 16) * EPSILON + noise, 0.0
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
        self._terms, self._n_terms = np.empty((self._period, len(self.at))), 0

    def remove(self, feature: int) -> None:
        """Take a feature out of the inverse and of all solutions: what belongs to it becomes 0."""
        place = int(np.searchsorted(self.at, feature))
        terms, pivot = self._terms[: self._n_terms], self._diagonal[place]
        column = np.concatenate([self._inverse[place, :place], self._inverse[place:, place]])
        column -= terms[:, place] @ terms
        self._left[place] = False
        column *= self._left
        self._solved -= np.outer(self._solved[:, place] / pivot, column)
        self._solved[:, place], self._given[:, place] = 0.0, 0.0
        self._diagonal -= column**2 / pivot
        self._diagonal[place] = self._fresh[place] = 1.0
        self._terms[self._n_terms] = column / np.sqrt(pivot)
        self._n_terms += 1
        shrunk = float((self._fresh / np.maximum(self._diagonal, TINY * self._fresh)).max())
        if self._n_terms == self._period or shrunk > (SHRUNK if self._n_terms >= SHORTEST else GONE):
            self._refresh()

    def _pull(self) -> tuple[Numbers, Numbers, float]:
        """The solution q of the penalty on the intercept, by how much planes without it miss it, and its strength."""
        if not self._penalised:
            return np.zeros(len(self.at)), np.zeros(len(self._solved)), 0.0
        along = self._solved @ self._given[-1]
        return self._solved[-1], self._equations.means - along[:-1], 1 / (self._penalty + float(along[-1]))

    def rises(self) -> Numbers:
        """w_j^2 / [A^-1]_jj summed over the problems, for each feature."""
        q, misses, strength = self._pull()
        w = self._solved[: len(misses)] + np.outer(strength * misses, q)
        # Never less than this, by the inequality of Cauchy and Schwarz, however much cancels.
        least = self._penalty * strength * self._diagonal
        rises: Numbers = (w**2).sum(axis=0) / np.maximum(self._diagonal - strength * q**2, least)
        return rises

    def minimum(self) -> Numbers:
        """The least (|w|^2 + b^2) / C + sum_i omega_i (1 - y_i (w.x_i + b))^2 of each problem."""
        _, misses, strength = self._pull()
        explained = np.einsum("pd,pd->p", self._given, self._solved)[: len(misses)]
        least: Numbers = self._equations.count * (1 - self._equations.means**2) - explained + strength * misses**2
        return least

    def planes(self) -> tuple[Numbers, Numbers]:
        """Coefficients of the features at :attr:`at`, (problems, features), and offsets at the anchor."""
        q, misses, strength = self._pull()
        pull = strength * misses
        w = (self._solved[: len(misses)] + np.outer(pull, q)) / self._equations.scale[self.at]
        return w, self._equations.means - pull / self._equations.count - w @ self._equations.mean[self.at]
