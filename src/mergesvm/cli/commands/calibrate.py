"""The command that fits the probabilities of a model on rows kept back."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from mergesvm.analysis.evaluation import Evaluation
from mergesvm.cli.console import Console, check_output, printable
from mergesvm.cli.data_options import KNOWN, Reading, reads
from mergesvm.cli.options import AsJson, Debug, Force, Model, Output, Quiet
from mergesvm.data.labels import Coded
from mergesvm.data.scan import Scan
from mergesvm.models.calibration import FEW, check_method
from mergesvm.models.formats.native import load_model


@reads("label", *KNOWN)
def calibrate_command(
    model: Model,
    reading: Reading,
    output: Output,
    method: Annotated[
        str, typer.Option(help="isotonic, for a thousand rows and more, or platt, for few.")
    ] = "isotonic",
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Fit the probabilities of a model on rows that it was not learned from. Predictions stay as they are."""
    talk = Console(quiet, as_json)
    check_method(method)
    check_output(output, force)
    solved = load_model(model)
    source = reading.scan(like=solved)
    with talk.progress("calibrating") as progress:
        calibrated = solved.calibrated(source, method=method, progress=progress)
    with talk.progress("comparing") as progress:
        before, after = _compared(solved, calibrated, source, progress)
    calibrated.save(output)
    fitted = calibrated.calibration_
    assert fitted is not None
    few = method == "isotonic" and fitted.rows < FEW
    _print(talk, before, after)
    if few:
        talk.out.print(
            f"Warning: {fitted.rows:,} rows are few for isotonic regression, which follows them too closely below "
            f"{FEW:,}. Keep more rows back, or choose --method platt."
        )
    dropped = f", {source.dropped:,} rows with missing values left out" if source.dropped else ""
    talk.out.print(
        printable(f"calibrated by {method} on {fitted.rows:,} rows{dropped}\nwritten to {output}"), markup=False
    )
    talk.result(
        output=output,
        method=method,
        rows=fitted.rows,
        dropped=source.dropped,
        few_rows=few,
        compared_on="the rows it was calibrated on",
        before={"brier": before.brier, "log_loss": before.log_loss},
        after={"brier": after.brier, "log_loss": after.log_loss},
    )


def _compared(solved: Any, calibrated: Any, source: Scan, progress: Any) -> tuple[Evaluation, Evaluation]:
    """How good the probabilities are without calibration and with it; both read the same scores."""
    before, after = Evaluation(solved.labels), Evaluation(solved.labels)
    for part in source:
        if part.rows.n_rows:
            truth = part.labels.to_array() if isinstance(part.labels, Coded) else part.labels
            scores = solved.scores(part.rows)
            predicted = solved.classes_[solved.winners(scores)]
            before.add(truth, predicted, solved.shares(scores), part.weights)
            after.add(truth, predicted, calibrated.shares(scores), part.weights)
        progress(source)
    return before, after


def _print(talk: Console, before: Evaluation, after: Evaluation) -> None:
    table = Table("on the same rows", "before", "after")
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("Brier score", f"{before.brier:.4f}", f"{after.brier:.4f}")
    table.add_row("log-loss", f"{before.log_loss:.4f}", f"{after.log_loss:.4f}")
    talk.out.print(table)
    talk.out.print("These are the rows it was calibrated on: on others the gain is less.")
