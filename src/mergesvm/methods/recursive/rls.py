"""Recursive least squares: the inverse and the coefficients, exact after every row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.knowledge.gram.jit_policy import GRAM_JIT
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.recursive import state_layout as layout
from mergesvm.methods.recursive.normal_equations import NormalEquations
from mergesvm.methods.recursive.options import RecursiveOptions
from mergesvm.methods.recursive.rls_state import RLSState, woodbury_update
from mergesvm.methods.recursive.row_encoder import EncodedRows
from mergesvm.methods.recursive.state_layout import Vector, WritableArrays
from mergesvm.methods.recursive.window import Window


class RecursiveLeastSquares(WritableArrays):
    """Least squares over rows that are added and removed, with one target per class (1 for its rows, -1 for others).

    About the weighted mean m of the rows the intercept separates from the coefficients. With S the scatter about m::

        P = (R + S)^-1,    W = P sum_i omega_i (x_i - m) (y_i - mean y)',    R = I/C

    A row x of weight omega, at d = x - m from the mean of rows of total weight n, changes S by kappa d d' with
    kappa = n omega / (n + omega). Removing a row, at d from the mean of the remaining rows, changes S by the same
    amount with the opposite sign. By the matrix inversion lemma, with s = P d::

        P <- P - c s s',   W <- W + c (y - mean y - W d) s,   c = kappa / (1 + kappa d's)

    The penalty on the intercept at the origin is a term of rank one. It is applied when coefficients are requested, by
    the Sherman-Morrison formula with q = P m, which is updated in the same way. Without it the intercept is free; with
    an infinite penalty it is 0.

    With a forgetting factor f below 1, every new row multiplies the weight of all earlier rows by f: P is divided by f.
    The penalty would decay with the rows, and P would grow without bound along directions in which rows no longer vary.
    Therefore each row restores some coordinates of R to 1/C, in turn, so that none falls below a third of it.

    If the state is ``stale``, :meth:`restart` must compute it before it is used.
    """

    def __init__(self, width: int, options: RecursiveOptions) -> None:
        self.width, self.C, self.forgetting = width, options.C, options.forgetting
        self.intercept_penalty = options.intercept_penalty
        # All coordinates of the penalty are restored within the number of rows after which a third of it is left.
        cycle = width if self.forgetting == 1 else max(1, min(width, int(-1 / np.log(self.forgetting))))
        self.restored = -(-width // cycle)
        self.window = Window(options.window or 0, width)
        self.state = RLSState(width, 1 / self.C)
        self._scores, self._ranks = np.zeros(0), np.zeros(0, dtype=np.int64)
        self._forget_equations()

    def _forget_equations(self) -> None:
        self._equations: NormalEquations | None = None
        self._unsolved = self._uninverted = self.stale = False
        self._fresh_rounding = 0.0
        self.errors: Vector | None = None  # of the scores of each class at the last fresh start, if worth an estimate

    def add_class(self, class_weight: float, ranks: Sequence[int]) -> None:
        """Add a class without rows; ``ranks`` are the places of all classes in sorted order."""
        self.state.add_class(class_weight)
        self._scores, self._ranks = np.zeros(len(ranks)), np.array(ranks, dtype=np.int64)
        if self._equations is not None:
            self._equations.add_class()

    @property
    def class_rows(self) -> NDArray[np.int64]:
        """Number of rows of each class."""
        return self.state.class_rows

    @property
    def rounding(self) -> float:
        """Estimate of the relative rounding error of the coefficients since the last fresh start."""
        since = float(self.state.scalars[layout.ROUNDING])
        return since + self._fresh_rounding if since else 0.0

    @property
    def predicts(self) -> bool:
        """Whether :meth:`best_class` is accurate: everything is computed, and updates have left few errors."""
        return not self.stale and bool(self.state.scalars[layout.ROUNDING] <= layout.MAX_PREDICTED_ROUNDING)

    @property
    def total_weight(self) -> float:
        """Weight of all rows."""
        if self._unsolved:
            self._solve()
        return float(self.state.scalars[layout.TOTAL_WEIGHT])

    @property
    def max_update_rows(self) -> int:
        """Number of rows above which recomputing the inverse is cheaper than updating it."""
        return max(1, self.width // (8 if self._equations is None else 32))

    def learn_rows(
        self, block: Vector, codes: NDArray[np.int64], weights: Vector, predicted: NDArray[np.int64]
    ) -> tuple[int, bool]:
        """Learn rows one by one; unless ``predicted`` is empty, predict each before it is learned.

        Returns how many were learned, and False if the next is not finite or the state is now :attr:`stale`.
        """
        options = self.forgetting, 1 / self.C, self.restored, self.intercept_penalty
        arrays = *self._writable_arrays(), *self.window.arrays, self._ranks, self._scores
        learned, status = _jit().learn_rows(block, codes, weights, *options, *arrays, predicted)
        self.stale = status == layout.INACCURATE
        return learned, status == layout.LEARNED

    def learn_row(self, row: Vector, code: int, weight: float) -> bool:
        """Learn one row, without forgetting or a window. Returns False if it is not finite."""
        class_weights, *arrays = self._writable_arrays()
        status = _jit().learn_row(row, code, float(weight * class_weights[code]), *arrays)
        self.stale = status == layout.INACCURATE
        return bool(status != layout.NOT_FINITE)

    def _writable_arrays(self) -> tuple[Any, ...]:
        """The state as compiled functions take it, with the inverse up to date."""
        self._invert()
        self._equations = None
        return self.state.arrays()

    def best_class(self, row: Vector) -> int:
        """Code of the class of one row; -1 if no class has rows, -2 if the row is not finite."""
        state = self.state
        arrays = state.coefs, state.vectors, state.target_means, state.class_rows, state.scalars, self._ranks
        return int(_jit().best_class(row, self.intercept_penalty, *arrays, self._scores))

    def count(self, codes: NDArray[np.int64], sign: int = 1) -> None:
        """Add the rows of a block to the row counts (sign 1), or subtract them (sign -1)."""
        self.state.class_rows += sign * np.bincount(codes, minlength=len(self.state.class_rows))

    def change_block(self, block: Vector, codes: NDArray[np.int64], weights: Vector, sign: int) -> None:
        """Add rows (sign 1) or subtract them (sign -1): few by the Woodbury identity, many by adding to the sums.

        If there are no sums, or the update would be inaccurate, the state becomes :attr:`stale`.
        """
        if self.stale:
            return
        weights = weights * self.state.class_weights[codes]
        many = len(block) > self.max_update_rows
        if self._equations is not None and (self._unsolved or many):
            self._equations.add(block, codes, weights, sign)
            self._unsolved = True
        elif many:
            self.stale = True
        else:
            self._invert()
            self._equations = None
            self.state.write_pending()
            self.stale = not woodbury_update(self.state, block, codes, weights, sign)

    def restart(self, knowledge: Knowledge, places: list[int]) -> None:
        """Recompute everything from knowledge of the current rows; ``places`` are the codes of its classes."""
        self.stale = True  # until this is complete, and if it fails
        equations = NormalEquations(knowledge, places, self.state.class_weights)
        self.state.reset()
        self._forget_equations()
        self.stale, self._equations = True, equations
        self.class_rows[:] = 0
        if len(self.window):
            self.count(self.window.held().codes)
        else:
            self.class_rows[places] = knowledge.rows
        self._solve()
        self.stale = False

    def _solve(self) -> None:
        """Solve the normal equations for the coefficients; the inverse is computed when it is needed."""
        assert self._equations is not None
        fresh = self._equations.solve(self.state.ridge)
        if fresh is None:  # no rows are left
            self.state.reset()
            self._forget_equations()
            return
        self.state.load(fresh)
        self._fresh_rounding, self.errors = fresh.rounding, fresh.errors
        self._uninverted, self._unsolved = True, False

    def _invert(self) -> None:
        """Compute the inverse if a fresh start has postponed it."""
        if self._unsolved:
            self._solve()
        if self._uninverted:
            assert self._equations is not None
            self.state.inverse[: self.width, : self.width] = self._equations.inverse()
            self.state.fill_diagonal_squares()
            self._equations, self._uninverted = None, False

    def decay(self, n_rows: int) -> None:
        """Apply the forgetting of ``n_rows`` rows to the penalty; the rest is left to :meth:`restart`."""
        if self.forgetting != 1:
            self.state.decay_ridge(n_rows, self.forgetting, self.restored, 1 / self.C)

    def checkpoint(self) -> tuple[Any, ...]:
        """Everything that :meth:`rollback` needs and that cannot be recomputed."""
        ridge, cursor = self.state.vectors[layout.RIDGE].copy(), int(self.state.counters[layout.RIDGE_CURSOR])
        return self.window.held(), self.class_rows.copy(), ridge, cursor

    def rollback(self, checkpoint: tuple[Any, ...]) -> None:
        """Undo everything since the checkpoint; coefficients are left to :meth:`restart`."""
        held, class_rows, self.state.vectors[layout.RIDGE], self.state.counters[layout.RIDGE_CURSOR] = checkpoint
        self.window.replace(held)
        self.class_rows[:] = 0
        self.class_rows[: len(class_rows)] = class_rows
        self.stale = True

    def window_rows(self) -> EncodedRows:
        """The rows in the window, oldest first, with their current weights."""
        held = self.window.held()
        ages = np.arange(len(held.rows) - 1, -1, -1.0)
        return held._replace(weights=held.weights * self.forgetting**ages)

    def recount(self) -> None:
        """Count the rows in the window after a change; the rest is left to :meth:`restart`."""
        self.class_rows[:] = 0
        self.count(self.window.held().codes)
        self.stale = True

    def coefficients(self) -> tuple[Vector, Vector, Vector]:
        """Coefficients, (classes, width), scores at a point near the mean, (classes,), and that point, (width,).

        The point is the mean as rounded: far from the origin it may be off by more than the rows vary, so that the
        scores are those of the rounded point.
        """
        if self._unsolved:
            self._solve()
        coefs, offsets = self.state.coefficients(self.intercept_penalty)
        anchor, point = self.state.vectors[layout.ANCHOR, : self.width], self.state.mean
        return coefs, offsets + coefs @ ((point - anchor) - self.state.vectors[layout.MEAN, : self.width]), point


@cache
def _jit() -> ModuleType:
    from mergesvm.methods.recursive import rls_jit

    GRAM_JIT.load()  # numba is imported by now, and the rest costs little
    return rls_jit
