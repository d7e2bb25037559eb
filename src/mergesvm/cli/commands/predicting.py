"""Commands on models: predict and evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from mergesvm.analysis.evaluation import Evaluation, evaluate
from mergesvm.cli.console import Console, check_output, printable, said
from mergesvm.cli.data_options import KNOWN, Reading, reads
from mergesvm.cli.options import AsJson, Debug, Force, Model, Quiet, as_list
from mergesvm.cli.prediction_writer import SUFFIXES, PredictionWriter
from mergesvm.files.atomic import write_atomically
from mergesvm.knowledge.provenance import now
from mergesvm.models.formats.native import load_model
from mergesvm.multiclass.decomposition import MULTICLASS_SCHEMES
from mergesvm.report.evaluation_page import report_page


@reads(*KNOWN[1:])
def predict_command(
    model: Model,
    reading: Reading,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A .parquet, .feather or .csv file; CSV on the screen if none."),
    ] = None,
    keep: Annotated[list[str] | None, typer.Option(help="Columns to carry along, such as an identifier.")] = None,
    probabilities: Annotated[bool, typer.Option("--proba", help="Probabilities of all classes, too.")] = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Predict the class of each row, in the order of the rows. Rows dropped for missing values have no prediction."""
    talk = Console(quiet or output is None, as_json and output is not None)
    check_output(output, force, *SUFFIXES)
    solved = load_model(model)
    source = reading.scan(like=solved, keep=as_list(keep) or ())
    with talk.progress("predicting") as progress, PredictionWriter(output, solved, probabilities) as writer:
        for part in source:
            rows = part.rows if part.rows.n_rows else None
            writer.write(
                solved.predict(rows) if rows else solved.classes_[:0],
                solved.predict_proba(rows) if probabilities and rows else None,
                part,
            )
            progress(source)
    dropped = f", {source.dropped:,} without a prediction" if source.dropped else ""
    talk.out.print(printable(f"{source.rows:,} rows predicted{dropped}\nwritten to {output}"), markup=False)
    talk.result(output=output, rows=source.rows, dropped=source.dropped)


@reads("label", *KNOWN)
def evaluate_command(
    model: Model,
    reading: Reading,
    report: Annotated[Path | None, typer.Option(help="An HTML page to write, with all curves.")] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Compare predictions with true labels: accuracy, balanced accuracy, precision and recall of each class."""
    talk = Console(quiet, as_json)
    check_output(report, force, ".html", ".htm")
    solved = load_model(model)
    source = reading.scan(like=solved)
    with talk.progress("evaluating") as progress:
        evaluation = evaluate(solved, source, progress=progress)
    _print(talk, evaluation)
    if report is not None:
        terms = solved.domain.terms
        facts = {
            "Model": f"{model} ({solved!r})",
            "Data": ", ".join(reading.files),
            "Learned from": f"{int(solved.domain.rows.sum()):,} rows",
            **({"lambda": said(terms["lambda_"])} if "lambda_" in terms else {"C": said(terms["C"])}),
            "Class weights": str(terms["class_weight"] or "none"),
            "Multi-class": MULTICLASS_SCHEMES[terms["multiclass"]],
            "Rows left out": f"{source.dropped:,}",
            "Evaluated": now(),
        }
        page = report_page(evaluation, f"{model.name} on {Path(reading.files[0]).name}", facts)
        write_atomically(report, page.encode())
        talk.out.print(printable(f"written to {report}"), markup=False)
    talk.result(report=report, dropped=source.dropped, **evaluation.summary())


def _print(talk: Console, evaluation: Evaluation) -> None:
    talk.out.print(
        f"accuracy {evaluation.accuracy:.4f}, balanced accuracy {evaluation.balanced_accuracy:.4f}, "
        f"{evaluation.rows:,} rows"
    )
    table = Table("class", "precision", "recall", "F1", "rows")
    for column in table.columns[1:]:
        column.justify = "right"
    lines = zip(
        evaluation.labels, evaluation.precision, evaluation.recall, evaluation.f1, evaluation.support, strict=True
    )
    for name, *shares, support in lines:
        table.add_row(
            escape(printable(name)), *("-" if np.isnan(share) else f"{share:.4f}" for share in shares), said(support)
        )
    talk.out.print(table)
