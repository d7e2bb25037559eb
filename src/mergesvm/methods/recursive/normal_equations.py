"""Normal equations for several targets: rows are added in place, and all targets are solved at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import blas, eigh, lapack

from mergesvm.errors import warn_solver
from mergesvm.knowledge.gram.triangles import fill_lower
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.sums import ROUNDING
from mergesvm.methods.proximal.equations import Equations
from mergesvm.methods.proximal.error_estimate import MAX_ERROR, estimated_errors, perturbations, warn_if_rounded
from mergesvm.methods.proximal.factor import EPSILON, cholesky_tolerance, small_blas
from mergesvm.methods.proximal.rounding import CancellationGuard
from mergesvm.methods.recursive.state_layout import Vector, WritableArrays
from mergesvm.models.solution import Solution

MAX_IGNORED_ROUNDING = 1e-12
"""If features are less redundant than this, the rounding of sums is not worth an estimate."""


class FreshSolution(NamedTuple):
    """Solution of the normal equations."""

    total_weight: float
    anchor: Vector  # (width,), a point near the rows
    mean: Vector  # (width,), the mean of the rows relative to the anchor
    coefs: Vector  # (classes, width), for a free intercept
    inverse_mean: Vector  # (width,), the inverse times the mean
    target_means: Vector  # (classes,)
    rounding: float  # estimated relative rounding error of the coefficients after further updates
    errors: Vector | None  # (classes,), estimated errors of scores by the rounding of sums; None if negligible
    untold: bool  # whether a warning about these errors is left to those who show the coefficients


class NormalEquations(WritableArrays):
    """Weighted counts and sums of each class, and the lower triangle of the Gram matrix of all, about an anchor.

    They start from knowledge; ``places`` are the codes of its classes, ``class_weights`` the weights of all classes.

    >>> import mergesvm as ms
    >>> equations = NormalEquations(ms.learn([[-1.0], [1.0]], ["a", "b"]), [0, 1], np.ones(2))
    >>> equations.solve(np.array([1.0])).coefs.round(3).tolist()
    [[-0.667], [0.667]]
    """

    def __init__(self, knowledge: Knowledge, places: list[int], class_weights: Vector) -> None:
        weights, width = class_weights[places], knowledge.width
        self.anchor = knowledge.anchor
        self.counts, self.sums = np.zeros(len(class_weights)), np.zeros((len(class_weights), width))
        self.counts[places], self.sums[places] = weights * knowledge.counts, weights[:, None] * knowledge.sums
        self.gram = np.zeros((width, width))
        self._guard = CancellationGuard.of(knowledge)
        self._noise, self._precision, self._n_rows = np.zeros(width), knowledge.precision, int(knowledge.rows.sum())
        each = weights if knowledge.per_class else np.ones(len(knowledge.grams))
        for weight, part, noise in zip(each, knowledge.grams, self._guard.rounding, strict=True):
            self.gram += part if weight == 1 else weight * part
            self._noise += weight * noise
        self._system = np.empty((width, width))
        self._inverse: Vector | None = None

    def add(self, rows: Vector, codes: NDArray[np.int64], weights: Vector, sign: int) -> None:
        """Add rows (sign 1) or subtract them (sign -1)."""
        centred = rows - self.anchor
        self._n_rows += sign * len(codes)
        self.counts += sign * np.bincount(codes, weights, minlength=len(self.counts))
        indicator = sparse.csr_array((weights, (codes, np.arange(len(codes)))), shape=(len(self.counts), len(codes)))
        self.sums += sign * (indicator @ centred)
        if (weights != 1).any():
            centred *= np.sqrt(weights)[:, None]
        with small_blas(len(self.gram)):
            # The transpose is in the order of BLAS; its upper triangle is the lower one here.
            blas.dsyrk(float(sign), centred.T, beta=1.0, c=self.gram.T, overwrite_c=1)
        # Rows that are subtracted later leave their rounding errors.
        self._noise = np.maximum(self._noise, ROUNDING["float64"] * self.gram.diagonal())

    def add_class(self) -> None:
        """Add a class without rows."""
        self.counts = np.append(self.counts, 0.0)
        self.sums = np.vstack([self.sums, np.zeros((1, self.sums.shape[1]))])

    def solve(self, ridge: Vector, shown: bool = False) -> FreshSolution | None:
        """Solve for a penalty of ``ridge`` on each coefficient; None if no rows have weight.

        The errors of the first rows of a stream, which are few, are warned of if the coefficients are ``shown`` next:
        more rows may make up for them before anyone sees the coefficients, or they are solved in another way.
        """
        total = float(self.counts.sum())
        if not total > 0:
            return None
        mean = self.sums.sum(axis=0) / total
        right = 2 * (self.sums - self.counts[:, None] * mean)
        system = self._system
        np.multiply((-total * mean)[:, None], mean, out=system)
        system += self.gram
        noise = self._guard.leave_out(system, right, self._noise, np.abs(self.sums).sum(axis=0))
        system[np.diag_indices_from(system)] += ridge
        diagonal = system.diagonal().copy()
        sides = np.vstack([right, self.anchor + mean]).T
        self._inverse = None
        tolerance, errors = cholesky_tolerance(len(system), float((noise / diagonal).max())), None
        with small_blas(len(system)):
            _, failed = lapack.dpotrf(system.T, overwrite_a=1, clean=0)
            unexplained = 0.0 if failed else float((system.diagonal() ** 2 / diagonal).min())
            if unexplained > tolerance:
                solved, _ = lapack.dpotrs(system.T, sides)
                rounding = EPSILON / unexplained
                if rounding > MAX_IGNORED_ROUNDING:
                    errors = self._estimated_errors(total, ridge, noise, solved[:, :-1])
            else:
                solved, rounding = self._solve_by_eigenvectors(total, mean, ridge, noise, sides), np.inf
        coefs, inverse_mean = solved[:, :-1].T, solved[:, -1]
        means = 2 * self.counts / total - 1
        untold = False
        if errors is not None:
            few = self._n_rows <= len(system)
            untold = few and not shown and bool(errors.max() > MAX_ERROR[self._precision])
            if not untold:
                warn_if_rounded([Solution(coefs, means, ("recursive",) * len(coefs), errors)], self._precision)
        return FreshSolution(total, self.anchor, mean, coefs, inverse_mean, means, rounding, errors, untold)

    def _estimated_errors(self, total: float, ridge: Vector, noise: Vector, coefs: Vector) -> Vector:
        """Estimated errors of the scores by the rounding of sums, as for other solutions, from the factored system.

        In coordinates in which the penalty is |w|^2, that is, at C = 1.
        """
        root, ones = np.sqrt(ridge)[:, None], np.ones(len(ridge))
        squares = noise / self._guard.bound / ridge
        sides = np.empty((0, len(ridge)))
        equations = Equations(
            self._system,
            sides,
            None,
            np.inf,
            total,
            self._n_rows,
            ones,
            ones,
            ones,
            noise,
            self._guard.typical,
            squares,
        )
        moved, _ = lapack.dpotrs(self._system.T, root * perturbations(equations))
        return estimated_errors(equations, 1.0, root * moved, root * coefs)

    def inverse(self) -> Vector:
        """Upper triangle of the inverse of the last system solved; call it once."""
        if self._inverse is not None:
            return self._inverse
        with small_blas(len(self._system)):
            lapack.dpotri(self._system.T, overwrite_c=1)
        # LAPACK has written the lower triangle, which is the upper one of the transpose.
        inverse: Vector = self._system.T.copy()
        return inverse

    def _solve_by_eigenvectors(self, total: float, mean: Vector, ridge: Vector, noise: Vector, sides: Vector) -> Vector:
        """Solve a system that is singular to working precision, with a warning, and compute its inverse.

        Along an empty direction, in which rows do not vary, only the penalty remains, and rounding hides it: it is set
        explicitly. Coefficients are zero along such a direction, in the coordinates in which the penalty is |w|^2.
        """
        system = self.gram - np.outer(total * mean, mean)
        self._guard.leave_out(system, sides.T[:-1].copy(), self._noise, np.full(len(mean), np.inf))
        tolerance = cholesky_tolerance(len(mean), float((noise / (system.diagonal() + ridge)).max()))
        root = np.sqrt(ridge)
        system /= root
        system /= root[:, None]
        system[np.diag_indices_from(system)] += 1.0
        scale = np.sqrt(system.diagonal())
        values, vectors = eigh(system / scale / scale[:, None])
        empty = values <= tolerance * max(values[-1], 1.0)
        warn_solver(
            f"The system is singular up to rounding ({int(empty.sum())} of {len(values)} directions are empty), so it "
            f"was solved without those directions. Causes are duplicate or constant features, rows much larger than "
            f"the others, and a very large C; scaled features or a smaller C avoid it."
        )
        vectors /= scale[:, None]
        null, _ = np.linalg.qr(vectors[:, empty])
        determined = vectors[:, ~empty] - null @ (null.T @ vectors[:, ~empty])
        inverse = (determined / values[~empty]) @ determined.T
        solved = inverse @ (sides / root[:, None])
        inverse += null @ null.T
        solved[:, -1] = inverse @ (sides[:, -1] / root)
        self._inverse = fill_lower(inverse / root / root[:, None])
        return np.asarray(solved / root[:, None], dtype=np.float64)
