"""Options that choose the engine, declared once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from mergesvm.cli.console import INVALID_INPUT
from mergesvm.engines.registry import engine_named, engines_help
from mergesvm.errors import MergeSVMError, ParameterError

if TYPE_CHECKING:
    from mergesvm.engines.base import Engine

Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print the engine and the bytes it sent.")]
Jobs = Annotated[int | None, typer.Option(help="Threads (default: one per core; one per worker on other engines).")]


@dataclass(frozen=True)
class EngineOptions:
    """The engine and its workers."""

    PANEL: ClassVar[str] = "Engine"

    engine: Annotated[str, typer.Option(help=f"Where to run: {engines_help()}.")] = "threads"
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Threads, or worker processes of a cluster started for this run (default: one per core)."
        ),
    ] = None
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask scheduler (tcp://...), Spark master (spark://...) or Spark Connect server (sc://...)."
        ),
    ] = None
    local: Annotated[
        bool,
        typer.Option("--local", help="With mpi: each rank reads all files it is given, instead of a part of them."),
    ] = False

    @contextmanager
    def start(self) -> Iterator[Engine]:
        """Start the engine, and close it at the end. If many ranks run the command, only the root reports errors."""
        with engine_named(self.engine, self.workers, self.address, local=self.local, root=0) as engine:
            try:
                if engine.ranks.spmd and self.workers not in (None, engine.workers):
                    raise ParameterError(
                        f"--workers {self.workers} does not match the number of ranks, {engine.workers}. "
                        f"Start the command with mpiexec -n {self.workers}."
                    )
                yield engine
            except MergeSVMError:
                if engine.ranks.is_root:
                    raise
                sys.exit(INVALID_INPUT)
