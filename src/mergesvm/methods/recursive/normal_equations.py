"""Normal equations of many targets at once, to which rows are added, and which are solved afresh, all in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import blas, eigh, lapack

from mergesvm.knowledge.gram.narrow import mirror
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.factor import EPSILON, small_blas
from mergesvm.methods.proximal.rounding import CancellationGuard

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Fresh:
    """What the normal equations say.

    Attributes
    ----------
    count : float
        The weight of all rows.
    anchor, mean : arrays of shape (width,)
        A point near the rows, and how far their mean is from there.
    coefs : array of shape (classes, width)
        Of a free intercept.
    pull : array of shape (width,)
        The inverse times the mean.
    target_means : array of shape (classes,)
    trust : float
        About what share of the coefficients rounding may have touched, once rows change them.
    """

    count: float
    anchor: Vector
    mean: Vector
    coefs: Vector
    pull: Vector
    target_means: Vector
    trust: float


class NormalEquations:
    """Weighted counts and sums of each class and the Gram matrix of all, about an anchor; only its lower triangle.

    Parameters
    ----------
    knowledge : Knowledge
        Of the rows to begin with.
    places : list of int
        The places of its classes.
    factors : array of shape (classes,)
        The weights of all classes.

    Examples
    --------
    >>> import mergesvm as ms
    >>> equations = NormalEquations(ms.learn([[-1.0], [1.0]], ["a", "b"]), [0, 1], np.ones(2))
    >>> equations.solve(np.array([1.0])).coefs.round(3).tolist()
    [[-0.667], [0.667]]
    """

    def __init__(self, knowledge: Knowledge, places: list[int], factors: Vector) -> None:
        weights, width = factors[places], knowledge.width
        self.anchor = knowledge.anchor
        self.counts, self.sums = np.zeros(len(factors)), np.zeros((len(factors), width))
        self.counts[places], self.sums[places] = weights * knowledge.counts, weights[:, None] * knowledge.sums
        self.gram = np.zeros((width, width))
        self._lost = CancellationGuard.of(knowledge)
        self._noise = np.zeros(width)
        each = weights if knowledge.per_class else np.ones(len(knowledge.grams))
        for weight, part, rounding in zip(each, knowledge.grams, self._lost.rounding, strict=True):
            self.gram += part if weight == 1 else weight * part
            self._noise += weight * rounding
        self._system = np.empty((width, width))
        self._inverse: Vector | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(
            {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in state.items()}
        )

    def add(self, rows: Vector, codes: NDArray[np.int64], weights: Vector, sign: int) -> None:
        """Add rows (sign 1), or take them back (sign -1)."""
        near = rows - self.anchor
        self.counts += sign * np.bincount(codes, weights, minlength=len(self.counts))
        indicator = sparse.csr_array((weights, (codes, np.arange(len(codes)))), shape=(len(self.counts), len(codes)))
        self.sums += sign * (indicator @ near)
        if (weights != 1).any():
            near *= np.sqrt(weights)[:, None]
        with small_blas(len(self.gram)):
            # Of its transpose, which lies in memory as BLAS likes it, the upper triangle: our lower one.
            blas.dsyrk(float(sign), near.T, beta=1.0, c=self.gram.T, overwrite_c=1)

    def add_class(self) -> None:
        """Room for one more class."""
        self.counts = np.append(self.counts, 0.0)
        self.sums = np.vstack([self.sums, np.zeros((1, self.sums.shape[1]))])

    def solve(self, ridge: Vector) -> Fresh | None:
        """Coefficients for a penalty of ``ridge`` on each; None if no rows count."""
        count = float(self.counts.sum())
        if not count > 0:
            return None
        mean = self.sums.sum(axis=0) / count
        right = 2 * (self.sums - self.counts[:, None] * mean)
        system = self._system
        np.multiply((-count * mean)[:, None], mean, out=system)
        system += self.gram
        noise = self._lost.leave_out(system, right, self._noise, np.abs(self.sums).sum(axis=0))
        system[np.diag_indices_from(system)] += ridge
        diagonal = system.diagonal().copy()
        sides = np.vstack([right, self.anchor + mean]).T
        self._inverse = None
        tolerance = 8 * max(len(system), 16) * EPSILON + float((noise / diagonal).max())
        with small_blas(len(system)):
            _, failed = lapack.dpotrf(system.T, overwrite_a=1, clean=0)
            unexplained = 0.0 if failed else float((system.diagonal() ** 2 / diagonal).min())
            if unexplained > tolerance:
                solved, _ = lapack.dpotrs(system.T, sides)
                trust = EPSILON / unexplained
            else:
                solved, trust = self._solve_by_eigenvectors(count, mean, ridge, noise, sides), np.inf
        coefs, pull = solved[:, :-1].T, solved[:, -1]
        return Fresh(count, self.anchor, mean, coefs, pull, 2 * self.counts / count - 1, trust)

    def inverse(self) -> Vector:
        """The inverse of the system solved last, in its upper triangle; it is the caller's from now on."""
        if self._inverse is not None:
            return self._inverse
        with small_blas(len(self._system)):
            lapack.dpotri(self._system.T, overwrite_c=1)
        # The lower triangle is the inverse; seen from the other side, it is the upper one.
        inverse: Vector = self._system.T.copy()
        return inverse

    def _solve_by_eigenvectors(self, count: float, mean: Vector, ridge: Vector, noise: Vector, sides: Vector) -> Vector:
        """Solutions of a system that is singular to rounding, and its inverse.

        In an empty direction there is nothing but the penalty, which the rounding of the others hides: it is put there.
        Coefficients, of which rows say nothing in such a direction, are zero along it.
        """
        system = self.gram - np.outer(count * mean, mean)
        self._lost.leave_out(system, sides.T[:-1].copy(), self._noise, np.full(len(mean), np.inf))
        system[np.diag_indices_from(system)] += ridge
        scale = np.sqrt(system.diagonal())
        values, vectors = eigh(system / scale / scale[:, None])
        tolerance = 8 * max(len(values), 16) * EPSILON + float((noise / scale**2).max())
        empty = values <= tolerance * max(values[-1], 1.0)
        values = np.where(empty, (vectors**2).T @ (ridge / scale**2), values)
        vectors /= scale[:, None]
        self._inverse = mirror((vectors / values) @ vectors.T)
        told = vectors[:, ~empty]
        solved = (told / values[~empty]) @ (told.T @ sides)
        solved[:, -1] = self._inverse @ sides[:, -1]
        return np.asarray(solved, dtype=np.float64)
