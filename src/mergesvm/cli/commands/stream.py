"""The command that follows a stream: every row is predicted, and then learned."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console as RichConsole
from rich.console import Group
from rich.live import Live
from rich.text import Text

from mergesvm.cli.commands.knowing import facts, features_from, has_layout
from mergesvm.cli.console import Console, check_output, printable
from mergesvm.cli.data_options import Reading, reads
from mergesvm.cli.open_files import open_any
from mergesvm.cli.options import AsJson, Debug, Force, Quiet, as_weights
from mergesvm.data.scan import Scan
from mergesvm.errors import ParameterError
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.recursive.live import LiveModel
from mergesvm.methods.recursive.options import RecursiveOptions
from mergesvm.methods.recursive.prequential import Prequential
from mergesvm.report.charts.pictures import KINDS, save_stream_picture
from mergesvm.report.charts.terminal import plot_lines

SLICE_ROWS = 4096
"""Rows are read so many at a time, so that there is something to see."""

REFRESH_SECONDS = 0.25


@reads(batch_rows=SLICE_ROWS)
def stream_command(
    reading: Reading,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write the model of the end, as a model file.")
    ] = None,
    knowledge: Annotated[
        Path | None, typer.Option(help="Where to write the knowledge of all rows that count, which can be merged.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Where to save a picture of the accuracy: .png, .svg or .pdf.")
    ] = None,
    begin: Annotated[
        Path | None, typer.Option("--from", help="Knowledge to go on from, instead of beginning with nothing.")
    ] = None,
    C: Annotated[float, typer.Option("--C", "-C", help="The larger, the closer to the data.")] = 1.0,
    class_weight: Annotated[str, typer.Option(help="none, or class=weight,class=weight.")] = "none",
    forgetting: Annotated[
        float, typer.Option(help="By what factor a row weighs less when the next one comes; 1 to forget nothing.")
    ] = 1.0,
    window: Annotated[int | None, typer.Option(min=1, help="Let only the last so many rows count.")] = None,
    free_intercept: Annotated[
        bool, typer.Option("--free-intercept", help="Do not penalise the intercept, as the paper does not.")
    ] = False,
    features: Annotated[
        str | None, typer.Option(help="A feature map: by name, as fourier:200, or that of a file of plan.")
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="Rows for one point of the plot, to begin with.")] = 500,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Follow a stream row by row: predict each, then learn it, and show how accuracy goes as it runs."""
    talk = Console(quiet, as_json)
    check_output(output, force)
    check_output(knowledge, force)
    check_output(picture, force, *KINDS)
    if output is not None and knowledge is not None and output.resolve() == knowledge.resolve():
        raise ParameterError(f"The model and the knowledge cannot both be written to {output}. Choose two names.")
    earlier = None if begin is None else open_any(begin)
    if isinstance(earlier, Folds):
        earlier = earlier.total
    if earlier is not None and not isinstance(earlier, Knowledge):
        raise ParameterError(f"{begin} holds no knowledge. A stream goes on from what learn or merge has written.")
    mapping = features_from(features, earlier)
    if earlier is not None and mapping != earlier.features:
        raise ParameterError(f"{begin} was learned with features {earlier.features}. Leave --features out.")
    source = reading.scan(like=earlier or (mapping if has_layout(mapping) else None))
    weights = as_weights(class_weight, None if earlier is None else earlier.signature.labels, source)
    options = RecursiveOptions(C, weights, not free_intercept, forgetting, window)
    if earlier is not None:
        live = LiveModel.of(earlier, options)
    else:
        layout = source.layout
        live = LiveModel(Signature(mapping.freeze(source), layout.width, layout.names, layout.categories), options)
    test = Prequential(live, every)
    with _shown(talk, source, test) as show:
        for batch in live.batches(source):
            test.update(batch)
            show()
    if output is not None:
        live.model().save(output)
    if knowledge is not None:
        live.knowledge().save(knowledge)
    drawn = picture is not None and save_stream_picture(picture, test.points, test.accuracy)
    unused = sorted(str(label) for label in weights or {} if label not in live.labels)
    if unused:
        talk.out.print(printable(f"No row was of class {', '.join(unused)}, to which --class-weight gave a weight."))
    _tell(talk, source, test, [path for path in (output, knowledge, picture if drawn else None) if path is not None])
    if picture is not None and not drawn:
        talk.out.print(
            "No picture: matplotlib is not installed. Install it with: pip install 'mergesvm[plots]'", markup=False
        )
    talk.result(
        accuracy=test.accuracy,
        frequent=test.baseline_accuracy,
        points=test.points,
        drift=max((check.drift for check in live.checks), default=0.0),
        dropped=source.dropped,
        output=output,
        knowledge=knowledge,
        picture=picture if drawn else None,
        **{**facts(live.knowledge()), "rows": test.rows},
    )


@contextmanager
def _shown(talk: Console, source: Scan, test: Prequential) -> Iterator[Any]:
    """A function to be called after each slice, which draws the plot anew, where someone is looking."""
    console, began = RichConsole(stderr=True), time.perf_counter()
    if talk.silent or not console.is_terminal:
        yield lambda: None
        return
    last = began

    def show() -> None:
        nonlocal last
        moment = time.perf_counter()
        if moment - last > REFRESH_SECONDS:
            last = moment
            speed = f"{source.share:.0%} read, {test.rows:,} rows, {test.rows / (moment - began):,.0f} rows/s"
            plot = plot_lines([point[1] for point in test.points], max(16, console.width - 12))
            live.update(Group(*(Text(line) for line in (*plot, f"{speed}; {_accuracies(test)}"))), refresh=True)

    with Live(console=console, auto_refresh=False, transient=True) as live:
        live.update(Text("getting ready; on a new machine that compiles for some seconds, once"), refresh=True)
        yield show


def _accuracies(test: Prequential) -> str:
    shares = (100 * share for share in (test.accuracy, test.recent_accuracy, test.baseline_accuracy))
    return "accuracy {:.2f} %, lately {:.2f} %, most frequent class {:.2f} %".format(*shares)


def _tell(talk: Console, source: Scan, test: Prequential, written: list[Path]) -> None:
    plot = plot_lines([point[1] for point in test.points], max(16, min(72, talk.out.width - 12)))
    checks = test.live.checks
    drift = max((check.drift for check in checks), default=0.0)
    times = "once" if len(checks) == 1 else f"{len(checks)} times"
    checked = f" The coefficients were checked {times}, and off by {drift:.0e} at most." if checks else ""
    dropped = f", {source.dropped:,} rows with missing values left out" if source.dropped else ""
    lines = [
        *plot,
        f"{test.rows:,} rows, each predicted before it was learned: {_accuracies(test)}{dropped}." + checked,
        *(f"written to {path}" for path in written),
    ]
    talk.out.print(printable("\n".join(lines)), markup=False)
