"""The multipliers of a unit's rows, and their scores, while it works."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.engines.threads import Threads
from mergesvm.methods.kernel.messages import Conclusion, Pair, RaggedArray, Request, Setting
from mergesvm.methods.kernel.row_store import Known
from mergesvm.methods.kernel.subproblems import Subproblems
from mergesvm.methods.kernel.worker.column_cache import ColumnCache
from mergesvm.methods.kernel.worker.local_rows import LocalRows
from mergesvm.models.kernel_function import Lifted

Past = dict[tuple[Pair, Label], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Alpha and scores of the rows of a class in a problem, in the order in which they are held."""

Entries = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Where some rows are in the arrays of all problems, and which of the live problems each is of."""

NEXT_TO = 1e-12
"""Alpha that is as near to a bound as this share of it is on it."""

FRUGAL = 0.25
"""Rows are put to sleep if they are at least this share of those that are awake."""

PATIENCE = 8
"""And not before scores took so many times the work since the last time that rearranging the columns takes."""

PAUSE = 8
"""Every so many steps it is looked for rows that could sleep."""

AT_ONCE = 256
"""So many columns are computed at a time where they are not kept."""

SIFTED = 0.1
"""Problems that a unit solves by itself, it solves to this share of its worst violation."""

ROUGHLY, NEAR = 0.1, 0.025
"""The violation to which a unit solves problems of its own rows only to tell which of them might come into use, and how
far from the margin others are proposed as well. With more rows leave their unit, with less rounds take longer."""


class DualState:
    """Alpha and scores f = sum y alpha k of the rows that a unit holds, in all problems of a setting.

    All arrays are of one row after another: those of problem p and side s begin at starts[p, s].

    Parameters
    ----------
    held : LocalRows
    setting : Setting
    lifted : Lifted
        The rows, those of the first class first, and so on.
    known : Known
        Turned rows that are in use anywhere; more come.

    Attributes
    ----------
    classes : list
        Of all problems, sorted.
    codes : dict of class to its place
    pairs : array of int, shape (problems, 2)
        The places of the classes of each problem.
    members : list of arrays of int
        The rows of each class, those that are awake first.
    alpha, score, bound : arrays
    rows : array of int
        Which row of those held each is.
    """

    def __init__(self, held: LocalRows, setting: Setting, lifted: Lifted, known: Known) -> None:
        from mergesvm.methods.kernel.jit import unit as unit_kernels

        self._kernels, self._held, self._setting, self._lifted, self._known = unit_kernels, held, setting, lifted, known
        self.classes = classes_of(setting)
        self.codes = {label: code for code, label in enumerate(self.classes)}
        self.members = members_of(held, setting)
        places = [[self.codes[label] for label in pair] for pair in setting.pairs]
        self.pairs = np.array(places, dtype=np.int64).reshape(-1, 2)
        self._place = np.full(len(held), -1, np.int64)
        for rows in self.members:
            self._place[rows] = np.arange(len(rows))
        self._known_codes, self._own_rows = np.zeros(0, np.int64), np.zeros(0, np.int64)
        sizes = np.array([len(rows) for rows in self.members], dtype=np.int64)
        capacity = setting.memory // max(1, int(sizes.sum()) * setting.real.itemsize)
        self._offsets = np.cumsum(sizes) - sizes
        self._columns = [
            ColumnCache(setting.kernel, lifted.take(slice(first, first + size)), setting.real, capacity)
            for first, size in zip(self._offsets.tolist(), sizes.tolist(), strict=True)
        ]
        self._counts = sizes[self.pairs]
        ends = np.cumsum(self._counts.ravel())
        self._starts = (ends - self._counts.ravel()).reshape(-1, 2)
        total = int(self._counts.sum())
        self.score, self.alpha, self.bound = np.zeros(total), np.zeros(total), np.empty(total)
        self.rows, self._marks = np.empty(total, np.int64), np.zeros(total, dtype=bool)
        # Of small problems of narrow rows kernel values are as soon computed as looked for.
        self._direct = setting.whole & (setting.kernel.kind != "callable" and lifted.narrow)
        self._turn, self._worked = 0, [0] * len(self.classes)
        self._sleeping: list[tuple[int, slice, int]] = []
        self._log: list[tuple[Any, ...]] = []

    def meet(self, labels: list[Label], numbers: NDArray[np.int64]) -> None:
        """Get to know the classes and numbers of rows that have come into use."""
        # A class may be gone whose rows were known.
        codes = np.fromiter(map(self.codes.get, labels, repeat(-1)), np.int64, len(labels))
        self._known_codes = np.append(self._known_codes, codes)
        self._own_rows = np.append(self._own_rows, self._held.rows_of(numbers))

    def past(self) -> Past:
        """Alpha and scores, in the order in which rows are held."""
        past: Past = {}
        ordered = [(np.diff(rows) > 0).all() for rows in self.members]  # if none of them has slept
        backs = [slice(None) if kept else np.argsort(rows) for rows, kept in zip(self.members, ordered, strict=True)]
        for p, pair in enumerate(self._setting.pairs):
            for side, label in enumerate(pair):
                back, span = backs[self.codes[label]], self.span(p, side)
                past[pair, label] = self.alpha[span][back], self.score[span][back]
        return past

    def turn(self, order: Request) -> None:
        """Put rows to sleep, or wake them, as the order says; it ends a round."""
        if order.awake:
            self.wake()
        elif self._turn % PAUSE == PAUSE - 1:
            self.sleep(order)
        self._turn += 1

    @property
    def asleep(self) -> int:
        """How many rows sleep."""
        return sum(len(columns.rows) - columns.awake for columns in self._columns)

    def settle(self, order: Request) -> NDArray[np.bool_]:
        """Solve those of the live problems to the end that are small, if all their rows are here; which they are."""
        small = self._small(order) & (not self._setting.sifts)
        if small.any():
            smalls, flat = self._own(order.live[small])
            self._solve(smalls, self._setting.tolerance)
            self.alpha[flat], self.score[flat] = smalls.alpha, smalls.y - smalls.v
        return small

    def look(self, problems: NDArray[np.int64], intercepts: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far problems are, (problems, TOLD)."""
        told = np.empty((len(problems), self._kernels.TOLD))
        self._kernels.look(*self._state(problems, intercepts), told)
        return told

    def propose(self, order: Request, settled: NDArray[np.bool_]) -> RaggedArray:
        """Rows that should move, and those that stay in the working sets, for the live problems, as answers have them.

        Keys are rows, and not yet numbers. None are proposed for problems that are settled.
        """
        live, small = order.live, (self._small(order) if order.begins else settled) & ~settled
        common = np.flatnonzero(~small & ~settled)
        parts = self._sifted_own(live, small), *self._picked(order, common)
        counts = np.sum([np.bincount(at, minlength=len(live)) for _, at in parts], axis=0)
        firsts = np.append(0, np.cumsum(counts))
        heads, keys, values = firsts[:-1].copy(), np.empty(firsts[-1], np.int64), np.empty((firsts[-1], 4))
        state = live, self._starts, self.score, self.alpha, self.bound, self.rows
        for flat, at in parts:
            self._kernels.describe(flat, at, heads, *state, keys, values)
        return RaggedArray(firsts, keys, values)

    def _picked(self, order: Request, common: NDArray[np.intp]) -> tuple[Entries, Entries]:
        """The worst violators of some of the live problems, and the rows that are kept in any."""
        live, rooms = order.live[common], self._setting.rooms
        state = self._state(live, order.intercepts[common])
        kept, kept_at = self._kept(order)
        self._marks[kept] = True
        most = int(rooms[live].max(initial=0))
        places, found = np.empty((len(live), 2 * most), np.int64), np.empty(len(live), np.int64)
        self._kernels.pick(*state, rooms, self._setting.noise, self._turn, self.rows, self._marks, places, found)
        self._marks[kept] = False
        used = np.arange(2 * most) < found[:, None]
        if self._setting.sifts:
            used &= self._sifted(state, places, found)
        return (places[used], common[np.nonzero(used)[0]]), (kept, kept_at)

    def _small(self, order: Request) -> NDArray[np.bool_]:
        """Which of the live problems a unit begins with by solving them for its own rows, if it has some of both."""
        here = (self._counts[order.live] > 0).all(axis=1) & (self._setting.kernel.kind != "callable")
        own: NDArray[np.bool_] = here & self._setting.whole[order.live] & (order.begins and not self._sparse)
        return own

    def _own(self, problems: NDArray[np.int64]) -> tuple[Subproblems, NDArray[np.int64]]:
        """The problems of the unit's own rows, and where these are."""
        counts = self._counts[problems]
        sizes, firsts = counts.ravel(), np.append(0, np.cumsum(counts.sum(axis=1)))
        within = np.arange(firsts[-1]) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        flat = np.repeat(self._starts[problems].ravel(), sizes) + within
        lines = np.repeat(self._offsets[self.pairs[problems]].ravel(), sizes) + within
        y = np.repeat(np.tile([-1.0, 1.0], len(problems)), sizes)
        alpha, bound = self.alpha[flat], self.bound[flat]
        smalls = Subproblems(firsts, lines, y, y - self.score[flat], alpha, bound, np.zeros(len(problems)))
        smalls.totals = smalls.sums(y * alpha)
        return smalls, flat

    def _sifted_own(self, live: NDArray[np.int64], small: NDArray[np.bool_]) -> Entries:
        """Rows that might be in use if own rows were all there are, and which of the live problems each is of."""
        if not small.any():
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        smalls, flat = self._own(live[small])
        self._solve(smalls, max(ROUGHLY, self._setting.tolerance))
        middles = smalls.middles(np.zeros(len(smalls)))
        near = smalls.y * (smalls.v - middles[smalls.problems]) > -NEAR
        used = np.flatnonzero(near | (smalls.alpha > 0) | (self.alpha[flat] > 0))
        return flat[used], np.flatnonzero(small)[smalls.problems[used]]

    @property
    def _sparse(self) -> bool:
        return self._lifted.squares is not None

    def _solve(self, smalls: Subproblems, tolerance: float) -> None:
        """Solve problems of the unit's own rows."""
        rows, setting = self._lifted.matrix, self._setting
        tolerances = np.full(len(smalls), tolerance)
        smalls.solve(rows, setting.kernel.numbers, setting.penalty, tolerances, Threads(setting.workers))

    def conclude(self, intercepts: NDArray[np.float64]) -> Conclusion:
        """What has become of all problems, with these intercepts."""
        moments, weights = np.zeros((len(self.pairs), 2, 3)), self._held.weights
        weights = np.ones(0) if weights is None else weights[self.rows]
        self._kernels.moments(self._starts, self._counts, self.score, weights, moments)
        used = np.flatnonzero(self.alpha)
        firsts = np.searchsorted(used, np.append(self._starts[:, 0], len(self.alpha)))
        positive = used >= np.repeat(self._starts[:, 1], np.diff(firsts))
        coefs = RaggedArray(firsts, self._held.numbers[self.rows[used]], np.where(positive, 1, -1) * self.alpha[used])
        return Conclusion(self.look(np.arange(len(self.pairs)), intercepts), moments, coefs)

    def in_use(self, problems: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows whose alpha is not zero in some of the problems."""
        used = np.flatnonzero(self.alpha)
        at = np.searchsorted(self._starts[:, 0], used, side="right") - 1
        return np.unique(self.rows[used[np.isin(at, problems)]])

    def span(self, p: int, side: int) -> slice:
        """Where the rows of one side of a problem are."""
        start = int(self._starts[p, side])
        return slice(start, start + int(self._counts[p, side]))

    def restore(self, past: Past, support: RaggedArray) -> None:
        """Alpha, scores and bounds, as far as they are known from before; scores of other rows are computed."""
        weights = self._held.weights
        np.concatenate([self.rows[:0], *(self.members[code] for code in self.pairs.ravel())], out=self.rows)
        self.bound[:] = np.repeat(self._setting.bounds.ravel(), self._counts.ravel())
        if weights is not None:
            self.bound *= weights[self.rows]
        for p, pair in enumerate(self._setting.pairs) if past else ():
            for side, label in enumerate(pair):
                span = self.span(p, side)
                alpha, score = past.get((pair, label), (np.zeros(0), np.zeros(0)))
                self.alpha[span][: len(alpha)], self.score[span][: len(score)] = alpha, score
        if not len(support.keys):
            return
        problems = np.repeat(np.arange(len(support)), np.diff(support.firsts))
        for code, label in enumerate(self.classes):
            befores = {len(past.get((pair, label), ((),))[0]) for pair in self._setting.pairs if label in pair}
            for before in befores:
                mine = [
                    p
                    for p, pair in enumerate(self._setting.pairs)
                    if label in pair and len(past.get((pair, label), ((),))[0]) == before
                ]
                chosen = np.isin(problems, mine)
                assert support.values is not None
                self._catch_up(
                    code,
                    slice(before, len(self.members[code])),
                    problems[chosen],
                    support.keys[chosen],
                    support.values[chosen],
                )

    def move(self, moved: NDArray[np.int64], steps: RaggedArray) -> None:
        """Move y alpha of rows, wherever they are, by these steps."""
        assert steps.values is not None
        where = self.pairs, self._known_codes, self._starts, self._own_rows, self._place
        self._kernels.shift(self.alpha, self.bound, moved, steps.firsts, steps.keys, steps.values, *where, NEXT_TO)
        direct = self._direct[moved]
        if direct.any():
            self._add_tables(moved, steps)
        if direct.all():
            return
        others = np.flatnonzero(np.repeat(~direct, np.diff(steps.firsts)))
        problems, ids, values = moved[steps.problems[others]], steps.keys[others], steps.values[others]
        pairs = self.pairs[problems]
        for code, columns in enumerate(self._columns):
            touched = np.flatnonzero((pairs == code).any(axis=1))
            if not len(touched) or not len(columns.rows):
                continue
            moves = problems[touched], ids[touched], values[touched]
            if columns.awake:
                self._add(code, *moves)
                self._worked[code] += len(touched) * columns.awake
            if columns.awake < len(columns.rows):
                self._log.append((code, *moves))

    def sleep(self, order: Request) -> None:
        """Put rows to sleep that rest at a bound in all problems; their scores are no longer looked after."""
        for code, columns in enumerate(self._columns):
            if self._worked[code] < PATIENCE * columns.held * columns.awake:
                continue
            at, sides = np.nonzero(self.pairs[order.live] == code)
            resting = np.full(columns.awake, len(at) > 0)
            starts = self._starts[order.live[at], sides]
            self._kernels.rest(
                starts, sides, columns.awake, self.score, self.alpha, self.bound, order.limits[at], resting
            )
            if resting.sum() < max(FRUGAL * columns.awake, 1):
                continue
            places = np.argsort(resting, kind="stable")  # those that stay awake first
            awake, before = int((~resting).sum()), columns.awake
            columns.rearrange(places, awake)
            rows = self.members[code]
            rows[:before] = rows[places]
            self._place[rows] = np.arange(len(rows))
            for p, side in np.argwhere(self.pairs == code):
                span = slice(int(self._starts[p, side]), int(self._starts[p, side]) + before)
                for array in (self.score, self.alpha, self.bound, self.rows):
                    array[span] = array[span][places]
            self._worked[code] = 0
            self._sleeping.append((code, slice(awake, before), len(self._log)))

    def wake(self) -> None:
        """Bring the scores of all rows up to date."""
        for code, rows, mark in self._sleeping:
            missed = [entry[1:] for entry in self._log[mark:] if entry[0] == code]
            if missed:
                problems, ids, values = (np.concatenate(parts) for parts in zip(*missed, strict=True))
                # What moved back and forth is added once.
                keys, places = np.unique(problems * len(self._known) + ids, return_inverse=True)
                total = np.bincount(places, values).astype(np.float64)
                moved = np.flatnonzero(total)
                self._catch_up(
                    code, rows, keys[moved] // len(self._known), keys[moved] % len(self._known), total[moved]
                )
        if self._sleeping:
            for columns in self._columns:
                columns.wake()
        self._sleeping, self._log = [], []

    def _flat(self, problems: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where own rows are in the arrays of all problems."""
        side = (self.pairs[problems, 1] == self._known_codes[ids]).astype(np.int64)
        flat: NDArray[np.int64] = self._starts[problems, side] + self._place[self._own_rows[ids]]
        return flat

    def _add(self, code: int, problems: NDArray[np.int64], ids: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Add steps times columns to the scores of the rows of a class that are awake."""
        columns = self._columns[code]
        unique, places = np.unique(ids, return_inverse=True)
        for part, slots in columns.bring(unique, self._known):
            inside = np.flatnonzero((places >= part.start) & (places < part.stop))
            at = slots[places[inside] - part.start]
            self._add_slab(code, 0, columns.awake, problems[inside], at, values[inside], columns.slab)

    def _add_tables(self, moved: NDArray[np.int64], steps: RaggedArray) -> None:
        """Add steps times columns to the scores of all rows of small problems, without keeping the columns."""
        from mergesvm.methods.kernel.jit.tables import add_between, add_within

        assert steps.values is not None
        direct = self._direct[moved]
        entries = np.flatnonzero(np.repeat(direct, np.diff(steps.firsts)))
        problems, ids, values = moved[direct], steps.keys[entries], steps.values[entries]
        pairs, firsts = self.pairs[problems], np.append(0, np.cumsum(np.diff(steps.firsts)[direct]))
        kernel, known = self._setting.kernel.numbers, self._known.all().matrix
        rows = self._starts[problems], self._counts[problems], self._offsets[pairs], self._lifted.matrix
        where = *rows, firsts, ids, values, known
        heads, spans = self._sorted(pairs.ravel())
        among = np.zeros(len(known), dtype=bool)
        among[ids] = True
        used = np.flatnonzero(among)
        order, bounds = self._sorted(self._known_codes[used])
        add_within(self.score, heads, spans, *where, used[order], bounds, kernel)
        add_between(self.score, pairs, self._known_codes, *where, kernel)

    def _sorted(self, codes: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """An order in which those of the first class come first, and so on, and where each class begins."""
        order = np.argsort(codes, kind="stable")
        return order, np.searchsorted(codes[order], np.arange(len(self.classes) + 1))

    def _catch_up(
        self,
        code: int,
        rows: slice,
        problems: NDArray[np.int64],
        ids: NDArray[np.int64],
        values: NDArray[np.float64],
    ) -> None:
        """Add steps times columns to the scores of some rows of a class, without keeping the columns."""
        count = rows.stop - rows.start
        if count <= 0 or not len(ids):
            return
        unique, places = np.unique(ids, return_inverse=True)
        for start in range(0, len(unique), AT_ONCE):
            part = unique[start : start + AT_ONCE]
            slab = np.empty((len(part), count), dtype=self._setting.real)
            self._columns[code].fill(part, self._known, rows, slab)
            inside = np.flatnonzero((places >= start) & (places < start + len(part)))
            self._add_slab(code, rows.start, count, problems[inside], places[inside] - start, values[inside], slab)

    def _add_slab(
        self,
        code: int,
        first: int,
        count: int,
        problems: NDArray[np.int64],
        slots: NDArray[np.int64],
        values: NDArray[np.float64],
        slab: NDArray[Any],
    ) -> None:
        """Add steps times lines of an array to the scores of some rows of a class; problems ascend."""
        cuts = np.flatnonzero(np.diff(problems, prepend=-1))
        heads = problems[cuts]
        side = (self.pairs[heads, 1] == code).astype(np.int64)
        starts, firsts = self._starts[heads, side] + first, np.append(cuts, len(problems))
        self._kernels.add_columns(self.score, starts, firsts, slots, values, slab, count)

    def _awake(self) -> NDArray[np.int64]:
        """How many rows of either side are awake, (problems, 2)."""
        return np.array([columns.awake for columns in self._columns], dtype=np.int64)[self.pairs]

    def _state(self, problems: NDArray[np.int64], intercepts: NDArray[np.float64]) -> tuple[Any, ...]:
        return problems, self._starts, self._awake(), self.score, self.alpha, self.bound, intercepts

    def _kept(self, order: Request) -> Entries:
        """Own rows that stay in the working sets of the live problems."""
        if order.kept is None:
            used = [
                np.flatnonzero(self.alpha[self._starts[p, 0] : self.span(p, 1).stop]) + self._starts[p, 0]
                for p in order.live
            ]
            at = np.repeat(np.arange(len(used)), [len(flat) for flat in used])
            return np.concatenate([np.zeros(0, np.int64), *used]), at
        at = np.repeat(np.arange(len(order.live)), np.diff(order.kept.firsts))
        mine = self._own_rows[order.kept.keys] >= 0
        at = at[mine]
        return self._flat(order.live[at], order.kept.keys[mine]), at

    def _sifted(self, state: tuple[Any, ...], places: NDArray[np.int64], found: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the rows picked for each problem would be in use if these were all there is, as places have them."""
        kernel, lifted = self._setting.kernel, self._lifted
        problems, starts, _, *arrays = state
        small = self._setting.whole[problems]  # where all go on, because fewer rounds count for more than fewer rows
        used = np.zeros(places.shape, dtype=bool)
        used[small] = True
        if kernel.kind == "callable" or lifted.squares is not None:
            for at in np.flatnonzero(~small):
                picked = places[at, : found[at]]
                used[at, : found[at]] = np.isin(picked, self._sifted_one(int(problems[at]), picked, state[-1][at]))
            return used
        rows = lifted.matrix, self._offsets[self.pairs], kernel.numbers
        self._kernels.sift(problems, starts, *arrays, places, np.where(small, 0, found), *rows, SIFTED, used)
        return used

    def _sifted_one(self, p: int, flat: NDArray[np.int64], intercept: float) -> NDArray[np.int64]:
        """The same for one problem, with kernels that are not compiled."""
        if not len(flat):
            return flat
        flat = np.sort(flat)
        side = (flat >= self._starts[p, 1]).astype(np.int64)
        one, other = (self._columns[code].rows for code in self.pairs[p])
        first, second = flat[side == 0] - self._starts[p, 0], flat[side == 1] - self._starts[p, 1]
        rows = one.take(first).joined(other.take(second))
        K = np.empty((len(flat), len(flat)), dtype=self._setting.real)
        self._setting.kernel.fill(self._setting.kernel.turn(rows), rows, K)
        y = 2.0 * side - 1.0
        v, alpha = y - self.score[flat] - intercept, self.alpha[flat].copy()
        worst = np.append(np.argmax(v), np.argmin(v))
        tolerance = SIFTED * float(np.abs(v).max())
        from mergesvm.methods.kernel.jit.dual import ascend

        ascend(K, y, v, alpha, self.bound[flat], 0.0, 0.0, tolerance, 100 * len(flat))
        used = (alpha > 0) | (self.alpha[flat] > 0)
        used[worst] = True
        return flat[used]


def classes_of(setting: Setting) -> list[Label]:
    """All classes of a setting, sorted."""
    return sorted({label for pair in setting.pairs for label in pair})


def members_of(held: LocalRows, setting: Setting) -> list[NDArray[np.int64]]:
    """The rows of each class of a setting."""
    return [held.members.get(label, np.zeros(0, np.int64)).copy() for label in classes_of(setting)]
