"""``mergesvm train``: files in, a model out, of a method that keeps no sums."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import mergesvm as ms
from mergesvm.cli.command import command
from mergesvm.cli.console import ConsoleOptions, Force, Output, dropped_rows
from mergesvm.cli.data_options import DataOptions, chosen_map, knows_columns
from mergesvm.cli.engine_options import EngineOptions, Jobs, Verbose
from mergesvm.cli.outputs import check_distinct, check_output, files_of
from mergesvm.cli.parsing import as_class_weight
from mergesvm.cli.training_options import TrainingOptions
from mergesvm.errors import DataError

if TYPE_CHECKING:
    from mergesvm.data.labels import Label
    from mergesvm.engines.base import Engine
    from mergesvm.models.base import Model


@command(
    "mergesvm train day1.parquet --label y --method pegasos --lambda 1e-3 -o model.msvm",
    "mergesvm train day1.parquet --label y --method kernel --C 10 --gamma 0.1 -o model.msvm",
    "mpiexec -n 4 mergesvm train 'data/*.parquet' --label y --method kernel --engine mpi -o model.msvm",
)
def train_command(
    data: DataOptions,
    options: TrainingOptions,
    output: Output,
    jobs: Jobs = None,
    *,
    engine: EngineOptions,
    force: Force = False,
    verbose: Verbose = False,
    printing: ConsoleOptions,
) -> None:
    """Train a machine that keeps no sums, by Pegasos or with a kernel, on rows held in memory.

    Rows are used as they are: features should have similar scales. With Pegasos all workers hold all rows; with a
    kernel each holds those that it reads.
    """
    options.check()
    with engine.start() as place, options.naming_options():
        console = printing.console(silent=not place.ranks.is_root)
        place.ranks.on_root(lambda: check_output(output, force))
        source, known = place.ranks.on_all(lambda: _open(data, options))
        place.ranks.on_root(lambda: check_distinct([output], [options.features, data.label, *files_of(source)]))
        with console.status("reading") as update:
            source.progress = _reporter(update)
            known |= _class_weight(options, source, place)
            estimator = options.estimator(place, jobs, **known).fit(source)
        model: Model = estimator.model_
        if len(model.labels) < 2:
            raise DataError(
                f"All rows are of class {model.labels[0]!r}, but a machine needs rows of two classes or more. Check "
                f"--label {data.label}, or add files with rows of other classes."
            )
        place.ranks.on_root(lambda: model.save(output, overwrite=force))
        rows = int(model.domain.rows.sum())
        if verbose:
            console.text(f"{place!r}, sent: {place.traffic}")
        console.text(f"{model}, of {rows:,} rows{dropped_rows(source.dropped)}")
        console.written(output)
        console.result(
            output=output,
            model=repr(model),
            method=options.method,
            solver=model.solver_,
            classes=list(model.labels),
            rows=rows,
            dropped=source.dropped,
            iterations=estimator.n_iter_,
            engine=repr(place),
            traffic=asdict(place.traffic),
        )


def _open(data: DataOptions, options: TrainingOptions) -> tuple[ms.Scan, dict[str, Any]]:
    """The data, with the columns of the feature map if it knows them, and the map."""
    if options.features is None:
        return data.scan(), {}
    mapping = chosen_map(options.features)
    return data.scan(like=mapping if knows_columns(mapping) else None), {"features": mapping}


def _reporter(update: Callable[[str], None]) -> Callable[[ms.Scan], None]:
    def report(scan: ms.Scan) -> None:
        update("training" if scan.fraction >= 1 else f"reading: {scan.fraction:.0%}, {scan.rows:,} rows")

    return report


def _class_weight(options: TrainingOptions, source: ms.Scan, place: Engine) -> dict[str, Any]:
    """The class weights; only those of named classes need the classes, for which all labels are read first."""
    text = options.class_weight
    if text is None:
        return {}
    classes: set[Label] = set()
    if "=" in text:
        ranks = place.ranks
        mine = ranks.on_all(lambda: _classes(source) if ranks.own_files or ranks.is_root else set())
        classes = set().union(*place.map(lambda _: mine, range(place.workers))) if ranks.spmd else mine
    return {"class_weight": as_class_weight(text, sorted(classes))}


def _classes(source: ms.Scan) -> set[Label]:
    def read() -> set[Label]:
        with closing(iter(source)) as slices:  # type: ignore[type-var]
            return {label for part in slices if part.rows.n_rows for label in part.batch().labels.classes}

    return source.settled(read)
