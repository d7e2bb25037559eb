"""Sums of numbers over the workers of a Dask cluster: each worker adds up a share of the numbers of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.dask_parcel import Parcel
from mergesvm.engines.dask_run import Run
from mergesvm.engines.joining import Addition, Block

Result = TypeVar("Result")

Numbers = dict[int, NDArray[np.float64]]
"""Blocks by their places."""

MOST_SHARES = 8
"""Numbers are divided into at most so many shares, one a worker: more would be more messages, and hardly faster."""


def add_up(run: Run, join: Addition[Result], futures: list[Any]) -> tuple[Result, int]:
    """The join of results that lie at different workers, and how many rounds it takes.

    First the client learns what the results are, and makes the plan. Then each worker adds up its share of the blocks,
    so that all of them send and receive at the same time, and the client puts the sums together as they come.
    """
    plan = join.agree(run.gather([run.submit(_describe, future) for future in futures]))
    blocks = join.blocks(plan)
    shares = _shares(blocks, min(len(futures), MOST_SHARES))
    roots, depth = [], 0
    for number, share in enumerate(shares):
        held = [
            run.submit(_pack, future, plan, [place for place in share if blocks[place].holders[index]])
            for index, future in enumerate(futures)
            if any(blocks[place].holders[index] for place in share)
        ]
        # Every share comes together at another worker.
        turned = held[number % len(held) :] + held[: number % len(held)]
        root, levels = run.tree(turned, _add)
        roots.append(root)
        depth = max(depth, levels)
    return join.unpack(plan, _arriving(run, roots, blocks)), depth + 2


def _arriving(run: Run, roots: list[Any], blocks: Sequence[Block]) -> Iterator[NDArray[np.float64]]:
    """The sums of all blocks, in order, as soon as they are there."""
    sums: Numbers = {}
    arrivals = run.finished(roots)
    for place, block in enumerate(blocks):
        while any(block.holders) and place not in sums:
            sums |= run.gather([roots[next(arrivals)]])[0]
        yield sums.pop(place) if place in sums else np.zeros(block.size)


def _shares(blocks: Sequence[Block], count: int) -> list[list[int]]:
    """Places of blocks that anyone holds, in order, cut into shares of about the same size.

    >>> _shares([Block(10, (True, True)), Block(5, (False, False)), *[Block(90, (True, False))] * 4], 2)
    [[0, 2, 3], [4, 5]]
    """
    held = [place for place, block in enumerate(blocks) if any(block.holders)]
    total, seen = sum(blocks[place].size for place in held), 0
    shares: list[list[int]] = [[] for _ in range(count)]
    for place in held:
        shares[min(count - 1, count * seen // max(1, total))].append(place)
        seen += blocks[place].size
    return [share for share in shares if share]


def _describe(shared: Parcel, result: Parcel) -> Parcel:
    return Parcel(shared.value[2].describe(result.value))


def _pack(shared: Parcel, result: Parcel, plan: Any, places: list[int]) -> Parcel:
    join = shared.value[2]
    blocks, numbers = join.blocks(plan), {}
    for place in places:
        numbers[place] = np.empty(blocks[place].size)
        join.pack(result.value, plan, place, numbers[place])
    return Parcel(numbers)


def _add(shared: Parcel, parcels: Sequence[Parcel]) -> Parcel:  # noqa: ARG001
    total: Numbers = {}
    for parcel in parcels:
        for place, numbers in parcel.value.items():
            total[place] = total[place] + numbers if place in total else numbers
    return Parcel(total)
