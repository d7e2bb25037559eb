"""``mergesvm predict``: a model and rows in, a table of predictions out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mergesvm.cli.command import command
from mergesvm.cli.console import check_output
from mergesvm.cli.data_options import NEW_DATA, DataOptions
from mergesvm.cli.options import ConsoleOptions, Force, Model
from mergesvm.cli.parsing import as_list
from mergesvm.cli.prediction_writer import SUFFIXES, PredictionWriter
from mergesvm.models.load import load_model


@command("mergesvm predict model.msvm new.csv -o predictions.parquet")
def predict_command(
    model: Model,
    data: Annotated[DataOptions, NEW_DATA],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A .parquet, .feather or .csv file (default: CSV to standard output)."),
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="Columns to copy to the output, such as an identifier.")
    ] = None,
    probabilities: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
    force: Force = False,
    *,
    printing: ConsoleOptions,
) -> None:
    """Predict the class of each row.

    Predictions are in the order of the rows. Rows dropped for missing values have an empty prediction.
    """
    console = printing.console(silent=output is None)
    check_output(output, force, *SUFFIXES)
    solved = load_model(model)
    source = data.scan(like=solved, keep=as_list(keep) or ())
    with console.progress("predicting") as progress, PredictionWriter(output, solved, probabilities) as writer:
        for part in source:
            rows = part.rows if part.rows.n_rows else None
            writer.write(
                solved.predict(rows) if rows else solved.classes_[:0],
                solved.predict_proba(rows) if probabilities and rows else None,
                part,
            )
            progress(source)
    dropped = f", {source.dropped:,} without a prediction" if source.dropped else ""
    console.text(f"{source.rows:,} rows predicted{dropped}")
    console.written(output)
    console.result(output=output, rows=source.rows, dropped=source.dropped)
