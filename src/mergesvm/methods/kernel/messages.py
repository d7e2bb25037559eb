"""What units and the one that leads them say to one another."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.labels import Label
from mergesvm.models.kernel_function import Kernel, Lifted

Pair = tuple[Label, Label]
"""The classes that a problem tells apart: the negative, and the positive one."""


@dataclass(frozen=True)
class Setting:
    """What units work on.

    Attributes
    ----------
    pairs : list of pairs of classes
    bounds : array of shape (pairs, 2)
        What alpha of a row of weight 1 is bounded by, on either side.
    kernel : Kernel
    real : dtype
        The precision of kernel values.
    dense : bool
        Whether sparse rows are multiplied as dense ones.
    origin : array of shape (features,), or None
        About which rows are multiplied, where the kernel allows it.
    rooms : array of int, shape (pairs,)
        How many rows a unit proposes at a time, for either direction of each problem.
    whole : array of bool, shape (pairs,)
        Which problems are so small that they can be solved at one go: a unit begins by solving those of its own rows.
    noise : float
        By what share chance decides which of the violators are proposed.
    sifts : bool
        Whether a unit first solves the problem of these rows by itself, and proposes only those that are then in use.
    memory : int
        Bytes for columns of the kernel matrix, at each unit.
    penalty : float
        Of (y'alpha)^2 / 2; negative where y'alpha = 0 is demanded.
    tolerance : float
        To which small problems are solved.
    workers : int
        How many threads a unit may take that is alone.
    """

    pairs: list[Pair]
    bounds: NDArray[np.float64]
    kernel: Kernel
    real: np.dtype[Any]
    dense: bool
    origin: NDArray[np.float64] | None
    rooms: NDArray[np.int64]
    whole: NDArray[np.bool_]
    noise: float
    sifts: bool
    memory: int
    penalty: float
    tolerance: float
    workers: int

    def lifted(self, rows: Any) -> Lifted:
        """Rows as they are multiplied."""
        if sparse.issparse(rows) and self.dense:
            rows = rows.toarray()
        elif isinstance(rows, np.ndarray) and not self.dense:
            rows = sparse.csr_array(rows)
        return self.kernel.lift(rows, self.real, self.origin)


@dataclass(frozen=True)
class Packet:
    """Rows that travel: their numbers, and the rows as they were given."""

    numbers: NDArray[np.int64]
    labels: list[Label]
    rows: Any

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class RaggedArray:
    """One list of entries for each of some problems, one after another.

    >>> lists = RaggedArray.of([np.array([3, 1]), np.array([7])])
    >>> lists.keys[lists.span(1)], len(lists)
    (array([7]), 2)

    Attributes
    ----------
    firsts : array of int, shape (problems + 1,)
        Where the list of each problem begins.
    keys : array of int
        Which row an entry is about.
    values : array, or None
    """

    firsts: NDArray[np.int64]
    keys: NDArray[np.int64]
    values: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, keys: list[NDArray[np.int64]], values: list[NDArray[np.float64]] | None = None) -> RaggedArray:
        """From the lists of the problems."""
        firsts = np.cumsum([0, *(len(part) for part in keys)], dtype=np.int64)
        joined = np.concatenate(keys) if keys else np.zeros(0, np.int64)
        return cls(firsts, joined, np.concatenate(values) if values else None if values is None else np.zeros(0))

    @classmethod
    def empty(cls, problems: int) -> RaggedArray:
        """Of no entries."""
        return cls(np.zeros(problems + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))

    @classmethod
    def merged(cls, parts: list[RaggedArray]) -> RaggedArray:
        """Of the same problems, one list for all parts of each.

        >>> one, other = RaggedArray.of([np.array([3]), np.array([7])]), RaggedArray.of([np.array([1]), np.array([5])])
        >>> RaggedArray.merged([one, other]).keys
        array([3, 1, 7, 5])
        """
        at = np.concatenate([part.problems for part in parts])
        order = np.argsort(at, kind="stable")
        keys, values = np.concatenate([part.keys for part in parts]), [part.values for part in parts]
        firsts = np.sum([part.firsts for part in parts], axis=0)
        return cls(firsts, keys[order], None if values[0] is None else np.concatenate(values)[order])  # type: ignore[arg-type]

    @property
    def problems(self) -> NDArray[np.int64]:
        """Which problem each entry is of."""
        return np.repeat(np.arange(len(self)), np.diff(self.firsts))

    def span(self, at: int) -> slice:
        """Where the list of a problem is."""
        return slice(int(self.firsts[at]), int(self.firsts[at + 1]))

    def __len__(self) -> int:
        return len(self.firsts) - 1


@dataclass(frozen=True)
class Request:
    """What units are told: by how much y alpha of rows moves, and what to go on with.

    Attributes
    ----------
    arrivals : Packet or None
        Rows that have come into use; they get the next ids, at all units alike.
    moved : array of int
        The problems in which rows move.
    steps : RaggedArray
        By how much y alpha moves, by id, for those problems.
    live : array of int, shape (live,)
        The problems that are not at their end.
    kept : RaggedArray or None
        Ids of rows that stay in the working set, for the live problems; None for all that are in use.
    intercepts : array of shape (live,)
    limits : array of shape (live, 2)
        The highest v that may rise, and the lowest that may fall, of all units: beyond them rows can sleep.
    awake : bool
        Whether all rows have to be awake.
    begins : bool
        Whether units begin with small problems of their own rows.
    """

    arrivals: Packet | None
    moved: NDArray[np.int64]
    steps: RaggedArray
    live: NDArray[np.int64]
    kept: RaggedArray | None
    intercepts: NDArray[np.float64]
    limits: NDArray[np.float64]
    awake: bool = True
    begins: bool = False


@dataclass(frozen=True)
class Reply:
    """What a unit says: how far its problems are, and which rows it proposes to move.

    Attributes
    ----------
    told : array of shape (live, TOLD)
    proposed : RaggedArray
        By number of the row; the values are of shape (rows, 4): v, alpha, its bound, and y.
    news : Packet or None
        Those of them that were never proposed before.
    asleep : int
        How many rows sleep.
    settled : array of int, or None
        Numbers of the rows that are in use in problems that a unit has solved by itself, if it has.
    """

    told: NDArray[np.float64]
    proposed: RaggedArray
    news: Packet | None = None
    asleep: int = 0
    settled: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Conclusion:
    """What a unit says at the end, of all problems.

    Attributes
    ----------
    told : array of shape (problems, TOLD)
    moments : array of shape (problems, 2, 3)
        Count, mean and scatter of the scores of either side.
    coefs : RaggedArray
        Y alpha of the rows in use, by number.
    """

    told: NDArray[np.float64]
    moments: NDArray[np.float64]
    coefs: RaggedArray


def size_of(message: Any) -> int:
    """Bytes of the numbers in a message.

    >>> size_of(RaggedArray(np.zeros(2, np.int64), np.zeros(3, np.int64)))
    40
    """
    if isinstance(message, np.ndarray):
        return message.nbytes
    if hasattr(message, "indptr"):
        return int(message.data.nbytes + message.indices.nbytes + message.indptr.nbytes)
    if isinstance(message, (Packet, RaggedArray, Request, Reply)):
        return sum(size_of(getattr(message, part.name)) for part in fields(message))
    return 0
