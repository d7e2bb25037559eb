"""Sums of numbers of few workers of a Dask cluster: each packs its own at once, and the client adds them up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mergesvm.engines.base import Done
from mergesvm.engines.dask.parcel import Packed, Parcel
from mergesvm.engines.dask.run import Run
from mergesvm.engines.dask.sums import Numbers, numbers_of
from mergesvm.engines.reduce import Addition
from mergesvm.engines.threads import Threads

Result = TypeVar("Result")

FEW = 2
"""So many workers send no more to the client than they would have to send each other before."""


@dataclass
class Alone(Generic[Result]):
    """A result that was packed without knowing of others.

    Attributes
    ----------
    told : its description
    numbers : dict of place to array
        Its blocks, by a plan of its own.
    whole : the result itself, if there is no such plan
    """

    told: Any
    numbers: Numbers
    whole: Result | None = None


def pack_alone(join: Packed, result: Parcel) -> Parcel:
    """What a worker does with a result that goes to the client as it is."""
    adding = join.unpacked()
    told = adding.describe(result.value)
    if not adding.alike([told]):
        return Parcel(Alone(told, {}, result.value), result.token)
    plan = adding.agree([told])
    places = list(range(len(adding.blocks(plan))))
    return Parcel(Alone(told, numbers_of(adding, result.value, plan, places)), result.token)


def add_here(run: Run, join: Addition[Result], futures: list[Any], done: Done | None = None) -> tuple[Result, int]:
    """The join of what one or two workers have packed, each by itself, and how many rounds it takes.

    The client adds the numbers itself: they are no more than two workers would have to send each other before, and no
    plan has to be waited for, because most results are alike. Those that are not are joined as any others.
    """
    fetcher = ThreadPoolExecutor(len(futures))
    try:
        fetched = list[Any](futures)
        for count, index in enumerate(run.finished(futures), start=1):
            fetched[index] = fetcher.submit(run.gather, [futures[index]])
            if done is not None:
                done(count, len(futures))
        found: list[Alone[Result]] = [future.result()[0] for future in fetched]
        fetched.clear()
        counted = fetcher.submit(run.count)
        result = _joined(join, found)
        counted.result()
    finally:
        # Without waiting: what is still being fetched after an error ends when the work is let go of.
        fetcher.shutdown(wait=False, cancel_futures=True)
    return result, 1


def _joined(join: Addition[Result], found: list[Alone[Result]]) -> Result:
    told = [each.told for each in found]
    plan = join.agree(told)
    if join.alike(told):
        return _added(join, plan, [each.numbers for each in found])
    wholes = []
    while found:  # what is unpacked is not held any longer
        wholes.append(_whole(join, found.pop(0)))
    return join(wholes)


def _whole(join: Addition[Result], alone: Alone[Result]) -> Result:
    if alone.whole is not None:
        return alone.whole
    plan = join.agree([alone.told])
    return _added(join, plan, [alone.numbers])


def _added(join: Addition[Result], plan: Any, each: list[Numbers]) -> Result:
    total = join.total(plan)

    def add(place: int) -> None:
        for count, numbers in enumerate(each, start=1):
            total.add(place, 0, numbers[place], last=count == len(each))

    Threads().map(add, range(len(join.blocks(plan))))  # the client has nothing else to do
    return total.finish()
