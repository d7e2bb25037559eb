"""Sums of numbers over the workers of a Dask cluster: each worker adds up a part of the numbers of all."""

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
"""Blocks by index."""

MAX_PARTS = 8
"""Numbers are divided into at most this many parts, one per worker: more messages would hardly be faster."""


def add_up(run: Run, join: Addition[Result], futures: list[Any]) -> tuple[Result, int]:
    """Add the results of different workers; also return the number of rounds.

    The client collects descriptions of the results and makes the plan. Then each worker adds up its part of the
    blocks, so that all workers send and receive at the same time, and the client assembles the sums as they arrive.
    """
    descriptions = run.start([run.call(_describe, future) for future in futures])
    run.wait(descriptions)
    plan = join.agree(run.gather(descriptions))
    blocks, agreed, total = join.blocks(plan), Packed(plan), join.total(plan)
    calls, depth = [], 0
    for number, part in enumerate(_parts(blocks, min(len(futures), MAX_PARTS))):
        held = [
            run.call(_pack, future, agreed, [place for place in part if blocks[place].holders[index]])
            for index, future in enumerate(futures)
            if any(blocks[place].holders[index] for place in part)
        ]
        # Each part is added up at a different worker.
        root, levels = run.tree(held[number % len(held) :] + held[: number % len(held)], _add)
        calls.append(root)
        depth = max(depth, levels)
    roots = run.start(calls)
    for index in run.finished(roots):
        for place, numbers in run.gather([roots[index]])[0].items():
            total.add(place, 0, numbers, last=True)
    return total.finish(), depth + 2


def _parts(blocks: Sequence[Block], count: int) -> list[list[int]]:
    """Divide the indices of blocks that any worker holds into parts of about the same size.

    >>> _parts([Block(10, (True, True)), Block(5, (False, False)), *[Block(90, (True, False))] * 4], 2)
    [[0, 2, 3], [4, 5]]
    """
    held = [place for place, block in enumerate(blocks) if any(block.holders)]
    total, seen = sum(blocks[place].size for place in held), 0
    parts: list[list[int]] = [[] for _ in range(count)]
    for place in held:
        parts[min(count - 1, count * seen // max(1, total))].append(place)
        seen += blocks[place].size
    return [part for part in parts if part]


def _describe(join: Packed, result: Parcel) -> Parcel:
    return Parcel(join.unpacked().describe(result.value), result.token)


def _pack(join: Packed, result: Parcel, plan: Packed, places: list[int]) -> Parcel:
    """Pack blocks of a result."""
    addition, agreed = join.unpacked(), plan.unpacked()
    blocks = addition.blocks(agreed)
    sizes = [blocks[place].size for place in places]
    # One allocation is cheaper than many.
    numbers = dict(zip(places, np.split(np.empty(sum(sizes)), np.cumsum(sizes)[:-1]), strict=bool(places)))
    for place, out in numbers.items():
        addition.pack(result.value, agreed, place, out)
    return Parcel(numbers, result.token)


def _add(join: Packed, parcels: Sequence[Parcel]) -> Parcel:  # noqa: ARG001
    total: Numbers = {}
    for parcel in parcels:
        for place, numbers in parcel.value.items():
            total[place] = total[place] + numbers if place in total else numbers
    return Parcel(total, parcels[0].token)
