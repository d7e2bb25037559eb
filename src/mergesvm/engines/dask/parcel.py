"""Values held by the workers of a Dask cluster, and what has been sent of them."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from mergesvm.engines.threads import Threads
from mergesvm.engines.work import naming

sent: defaultdict[str, Counter[str]] = defaultdict(Counter)
"""Bytes and messages that this process has sent in parcels, by the token of the run they belong to."""


class Packed:
    """An already pickled object, so that the scheduler can forward it without being able to import its class."""

    def __init__(self, value: Any) -> None:
        import cloudpickle  # type: ignore[import-untyped]  # comes with Dask

        self.content: bytes = cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)

    def unpacked(self) -> Any:
        """Unpickle the object."""
        return pickle.loads(self.content)


class Parcel:
    """A value at a worker. Its size tells Dask where to run; what is sent of it is counted."""

    def __init__(self, value: Any, token: str) -> None:
        self.value, self.token = value, token

    def __sizeof__(self) -> int:
        return size_of(self.value)

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Parcel], tuple[Any, ...]]:
        import cloudpickle

        buffers: list[pickle.PickleBuffer] = []
        apart = {"buffer_callback": buffers.append} if protocol >= 5 else {}  # arrays are not copied
        head = cloudpickle.dumps(self.value, protocol=protocol, **apart)
        sent[self.token].update(bytes=len(head) + sum(buffer.raw().nbytes for buffer in buffers), messages=1)
        return _opened, (self.token, head, buffers)


def _opened(token: str, head: bytes, buffers: Sequence[Any]) -> Parcel:
    return Parcel(pickle.loads(head, buffers=buffers), token)


def size_of(value: Any) -> int:
    """Estimate the bytes of an object, including arrays within it.

    >>> import numpy as np
    >>> size_of({"a": [np.zeros(100), np.zeros(50)]}) >= 1200
    True
    """
    seen: set[int] = set()
    waiting, total = [value], 0
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


def run_task(shared: Parcel | Packed, token: str, task: Any, name: str | None) -> Parcel:
    """Run one task at a worker; ``shared`` is the function and the arguments that are the same for all tasks."""
    function, given = shared.unpacked() if isinstance(shared, Packed) else shared.value
    with naming(name), Threads.single_threaded_blas():
        return Parcel(function(task.unpacked() if isinstance(task, Packed) else task, *given), token)


def run_join(join: Packed, parcels: Sequence[Parcel]) -> Parcel:
    """Join results at a worker."""
    with Threads.single_threaded_blas():
        return Parcel(join.unpacked()([parcel.value for parcel in parcels]), parcels[0].token)


def unpack(packed: Packed, token: str) -> Parcel:
    """Unpack the shared function and arguments at a worker, as a task that the scheduler can run again."""
    return Parcel(packed.unpacked(), token)
