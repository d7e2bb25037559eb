"""``mergesvm calibrate``: fit the probabilities of a model on held-out rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

import mergesvm as ms
from mergesvm.cli.command import command
from mergesvm.cli.console import ConsoleOptions, Force, Model, Output, dropped_rows, numeric_table
from mergesvm.cli.data_options import LABELLED_DATA, DataOptions
from mergesvm.cli.outputs import check_distinct, check_output, files_of

if TYPE_CHECKING:
    from mergesvm.analysis.evaluation import Evaluation

MIN_ROWS_FOR_ISOTONIC = 1000
"""With fewer rows isotonic regression overfits, as scikit-learn advises."""


@command("mergesvm calibrate model.msvm heldout.parquet --label y -o calibrated.msvm")
def calibrate_command(
    model: Model,
    data: Annotated[DataOptions, LABELLED_DATA],
    output: Output,
    method: Annotated[
        str, typer.Option(help=f"isotonic, or platt, which is better for fewer than {MIN_ROWS_FOR_ISOTONIC:,} rows.")
    ] = "isotonic",
    force: Force = False,
    *,
    printing: ConsoleOptions,
) -> None:
    """Calibrate the probabilities of a model on held-out rows; its predictions do not change."""
    from mergesvm.models.calibration import check_method

    console = printing.console()
    check_method(method)
    check_output(output, force)
    solved = ms.load_model(model)
    source = data.scan(like=solved)
    check_distinct([output], [model, data.label, *files_of(source)])
    with console.progress("calibrating") as progress:
        calibrated = solved.calibrated(source, method=method, progress=progress)
    with console.progress("comparing") as progress:
        before, after = _compared(solved, calibrated, source, progress)
    calibrated.save(output, overwrite=force)
    fitted = calibrated.calibration_
    assert fitted is not None
    too_few = method == "isotonic" and fitted.rows < MIN_ROWS_FOR_ISOTONIC
    table = numeric_table("on the calibration rows", "before", "after")
    table.add_row("Brier score", f"{before.brier:.4f}", f"{after.brier:.4f}")
    table.add_row("log-loss", f"{before.log_loss:.4f}", f"{after.log_loss:.4f}")
    console.out.print(table)
    console.text("The model was calibrated on these rows: on other rows the gain is smaller.")
    if too_few:
        console.text(
            f"Warning: isotonic regression overfits on fewer than {MIN_ROWS_FOR_ISOTONIC:,} rows, and there are "
            f"{fitted.rows:,}. Hold out more rows, or use --method platt."
        )
    console.text(f"calibrated by {method} on {fitted.rows:,} rows{dropped_rows(source.dropped)}")
    console.written(output)
    console.result(
        output=output,
        method=method,
        rows=fitted.rows,
        dropped=source.dropped,
        few_rows=too_few,
        compared_on="the rows it was calibrated on",
        before={"brier": before.brier, "log_loss": before.log_loss},
        after={"brier": after.brier, "log_loss": after.log_loss},
    )


def _compared(solved: Any, calibrated: Any, source: ms.Scan, progress: Any) -> tuple[Evaluation, Evaluation]:
    """Evaluate both models in one pass, because they have the same scores."""
    from mergesvm.analysis.evaluation import Evaluation

    before, after = Evaluation(solved.labels), Evaluation(solved.labels)
    for part in source:
        if part.rows.n_rows:
            truth = part.label_array()
            scores = solved.scores(part.rows)
            predicted = solved.classes_[solved.winners(scores)]
            before.add(truth, predicted, solved.probabilities(scores), part.weights)
            after.add(truth, predicted, calibrated.probabilities(scores), part.weights)
        progress(source)
    return before, after
