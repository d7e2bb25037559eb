"""One of the units among which a kernel machine is trained: it has rows that no other unit sees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label
from mergesvm.errors import DataError
from mergesvm.methods.kernel.messages import Conclusion, Packet, RaggedArray, Reply, Request, Setting
from mergesvm.methods.kernel.row_store import Known
from mergesvm.methods.kernel.worker.dual_state import DualState, Past, members_of
from mergesvm.methods.kernel.worker.local_rows import LocalRows, RowInfo
from mergesvm.models.kernel_function import Lifted


class Unit:
    """Rows, their multipliers alpha and scores f = sum y alpha k, in all problems in which their classes take part.

    It says how far its problems are, and which of its rows should move; what moves, at this unit or another, it is
    told, and brings its scores up to date. It learns of rows of others only when they come into use.

    Parameters
    ----------
    batch : Batch
    """

    def __init__(self, batch: Batch) -> None:
        self._held = LocalRows.of(batch, 0)
        self._known = Known()
        self._known_labels: list[Label] = []
        self._known_numbers = np.zeros(0, np.int64)
        self._sent = np.zeros(len(self._held), dtype=bool)
        self._coming: LocalRows | None = None
        self._past: Past = {}
        self._work: DualState | None = None

    def size(self) -> int:
        """How many rows it holds."""
        return len(self._held)

    def number(self, first: int) -> None:
        """Number the rows from ``first`` on, among those of all units."""
        self._held = self._held.numbered(first)

    def labels(self) -> list[Label]:
        """The classes of which it has rows."""
        return list(self._held.members)

    def counts(self) -> dict[Label, int]:
        """How many rows it has of each class."""
        return self._held.counts()

    def about(self, spread: bool) -> RowInfo:
        """What can be told of the rows without showing any."""
        return self._held.about(spread)

    def reach(self, origin: NDArray[np.float64] | None) -> float:
        """The square of the largest distance of a row from the origin."""
        return self._held.reach(origin)

    def receive(self, new: tuple[Batch, int] | None) -> None:
        """Look at more rows, numbered from the given number on, before any unit takes any of them in."""
        self._coming = None if new is None else LocalRows.of(*new)
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

    def find(self, wanted: Batch | None) -> list[list[int] | None]:
        """The numbers of the rows that are the same as each of those wanted."""
        return [] if wanted is None else self._held.find(LocalRows.of(wanted, 0))

    def remove(self, numbers: NDArray[np.int64]) -> None:
        """Let rows go, wherever they are. None of them is in use any more."""
        stay = ~np.isin(self._known_numbers, numbers)
        self._known.keep(stay)
        self._known_labels = [self._known_labels[place] for place in np.flatnonzero(stay).tolist()]
        self._known_numbers = self._known_numbers[stay]
        gone = np.isin(self._held.numbers, numbers)
        for (pair, label), arrays in list(self._past.items()):
            stay = ~gone[self._held.members.get(label, np.zeros(0, np.int64))[: len(arrays[0])]]
            self._past[pair, label] = arrays[0][stay], arrays[1][stay]
        self._sent = self._sent[~gone]
        self._held = self._held.without(numbers)
        self._past = {key: arrays for key, arrays in self._past.items() if key[1] in self._held.members}

    def begin(self, setting: Setting, support: RaggedArray) -> None:
        """Make ready for a setting; ``support`` is y alpha of all rows in use, by id, for each of its problems."""
        self._setting = setting
        rows = np.concatenate([*members_of(self._held, setting), np.zeros(0, np.int64)])
        self._work = DualState(self._held, setting, self._lift(self._held.matrix[rows]), self._known)
        self._work.meet(self._known_labels, self._known_numbers)
        self._work.restore(self._past, support)

    def step(self, order: Request) -> Reply:
        """Do as told, and say what is next."""
        self.follow(order)
        work = self._at_work
        settled = work.settle(order) if order.begins else np.zeros(len(order.live), dtype=bool)
        used = work.in_use(order.live[settled]) if settled.any() else np.zeros(0, np.int64)
        told, proposed = work.look(order.live, order.intercepts), work.propose(order, settled)
        numbers = self._held.numbers
        numbered = RaggedArray(proposed.firsts, numbers[proposed.keys], proposed.values)
        news = self._news(np.append(used, proposed.keys))
        return Reply(told, numbered, news, work.asleep, numbers[used] if settled.any() else None)

    def follow(self, order: Request) -> None:
        """Bring alpha and the scores up to date."""
        if order.arrivals is not None:
            self._meet(order.arrivals)
        if len(order.steps.keys):
            self._at_work.move(order.moved, order.steps)
        self._at_work.turn(order)

    def tell(self, intercepts: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far all problems are, with these intercepts."""
        return self._at_work.look(np.arange(len(intercepts)), intercepts)

    def conclude(self, intercepts: NDArray[np.float64]) -> Conclusion:
        """What has become of all problems, with these intercepts."""
        return self._at_work.conclude(intercepts)

    def rest(self) -> None:
        """Keep alpha and the scores, and let go of all else."""
        self._at_work.wake()
        self._past = self._at_work.past()
        self._work = None

    @property
    def _at_work(self) -> DualState:
        assert self._work is not None, "units begin before they work"
        return self._work

    def _lift(self, rows: Any) -> Lifted:
        return self._setting.lifted(rows)

    def _meet(self, packet: Packet) -> None:
        """Get to know rows that have come into use."""
        self._known.append(self._setting.kernel.turn(self._lift(packet.rows)))
        self._known_labels += packet.labels
        self._known_numbers = np.append(self._known_numbers, packet.numbers)
        self._at_work.meet(packet.labels, packet.numbers)

    def _news(self, rows: NDArray[np.int64]) -> Packet | None:
        """Those of some rows that were never sent."""
        wanted = np.zeros(len(self._held), dtype=bool)
        wanted[rows] = True
        fresh = np.flatnonzero(wanted & ~self._sent)
        if not len(fresh):
            return None
        self._sent[fresh] = True
        return Packet(self._held.numbers[fresh], self._held.labels_of(fresh), self._held.matrix[fresh])
