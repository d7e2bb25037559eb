"""Counts of bytes and messages sent between workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Traffic:
    """Bytes sent by each worker, and numbers of messages and of sequential communication rounds. Traffic can be added.

    >>> (Traffic({"rank 1": 80}, 1, 1) + Traffic({"rank 1": 20, "rank 2": 30}, 2, 1)).total
    130
    """

    sent: Mapping[str, int] = field(default_factory=dict)
    messages: int = 0
    rounds: int = 0

    @property
    def total(self) -> int:
        """Bytes sent by all workers."""
        return sum(self.sent.values())

    @property
    def largest(self) -> int:
        """Bytes sent by the worker that sent most."""
        return max(self.sent.values(), default=0)

    def __add__(self, other: Traffic) -> Traffic:
        workers = [*self.sent, *(worker for worker in other.sent if worker not in self.sent)]
        sent = {worker: self.sent.get(worker, 0) + other.sent.get(worker, 0) for worker in workers}
        return Traffic(sent, self.messages + other.messages, self.rounds + other.rounds)

    def __str__(self) -> str:
        """Format for people.

        >>> print(Traffic({"rank 1": 2_500_000, "rank 2": 1_500_000}, 2, 1))
        4.0 MB in 2 messages and 1 round, at most 2.5 MB per worker
        """
        rounds = f"{self.rounds} round" + ("" if self.rounds == 1 else "s")
        messages = f"{self.messages:,} message" + ("" if self.messages == 1 else "s")
        return f"{_size(self.total)} in {messages} and {rounds}, at most {_size(self.largest)} per worker"


def _size(count: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"
