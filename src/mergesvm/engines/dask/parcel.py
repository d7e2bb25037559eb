"""What lies at the workers of a Dask cluster, and what of it has been sent."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

sent: defaultdict[str, Counter[str]] = defaultdict(Counter)
"""Bytes and messages that this process has sent in parcels, by the token of the work that they belong to."""


class Packed:
    """Something pickled, so that a scheduler that passes it on need not know what it is."""

    def __init__(self, thing: Any) -> None:
        import cloudpickle  # type: ignore[import-untyped]  # comes with Dask

        self.content: bytes = cloudpickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL)

    def unpacked(self) -> Any:
        """What was pickled."""
        return pickle.loads(self.content)


class Parcel:
    """A thing at a worker: it knows its size, by which Dask decides where to go, and counts what is sent of it.

    >>> import numpy as np
    >>> Parcel(np.zeros(1000), "some work").__sizeof__() >= 8000
    True
    """

    def __init__(self, value: Any, token: str) -> None:
        self.value, self.token = value, token

    def __sizeof__(self) -> int:
        return size_of(self.value)

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Parcel], tuple[Any, ...]]:
        import cloudpickle

        buffers: list[pickle.PickleBuffer] = []
        apart = {"buffer_callback": buffers.append} if protocol >= 5 else {}  # so that arrays are not copied
        head = cloudpickle.dumps(self.value, protocol=protocol, **apart)
        sent[self.token].update(bytes=len(head) + sum(buffer.raw().nbytes for buffer in buffers), messages=1)
        return _opened, (self.token, head, buffers)


def _opened(token: str, head: bytes, buffers: Sequence[Any]) -> Parcel:
    return Parcel(pickle.loads(head, buffers=buffers), token)


def size_of(thing: Any) -> int:
    """About how many bytes a thing takes, arrays within objects included.

    >>> import numpy as np
    >>> size_of({"a": [np.zeros(100), np.zeros(50)]}) >= 1200
    True
    """
    seen: set[int] = set()
    waiting, total = [thing], 0
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, (list, tuple)):
            waiting += one
        elif hasattr(one, "nbytes") and not hasattr(one, "__dict__"):
            total += int(one.nbytes)
        elif isinstance(one, (str, bytes)):
            total += len(one)
        elif hasattr(one, "__dict__") and not isinstance(one, type) and not callable(one):
            waiting += vars(one).values()
    return total


Last = Callable[[Packed, Parcel], Parcel]
"""What a worker does with a result, by the join, before it is sent."""


def run_task(shared: Parcel | Packed, token: str, task: Any, name: str | None, *last: Any) -> Parcel:
    """What a worker does for each task: the function of it and of what all share; and then what is ``last``."""
    from mergesvm.engines.base import naming
    from mergesvm.engines.threads import Threads

    function, given = shared.unpacked() if isinstance(shared, Packed) else shared.value
    with naming(name), Threads.single_threaded_blas():
        result = Parcel(function(task.unpacked() if isinstance(task, Packed) else task, *given), token)
        return last[0](last[1], result) if last else result


def run_join(join: Packed, parcels: Sequence[Parcel]) -> Parcel:
    """What a worker does to join results."""
    from mergesvm.engines.threads import Threads

    with Threads.single_threaded_blas():
        return Parcel(join.unpacked()([parcel.value for parcel in parcels]), parcels[0].token)


def unpack(packed: Packed, token: str) -> Parcel:
    """What all tasks share, at a worker. A task of its own, so that the scheduler can have it made again."""
    return Parcel(packed.unpacked(), token)
