"""Write predictions to a table file, slice by slice."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import csv

from mergesvm.data.slice import Slice
from mergesvm.files.atomic import replacing
from mergesvm.models.base import Model

SUFFIXES = (".parquet", ".feather", ".arrow", ".csv")

ARROW_TYPES = {"text": pa.string(), "whole number": pa.int64(), "decimal": pa.float64(), "boolean": pa.bool_()}


class PredictionWriter:
    """A table of the copied columns, the prediction and optionally the probabilities, in the order of the rows.

    A file appears under its name when it is complete. Without a path, CSV is written to standard output.

    Parameters
    ----------
    path : Path or None
    model : Model
    probabilities : bool
        Whether to add a column for the probability of each class.
    """

    def __init__(self, path: Path | None, model: Model, probabilities: bool) -> None:
        self.path = path
        self.model = model
        self.probabilities = probabilities
        self._stack = ExitStack()
        self._writer: Any = None

    def __enter__(self) -> Self:
        self._target: Any = sys.stdout.buffer if self.path is None else self._stack.enter_context(replacing(self.path))
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
        columns = {} if copied is None else {name: copied.column(name) for name in copied.schema.names}
        kind = ARROW_TYPES[self.model.signature.labels or "text"]
        columns["prediction"] = _placed(pa.array(predicted.tolist(), kind), kept)
        if self.probabilities:
            values = np.empty((0, len(self.model.labels))) if probabilities is None else probabilities
            for label, of_class in zip(self.model.labels, values.T, strict=True):
                columns[f"probability {label}"] = _placed(pa.array(of_class), kept)
        return pa.table(columns)

    def _open(self, table: pa.Table) -> None:
        suffix = ".csv" if self.path is None else self.path.suffix.lower()
        if suffix == ".parquet":
            self._writer = pq.ParquetWriter(self._target, table.schema)
        elif suffix == ".csv":
            self._writer = csv.CSVWriter(self._target, table.schema)
        else:
            self._writer = pa.ipc.new_file(self._target, table.schema)


def _placed(values: pa.Array, kept: NDArray[np.bool_] | None) -> pa.Array:
    """Values at the rows that were kept, null at the others."""
    if kept is None:
        return values
    places = pa.array(np.cumsum(kept) - 1, mask=~kept)
    return values.take(places)
