"""The weighted proximal SVM in closed form, for many binary problems at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines import Threads
from mergesvm.errors import KnowledgeError
from mergesvm.knowledge import Knowledge
from mergesvm.solvers.factor import factorise
from mergesvm.solvers.lost import LostDigits
from mergesvm.solvers.problems import Problems

SMALL = 1e7
"""With fewer products than this, threads take longer to start than to save."""


@dataclass(frozen=True)
class Solution:
    """Separating planes: the score of problem p is ``coefs[p] . (x - anchor) + offsets[p]``.

    Attributes
    ----------
    coefs : array of shape (problems, features)
    offsets : array of shape (problems,)
        The score at the anchor. Taken there, and not at the origin, it keeps its digits when features are far off.
    solvers : tuple of str
        The solver of each problem.
    """

    coefs: NDArray[np.float64]
    offsets: NDArray[np.float64]
    solvers: tuple[str, ...]


@dataclass(frozen=True)
class Frame:
    """The coordinates in which coefficients are penalised: (x - origin) / scale."""

    origin: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, knowledge: Knowledge, standardize: bool) -> Frame:
        """The features as they are, or about their mean and in units of their standard deviation."""
        if not standardize:
            return cls(np.zeros(knowledge.width), np.ones(knowledge.width))
        count = knowledge.counts.sum()
        mean = knowledge.sums.sum(axis=0) / count
        square = np.sum([gram.diagonal() for gram in knowledge.grams], axis=0) / count
        variance = square - mean**2
        # A constant feature has no variance but rounding, and stays as it is, as in scikit-learn's StandardScaler.
        rounding = 64 * np.finfo(np.float64).eps
        origin = knowledge.anchor + mean
        constant = variance <= np.maximum(rounding * square, (rounding * origin) ** 2)
        return cls(origin, np.sqrt(np.where(constant, 1.0, variance)))

    def scaled(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """A Gram matrix in these units, in place."""
        if (self.scale != 1).any():
            matrix /= self.scale
            matrix /= self.scale[:, None]
        return matrix


def solve_problems(
    knowledge: Knowledge,
    problems: Problems,
    C: float,
    *,
    standardize: bool = False,
    penalize_intercept: bool = True,
    engine: Threads | None = None,
) -> Solution:
    """Solve binary problems; those with the same weights share one factorisation.

    For weights omega and signs y the plane minimises ::

        1/2 (|w|^2 + b^2) + C/2 sum_i omega_i (1 - y_i (w.x_i + b))^2

    About the weighted mean of the rows of the problem the intercept separates from w: with centred sums S and t,
    (I/C + S) w = t. The penalty on b, which is the intercept at the origin, is a rank-one term and enters by
    Sherman-Morrison; without it (``penalize_intercept=False``) that step is left out.

    >>> import mergesvm as ms
    >>> from mergesvm.solvers import one_vs_rest, solve_problems
    >>> k = ms.learn([[-1.0], [1.0]], ["a", "b"])
    >>> solve_problems(k, one_vs_rest(k), C=0.5).coefs
    array([[0.5]])
    """
    system = _System(knowledge, C, Frame.of(knowledge, standardize), penalize_intercept)
    groups: dict[bytes, list[int]] = {}
    for problem in range(len(problems)):
        groups.setdefault(problems.weights(problem).tobytes(), []).append(problem)
    members = list(groups.values())

    def run(group: list[int]) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
        return system.solve(problems.weights(group[0]), problems.signs[group].astype(np.float64))

    coefs, offsets = np.empty((len(problems), knowledge.width)), np.empty(len(problems))
    solvers = [""] * len(problems)
    if engine is None or len(members) * knowledge.width**3 < SMALL:
        engine = Threads(1)
    for group, (w, b, solver) in zip(members, engine.map(run, members), strict=True):
        coefs[group], offsets[group] = w, b
        for problem in group:
            solvers[problem] = solver
    return Solution(coefs, offsets, tuple(solvers))


class _System:
    """What all problems over the same knowledge share."""

    def __init__(self, knowledge: Knowledge, C: float, frame: Frame, penalize_intercept: bool) -> None:
        self.knowledge = knowledge
        self.C = C
        self.frame = frame
        self.penalize_intercept = penalize_intercept
        self.lost = LostDigits.of(knowledge)

    def solve(
        self, weights: NDArray[np.float64], signs: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
        """Coefficients and offsets at the anchor of problems with the same weights and different signs."""
        knowledge, frame = self.knowledge, self.frame
        counts = weights * knowledge.counts
        count = counts.sum()
        if not count > 0:
            raise KnowledgeError("All classes of a problem weigh nothing. Give at least one class a positive weight.")
        mean = weights @ knowledge.sums / count
        balance = signs @ counts
        gram = self._centred_gram(weights, count, mean)
        right = (signs * weights) @ knowledge.sums - balance[:, None] * mean
        rounding = self.lost.rounding
        noise = weights @ rounding if knowledge.per_class else rounding[0]
        noise = self.lost.leave_out(gram, right, noise, weights @ np.abs(knowledge.sums))

        system = frame.scaled(gram)
        system[np.diag_indices_from(system)] += 1 / self.C
        solve, solver = factorise(system, float((noise / frame.scale**2 / system.diagonal()).max()))
        w = solve((right / frame.scale).T).T
        at_mean = balance / count
        if self.penalize_intercept:
            # The intercept at the origin of the frame is u.z with u = [-g; 1]: the penalty adds u u'/C to the system.
            g = (knowledge.anchor + mean - frame.origin) / frame.scale
            q = solve(g)
            pull = (at_mean - w @ g) / (self.C + g @ q + 1 / count)
            w = w + pull[:, None] * q
            at_mean = at_mean - pull / count
        w = w / frame.scale
        return w, at_mean - w @ mean, solver

    def _centred_gram(
        self, weights: NDArray[np.float64], count: float, mean: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The weighted sum of the Gram matrices about the weighted mean."""
        total = np.outer(mean, -count * mean)
        if (weights == 1).all():
            total += self.knowledge.pooled_gram
            return total
        for weight, gram in zip(weights, self.knowledge.grams, strict=True):
            if weight == 1:
                total += gram
            elif weight:
                total += weight * gram
        return total
