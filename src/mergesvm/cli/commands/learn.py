"""``mergesvm learn``: files in, a knowledge file out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

import mergesvm as ms
from mergesvm.cli.command import command
from mergesvm.cli.console import INVALID_INPUT, ConsoleOptions, Force, Output, dropped_rows
from mergesvm.cli.data_options import DataOptions, Features, chosen_map, knows_columns
from mergesvm.cli.open_files import open_any
from mergesvm.cli.outputs import check_distinct, check_output, files_of
from mergesvm.engines.registry import engine_named, engines_help
from mergesvm.errors import MergeSVMError, ParameterError
from mergesvm.reports.knowledge_facts import constant_note, knowledge_facts

if TYPE_CHECKING:
    from mergesvm.engines.base import Engine

Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print the engine and the bytes it sent.")]


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


@command(
    "mergesvm learn day1.parquet --label y -o day1.knowledge",
    "mergesvm learn day1.parquet --label y --folds 5 -o folds.knowledge",
)
def learn_command(
    data: DataOptions,
    output: Output,
    features: Features = None,
    like: Annotated[
        Path | None, typer.Option(help="Knowledge or model file whose columns and features to use, so that pieces add.")
    ] = None,
    pooled: Annotated[
        bool, typer.Option("--pooled", help="Keep one Gram matrix for all classes instead of one per class.")
    ] = False,
    precision: Annotated[
        str | None,
        typer.Option(help="Precision of products: float64, or float32, which is faster (default: that of the map)."),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            help="Keep the knowledge of each of this many folds, so that solve can choose C without data. Memory grows "
            "with the number of folds."
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="Column that assigns rows to folds: rows with equal values share a fold. Not a feature."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Threads (default: one per core; one per worker on other engines).")
    ] = None,
    *,
    engine: EngineOptions,
    force: Force = False,
    verbose: Verbose = False,
    printing: ConsoleOptions,
) -> None:
    """Learn from files of any size in one pass and write a small knowledge file."""
    if pooled and folds is not None:
        raise ParameterError("--folds needs one Gram matrix per class, which --pooled does not keep. Omit one of them.")
    with engine.start() as place:
        console = printing.console(silent=not place.ranks.is_root)
        place.ranks.on_root(lambda: check_output(output, force))
        mapping, source = place.ranks.on_all(lambda: _open(data, features, like, groups))
        place.ranks.on_root(lambda: check_distinct([output], [like, features, data.label, *files_of(source)]))
        frozen_here = not mapping.frozen
        if frozen_here:
            unfrozen = mapping
            mapping = place.ranks.on_root(lambda: unfrozen.freeze(source))
            if mapping.needs_sample:
                console.text(
                    f"{mapping!r} was frozen on the first rows of these files. Pieces can only be merged if they use "
                    f"the same map: write it once with mergesvm map.{mapping.precision_note}"
                )
        with console.progress("learning") as progress:
            knowledge: Any = ms.learn(
                source,
                features=mapping,
                per_class=not pooled,
                precision=precision,
                folds=folds,
                groups=groups,
                engine=place,
                n_jobs=jobs,
                progress=progress,
            )
        place.ranks.on_root(lambda: knowledge.save(output, overwrite=force))
        if verbose:
            console.text(f"{place!r}, sent: {place.traffic}")
        console.text(f"{knowledge}{dropped_rows(source.dropped)}")
        facts = knowledge_facts(knowledge)
        if note := constant_note(facts["constant"], facts["features"]):
            console.text(note)
        console.written(output)
        console.result(
            output=output,
            dropped=source.dropped,
            map=repr(mapping),
            fingerprint=mapping.fingerprint,
            frozen_here=frozen_here,
            engine=repr(place),
            traffic=asdict(place.traffic),
            **facts,
        )


def _open(
    data: DataOptions, features: str | None, like: Path | None, groups: str | None
) -> tuple[ms.features.FeatureMap, ms.Scan]:
    """The feature map and the data, with the columns of an earlier file or of the map if they are known."""
    earlier = None if like is None else open_any(like)
    mapping = chosen_map(features, earlier)
    known = earlier if earlier is not None else mapping if knows_columns(mapping) else None
    return mapping, data.scan(like=known, keep=() if groups is None else (groups,))
