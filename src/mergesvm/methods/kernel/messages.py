"""Messages between the coordinator and the units, and Exchange, which counts their bytes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.methods.kernel.ragged_array import RaggedArray

EMPTY = np.zeros(0, np.int64)
"""An empty array of indices."""


@dataclass(frozen=True)
class RowPacket:
    """Rows that are sent: their indices among all rows, their labels, and the rows as they were given."""

    indices: NDArray[np.int64]
    labels: list[Label]
    rows: Any


@dataclass(frozen=True)
class Request:
    """The coordinator's message to all units: the steps to apply, and the problems to work on next.

    ``limits`` are m and M of LIBSVM's paper: over all units, the largest v in I_up and the smallest in I_low. Rows at a
    bound with v beyond them can be shrunk.
    """

    new_rows: RowPacket | None  # rows that all units need from now on; they get the next ids, the same at all units
    moved: NDArray[np.int64]  # the problems in which dual variables change
    steps: RaggedArray  # changes of y alpha in those problems, by id of the shared row
    active: NDArray[np.int64]  # the problems that have not converged
    working_set: RaggedArray | None  # ids that stay in the working sets of active problems; None: all support vectors
    intercepts: NDArray[np.float64]  # (active,)
    limits: NDArray[np.float64]  # (active, 2)
    hard: NDArray[np.int64] = field(
        default_factory=EMPTY.copy
    )  # active problems on which SMO does not converge: units propose more of their rows
    unshrink: bool = True  # whether shrunk rows become active again
    solve_locally: bool = False  # whether units begin by solving small problems restricted to their own rows

    @classmethod
    def start(cls, active: Any, intercepts: Any, working_set: RaggedArray | None, solve_locally: bool) -> Request:
        """The first request of a training run: no dual variable changes yet."""
        steps, limits = RaggedArray.empty(0), no_limits(len(active))
        return cls(None, EMPTY, steps, active, working_set, intercepts, limits, solve_locally=solve_locally)

    @classmethod
    def move(cls, moved: NDArray[np.int64], steps: RaggedArray, new_rows: RowPacket | None = None) -> Request:
        """A request that only changes dual variables."""
        return cls(new_rows, moved, steps, EMPTY, RaggedArray.empty(0), np.zeros(0), no_limits(0))


def no_limits(problems: int) -> NDArray[np.float64]:
    """Limits of a request by which no row is shrunk, (problems, 2)."""
    return np.tile([np.inf, -np.inf], (problems, 1))


@dataclass(frozen=True)
class Reply:
    """A unit's answer: the state of its problems, and the rows that it proposes for the working set."""

    stats: NDArray[np.float64]  # (active, N_STATS): see mergesvm.methods.kernel.stats
    proposed: RaggedArray  # by index of the row; the values, (rows, 4), are v, alpha, its bound and y
    new_rows: RowPacket | None = None  # the rows among them that this unit has not sent before
    n_shrunk: int = 0
    solved_locally: NDArray[np.int64] | None = None  # support vectors of the problems that the unit solved on its own


@dataclass(frozen=True)
class FinalReply:
    """A unit's answer at the end of a training run, about all problems."""

    stats: NDArray[np.float64]  # (problems, N_STATS)
    moments: NDArray[np.float64]  # (problems, 2, 3): count, mean and sum of squared deviations of scores, per side
    coefs: RaggedArray  # y alpha of the support vectors, by index of the row


def size_of(message: Any) -> int:
    """Bytes of the arrays in a message."""
    if isinstance(message, np.ndarray):
        return message.nbytes
    if hasattr(message, "indptr"):
        return int(message.data.nbytes + message.indices.nbytes + message.indptr.nbytes)
    if isinstance(message, (RowPacket, RaggedArray, Request, Reply)):
        return sum(size_of(getattr(message, part.name)) for part in fields(message))
    return 0


@dataclass
class Exchange:
    """Bytes that each unit sent and received in each communication round: one message to it, and one from it.

    Only rows, dual variables and statistics are counted, not what the engine adds. With threads nothing is sent, and
    the numbers are those of other engines.

    >>> exchange = Exchange([[10, 20], [5, 0]], [[7, 7], [7, 7]])
    >>> exchange.sent.tolist(), exchange.rounds, exchange.messages, exchange.total
    ([[10, 20], [5, 0]], 2, 8, 63)
    """

    _sent: list[list[int]] = field(default_factory=list)
    _received: list[list[int]] = field(default_factory=list)

    def record(self, replies: list[Reply], request: Request) -> int:
        """Record one round, the replies of the units and the request that is then sent to all; return its bytes."""
        self._sent.append([size_of(reply) for reply in replies])
        self._received.append([size_of(request)] * len(replies))
        return sum(self._sent[-1]) + sum(self._received[-1])

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

    def __repr__(self) -> str:
        units = self.sent.shape[1] if self.rounds else 0
        return f"Exchange of {self.total:,} bytes between {units} units in {self.rounds} rounds"
