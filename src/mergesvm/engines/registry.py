"""The engines by name, found without importing what they need."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mergesvm.errors import EngineError, ParameterError

if TYPE_CHECKING:
    from mergesvm.engines.base import Engine


@dataclass(frozen=True)
class EngineSpec:
    """Declares an engine; ``SPEC`` in the ``spec.py`` of its folder.

    Attributes
    ----------
    name : str
        The name for ``--engine``.
    class_name, module : str
        The class, exported as ``mergesvm.engines.<class_name>``, and the module that defines it.
    requires : str
        What has to be installed, for the error message.
    extra : str, optional
        The extra of mergesvm that installs it.
    options : mapping of str to str
        The arguments of :func:`engine_named` that the engine takes, and the names of its constructor arguments.
    collections : tuple of str
        Packages whose collections the engine's workers can hold.
    actors : bool
        Whether workers can hold stateful objects.
    hint : str
        Added to the name in the help text of ``--engine``.
    """

    name: str
    class_name: str
    module: str
    requires: str = ""
    extra: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    collections: tuple[str, ...] = ()
    actors: bool = True
    hint: str = ""

    def load(self) -> type[Engine]:
        """Import the class."""
        try:
            engine: type[Engine] = getattr(import_module(self.module), self.class_name)
        except ImportError as error:
            raise self.missing() from error
        return engine

    def missing(self, reason: object = "") -> EngineError:
        """Return the error for a package that is not installed."""
        cure = f": pip install 'mergesvm[{self.extra}]'." if self.extra else "."
        return EngineError(f"The engine {self.class_name} needs {self.requires}{cure} {reason}".strip())


THREADS = EngineSpec("threads", "Threads", "mergesvm.engines.threads", options={"workers": "workers"})
"""The default, and the only engine without a folder."""


@cache
def engine_specs() -> dict[str, EngineSpec]:
    """Return all engines by name.

    >>> list(engine_specs())
    ['threads', 'dask', 'mpi', 'spark']
    """
    folders = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if module.ispkg]
    specs = [import_module(f"mergesvm.engines.{folder}.spec").SPEC for folder in folders]
    return {spec.name: spec for spec in (THREADS, *specs)}


def engines_help() -> str:
    """List the names for the help text of ``--engine``.

    >>> engines_help()
    'threads, dask, mpi (under mpiexec) or spark'
    """
    *others, last = [spec.name + (f" ({spec.hint})" if spec.hint else "") for spec in engine_specs().values()]
    return f"{', '.join(others)} or {last}"


def collection_spec(rows: Any) -> EngineSpec | None:
    """Return the engine whose workers can hold ``rows``, or None for rows in memory."""
    package = type(rows).__module__.split(".")[0]
    return next((spec for spec in engine_specs().values() if package in spec.collections), None)


def engine_named(
    name: str, workers: int | None = None, address: str | None = None, *, local: bool = False, root: int | None = None
) -> Engine:
    """Create an engine by name; close it, or use it in a ``with`` block.

    ``address`` is that of a running cluster; ``local`` and ``root`` are for MPI, which ignores ``workers``.

    >>> engine_named("threads", 2)
    Threads(2)
    """
    specs = engine_specs()
    if name not in specs:
        raise ParameterError(f"Unknown engine {name!r}. Choose one of {', '.join(specs)}.")
    spec = specs[name]
    if address is not None and "address" not in spec.options:
        raise ParameterError(f"The engine {name} has no address: leave out {address!r}.")
    if address is not None and workers is not None:
        raise ParameterError(f"The cluster at {address} determines the number of workers: leave out workers={workers}.")
    if local and "local" not in spec.options:
        takers = [other.name for other in specs.values() if "local" in other.options]
        raise ParameterError(f"The engine {name} has no ranks with files of their own: local is for {takers[0]}.")
    values = {"workers": workers, "address": address, "local": local, "root": root}
    return spec.load()(**{argument: values[option] for option, argument in spec.options.items()})
