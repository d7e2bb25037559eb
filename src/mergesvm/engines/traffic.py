"""What has travelled between workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Traffic:
    """Bytes and messages sent, by worker, and rounds in which all waited for one another.

    Traffic adds: that of two pieces of work is the sum.

    >>> (Traffic({"rank 1": 80}, 1, 1) + Traffic({"rank 1": 20, "rank 2": 30}, 2, 1)).total
    130

    Attributes
    ----------
    sent : dict of worker to int
        Bytes that each worker has sent.
    messages, rounds : int
        How many messages there were, and how many steps one after another.
    """

    sent: Mapping[str, int] = field(default_factory=dict)
    messages: int = 0
    rounds: int = 0

    @property
    def total(self) -> int:
        """Bytes that all workers together have sent."""
        return sum(self.sent.values())

    @property
    def most(self) -> int:
        """Bytes of the worker that has sent most."""
        return max(self.sent.values(), default=0)

    def __add__(self, other: Traffic) -> Traffic:
        workers = [*self.sent, *(worker for worker in other.sent if worker not in self.sent)]
        sent = {worker: self.sent.get(worker, 0) + other.sent.get(worker, 0) for worker in workers}
        return Traffic(sent, self.messages + other.messages, self.rounds + other.rounds)

    def __str__(self) -> str:
        """How people read it.

        >>> print(Traffic({"rank 1": 2_500_000, "rank 2": 1_500_000}, 2, 1))
        4.0 MB in 2 messages and 1 round, at most 2.5 MB a worker
        """
        rounds = f"{self.rounds} round" + ("" if self.rounds == 1 else "s")
        messages = f"{self.messages:,} message" + ("" if self.messages == 1 else "s")
        return f"{_size(self.total)} in {messages} and {rounds}, at most {_size(self.most)} a worker"


def _size(count: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"
