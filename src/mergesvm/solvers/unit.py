"""One of the units among which a kernel machine is trained: it has rows that no other unit sees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data import Batch
from mergesvm.data.labels import Label
from mergesvm.errors import DataError
from mergesvm.solvers.columns import Columns
from mergesvm.solvers.held import About, Held
from mergesvm.solvers.kernel import KERNELS, Lifted
from mergesvm.solvers.orders import Answer, Conclusion, Lists, Order, Packet, Pair, Setting
from mergesvm.solvers.stack import Known

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


class Unit:
    """Rows, their multipliers alpha and scores f = sum y alpha k, in all problems in which their classes take part.

    It says how far its problems are, and which of its rows should move; what moves, at this unit or another, it is
    told, and brings its scores up to date. It learns of rows of others only when they come into use.

    Parameters
    ----------
    batch : Batch
    """

    def __init__(self, batch: Batch) -> None:
        self._held = Held.of(batch, 0)
        self._known, self._known_labels = Known(), []  # type: tuple[Known, list[Label]]
        self._known_numbers = np.zeros(0, np.int64)
        self._sent = np.zeros(len(self._held), dtype=bool)
        self._coming: Held | None = None
        self._past: dict[tuple[Pair, Label], tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        self._working = False

    def size(self) -> int:
        """How many rows it holds."""
        return len(self._held)

    def number(self, first: int) -> None:
        """Number the rows from ``first`` on, among those of all units."""
        self._held = self._held.numbered(first)

    def labels(self) -> list[Label]:
        """The classes of which it has rows."""
        return list(self._held.members)

    def about(self) -> About:
        """What can be told of the rows without showing any."""
        return self._held.about()

    def reach(self, origin: NDArray[np.float64] | None) -> float:
        """The square of the largest distance of a row from the origin."""
        return self._held.reach(origin)

    def receive(self, new: tuple[Batch, int] | None) -> None:
        """Look at more rows, numbered from the given number on, before any unit takes any of them in."""
        self._coming = None if new is None else Held.of(*new)
        setting = self._setting
        if self._coming and not setting.kernel.bears(self._coming.reach(setting.origin), setting.real):
            self._coming = None
            raise DataError("Input X has values too large for the kernel. Rescale the columns.")

    def add(self) -> None:
        """Take in the rows that were received; they begin with alpha = 0."""
        if self._coming is not None:
            self._held = self._held.joined(self._coming)
            self._sent = np.append(self._sent, np.zeros(len(self._coming), dtype=bool))
            self._coming = None

    def find(self, wanted: Batch | None) -> list[list[int]]:
        """The numbers of the rows that are the same as each of those wanted."""
        return [] if wanted is None else self._held.find(Held.of(wanted, 0))

    def remove(self, numbers: NDArray[np.int64]) -> None:
        """Let rows go. None of them is in use any more."""
        gone = np.isin(self._held.numbers, numbers)
        for (pair, label), arrays in list(self._past.items()):
            stay = ~gone[self._held.members.get(label, np.zeros(0, np.int64))[: len(arrays[0])]]
            self._past[pair, label] = arrays[0][stay], arrays[1][stay]
        self._sent = self._sent[~gone]
        self._held = self._held.without(numbers)
        self._past = {key: arrays for key, arrays in self._past.items() if key[1] in self._held.members}

    def begin(self, setting: Setting, support: Lists) -> None:
        """Make ready for a setting; ``support`` is y alpha of all rows in use, by id, for each of its problems."""
        from mergesvm.solvers import dual_kernels

        self._kernels, self._setting, held = dual_kernels, setting, self._held
        self._classes = sorted({label for pair in setting.pairs for label in pair})
        self._codes = {label: code for code, label in enumerate(self._classes)}
        self._members = [held.members.get(label, np.zeros(0, np.int64)).copy() for label in self._classes]
        self._pairs = np.array(
            [[self._codes[label] for label in pair] for pair in setting.pairs], dtype=np.int64
        ).reshape(-1, 2)
        self._place, self._code = np.full(len(held), -1, np.int64), np.full(len(held), -1, np.int64)
        for code, rows in enumerate(self._members):
            self._place[rows], self._code[rows] = np.arange(len(rows)), code
        # A class may be gone whose rows were known.
        self._known_codes = np.array([self._codes.get(label, -1) for label in self._known_labels], dtype=np.int64)
        self._own_rows = self._rows_of(self._known_numbers)
        sizes = np.array([len(rows) for rows in self._members], dtype=np.int64)
        capacity = setting.memory // max(1, int(sizes.sum()) * setting.real.itemsize)
        self._offsets = np.cumsum(sizes) - sizes
        self._lifted = self._lift(held.matrix[np.concatenate([*self._members, np.zeros(0, np.int64)])])
        self._columns = [
            Columns(setting.kernel, self._lifted.take(slice(first, first + size)), setting.real, capacity)
            for first, size in zip(self._offsets.tolist(), sizes.tolist(), strict=True)
        ]
        self._counts = sizes[self._pairs]
        ends = np.cumsum(self._counts.ravel())
        self._starts = (ends - self._counts.ravel()).reshape(-1, 2)
        total = int(self._counts.sum())
        self._score, self._alpha, self._bound = np.zeros(total), np.zeros(total), np.empty(total)
        self._rows, self._marks = np.empty(total, np.int64), np.zeros(total, dtype=bool)
        self._turn, self._sleeping, self._log = 0, [], []  # type: int, list[Any], list[Any]
        self._worked = [0] * len(self._classes)
        self._restore(support)
        self._working = True

    def step(self, order: Order) -> Answer:
        """Do as told, and say what is next."""
        self.follow(order)
        return self._answer(order)

    def follow(self, order: Order) -> None:
        """Bring alpha and the scores up to date."""
        if order.arrivals is not None:
            self._meet(order.arrivals)
        if len(order.steps.keys):
            self._move(order.moved, order.steps)
        if order.awake:
            self._wake()
        elif self._turn % PAUSE == PAUSE - 1:
            self._sleep(order)
        self._turn += 1

    def conclude(self, intercepts: NDArray[np.float64]) -> Conclusion:
        """What has become of all problems, with these intercepts."""
        told = np.empty((len(self._pairs), self._kernels.TOLD))
        self._kernels.look(*self._state(np.arange(len(self._pairs)), intercepts), told)
        moments, numbers, coefs = np.zeros((len(self._pairs), 2, 3)), [], []
        weights = self._held.weights
        for p in range(len(self._pairs)):
            span = slice(int(self._starts[p, 0]), self._span(p, 1).stop)
            used = np.flatnonzero(self._alpha[span]) + span.start
            numbers.append(self._held.numbers[self._rows[used]])
            coefs.append(np.where(used >= self._starts[p, 1], self._alpha[used], -self._alpha[used]))
            for side in range(2):
                at = self._span(p, side)
                moments[p, side] = _moments(self._score[at], weights if weights is None else weights[self._rows[at]])
        return Conclusion(told, moments, Lists.of(numbers, coefs))

    def rest(self) -> None:
        """Keep alpha and the scores, and let go of all else."""
        if not self._working:
            return
        self._wake()
        for p, pair in enumerate(self._setting.pairs):
            for side, label in enumerate(pair):
                back = np.argsort(self._members[self._codes[label]])
                span = self._span(p, side)
                self._past[pair, label] = self._alpha[span][back], self._score[span][back]
        for name in ("_columns", "_lifted", "_score", "_alpha", "_bound", "_rows", "_marks", "_log", "_sleeping"):
            delattr(self, name)
        self._working = False

    def _span(self, p: int, side: int) -> slice:
        start = int(self._starts[p, side])
        return slice(start, start + int(self._counts[p, side]))

    def _restore(self, support: Lists) -> None:
        """Alpha, scores and bounds, as far as they are known from before; scores of other rows are computed."""
        weights = self._held.weights
        for p, pair in enumerate(self._setting.pairs):
            for side, label in enumerate(pair):
                code, span = self._codes[label], self._span(p, side)
                weight = 1.0 if weights is None else weights[self._members[code]]
                self._bound[span], self._rows[span] = self._setting.bounds[p, side] * weight, self._members[code]
                alpha, score = self._past.get((pair, label), (np.zeros(0), np.zeros(0)))
                self._alpha[span][: len(alpha)], self._score[span][: len(score)] = alpha, score
        if not len(support.keys):
            return
        problems = np.repeat(np.arange(len(support)), np.diff(support.firsts))
        for code, label in enumerate(self._classes):
            befores = {len(self._past.get((pair, label), ((),))[0]) for pair in self._setting.pairs if label in pair}
            for before in befores:
                mine = [
                    p
                    for p, pair in enumerate(self._setting.pairs)
                    if label in pair and len(self._past.get((pair, label), ((),))[0]) == before
                ]
                chosen = np.isin(problems, mine)
                assert support.values is not None
                self._catch_up(
                    code,
                    slice(before, len(self._members[code])),
                    problems[chosen],
                    support.keys[chosen],
                    support.values[chosen],
                )

    def _lift(self, rows: Any) -> Lifted:
        setting = self._setting
        if sparse.issparse(rows) and setting.dense:
            rows = rows.toarray()
        return setting.kernel.lift(rows, setting.real, setting.origin)

    def _rows_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of these numbers; -1 for those of other units."""
        held = self._held.numbers
        at = np.minimum(np.searchsorted(held, numbers), max(len(held) - 1, 0))
        return np.where(held[at] == numbers, at, -1) if len(held) else np.full(len(numbers), -1, np.int64)

    def _meet(self, packet: Packet) -> None:
        """Get to know rows that have come into use."""
        self._known.append(self._setting.kernel.turn(self._lift(packet.rows)))
        self._known_labels += packet.labels
        self._known_numbers = np.append(self._known_numbers, packet.numbers)
        codes = np.array([self._codes[label] for label in packet.labels], dtype=np.int64)
        self._known_codes = np.append(self._known_codes, codes)
        self._own_rows = np.append(self._own_rows, self._rows_of(packet.numbers))

    def _move(self, moved: NDArray[np.int64], steps: Lists) -> None:
        """Move y alpha of rows, wherever they are, by these steps."""
        assert steps.values is not None
        problems, ids, values = np.repeat(moved, np.diff(steps.firsts)), steps.keys, steps.values
        mine = np.flatnonzero(self._own_rows[ids] >= 0)
        at, side = self._flat(problems[mine], ids[mine])
        new, bound = self._alpha[at] + np.where(side > 0, values[mine], -values[mine]), self._bound[at]
        new[new < NEXT_TO * bound] = 0
        self._alpha[at] = np.where(new > bound * (1 - NEXT_TO), bound, new)
        pairs = self._pairs[problems]
        for code, columns in enumerate(self._columns):
            touched = np.flatnonzero((pairs == code).any(axis=1))
            if not len(touched) or not len(columns.rows):
                continue
            moves = problems[touched], ids[touched], values[touched]
            if columns.awake:
                self._add(code, *moves)
                self._worked[code] += len(touched) * columns.awake
            if self._sleeping:
                self._log.append((code, *moves))

    def _flat(self, problems: NDArray[np.int64], ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where own rows are in the arrays of all problems, and on which side."""
        side = (self._pairs[problems, 1] == self._known_codes[ids]).astype(np.int64)
        return self._starts[problems, side] + self._place[self._own_rows[ids]], side

    def _add(self, code: int, problems: NDArray[np.int64], ids: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Add steps times columns to the scores of the rows of a class that are awake."""
        columns = self._columns[code]
        unique, places = np.unique(ids, return_inverse=True)
        for part, slots in columns.bring(unique, self._known):
            inside = np.flatnonzero((places >= part.start) & (places < part.stop))
            at = slots[places[inside] - part.start]
            self._add_slab(code, 0, columns.awake, problems[inside], at, values[inside], columns.slab)

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
        order = np.argsort(problems, kind="stable")
        problems = problems[order]
        cuts = np.flatnonzero(np.diff(problems, prepend=-1))
        heads = problems[cuts]
        side = (self._pairs[heads, 1] == code).astype(np.int64)
        starts, firsts = self._starts[heads, side] + first, np.append(cuts, len(problems))
        self._kernels.add_columns(self._score, starts, firsts, slots[order], values[order], slab, count)

    def _awake(self) -> NDArray[np.int64]:
        """How many rows of either side are awake, (problems, 2)."""
        return np.array([columns.awake for columns in self._columns], dtype=np.int64)[self._pairs]

    def _sleep(self, order: Order) -> None:
        """Put rows to sleep that rest at a bound in all problems; their scores are no longer looked after."""
        for code, columns in enumerate(self._columns):
            if self._worked[code] < PATIENCE * columns.held * columns.awake:
                continue
            at, sides = np.nonzero(self._pairs[order.live] == code)
            resting = np.full(columns.awake, len(at) > 0)
            starts = self._starts[order.live[at], sides]
            self._kernels.rest(
                starts, sides, columns.awake, self._score, self._alpha, self._bound, order.limits[at], resting
            )
            if resting.sum() < max(FRUGAL * columns.awake, 1):
                continue
            places = np.argsort(resting, kind="stable")  # those that stay awake first
            awake, before = int((~resting).sum()), columns.awake
            columns.rearrange(places, awake)
            rows = self._members[code]
            rows[:before] = rows[places]
            self._place[rows] = np.arange(len(rows))
            for p, side in np.argwhere(self._pairs == code):
                span = slice(int(self._starts[p, side]), int(self._starts[p, side]) + before)
                for array in (self._score, self._alpha, self._bound, self._rows):
                    array[span] = array[span][places]
            self._worked[code] = 0
            self._sleeping.append((code, slice(awake, before), len(self._log)))

    def _wake(self) -> None:
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

    def _state(self, problems: NDArray[np.int64], intercepts: NDArray[np.float64]) -> tuple[Any, ...]:
        return problems, self._starts, self._awake(), self._score, self._alpha, self._bound, intercepts

    def _answer(self, order: Order) -> Answer:
        live, rooms = order.live, self._setting.rooms
        state = self._state(live, order.intercepts)
        told = np.empty((len(live), self._kernels.TOLD))
        self._kernels.look(*state, told)
        kept, at = self._kept(order)
        self._marks[kept] = True
        most = int(rooms[live].max(initial=0))
        places, found = np.empty((len(live), 2 * most), np.int64), np.empty(len(live), np.int64)
        self._kernels.pick(*state, rooms, self._setting.noise, self._turn, self._rows, self._marks, places, found)
        self._marks[kept] = False
        picked = self._sifted(state, places, found) if self._setting.sifts else _first(places, found)
        picked_at = np.repeat(np.arange(len(live)), [len(flat) for flat in picked])
        flat, at = np.concatenate([*picked, kept]), np.append(picked_at, at)
        by_problem = np.argsort(at, kind="stable")
        flat, at = flat[by_problem], at[by_problem]
        y = np.where(flat >= self._starts[live[at], 1], 1.0, -1.0)
        values = np.column_stack([y - self._score[flat], self._alpha[flat], self._bound[flat], y])
        firsts, rows = np.searchsorted(at, np.arange(len(live) + 1)), self._rows[flat]
        asleep = sum(len(columns.rows) - columns.awake for columns in self._columns)
        return Answer(told, Lists(firsts, self._held.numbers[rows], values), self._news(rows), asleep)

    def _kept(self, order: Order) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where own rows are that stay in the working sets, and which of the live problems each is of."""
        if order.kept is None:
            used = [
                np.flatnonzero(self._alpha[self._starts[p, 0] : self._span(p, 1).stop]) + self._starts[p, 0]
                for p in order.live
            ]
            at = np.repeat(np.arange(len(used)), [len(flat) for flat in used])
            return np.concatenate([np.zeros(0, np.int64), *used]), at
        at = np.repeat(np.arange(len(order.live)), np.diff(order.kept.firsts))
        mine = self._own_rows[order.kept.keys] >= 0
        at = at[mine]
        return self._flat(order.live[at], order.kept.keys[mine])[0], at

    def _news(self, rows: NDArray[np.int64]) -> Packet | None:
        """Those of some rows that were never sent."""
        fresh = np.unique(rows[~self._sent[rows]])
        if not len(fresh):
            return None
        self._sent[fresh] = True
        labels = [self._classes[code] for code in self._code[fresh]]
        return Packet(self._held.numbers[fresh], labels, self._held.matrix[fresh])

    def _sifted(
        self, state: tuple[Any, ...], places: NDArray[np.int64], found: NDArray[np.int64]
    ) -> list[NDArray[np.int64]]:
        """Those of the rows picked for each problem that would be in use if these were all there is."""
        kernel, lifted = self._setting.kernel, self._lifted
        if kernel.kind == "callable" or lifted.squares is not None:
            return [
                self._sifted_one(int(p), flat, float(b))
                for p, flat, b in zip(state[0], _first(places, found), state[-1], strict=True)
            ]
        used = np.zeros(places.shape, dtype=bool)
        numbers = KERNELS.index(kernel.kind), float(kernel.gamma), int(kernel.degree), float(kernel.coef0)
        offsets = self._offsets[self._pairs]
        problems, starts, _, *arrays = state
        self._kernels.sift(problems, starts, *arrays, places, found, lifted.matrix, offsets, numbers, SIFTED, used)
        return [line[chosen] for line, chosen in zip(places, used, strict=True)]

    def _sifted_one(self, p: int, flat: NDArray[np.int64], intercept: float) -> NDArray[np.int64]:
        """The same for one problem, with kernels that are not compiled."""
        if not len(flat):
            return flat
        side = (flat >= self._starts[p, 1]).astype(np.int64)
        rows = self._lifted.take(self._offsets[self._pairs[p, side]] + flat - self._starts[p, side])
        K = np.empty((len(flat), len(flat)), dtype=self._setting.real)
        self._setting.kernel.fill(self._setting.kernel.turn(rows), rows, K)
        y = 2.0 * side - 1.0
        v, alpha = y - self._score[flat] - intercept, self._alpha[flat].copy()
        worst = np.append(np.argmax(v), np.argmin(v))
        tolerance = SIFTED * float(np.abs(v).max())
        self._kernels.ascend(K, y, v, alpha, self._bound[flat], 0.0, 0.0, tolerance, 100 * len(flat))
        used = (alpha > 0) | (self._alpha[flat] > 0)
        used[worst] = True
        return flat[used]


def _first(places: NDArray[np.int64], found: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [line[:count] for line, count in zip(places, found, strict=True)]


def _moments(scores: NDArray[np.float64], weights: NDArray[np.float64] | None) -> tuple[float, float, float]:
    """Count, mean and scatter of scores."""
    weights = np.ones(len(scores)) if weights is None else weights
    count = float(weights.sum())
    if not count:
        return 0.0, 0.0, 0.0
    mean = float(weights @ scores) / count
    return count, mean, float(weights @ (scores - mean) ** 2)
