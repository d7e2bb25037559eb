"""The engine that a command runs on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mergesvm.engines.base import Engine
from mergesvm.engines.registry import engine_named
from mergesvm.errors import MergeSVMError, ParameterError

WRONG = 2
"""The exit code for input that cannot be used; see :mod:`mergesvm.cli.main`."""


@contextmanager
def running(name: str, workers: int | None, address: str | None, local: bool) -> Iterator[Engine]:
    """An engine by its name, which is closed at the end. Where many ranks run the command, only one complains."""
    with engine_named(name, workers, address, local=local, root=0 if name == "mpi" else None) as engine:
        try:
            if engine.collective and workers not in (None, engine.workers):
                raise ParameterError(
                    f"{workers} workers are asked for, but the number of ranks is {engine.workers}: start them "
                    f"with mpiexec -n {workers}."
                )
            yield engine
        except MergeSVMError:
            if engine.is_root:
                raise
            sys.exit(WRONG)
