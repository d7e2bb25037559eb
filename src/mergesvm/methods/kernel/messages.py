"""Messages between the coordinator and the units."""

from __future__ import annotations

from dataclasses import dataclass, fields
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

    def __len__(self) -> int:
        return len(self.indices)


@dataclass(frozen=True)
class Request:
    """The coordinator's message to all units: the steps to apply, and the problems to work on next.

    Attributes
    ----------
    new_rows : RowPacket or None
        Rows that all units need from now on, usually new support vectors. They get the next ids, the same at all units.
    moved : array of int
        The problems in which dual variables change.
    steps : RaggedArray
        Changes of y alpha, by id of the shared row, for those problems.
    active : array of int, shape (active,)
        The problems that have not converged.
    working_set : RaggedArray or None
        Ids of rows that stay in the working set, for the active problems; None for all support vectors.
    intercepts : array of shape (active,)
    limits : array of shape (active, 2)
        Over all units, the largest v in I_up and the smallest in I_low (m and M in LIBSVM's paper). Rows at a bound
        with v beyond them can be shrunk.
    unshrink : bool
        Whether shrunk rows become active again.
    solve_locally : bool
        Whether units begin by solving small problems restricted to their own rows.
    """

    new_rows: RowPacket | None
    moved: NDArray[np.int64]
    steps: RaggedArray
    active: NDArray[np.int64]
    working_set: RaggedArray | None
    intercepts: NDArray[np.float64]
    limits: NDArray[np.float64]
    unshrink: bool = True
    solve_locally: bool = False

    @classmethod
    def start(
        cls,
        active: NDArray[np.int64],
        intercepts: NDArray[np.float64],
        working_set: RaggedArray | None,
        *,
        solve_locally: bool = False,
    ) -> Request:
        """The first request of a training: no dual variable changes yet."""
        steps, limits = RaggedArray.empty(0), no_limits(len(active))
        return cls(None, EMPTY, steps, active, working_set, intercepts, limits, solve_locally=solve_locally)

    @classmethod
    def move(cls, moved: NDArray[np.int64], steps: RaggedArray) -> Request:
        """A request that only changes dual variables."""
        return cls(None, moved, steps, EMPTY, RaggedArray.empty(0), np.zeros(0), no_limits(0))


def no_limits(problems: int) -> NDArray[np.float64]:
    """Limits of a request by which no row is shrunk, (problems, 2)."""
    return np.tile([np.inf, -np.inf], (problems, 1))


@dataclass(frozen=True)
class Reply:
    """A unit's answer: the state of its problems, and the rows that it proposes for the working set.

    Attributes
    ----------
    stats : array of shape (active, N_STATS)
        See :mod:`mergesvm.methods.kernel.stats`.
    proposed : RaggedArray
        By index of the row; the values, of shape (rows, 4), are v, alpha, its bound and y.
    new_rows : RowPacket or None
        The rows among them that this unit has not sent before.
    n_shrunk : int
        Number of shrunk rows.
    solved_locally : array of int, or None
        Indices of the support vectors of problems that the unit solved on its own, if it did.
    """

    stats: NDArray[np.float64]
    proposed: RaggedArray
    new_rows: RowPacket | None = None
    n_shrunk: int = 0
    solved_locally: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class FinalReply:
    """A unit's answer at the end of a training, about all problems.

    Attributes
    ----------
    stats : array of shape (problems, N_STATS)
    moments : array of shape (problems, 2, 3)
        Count, mean and sum of squared deviations of the scores, per side.
    coefs : RaggedArray
        y alpha of the support vectors, by index of the row.
    """

    stats: NDArray[np.float64]
    moments: NDArray[np.float64]
    coefs: RaggedArray


def size_of(message: Any) -> int:
    """Bytes of the arrays in a message.

    >>> size_of(RaggedArray(np.zeros(2, np.int64), np.zeros(3, np.int64)))
    40
    """
    if isinstance(message, np.ndarray):
        return message.nbytes
    if hasattr(message, "indptr"):
        return int(message.data.nbytes + message.indices.nbytes + message.indptr.nbytes)
    if isinstance(message, (RowPacket, RaggedArray, Request, Reply)):
        return sum(size_of(getattr(message, part.name)) for part in fields(message))
    return 0
