"""Engines by their names."""

from __future__ import annotations

from typing import Any

from mergesvm.engines.base import Engine
from mergesvm.engines.threads import Threads
from mergesvm.errors import ParameterError

NAMES = ("threads", "mpi", "dask", "spark")


def placed(engine: Any, n_jobs: int | None = None) -> tuple[Threads, Engine | None]:
    """The threads that work is done by wherever it runs, and the engine, if it runs elsewhere than in this process.

    >>> placed(None, 2), placed(Threads(3))
    ((Threads(2), None), (Threads(3), None))
    >>> placed("dask")
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


def engine_named(
    name: str, workers: int | None = None, address: str | None = None, *, local: bool = False, root: int | None = None
) -> Engine:
    """An engine, started if need be; to be closed, or used in a ``with`` block.

    Parameters
    ----------
    name : {"threads", "mpi", "dask", "spark"}
    workers : int, optional
        How many threads, or worker processes of a cluster that is started here. Ranks are for ``mpiexec`` to start, and
        this says nothing about them.
    address : str, optional
        Of a Dask scheduler, or a Spark master.
    local : bool
        Under MPI: files that are named are each rank's own, and not dealt out.
    root : int, optional
        Under MPI: the only rank that gets the results.

    Examples
    --------
    >>> engine_named("threads", 2)
    Threads(2)
    """
    if name not in NAMES:
        raise ParameterError(f"There is no engine {name!r}. Choose one of {', '.join(NAMES)}.")
    if address is not None and name not in ("dask", "spark"):
        raise ParameterError(f"The engine {name} has no address: leave {address!r} out.")
    if address is not None and workers is not None:
        raise ParameterError(f"The cluster at {address} has the workers that it has: leave workers={workers} out.")
    if local and name != "mpi":
        raise ParameterError(f"The engine {name} has no ranks with files of their own: local is for mpi.")
    if name == "threads":
        return Threads(workers)
    if name == "mpi":
        from mergesvm.engines.mpi.engine import MPI

        return MPI(root=root, local=local)
    if name == "dask":
        from mergesvm.engines.dask.engine import Dask

        return Dask(address, workers=workers)
    from mergesvm.engines.spark.engine import Spark

    return Spark(address, workers=workers)
