"""Tells apart work in this process and work on another engine."""

from __future__ import annotations

from typing import Any

from mergesvm.engines.base import Engine
from mergesvm.engines.threads import Threads
from mergesvm.errors import ParameterError


def resolve_engine(engine: Any, n_jobs: int | None = None) -> tuple[Threads, Engine | None]:
    """Return the threads to use within a process, and the engine if it is not this process.

    >>> resolve_engine(None, 2), resolve_engine(Threads(3))
    ((Threads(2), None), (Threads(3), None))
    >>> resolve_engine("dask")
    Traceback (most recent call last):
    ...
    mergesvm.errors.ParameterError: engine has to be one of mergesvm.engines, such as Dask(...), or None, not 'dask'.
    """
    if engine is None:
        return Threads(n_jobs), None
    if not isinstance(engine, Engine):
        raise ParameterError(f"engine has to be one of mergesvm.engines, such as Dask(...), or None, not {engine!r}.")
    if isinstance(engine, Threads):
        return engine if n_jobs is None else Threads(n_jobs), None
    return Threads(1 if n_jobs is None else n_jobs), engine
