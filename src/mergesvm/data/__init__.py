"""Rows from anywhere as validated batches: numpy, scipy sparse, pandas, polars and Arrow, with labels and weights."""

from mergesvm.data.batch import Batch
from mergesvm.data.dense import DenseRows
from mergesvm.data.door import as_rows
from mergesvm.data.labels import Labels, label_array
from mergesvm.data.rows import Rows, spans
from mergesvm.data.sparse import SparseRows

__all__ = ["Batch", "DenseRows", "Labels", "Rows", "SparseRows", "as_rows", "label_array", "spans"]
