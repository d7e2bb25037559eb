"""``mergesvm stream``: predict each row of a stream, then learn it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import mergesvm as ms
from mergesvm.cli.command import Fields, command
from mergesvm.cli.console import NO_MATPLOTLIB, Console, ConsoleOptions, Force, dropped_rows
from mergesvm.cli.data_options import DataOptions, Features, chosen_map, knows_columns
from mergesvm.cli.open_files import open_any
from mergesvm.cli.outputs import check_distinct, check_output, files_of
from mergesvm.errors import ParameterError
from mergesvm.reports.figures import SUFFIXES, save_stream_figure
from mergesvm.reports.knowledge_facts import knowledge_facts

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from mergesvm.data.labels import Label
    from mergesvm.methods.recursive.prequential import Prequential

BATCH_ROWS = 4096
"""Rows to read at a time: few, so that the plot is updated often."""

REFRESH_SECONDS = 0.25
BLOCKS, ASCII_BLOCKS = " ▁▂▃▄▅▆▇█", " .:-=+*%#"
"""Characters of a column of the plot, from empty to full."""


@command("mergesvm stream day1.parquet --label y --picture accuracy.png")
def stream_command(
    data: Annotated[DataOptions, Fields(batch_rows=BATCH_ROWS)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Model file to write at the end of the stream.")
    ] = None,
    knowledge: Annotated[
        Path | None, typer.Option(help="Knowledge file to write at the end of the stream, which can be merged.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="A .png, .svg or .pdf file for a plot of the accuracy.")] = None,
    begin: Annotated[
        Path | None, typer.Option("--from", help="Knowledge file to continue from (default: start empty).")
    ] = None,
    C: Annotated[
        float, typer.Option("--C", "-C", help="Weight of the errors against the penalty on coefficients.")
    ] = 1.0,
    class_weight: Annotated[str, typer.Option(help="none, or class=weight,class=weight.")] = "none",
    forgetting: Annotated[
        float, typer.Option(help="Factor by which the weight of all rows shrinks with each new row; 1 forgets nothing.")
    ] = 1.0,
    window: Annotated[int | None, typer.Option(min=1, help="Learn from only this many of the latest rows.")] = None,
    free_intercept: Annotated[
        bool, typer.Option("--free-intercept", help="Do not penalise the intercept, like scikit-learn.")
    ] = False,
    features: Features = None,
    every: Annotated[int, typer.Option(min=1, help="Rows per point of the plot, at the start.")] = 500,
    force: Force = False,
    *,
    printing: ConsoleOptions,
) -> None:
    """Follow a stream row by row: predict each row, then learn it, and plot the accuracy."""
    from mergesvm.methods.recursive.live import LiveModel
    from mergesvm.methods.recursive.options import RecursiveOptions
    from mergesvm.methods.recursive.prequential import Prequential

    console = printing.console()
    check_output(output, force)
    check_output(knowledge, force)
    check_output(picture, force, *SUFFIXES)
    earlier = None if begin is None else _open_knowledge(begin)
    mapping = chosen_map(features, earlier)
    if earlier is not None and mapping != earlier.features:
        raise ParameterError(f"{begin} was learned with features {earlier.features}. Omit --features.")
    source = data.scan(like=earlier or (mapping if knows_columns(mapping) else None))
    check_distinct([output, knowledge, picture], [begin, features, data.label, *files_of(source)])
    weights = _class_weights(class_weight, None if earlier is None else earlier.signature.labels, source)
    options = RecursiveOptions(C, weights, not free_intercept, forgetting, window)
    if earlier is not None:
        live = LiveModel.of(earlier, options)
    else:
        layout = source.layout
        live = LiveModel(ms.Signature(mapping.freeze(source), layout.width, layout.names, layout.categories), options)
    test = Prequential(live, every)
    with _live_plot(console, source, test) as show:
        for batch in live.batches(source):
            test.update(batch)
            show()
    paths = {"output": output, "knowledge": knowledge, "picture": picture}
    _finish(console, source, test, weights or {}, paths, overwrite=force)


def _open_knowledge(path: Path) -> ms.Knowledge:
    content = open_any(path)
    if isinstance(content, ms.Folds):
        content = content.total
    if not isinstance(content, ms.Knowledge):
        raise ParameterError(f"{path} does not contain knowledge. Give --from a file written by learn or merge.")
    return content


def _class_weights(text: str, kind: str | None, source: ms.Scan) -> dict[Label, float] | None:
    """Class weights given as ``class=weight,class=weight`` before all classes are known.

    The class names become labels of this kind; if it is None, of the kind of the first labels in the source.
    """
    from mergesvm.data.label_encoding import EncodedLabels

    if text == "none":
        return None
    if kind is None:
        source.settle_labels()
        first = next((part.labels for part in source.first_slices(1) if part.labels is not None), ())
        kind = EncodedLabels.encode(first).kind
    converters: dict[str, Callable[[str], Label]] = {"whole number": int, "decimal": float, "boolean": _as_boolean}
    convert = converters.get(kind or "text", str)
    weights: dict[Label, float] = {}
    for part in text.split(","):
        name, equals, weight = part.rpartition("=")
        try:
            weights[convert(name)] = float(weight)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise ParameterError(
                f"Invalid --class-weight {text!r}: write class=weight,class=weight, with {kind} labels as in the data."
            )
    return weights


def _as_boolean(name: str) -> bool:
    if name.lower() not in ("true", "false"):
        raise ValueError(f"{name!r} is neither true nor false")
    return name.lower() == "true"


def _finish(
    console: Console,
    source: ms.Scan,
    test: Prequential,
    weights: dict[Any, float],
    paths: dict[str, Path | None],
    *,
    overwrite: bool,
) -> None:
    """Write the files and print the results."""
    live = test.live
    if paths["output"] is not None:
        live.model().save(paths["output"], overwrite=overwrite)
    if paths["knowledge"] is not None:
        live.knowledge().save(paths["knowledge"], overwrite=overwrite)
    unused = sorted(str(label) for label in weights if label not in live.labels)
    if unused:
        console.text(f"No row was of class {', '.join(unused)}, which --class-weight names.")
    picture = paths["picture"]
    if picture is not None and not save_stream_figure(picture, test.points, test.accuracy, overwrite=overwrite):
        console.text(NO_MATPLOTLIB)
        paths["picture"] = None
    _print_accuracy(console, source, test)
    console.written(*paths.values())
    console.result(
        accuracy=test.accuracy,
        frequent=test.baseline_accuracy,
        points=test.points,
        drift=max((check.drift for check in live.checks), default=0.0),
        dropped=source.dropped,
        **paths,
        **{**knowledge_facts(live.knowledge()), "rows": test.rows},
    )


@contextmanager
def _live_plot(console: Console, source: ms.Scan, test: Prequential) -> Iterator[Callable[[], None]]:
    """A function to call after each batch, which redraws the plot if standard error is a terminal."""
    from rich.console import Console as RichConsole
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    terminal, start = RichConsole(stderr=True), time.perf_counter()
    if console.silent or not terminal.is_terminal:
        yield lambda: None
        return
    last = start

    def show() -> None:
        nonlocal last
        now = time.perf_counter()
        if now - last > REFRESH_SECONDS:
            last = now
            speed = f"{source.fraction:.0%} read, {test.rows:,} rows, {test.rows / (now - start):,.0f} rows/s"
            plot = plot_lines(
                [point[1] for point in test.points], max(16, terminal.width - 12), blocks=_blocks(terminal)
            )
            live.update(Group(*(Text(line) for line in (*plot, f"{speed}; {_accuracies(test)}"))), refresh=True)

    with Live(console=terminal, auto_refresh=False, transient=True) as live:
        live.update(Text("starting; the first run on a machine compiles for a few seconds"), refresh=True)
        yield show


def _accuracies(test: Prequential) -> str:
    percentages = (100 * value for value in (test.accuracy, test.recent_accuracy, test.baseline_accuracy))
    return "accuracy {:.2f} %, recent {:.2f} %, most frequent class {:.2f} %".format(*percentages)


def _print_accuracy(console: Console, source: ms.Scan, test: Prequential) -> None:
    width = max(16, min(72, console.out.width - 12))
    plot = plot_lines([point[1] for point in test.points], width, blocks=_blocks(console.out))
    checks = test.live.checks
    drift = max((check.drift for check in checks), default=0.0)
    times = "once" if len(checks) == 1 else f"{len(checks)} times"
    checked = f" Coefficients were checked {times}; largest error {drift:.0e}." if checks else ""
    rows = f"{test.rows:,} rows, each predicted before it was learned"
    console.text(*plot, f"{rows}: {_accuracies(test)}{dropped_rows(source.dropped)}.{checked}")


def _blocks(console: RichConsole) -> str:
    return BLOCKS if console.encoding.lower().startswith("utf") else ASCII_BLOCKS


def plot_lines(values: Sequence[float], width: int = 64, height: int = 8, blocks: str = BLOCKS) -> list[str]:
    """Fractions as columns of blocks, averaged to fit the width, with the highest and lowest beside them.

    >>> for line in plot_lines([0.5, 0.6, 0.7, 0.8, 0.9, 1.0], width=6, height=2):
    ...     print(line)
    100.0 % |   ▂▅█
     50.0 % |▁▄▇███
    """
    import numpy as np

    if not len(values):
        return []
    columns = [float(np.mean(part)) for part in np.array_split(np.asarray(values), min(width, len(values)))]
    low, high = min(columns), max(columns)
    steps = [1 + round((value - low) / ((high - low) or 1.0) * (8 * height - 1)) for value in columns]
    sides = {0: low, height - 1: high}
    return [
        (f"{100 * sides[line]:5.1f} %" if line in sides else "").rjust(7)
        + " |"
        + "".join(blocks[min(8, max(0, step - 8 * line))] for step in steps)
        for line in range(height - 1, -1, -1)
    ]
