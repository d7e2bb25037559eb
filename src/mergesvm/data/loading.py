"""Load all rows of files into memory, for methods that need rows at hand."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.batch import Batch
from mergesvm.data.division import divided
from mergesvm.data.label_encoding import EncodedLabels
from mergesvm.data.rows.base import Rows
from mergesvm.data.rows.convert import STORED_TYPES, as_rows, copy_of_rows
from mergesvm.data.rows.sparse import DensifiedRows
from mergesvm.data.scan import MIN_PART_BYTES, Scan
from mergesvm.engines.base import Engine
from mergesvm.engines.machine import check_memory
from mergesvm.errors import DataError


def load(scan: Scan, *, copies: int = 1, empty: bool = False) -> Batch:
    """Read all rows of a scan, with labels and weights, into one batch. Zero rows are an error unless ``empty``.

    Dense rows are kept in the narrowest type of :data:`STORED_TYPES` that holds all of them, sparse rows as CSR.
    Rows that do not fit into memory in this number of ``copies`` are refused once the size of the first is known.

    >>> import mergesvm as ms, numpy as np, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for day in range(2):
    ...         np.save(pathlib.Path(folder, f"day{day}.npy"), np.full((2, 3), day, dtype=np.uint8))
    ...     batch = load(ms.scan(f"{folder}/*.npy", label=-1))
    >>> batch.rows.block(1, 3), batch.labels.codes
    (array([[0, 0], [1, 1]], dtype=uint8), array([0, 0, 1, 1], dtype=int8))
    """
    batch = scan.settled(lambda: _load(scan, copies))
    if not (batch.rows.n_rows or empty):
        what = "all rows have missing values" if scan.dropped else "there are no rows"
        raise DataError(f"There is nothing to learn in {scan.name}: {what}.")
    return batch


def load_own(scan: Scan, engine: Engine, *, copies: int = 1) -> Batch:
    """Read all rows; under MPI the part of this rank, of the files of all ranks or its own files, perhaps no rows."""
    ranks, count = engine.ranks, engine.workers
    if not ranks.spmd:
        return load(scan, copies=copies)
    if is_small(scan, engine):
        parts = list(ranks.on_all(lambda: load(scan, copies=copies)).slices(count))
        empty = Batch(copy_of_rows(parts[0].rows, 0, 0), parts[0].labels.part(0, 0), None)
        return parts[ranks.rank] if ranks.rank < len(parts) else empty

    def read(parts: list[Scan]) -> Batch:
        at = 0 if ranks.own_files else ranks.rank
        part = parts[at] if at < len(parts) else scan.with_readers([])
        batch = ranks.on_all(lambda: load(part, copies=copies, empty=True))
        counts = engine.map(lambda _: (part.rows, part.dropped), range(count))
        scan.rows, scan.dropped = (sum(numbers) for numbers in zip(*counts, strict=True))
        scan.fraction = 1.0
        return batch

    return divided(scan, engine, count, read)


def is_small(scan: Scan, engine: Engine) -> bool:
    """Whether files of all workers are so small that they are divided evenly after all rows have been read."""
    return not engine.ranks.own_files and scan.size <= engine.workers * MIN_PART_BYTES


def _load(scan: Scan, copies: int) -> Batch:
    kept = _Matrix(scan.width)
    labels, weights = [], []
    with closing(iter(scan)) as slices:  # type: ignore[type-var]
        for part in slices:
            if not part.rows.n_rows:
                continue
            batch = part.batch()
            batch.rows.check_finite()  # names the file
            block = stored_matrix(batch.rows)
            total = scan.n_rows() or round(scan.rows / max(scan.fraction, 1e-9))
            _check_fits(scan, total, copies * (kept.bytes + _bytes_of(block)) * total / scan.rows)
            kept.append(block, total)
            labels.append(batch.labels)
            weights.append(batch.weights)
    rows = as_rows(kept.finished(), empty=True)
    rows.names, rows.categories = scan.layout.names, scan.layout.categories
    known = [each for each in weights if each is not None]
    return Batch(rows, EncodedLabels.joined(labels), np.concatenate(known) if known else None)


def _check_fits(scan: Scan, total: int, needed: float) -> None:
    rows = f"about {total:,}" if scan.n_rows() is None else f"{total:,}"
    check_memory(
        int(needed),
        f"Training on {scan.name} needs its rows in memory: {rows} rows x {scan.width:,} features, which",
        "Use fewer rows or columns, or learn, which keeps only sums.",
    )


def stored_matrix(rows: Rows) -> Any:
    """Return all rows as an array of one of :data:`STORED_TYPES`, or as CSR if that is how they are stored."""
    if isinstance(rows, DensifiedRows):
        rows = rows.rows  # random access to rows of CSR is as fast as to dense rows, whatever the density
    matrix = rows.block(0, rows.n_rows)
    if matrix.dtype == bool and isinstance(matrix, np.ndarray):
        return matrix.view(np.uint8)
    return matrix if matrix.dtype in STORED_TYPES else matrix.astype(np.float64)


def _bytes_of(matrix: Any) -> int:
    parts = (matrix,) if isinstance(matrix, np.ndarray) else (matrix.data, matrix.indices, matrix.indptr)
    return sum(part.nbytes for part in parts)


class _Matrix:
    """Blocks of rows that are joined into one matrix, sparse if the first block is."""

    def __init__(self, width: int) -> None:
        self.n_rows, self.bytes = 0, 0
        self._dense: NDArray[Any] = np.empty((0, width), dtype=np.uint8)
        self._sparse: list[Any] = []

    def append(self, block: Any, expected: int) -> None:
        """Append rows; ``expected`` is the probable number of all rows."""
        if self._sparse or not (self.n_rows or isinstance(block, np.ndarray)):
            self._sparse.append(sparse.csr_array(block))
        else:
            self._append_dense(block if isinstance(block, np.ndarray) else block.toarray(), expected)
        self.n_rows += block.shape[0]
        self.bytes += _bytes_of(block)

    def _append_dense(self, block: NDArray[Any], expected: int) -> None:
        needed = self.n_rows + len(block)
        if not self.n_rows:
            self._dense = np.empty((max(needed, expected), block.shape[1]), dtype=block.dtype)
        common = np.result_type(self._dense, block)
        if common != self._dense.dtype:
            self._dense = self._dense.astype(common if common in STORED_TYPES else np.float64)
        if needed > len(self._dense):
            self._resize(max(needed, expected, len(self._dense) * 5 // 4))
        self._dense[self.n_rows : needed] = block

    def _resize(self, n_rows: int) -> None:
        # In place: a copy would need the memory twice.
        self._dense.resize((n_rows, self._dense.shape[1]), refcheck=False)

    def finished(self) -> Any:
        """Return all rows."""
        if self._sparse:
            return sparse.vstack(self._sparse, format="csr")
        self._resize(self.n_rows)
        return self._dense
