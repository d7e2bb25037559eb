"""Engines: where work runs. An engine maps a function over tasks and merges the results."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mergesvm.engines.dask.engine import Dask as Dask
    from mergesvm.engines.mpi.engine import MPI as MPI
    from mergesvm.engines.spark.engine import Spark as Spark
    from mergesvm.engines.threads import Threads as Threads


def _classes() -> dict[str, Any]:
    from mergesvm.engines.registry import engine_specs

    return {spec.class_name: spec for spec in engine_specs().values()}


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in _classes():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _classes()[name].load()


def __dir__() -> list[str]:
    return sorted(_classes())
