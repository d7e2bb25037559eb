"""The cascade: a binomial tree of ranks, along which results are merged upwards and distributed downwards.

At every level half of the remaining ranks send to the other half, so that p ranks take log2(p) levels, as in the
parallel algorithm of Zhang and Zhu (2009).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.reduce import Addition, Block, Join

Result = TypeVar("Result")

CHUNK = 2**16
"""Numbers per message: few enough to be added while they are in the cache, and to keep all levels busy."""

UP, DOWN = 1, 2
"""Tags of messages."""

Arrival = tuple[int, int, NDArray[np.float64], bool]
"""A block, the place of the first of the received numbers in it, the numbers, and whether they are its last."""


class Tree:
    """The position of one rank in the binomial tree of all ranks: its parent, None at the root, and its children.

    The child with the smallest subtree comes first, because its sum is complete first.

    >>> [(rank, Tree(rank, 6).parent, Tree(rank, 6).children) for rank in range(6)]
    [(0, None, [1, 2, 4]), (1, 0, []), (2, 0, [3]), (3, 2, []), (4, 0, [5]), (5, 4, [])]
    """

    def __init__(self, rank: int, size: int, root: int = 0) -> None:
        self.rank, self.size, self.root = rank, size, root
        self.levels = (size - 1).bit_length()
        place = (rank - root) % size
        # The lowest bit of the place is the level at which a rank sends to its parent.
        self._reach = place & -place or 1 << self.levels
        self.parent = None if place == 0 else (rank - self._reach) % size
        steps = (1 << level for level in range(self._reach.bit_length() - 1))
        self.children = [(rank + step) % size for step in steps if place + step < size]

    def all_below(self) -> list[int]:
        """The ranks in the subtree below this rank, including this rank.

        >>> Tree(2, 6).all_below(), Tree(4, 6).all_below()
        ([2, 3], [4, 5])
        """
        place = (self.rank - self.root) % self.size
        return [(self.root + each) % self.size for each in range(place, min(self.size, place + self._reach))]


class Cascade:
    """One pass along the tree; counts the bytes and messages that this rank sends."""

    def __init__(self, comm: Any, root: int) -> None:
        self.tree = Tree(comm.rank, comm.size, root)
        self.sent = self.messages = 0
        self.error: Exception | None = None
        self._comm = comm
        self._below = {child: Tree(child, comm.size, root).all_below() for child in self.tree.children}

    def join(self, held: list[Result], join: Join[Result]) -> list[Result]:
        """Send results up as objects, joining them at every node; the root alone gets the joined result.

        If a join fails, nothing is sent up and the error is stored in :attr:`error`: all ranks have to go on to the
        end, or some would wait forever.
        """
        for child in self.tree.children:
            message = self._comm.recv(source=child, tag=UP)
            try:
                held = [*held, *pickle.loads(message)]
                held = [join(held)] if len(held) > 1 else held
            except Exception as error:  # noqa: BLE001 - raised on all ranks later
                held, self.error = [], self.error or error
        if self.tree.parent is None:
            return held
        try:
            message = pickle.dumps(held, pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # noqa: BLE001
            message, self.error = pickle.dumps([]), self.error or error
        self._comm.send(message, dest=self.tree.parent, tag=UP)
        self._count(len(message))
        return []

    def hand_out(self, message: bytes) -> bytes:
        """Send a message of the root to all ranks."""
        if self.tree.parent is not None:
            message = self._comm.recv(source=self.tree.parent, tag=DOWN)
        for child in reversed(self.tree.children):
            self._comm.send(message, dest=child, tag=DOWN)
            self._count(len(message))
        return message

    def arrivals(
        self, held: list[Result], join: Addition[Result], plan: Any, ranks: Sequence[int], *, everywhere: bool
    ) -> Iterator[Arrival]:
        """Yield received numbers; they are valid until the next ones are yielded.

        If ``everywhere``, all ranks get the sums of all ranks; else the root gets what it has to add to its own
        numbers, and other ranks get nothing. ``held`` is the result of this rank, if it has one, and ``ranks`` are
        those that have one, in the order of the descriptions.
        """
        blocks = join.blocks(plan)
        largest = max((block.size for block in blocks), default=0)
        spare = np.empty(min(CHUNK, largest))
        if self.tree.parent is None and not everywhere:
            yield from self._received(blocks, spare, ranks)
            return
        # Two blocks are in memory: the sum of one is sent down while the next one is sent up.
        buffers = [_Buffer(largest) for _ in range(2)]
        last = len(blocks)
        for index in range(last + 1):
            if index < last:
                block, buffer = blocks[index], buffers[index % 2]
                buffer.wait()
                holders = _holders(block, ranks)
                if self.tree.rank in holders:
                    join.pack(held[0], plan, index, buffer.numbers[: block.size])
                self._up(block, buffer, spare, holders)
            if index > 0 and everywhere:
                block, buffer = blocks[index - 1], buffers[(index - 1) % 2]
                if self.tree.parent is not None:
                    self._down(block, buffer)
                yield index - 1, 0, buffer.numbers[: block.size], True
        for buffer in buffers:
            buffer.wait()

    def _received(self, blocks: Sequence[Block], spare: NDArray[np.float64], ranks: Sequence[int]) -> Iterator[Arrival]:
        """Yield what the children of the root send."""
        for index, block in enumerate(blocks):
            sources = self._sources(_holders(block, ranks))
            for first, end in _chunks(block.size):
                for child in sources:
                    self._comm.Recv(spare[: end - first], source=child, tag=UP)
                    yield index, first, spare[: end - first], end == block.size and child == sources[-1]

    def _sources(self, holders: set[int]) -> list[int]:
        """The children that send anything."""
        return [child for child in self.tree.children if not holders.isdisjoint(self._below[child])]

    def _up(self, block: Block, buffer: _Buffer, spare: NDArray[np.float64], holders: set[int]) -> None:
        """Add the children's numbers of a block, and send the sums to the parent, or, at the root, to all ranks."""
        sources = self._sources(holders)
        mine = self.tree.rank in holders
        parent = self.tree.parent
        if parent is None and not sources and not mine:
            buffer.numbers[: block.size] = 0.0
        for first, end in _chunks(block.size):
            sums = buffer.numbers[first:end]
            for number, child in enumerate(sources):
                if number or mine:
                    self._comm.Recv(spare[: end - first], source=child, tag=UP)
                    sums += spare[: end - first]
                else:
                    self._comm.Recv(sums, source=child, tag=UP)
            if parent is not None and (sources or mine):
                self._send(buffer, sums, parent, UP)
            elif parent is None:
                self._send_down(buffer, sums)

    def _down(self, block: Block, buffer: _Buffer) -> None:
        """Receive the sums of a block and send them to the children."""
        buffer.wait()
        for first, end in _chunks(block.size):
            sums = buffer.numbers[first:end]
            self._comm.Recv(sums, source=self.tree.parent, tag=DOWN)
            self._send_down(buffer, sums)

    def _send_down(self, buffer: _Buffer, numbers: NDArray[np.float64]) -> None:
        for child in reversed(self.tree.children):  # the largest subtree first: it takes longest
            self._send(buffer, numbers, child, DOWN)

    def _send(self, buffer: _Buffer, numbers: NDArray[np.float64], rank: int, tag: int) -> None:
        buffer.sending.append(self._comm.Isend(numbers, dest=rank, tag=tag))
        self._count(numbers.nbytes)

    def _count(self, size: int) -> None:
        self.sent += size
        self.messages += 1


class _Buffer:
    """Numbers that may still be being sent."""

    def __init__(self, size: int) -> None:
        self.numbers = np.empty(size)
        self.sending: list[Any] = []

    def wait(self) -> None:
        """Wait until the numbers may be overwritten."""
        while self.sending:
            self.sending.pop().Wait()


def _holders(block: Block, ranks: Sequence[int]) -> set[int]:
    """The ranks that hold any numbers of a block."""
    return {rank for rank, holds in zip(ranks, block.holders, strict=True) if holds}


def _chunks(size: int) -> Iterator[tuple[int, int]]:
    return pairwise([*range(0, size, CHUNK), size])
