"""Exchange: the bytes sent between the units and the coordinator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.methods.kernel.messages import Reply, Request, size_of


@dataclass
class Exchange:
    """Bytes that each unit sent and received in each communication round: one message to it, and one from it.

    Only rows, dual variables and statistics are counted, not what the engine adds. With threads nothing is sent, and
    the numbers are those of other engines.

    >>> exchange = Exchange([[10, 20], [5, 0]], [[7, 7], [7, 7]])
    >>> exchange.sent.tolist(), exchange.rounds, exchange.messages, exchange.total
    ([[10, 20], [5, 0]], 2, 8, 63)

    Attributes
    ----------
    sent, received : arrays of shape (rounds, units)
    """

    _sent: list[list[int]] = field(default_factory=list)
    _received: list[list[int]] = field(default_factory=list)

    def record(self, replies: list[Reply], request: Request) -> None:
        """Record one round: the replies of the units, and the request that is then sent to all of them."""
        self._sent.append([size_of(reply) for reply in replies])
        self._received.append([size_of(request)] * len(replies))

    @property
    def sent(self) -> NDArray[np.int64]:
        """Bytes that each unit sent, (rounds, units)."""
        return np.array(self._sent, dtype=np.int64).reshape(self.rounds, -1)

    @property
    def received(self) -> NDArray[np.int64]:
        """Bytes that each unit received, (rounds, units)."""
        return np.array(self._received, dtype=np.int64).reshape(self.rounds, -1)

    @property
    def rounds(self) -> int:
        """Number of communication rounds."""
        return len(self._sent)

    @property
    def messages(self) -> int:
        """Number of messages: one to and one from each unit per round."""
        return 2 * int(self.sent.size)

    @property
    def total(self) -> int:
        """Bytes of all messages."""
        return int(self.sent.sum() + self.received.sum())

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Exchange) and (self._sent, self._received) == (other._sent, other._received)

    def __repr__(self) -> str:
        units = self.sent.shape[1] if self.rounds else 0
        return f"Exchange of {self.total:,} bytes between {units} units in {self.rounds} rounds"
