"""RowRegistry: the rows that the coordinator has received from the units."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.methods.kernel.messages import EMPTY, Reply, RowPacket
from mergesvm.methods.kernel.row_store import LiftedStore, RowStore
from mergesvm.methods.kernel.setup import TrainingSetup
from mergesvm.models.kernel_function import Lifted


class RowRegistry:
    """The rows that units have sent, and the ids of those that are shared with all units.

    It is kept between training runs, so that the next one continues from there. A row has an *index* among all rows
    that were given, a *position* in this registry, and, once it has been sent to all units, an *id*.
    """

    def __init__(self) -> None:
        self.lifted, self.raw = LiftedStore(), RowStore()  # raw: as they were given
        self.labels: list[Label] = []
        self._positions, self._ids = EMPTY, EMPTY  # by index; -1 for none
        self.n_shared = 0

    def add_all(self, replies: list[Reply], setup: TrainingSetup) -> None:
        """Add the rows that units sent with their replies."""
        for reply in replies:
            packet = reply.new_rows
            if packet is not None:
                self.add(packet, setup.numerics.lift(packet.rows, packet.indices))

    def add(self, packet: RowPacket, lifted: Lifted) -> None:
        """Add rows that a unit sent."""
        missing = int(packet.indices.max()) + 1 - len(self._positions)
        if missing > 0:
            more = np.full(missing + len(self._positions), -1, np.int64)
            self._positions, self._ids = np.append(self._positions, more), np.append(self._ids, more)
        self._positions[packet.indices] = len(self.labels) + np.arange(len(packet.labels))
        self.lifted.append(lifted)
        self.raw.append(packet.rows)
        self.labels += packet.labels

    def positions(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The positions of rows in the registry."""
        return self._positions[indices]

    def ids(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The ids of rows that are shared with all units."""
        return self._ids[indices]

    def share(self, indices: NDArray[np.int64]) -> RowPacket | None:
        """Give ids to the rows that have none, and return these rows, to be sent to all units."""
        wanted = np.zeros(len(self._ids), dtype=bool)
        wanted[indices] = True
        fresh = np.flatnonzero(wanted & (self._ids < 0))
        if not len(fresh):
            return None
        self._ids[fresh] = self.n_shared + np.arange(len(fresh))
        self.n_shared += len(fresh)
        return self.packet(fresh)

    def remove(self, indices: NDArray[np.int64]) -> None:
        """Remove rows that are not support vectors; positions and ids close up, as they do at the units."""
        known = indices[indices < len(self._positions)]
        kept = np.ones(len(self.labels), dtype=bool)
        kept[self._positions[known][self._positions[known] >= 0]] = False
        self.lifted.keep(kept)
        self.raw.keep(kept)
        self.labels = [self.labels[position] for position in np.flatnonzero(kept).tolist()]
        self._positions[known], self._ids[known] = -1, -1
        for numbers in (self._positions, self._ids):
            left = np.flatnonzero(numbers >= 0)
            numbers[left[np.argsort(numbers[left])]] = np.arange(len(left))
        self.n_shared = int((self._ids >= 0).sum())

    def packet(self, indices: NDArray[np.int64]) -> RowPacket:
        """The rows as they were given."""
        positions = self.positions(indices)
        return RowPacket(indices, [self.labels[position] for position in positions.tolist()], self.raw.take(positions))
