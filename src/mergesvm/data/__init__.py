"""Rows from anywhere as validated batches: numpy, scipy sparse, pandas, polars and Arrow, with labels and weights."""

from mergesvm.data.batch import Batch
from mergesvm.data.columns import ColumnRows
from mergesvm.data.dense import DenseRows
from mergesvm.data.door import as_rows
from mergesvm.data.labels import Labels, label_array
from mergesvm.data.reader import Layout, Slice
from mergesvm.data.rows import Rows, spans
from mergesvm.data.scan import Scan, scan
from mergesvm.data.sparse import SparseRows

__all__ = [
    "Batch",
    "ColumnRows",
    "DenseRows",
    "Labels",
    "Layout",
    "Rows",
    "Scan",
    "Slice",
    "SparseRows",
    "as_rows",
    "label_array",
    "scan",
    "spans",
]
