"""``mergesvm predict``: a model and rows in, a table of predictions out."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

import mergesvm as ms
from mergesvm.cli import streams
from mergesvm.cli.command import command
from mergesvm.cli.console import ConsoleOptions, Force, Model
from mergesvm.cli.data_options import NEW_DATA, DataOptions
from mergesvm.cli.outputs import check_distinct, check_output, files_of
from mergesvm.cli.parsing import as_list
from mergesvm.errors import ParameterError
from mergesvm.files.atomic import replacing

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from mergesvm.data.slice import Slice
    from mergesvm.models.base import Model as AnyModel

SUFFIXES = (".parquet", ".feather", ".arrow", ".csv")

ARROW_TYPES = {"text": "string", "whole number": "int64", "decimal": "float64", "boolean": "bool"}


@command("mergesvm predict model.msvm new.csv -o predictions.parquet")
def predict_command(
    model: Model,
    data: Annotated[DataOptions, NEW_DATA],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A .parquet, .feather or .csv file (default: CSV to standard output)."),
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="Columns to copy unchanged to the output, such as an identifier.")
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
    if output is None and streams.stdout_closed:
        raise ParameterError("Standard output is closed. Name a file to write with --output.")
    check_output(output, force, *SUFFIXES)
    solved = ms.load_model(model)
    source = data.scan(like=solved, keep=as_list(keep) or ())
    check_distinct([output], [model, *files_of(source)])
    with (
        console.progress("predicting") as progress,
        PredictionWriter(output, solved, probabilities, overwrite=force) as writer,
    ):
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


class PredictionWriter:
    """A table of the copied columns, the prediction and optionally the probabilities, in the order of the rows.

    A file appears under its name when it is complete. Without a path, CSV is written to standard output.
    """

    def __init__(self, path: Path | None, model: AnyModel, probabilities: bool, *, overwrite: bool = True) -> None:
        self.path = path
        self.overwrite = overwrite
        self.model = model
        self.probabilities = probabilities
        self._stack = ExitStack()
        self._writer: Any = None

    def __enter__(self) -> Self:
        self._target: Any = (
            sys.stdout.buffer
            if self.path is None
            else self._stack.enter_context(replacing(self.path, overwrite=self.overwrite))
        )
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is None and self._writer is None:
            self._open(self._table(self.model.classes_[:0], None, None, None))
        if self._writer is not None:
            self._writer.close()
        self._stack.__exit__(*error)

    def write(self, predicted: NDArray[Any], probabilities: NDArray[np.float64] | None, part: Slice) -> None:
        """Write the predictions of a slice."""
        table = self._table(predicted, probabilities, part.kept, part.table)
        if self._writer is None:
            self._open(table)
        self._writer.write_table(table)

    def _table(
        self, predicted: NDArray[Any], probabilities: Any, kept: NDArray[np.bool_] | None, copied: Any
    ) -> pa.Table:
        import numpy as np
        import pyarrow as pa

        columns = {} if copied is None else {name: copied.column(name) for name in copied.schema.names}
        kind = pa.type_for_alias(ARROW_TYPES[self.model.signature.labels or "text"])
        columns["prediction"] = _placed(pa.array(predicted.tolist(), kind), kept)
        if self.probabilities:
            values = np.empty((0, len(self.model.labels))) if probabilities is None else probabilities
            for label, of_class in zip(self.model.labels, values.T, strict=True):
                columns[f"probability {label}"] = _placed(pa.array(of_class), kept)
        return pa.table(columns)

    def _open(self, table: pa.Table) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyarrow import csv

        suffix = ".csv" if self.path is None else self.path.suffix.lower()
        if suffix == ".parquet":
            self._writer = pq.ParquetWriter(self._target, table.schema)
        elif suffix == ".csv":
            self._writer = csv.CSVWriter(self._target, table.schema)
        else:
            self._writer = pa.ipc.new_file(self._target, table.schema)


def _placed(values: pa.Array, kept: NDArray[np.bool_] | None) -> pa.Array:
    """Values at the rows that were kept, null at the others."""
    import numpy as np
    import pyarrow as pa

    if kept is None:
        return values
    places = pa.array(np.cumsum(kept) - 1, mask=~kept)
    return values.take(places)
