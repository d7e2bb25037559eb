"""Predictions as a table, written as they come."""

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

from mergesvm.data.readers.base import Slice
from mergesvm.files.atomic import replacing
from mergesvm.models.base import Model

SUFFIXES = (".parquet", ".feather", ".arrow", ".csv")

KINDS = {"text": pa.string(), "whole number": pa.int64(), "decimal": pa.float64(), "boolean": pa.bool_()}


class PredictionWriter:
    """A table of the columns kept, the prediction and perhaps the probabilities, in the order of the rows.

    The file gets its name when all is written; without a file, CSV goes to the screen.
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
        """Write the predictions of one slice."""
        table = self._table(predicted, probabilities, part.kept, part.table)
        if self._writer is None:
            self._open(table)
        self._writer.write_table(table)

    def _table(
        self, predicted: NDArray[Any], probabilities: Any, kept: NDArray[np.bool_] | None, beside: Any
    ) -> pa.Table:
        columns = {} if beside is None else {name: beside.column(name) for name in beside.schema.names}
        kind = KINDS[self.model.signature.labels or "text"]
        columns["prediction"] = _placed(pa.array(predicted.tolist(), kind), kept)
        if self.probabilities:
            shares = np.empty((0, len(self.model.labels))) if probabilities is None else probabilities
            for label, share in zip(self.model.labels, shares.T, strict=True):
                columns[f"probability {label}"] = _placed(pa.array(share), kept)
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
    """Values at the rows that were kept, and nothing at the others."""
    if kept is None:
        return values
    places = pa.array(np.cumsum(kept) - 1, mask=~kept)
    return values.take(places)
