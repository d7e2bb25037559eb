"""Recursive least squares: the inverse and the coefficients, exact after every row."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, solve_triangular

from mergesvm.knowledge.gram.jit_policy import numba_is_loaded
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.factor import EPSILON, small_blas
from mergesvm.methods.recursive.normal_equations import NormalEquations, Vector
from mergesvm.methods.recursive.window import Window, WindowRow

DEPTH, GROUP = 8, 4
"""How many changes wait to be written into the inverse, and to a multiple of what the width is filled up."""

LINES, SCALARS, WHOLE = 6, 3, 2
"""The sizes of ``vectors``, ``scalars`` and ``whole``, whose places the compiled kernels name."""

ANCHOR, MEAN, PULL, RIDGE = 0, 1, 2, 5
COUNT, SCALE, LOSS = range(3)
FILLED, CURSOR = range(2)

LEAST = 1e-9
"""Of rows that are taken back at least this share has to remain, or the rest is computed afresh."""


class RecursiveLeastSquares:
    """Least squares over rows that come and go, for one target a class (1 for its rows, -1 for all others).

    About the weighted mean m of the rows the intercept separates from the coefficients. With S the scatter about m::

        P = (R + S)^-1,    W = P sum_i omega_i (x_i - m) (y_i - mean y)',    R = I/C

    A row x of weight omega, at d = x - m from the mean of rows that weigh n, changes S by kappa d d' with
    kappa = n omega / (n + omega); a row that is taken back, at d from the mean of those that remain, by as much with
    the opposite sign. By the matrix inversion lemma, with s = P d::

        P <- P - c s s',   W <- W + c (y - mean y - W d) s,   c = kappa / (1 + kappa d's)

    The penalty on the intercept at the origin is a term of rank one, and enters when coefficients are asked for, by
    Sherman-Morrison with q = P m, which follows by the same change. Without it the intercept is free.

    With a forgetting factor f below 1, every row weighs f times less when the next one comes: P is divided by f. The
    penalty would fade with the rows, and what does not vary any more would grow without end: so some coordinates of R
    are restored to 1/C with every row, in turn, and none falls below a third of it.

    Parameters
    ----------
    width : int
        Number of features.
    C : float
    forgetting : float
        1 to forget nothing.
    window : int
        How many rows are held; 0 for all.
    penalize_intercept : bool

    Attributes
    ----------
    coefs : array of shape (classes, width, filled up)
        W, without the penalty on the intercept.
    target_means : array of shape (classes,)
    rows : array of int, shape (classes,)
    factors : array of shape (classes,)
        Class weights.
    window : Window
    """

    def __init__(
        self, width: int, C: float, *, forgetting: float = 1.0, window: int = 0, penalize_intercept: bool = True
    ) -> None:
        self.width, self.C = width, C
        self.forgetting = forgetting
        self.penalty = C if penalize_intercept else np.inf
        # All coordinates of the penalty are restored within as many rows as leave it more than a third.
        cycle = width if forgetting == 1 else max(1, min(width, int(-1 / np.log(forgetting))))
        self.restored = -(-width // cycle)
        self.coefs = np.zeros((0, -(-width // GROUP) * GROUP))
        self.target_means, self.factors, self._scores = np.zeros(0), np.zeros(0), np.zeros(0)
        self.rows = np.zeros(0, dtype=np.int64)
        self.window = Window(window, width)
        self.whole = np.zeros(WHOLE, dtype=np.int64)
        self.vectors = np.zeros((LINES, self.coefs.shape[1]))
        self.vectors[RIDGE], self.vectors[RIDGE, :width] = np.inf, 1 / C
        self._reset()

    def _reset(self) -> None:
        full = self.coefs.shape[1]
        self.inverse = np.diag(1 / self.vectors[RIDGE])
        self.waiting, self.signs = np.zeros((DEPTH, full)), np.ones(DEPTH)
        self.scalars = np.zeros(SCALARS)
        self.scalars[SCALE] = 1.0
        self.whole[FILLED] = 0
        self.coefs[:], self.vectors[:RIDGE] = 0.0, 0.0
        self.target_means[:] = -1.0
        self._equations: NormalEquations | None = None
        self._unsolved = self._uninverted = self.stale = False
        self._floor = 0.0

    def add_class(self, factor: float) -> None:
        """Make room for one more class, of which no row has come yet: its target was -1 so far."""
        self.coefs = np.vstack([self.coefs, np.zeros((1, self.coefs.shape[1]))])
        self.target_means = np.append(self.target_means, -1.0)
        self.factors = np.append(self.factors, factor)
        self.rows = np.append(self.rows, 0)
        self._scores = np.zeros(len(self.rows))
        if self._equations is not None:
            self._equations.add_class()

    @property
    def loss(self) -> float:
        """About how much rounding may have changed the coefficients since the last fresh start, as a share of them."""
        since = float(self.scalars[LOSS])
        return since + self._floor if since else 0.0

    @property
    def weight(self) -> float:
        """What all rows weigh together."""
        if self._unsolved:
            self._solve()
        return float(self.scalars[COUNT])

    @property
    def worthwhile(self) -> int:
        """Up to how many rows at once it is cheaper to change the inverse than to compute it afresh."""
        return max(1, self.width // (8 if self._equations is None else 32))

    # One row after another, compiled.

    def learn_rows(
        self, block: Vector, codes: NDArray[np.int64], weights: Vector, predicted: NDArray[np.int64]
    ) -> tuple[int, bool]:
        """Learn rows one by one; where ``predicted`` is not empty, each is predicted before it is learned.

        Returns how many rows were taken, and whether all is well. If it is not, either the next row is not finite, or,
        with :attr:`stale`, the inverse has to be computed afresh.
        """
        kernels, state = _kernels(), self._state()
        terms = 1 / self.C, self.restored, self.penalty
        taken, status = kernels.learn_rows(
            block, codes, weights, self.forgetting, *terms, *state, *self.window.arrays, self._scores, predicted
        )
        self.stale = status == kernels.LOST
        return taken, status == kernels.DONE

    def learn_row(self, row: Vector, code: int, weight: float) -> bool:
        """Learn one row, where nothing fades and there is no window; whether it was one of numbers."""
        kernels = _kernels()
        status = kernels.learn_row(row, code, weight, *self._state())
        self.stale = status == kernels.LOST
        return bool(status != kernels.REFUSED)

    def _state(self) -> tuple[Any, ...]:
        """What the compiled steps change, with the inverse in place."""
        self._invert()
        self._equations = None
        return (
            self.factors,
            self.inverse,
            self.waiting,
            self.signs,
            self.coefs,
            self.vectors,
            self.target_means,
            self.rows,
            self.scalars,
            self.whole,
        )

    def best_class(self, row: Vector) -> int:
        """The place of the class of one row; -1 if there is none yet, -2 if it is not of numbers."""
        return int(
            _kernels().best_class(
                row,
                self.penalty,
                self.coefs,
                self.vectors,
                self.target_means,
                self.rows,
                self.scalars,
                self._scores,
            )
        )

    # Many rows at once, by BLAS.

    def count(self, codes: NDArray[np.int64], sign: int = 1) -> None:
        """Count rows of classes that come, or go, as a block."""
        self.rows += sign * np.bincount(codes, minlength=len(self.rows))

    def change_block(self, block: Vector, codes: NDArray[np.int64], weights: Vector, sign: int) -> None:
        """Add rows (sign 1) or take them back (sign -1): few by the formula of Woodbury, many by adding to the sums.

        Sums are solved when coefficients are next asked for. Where there are none, or rounding would spoil the result,
        all is left to :meth:`restart`.
        """
        weights = weights * self.factors[codes]
        if self.stale:
            return
        many = len(block) > self.worthwhile
        if self._equations is not None and (self._unsolved or many):
            self._equations.add(block, codes, weights, sign)
            self._unsolved = True
        elif many:
            self.stale = True
        else:
            self._change_by_woodbury(block, codes, weights, sign)

    def _change_by_woodbury(self, block: Vector, codes: NDArray[np.int64], weights: Vector, sign: int) -> None:
        """Change the inverse by all rows of a block at once.

        About their own mean the rows change S by their own scatter, and by the distance of that mean from the mean of
        the others: one more row.
        """
        self._invert()
        self._write_waiting()
        self._equations = None
        more, count = float(weights.sum()), float(self.scalars[COUNT])
        after = count + sign * more
        if more == 0:
            return
        if not after > LEAST * max(count, more) or count == 0:
            self.stale = True
            return
        block = block - self.vectors[ANCHOR, : self.width]
        mean, target_means = self.vectors[MEAN, : self.width], self.target_means
        targets = np.where(codes[:, None] == np.arange(len(self.rows)), 1.0, -1.0)
        own, own_targets = weights @ block / more, weights @ targets / more
        # The mean of the other rows: those that were there before, or those that remain.
        other = mean if sign > 0 else (count * mean - more * own) / after
        other_targets = target_means if sign > 0 else (count * target_means - more * own_targets) / after
        root = np.sqrt(weights)[:, None]
        between = np.sqrt((count if sign > 0 else after) * more / (count + more if sign > 0 else count))
        changes = np.zeros((len(block) + 1, self.coefs.shape[1]))
        changes[:-1, : self.width] = root * (block - own)
        changes[-1, : self.width] = between * (own - other)
        errors = np.vstack([root * (targets - own_targets), between * (own_targets - other_targets)])
        errors -= changes @ self.coefs.T
        with small_blas(self.width):
            # Of its transpose, which lies in memory as BLAS likes it, the lower triangle: our upper one.
            gains = blas.dsymm(1.0, self.inverse.T, changes.T, lower=1).T
            core = sign * (gains @ changes.T)
            core[np.diag_indices_from(core)] += 1.0
            try:
                lower = np.linalg.cholesky(core)
            except np.linalg.LinAlgError:
                self.stale = True
                return
            pivots = lower.diagonal() ** 2
            least, most = float(pivots.min()), float(pivots.max())
            self.scalars[LOSS] = (self.scalars[LOSS] + EPSILON) / min(1.0, least) + EPSILON * max(most, 1 / least)
            half = solve_triangular(lower, np.hstack([gains, errors]), lower=True, check_finite=False)
            gains, errors = np.ascontiguousarray(half[:, : gains.shape[1]]), half[:, gains.shape[1] :]
            blas.dsyrk(-float(sign), gains.T, beta=1.0, c=self.inverse.T, lower=1, overwrite_c=1)
            self.coefs += sign * (errors.T @ gains)
            self.vectors[MEAN, : self.width] = (count * mean + sign * more * own) / after
            self.target_means = (count * target_means + sign * more * own_targets) / after
            self.vectors[PULL] = blas.dsymv(1.0, self.inverse.T, self.vectors[ANCHOR] + self.vectors[MEAN], lower=1)
        self.scalars[COUNT] = after
        self._square_corners()

    # From sums, afresh.

    def restart(self, knowledge: Knowledge, places: list[int]) -> None:
        """Compute everything afresh from knowledge of the rows that count now; ``places`` are those of its classes.

        Until all is done, and if it fails, the state is stale.
        """
        self.stale = True
        equations = NormalEquations(knowledge, places, self.factors)
        self._reset()
        self.stale, self._equations = True, equations
        self.rows[:] = 0
        if len(self.window):
            self.count(self.window.held()[1])
        else:
            self.rows[places] = knowledge.rows
        self._solve()
        self.stale = False

    def _solve(self) -> None:
        """The coefficients, from the normal equations; the inverse can wait."""
        assert self._equations is not None
        fresh = self._equations.solve(self.vectors[RIDGE, : self.width])
        if fresh is None:
            self._reset()  # nothing is left, and the next row begins anew
            return
        self.scalars[:], self.whole[FILLED] = 0.0, 0
        self.scalars[SCALE] = 1.0
        self.coefs[:, : self.width] = fresh.coefs
        for line, value in ((ANCHOR, fresh.anchor), (MEAN, fresh.mean), (PULL, fresh.pull)):
            self.vectors[line, : self.width] = value
        self.target_means[:], self.scalars[COUNT], self._floor = fresh.target_means, fresh.count, fresh.trust
        self._uninverted, self._unsolved = True, False

    def fade(self, n_rows: int) -> None:
        """Let so many rows pass as far as the penalty is concerned; everything else waits for :meth:`restart`."""
        if self.forgetting == 1:
            return
        ridge = self.vectors[RIDGE, : self.width]
        # After a whole turn it no longer matters what was before.
        passed = max(0, n_rows - -(-self.width // self.restored))
        self.whole[CURSOR] = (int(self.whole[CURSOR]) + passed * self.restored) % self.width
        for _ in range(n_rows - passed):
            ridge *= self.forgetting
            at = (int(self.whole[CURSOR]) + np.arange(self.restored)) % self.width
            ridge[at] = 1 / self.C
            self.whole[CURSOR] = (self.whole[CURSOR] + self.restored) % self.width

    def remember(self) -> tuple[Any, ...]:
        """What :meth:`go_back` needs: all that cannot be computed afresh."""
        return self.window.held(), self.rows.copy(), self.vectors[RIDGE].copy(), int(self.whole[CURSOR])

    def go_back(self, memory: tuple[Any, ...]) -> None:
        """Make everything undone since it was remembered; coefficients wait for :meth:`restart`."""
        held, rows, self.vectors[RIDGE], self.whole[CURSOR] = memory
        self.window.put(*held)
        self.rows[:] = 0
        self.rows[: len(rows)] = rows
        self.stale = True

    def held(self) -> WindowRow:
        """The rows in the window, the oldest first, with the weights that they have now."""
        rows, codes, weights = self.window.held()
        return rows, codes, weights * self.forgetting ** np.arange(len(rows) - 1, -1, -1.0)

    def recount(self) -> None:
        """Count the rows in the window, which have changed; everything else waits for :meth:`restart`."""
        self.rows[:] = 0
        self.count(self.window.held()[1])
        self.stale = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        # What comes from a file that is mapped into memory may be read-only, and everything here is written in place.
        self.__dict__.update(
            {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in state.items()}
        )

    def planes(self) -> tuple[Vector, Vector, Vector]:
        """Coefficients, (classes, width), scores at the mean of the rows, (classes,), and that mean, (width,)."""
        if self._unsolved:
            self._solve()
        mean = self.vectors[ANCHOR, : self.width] + self.vectors[MEAN, : self.width]
        q = self.vectors[PULL, : self.width]
        coefs, offsets = self.coefs[:, : self.width].copy(), self.target_means.copy()
        count = float(self.scalars[COUNT])
        if count > 0 and np.isfinite(self.penalty):
            pull = (offsets - coefs @ mean) / (self.penalty + mean @ q + 1 / count)
            coefs += pull[:, None] * q
            offsets -= pull / count
        return coefs, offsets, mean

    def _invert(self) -> None:
        """The inverse, where a fresh start has left it for later."""
        if self._unsolved:
            self._solve()
        if self._uninverted:
            assert self._equations is not None
            self.inverse[: self.width, : self.width] = self._equations.inverse()
            self._equations, self._uninverted = None, False
            self._square_corners()

    def _write_waiting(self) -> None:
        """Write the changes that wait into the upper triangle, as the compiled kernel does."""
        lines = self.waiting[: int(self.whole[FILLED])]
        if len(lines):
            self.inverse -= (lines * self.signs[: len(lines), None]).T @ lines
        self.inverse *= self.scalars[SCALE]
        self.scalars[SCALE], self.whole[FILLED] = 1.0, 0

    def _square_corners(self) -> None:
        """Fill the squares along the diagonal, of which BLAS knows the upper triangles only."""
        first = np.arange(0, len(self.inverse), GROUP)
        for line in range(GROUP):
            for column in range(line):
                self.inverse[first + line, first + column] = self.inverse[first + column, first + line]


@cache
def _kernels() -> ModuleType:
    from mergesvm.methods.recursive import rls_jit as recursive_kernels

    numba_is_loaded()
    return recursive_kernels
