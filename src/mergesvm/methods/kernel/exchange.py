"""What has travelled between units."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.methods.kernel.messages import Reply, Request, size_of


@dataclass
class Exchange:
    """Bytes that each unit has sent and received in each round, with one message to it and one from it.

    They are those of rows, multipliers and numbers, whatever the engine adds to them; on threads nothing travels, and
    they are what would.

    >>> exchange = Exchange([[10, 20], [5, 0]], [[7, 7], [7, 7]])
    >>> exchange.sent.tolist(), exchange.rounds, exchange.messages, exchange.total
    ([[10, 20], [5, 0]], 2, 8, 63)

    Attributes
    ----------
    sent, received : arrays of shape (rounds, units)
    """

    _sent: list[list[int]] = field(default_factory=list)
    _received: list[list[int]] = field(default_factory=list)

    def note(self, answers: list[Reply], order: Request) -> None:
        """Note one round: what units answered, and what all are then told."""
        self._sent.append([size_of(answer) for answer in answers])
        self._received.append([size_of(order)] * len(answers))

    @property
    def sent(self) -> NDArray[np.int64]:
        """Bytes that each unit has sent, (rounds, units)."""
        return np.array(self._sent, dtype=np.int64).reshape(self.rounds, -1)

    @property
    def received(self) -> NDArray[np.int64]:
        """Bytes that each unit has received, (rounds, units)."""
        return np.array(self._received, dtype=np.int64).reshape(self.rounds, -1)

    @property
    def rounds(self) -> int:
        """How many rounds there were."""
        return len(self._sent)

    @property
    def messages(self) -> int:
        """How many messages there were: one to and one from each unit in each round."""
        return 2 * int(self.sent.size)

    @property
    def total(self) -> int:
        """Bytes of all messages."""
        return int(self.sent.sum() + self.received.sum())

    def __add__(self, other: Exchange) -> Exchange:
        return Exchange(self._sent + other._sent, self._received + other._received)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Exchange) and (self._sent, self._received) == (other._sent, other._received)

    def __repr__(self) -> str:
        units = self.sent.shape[1] if self.rounds else 0
        return f"Exchange of {self.total:,} bytes between {units} units in {self.rounds} rounds"
