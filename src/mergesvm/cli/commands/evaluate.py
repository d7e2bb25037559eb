"""``mergesvm evaluate``: compare the predictions of a model with true labels."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import Annotated

import typer

import mergesvm as ms
from mergesvm.cli.command import command
from mergesvm.cli.console import ConsoleOptions, Force, Model, numeric_table, short_number, table_cell
from mergesvm.cli.data_options import LABELLED_DATA, DataOptions
from mergesvm.cli.outputs import check_distinct, check_output, files_of


@command("mergesvm evaluate model.msvm test.parquet --label y --report report.html")
def evaluate_command(
    model: Model,
    data: Annotated[DataOptions, LABELLED_DATA],
    report: Annotated[Path | None, typer.Option(help="HTML page with all curves to write, or a .json file.")] = None,
    force: Force = False,
    *,
    printing: ConsoleOptions,
) -> None:
    """Compare predictions with true labels: accuracy, precision, recall and more."""
    from mergesvm.reports.write import SUFFIXES

    console = printing.console()
    check_output(report, force, *SUFFIXES)
    solved = ms.load_model(model)
    source = data.scan(like=solved)
    check_distinct([report], [model, data.label, *files_of(source)])
    with console.progress("evaluating") as progress:
        evaluation = ms.evaluate(solved, source, progress=progress)
    console.text(
        f"accuracy {evaluation.accuracy:.4f}, balanced accuracy {evaluation.balanced_accuracy:.4f}, "
        f"{evaluation.rows:,} rows"
    )
    table = numeric_table("class", "precision", "recall", "F1", "weight" if evaluation.weighted else "rows")
    lines = zip(
        evaluation.labels, evaluation.precision, evaluation.recall, evaluation.f1, evaluation.support, strict=True
    )
    for label, *scores, support in lines:
        cells = ("-" if isnan(score) else f"{score:.4f}" for score in scores)
        table.add_row(table_cell(label), *cells, short_number(support))
    console.out.print(table)
    if report is not None:
        facts = {"File": str(model), "Data": ", ".join(data.files), "Dropped rows": f"{source.dropped:,}"}
        evaluation.report(report, title=f"{model.name} on {Path(data.files[0]).name}", facts=facts, overwrite=force)
    console.written(report)
    console.result(report=report, dropped=source.dropped, **evaluation.summary())
