"""Sums of numbers over the workers of a Dask cluster: each worker adds up a share of the numbers of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.dask.parcel import Packed, Parcel
from mergesvm.engines.dask.run import Run
from mergesvm.engines.reduce import Addition, Block

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
    descriptions = run.start([run.call(_describe, future) for future in futures])
    run.wait(descriptions)
    plan = join.agree(run.gather(descriptions))
    blocks, agreed, total = join.blocks(plan), Packed(plan), join.total(plan)
    calls, depth = [], 0
    for number, share in enumerate(_shares(blocks, min(len(futures), MOST_SHARES))):
        held = [
            run.call(_pack, future, agreed, [place for place in share if blocks[place].holders[index]])
            for index, future in enumerate(futures)
            if any(blocks[place].holders[index] for place in share)
        ]
        # Every share comes together at another worker.
        root, levels = run.tree(held[number % len(held) :] + held[: number % len(held)], _add)
        calls.append(root)
        depth = max(depth, levels)
    roots = run.start(calls)
    for index in run.finished(roots):
        for place, numbers in run.gather([roots[index]])[0].items():
            total.add(place, 0, numbers, last=True)
    return total.finish(), depth + 2


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


def _describe(join: Packed, result: Parcel) -> Parcel:
    return Parcel(join.unpacked().describe(result.value), result.token)


def _pack(join: Packed, result: Parcel, plan: Packed, places: list[int]) -> Parcel:
    return Parcel(numbers_of(join.unpacked(), result.value, plan.unpacked(), places), result.token)


def numbers_of(join: Addition[Result], result: Result, plan: Any, places: list[int]) -> Numbers:
    """Blocks of a result."""
    blocks = join.blocks(plan)
    sizes = [blocks[place].size for place in places]
    # In one piece: fresh memory comes cheaper so.
    numbers = dict(zip(places, np.split(np.empty(sum(sizes)), np.cumsum(sizes)[:-1]), strict=bool(places)))
    for place, out in numbers.items():
        join.pack(result, plan, place, out)
    return numbers


def _add(join: Packed, parcels: Sequence[Parcel]) -> Parcel:  # noqa: ARG001
    total: Numbers = {}
    for parcel in parcels:
        for place, numbers in parcel.value.items():
            total[place] = total[place] + numbers if place in total else numbers
    return Parcel(total, parcels[0].token)
