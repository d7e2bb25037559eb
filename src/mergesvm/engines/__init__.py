"""Engines: where work runs. An engine maps a function over tasks and reduces the results."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mergesvm.engines.dask.engine import Dask
    from mergesvm.engines.mpi.engine import MPI
    from mergesvm.engines.spark.engine import Spark
    from mergesvm.engines.threads import Threads

__all__ = ["MPI", "Dask", "Spark", "Threads"]

_MODULES = {"MPI": "mpi.engine", "Dask": "dask.engine", "Spark": "spark.engine", "Threads": "threads"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
