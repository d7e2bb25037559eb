"""DualState: the dual variables and scores of a unit's rows during training."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.methods.kernel.messages import EMPTY, FinalReply
from mergesvm.methods.kernel.ragged_array import RaggedArray
from mergesvm.methods.kernel.row_store import LiftedStore
from mergesvm.methods.kernel.setup import Pair, TrainingSetup
from mergesvm.methods.kernel.stats import N_STATS
from mergesvm.methods.kernel.worker.column_cache import ColumnCache
from mergesvm.methods.kernel.worker.local_rows import LocalRows
from mergesvm.models.kernel_function import Lifted

SavedState = dict[tuple[Pair, Label], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Alpha and scores of the rows of a class in a problem, in the order of the unit's rows."""


class DualState:
    """Alpha and scores f = K (y alpha) of the rows of a unit, in all binary problems.

    The arrays have one *entry* per row and problem. ``lifted`` are the rows, sorted by class; ``shared`` the turned
    rows that all units have, to which more are added during training.
    """

    def __init__(self, local: LocalRows, setup: TrainingSetup, lifted: Lifted, shared: LiftedStore) -> None:
        self.local, self.setup, self.lifted, self.shared = local, setup, lifted, shared
        self.classes = classes_of(setup)
        self.codes = {label: code for code, label in enumerate(self.classes)}
        self.members = members_of(local, setup)  # the rows of each class, active ones first
        codes = [[self.codes[label] for label in pair] for pair in setup.pairs]
        self.pairs = np.array(codes, dtype=np.int64).reshape(-1, 2)  # the codes of the classes of each problem
        self.positions = np.full(len(local), -1, np.int64)  # of each row among the members of its class
        for rows in self.members:
            self.positions[rows] = np.arange(len(rows))
        self.shared_codes, self.own_rows = EMPTY, EMPTY  # class of each shared row, and the own row that it is, or -1
        sizes = np.array([len(rows) for rows in self.members], dtype=np.int64)
        capacity = setup.cache_bytes // max(1, int(sizes.sum()) * setup.dtype.itemsize)
        self.offsets = np.cumsum(sizes) - sizes  # the first lifted row of each class
        self.columns = [  # kernel values, by class
            ColumnCache(setup.kernel, lifted.take(slice(first, first + size)), setup.dtype, capacity)
            for first, size in zip(self.offsets.tolist(), sizes.tolist(), strict=True)
        ]
        # Number of entries of each problem and side, and the first of them, (problems, 2).
        self.counts = sizes[self.pairs]
        ends = np.cumsum(self.counts.ravel())
        self.starts = (ends - self.counts.ravel()).reshape(-1, 2)
        total = int(self.counts.sum())
        self.score, self.alpha, self.bound = np.zeros(total), np.zeros(total), np.empty(total)  # by entry
        self.entry_rows = np.empty(total, np.int64)  # the row of each entry

    @property
    def compiled(self) -> bool:
        """Whether compiled functions can evaluate the kernel on these rows."""
        return not self.setup.kernel.is_function and self.lifted.squares is None

    def add_shared(self, labels: list[Label], indices: NDArray[np.int64]) -> None:
        """Register the classes and indices of newly shared rows."""
        # The class of a shared row may have been removed since.
        codes = np.fromiter(map(self.codes.get, labels, repeat(-1)), np.int64, len(labels))
        self.shared_codes = np.append(self.shared_codes, codes)
        self.own_rows = np.append(self.own_rows, self.local.rows_of(indices))

    def load(self, saved: SavedState) -> None:
        """Set bounds, and alpha and scores as far as they are saved; those of new rows are 0."""
        weights = self.local.weights
        np.concatenate([self.entry_rows[:0], *(self.members[code] for code in self.pairs.ravel())], out=self.entry_rows)
        self.bound[:] = np.repeat(self.setup.bounds.ravel(), self.counts.ravel())
        if weights is not None:
            self.bound *= weights[self.entry_rows]
        for p, pair in enumerate(self.setup.pairs) if saved else ():
            for side, label in enumerate(pair):
                span = self.span(p, side)
                alpha, score = saved.get((pair, label), (np.zeros(0), np.zeros(0)))
                self.alpha[span][: len(alpha)], self.score[span][: len(score)] = alpha, score

    def save(self) -> SavedState:
        """Alpha and scores, in the order of the unit's rows."""
        saved: SavedState = {}
        ordered = [(np.diff(rows) > 0).all() for rows in self.members]  # not if rows have been shrunk
        orders = [slice(None) if kept else np.argsort(rows) for rows, kept in zip(self.members, ordered, strict=True)]
        for p, pair in enumerate(self.setup.pairs):
            for side, label in enumerate(pair):
                order, span = orders[self.codes[label]], self.span(p, side)
                saved[pair, label] = self.alpha[span][order], self.score[span][order]
        return saved

    def span(self, p: int, side: int) -> slice:
        """The entries of one side of a problem."""
        start = int(self.starts[p, side])
        return slice(start, start + int(self.counts[p, side]))

    def entries(self, problems: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The entries of shared rows that are rows of this unit."""
        side = (self.pairs[problems, 1] == self.shared_codes[ids]).astype(np.int64)
        entries: NDArray[np.int64] = self.starts[problems, side] + self.positions[self.own_rows[ids]]
        return entries

    def arguments(self, problems: NDArray[np.int64], intercepts: NDArray[np.float64]) -> tuple[Any, ...]:
        """The state of some problems, without shrunk rows, as compiled functions take it."""
        active = np.array([columns.n_active for columns in self.columns], dtype=np.int64)[self.pairs]
        return problems, self.starts, active, self.score, self.alpha, self.bound, intercepts

    def stats(self, problems: NDArray[np.int64], intercepts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Statistics of some problems, (problems, N_STATS)."""
        from mergesvm.methods.kernel.jit.working_set import problem_stats

        stats = np.empty((len(problems), N_STATS))
        problem_stats(*self.arguments(problems, intercepts), stats)
        return stats

    def support(self, problems: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows that are support vectors of any of these problems."""
        used = np.flatnonzero(self.alpha)
        at = np.searchsorted(self.starts[:, 0], used, side="right") - 1
        return np.unique(self.entry_rows[used[np.isin(at, problems)]])

    def final(self, intercepts: NDArray[np.float64]) -> FinalReply:
        """The solution of all problems, with these intercepts."""
        from mergesvm.methods.kernel.jit.working_set import score_moments

        moments, weights = np.zeros((len(self.pairs), 2, 3)), self.local.weights
        weights = np.ones(0) if weights is None else weights[self.entry_rows]
        score_moments(self.starts, self.counts, self.score, weights, moments)
        used = np.flatnonzero(self.alpha)
        starts = np.searchsorted(used, np.append(self.starts[:, 0], len(self.alpha)))
        positive = used >= np.repeat(self.starts[:, 1], np.diff(starts))
        indices = self.local.indices[self.entry_rows[used]]
        coefs = RaggedArray(starts, indices, np.where(positive, 1, -1) * self.alpha[used])
        return FinalReply(self.stats(np.arange(len(self.pairs)), intercepts), moments, coefs)

    def shrink(self, code: int, order: NDArray[np.int64], n_active: int) -> None:
        """Permute the active rows of a class, and keep only the first of them active."""
        count = len(order)
        self.columns[code].shrink(order, n_active)
        rows = self.members[code]
        rows[:count] = rows[order]
        self.positions[rows] = np.arange(len(rows))
        for p, side in np.argwhere(self.pairs == code):
            span = slice(int(self.starts[p, side]), int(self.starts[p, side]) + count)
            for array in (self.score, self.alpha, self.bound, self.entry_rows):
                array[span] = array[span][order]


def classes_of(setup: TrainingSetup) -> list[Label]:
    """All classes of a setup, sorted."""
    return sorted({label for pair in setup.pairs for label in pair})


def members_of(local: LocalRows, setup: TrainingSetup) -> list[NDArray[np.int64]]:
    """The rows of each class of a setup."""
    return [local.members.get(label, EMPTY).copy() for label in classes_of(setup)]
