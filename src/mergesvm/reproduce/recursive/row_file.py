"""Training rows in files, from which methods read them block by block, and the format of Vowpal Wabbit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.reproduce.recursive.binary_tasks import Split

BLOCK_ROWS = 4096
"""Number of rows that are read at a time."""

Block = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class RowFile:
    """Standardised rows and their labels -1 and 1, as raw float64 in two files of a folder."""

    folder: Path
    n_rows: int
    width: int

    @classmethod
    def write(cls, folder: Path, split: Split) -> RowFile:
        """Write the training rows of a split."""
        made = cls(folder, *split.X.shape)
        with made._rows.open("wb") as file:
            for start in range(0, len(split.X), BLOCK_ROWS):
                split.standardised(split.X[start : start + BLOCK_ROWS]).tofile(file)
        split.y.tofile(made._labels)
        return made

    @property
    def _rows(self) -> Path:
        return self.folder / "rows.bin"

    @property
    def _labels(self) -> Path:
        return self.folder / "labels.bin"

    @property
    def vowpal_wabbit_cache(self) -> Path:
        """The file from which Vowpal Wabbit reads."""
        return self.folder / "rows.vw.cache"

    def head(self, n_rows: int) -> RowFile:
        """The first rows."""
        return replace(self, n_rows=min(n_rows, self.n_rows))

    def blocks(self, n_rows: int = BLOCK_ROWS) -> Iterator[Block]:
        """Yield the rows and labels of a block at a time."""
        with self._rows.open("rb") as rows, self._labels.open("rb") as labels:
            for start in range(0, self.n_rows, n_rows):
                count = min(n_rows, self.n_rows - start)
                block = np.fromfile(rows, count=count * self.width).reshape(count, self.width)
                yield block, np.fromfile(labels, count=count)

    def load(self) -> Block:
        """All rows and labels."""
        return next(self.blocks(self.n_rows))


def write_vowpal_wabbit_text(path: Path, X: NDArray[Any], y: NDArray[np.float64]) -> None:
    """Write rows as text of Vowpal Wabbit: a label, a bar, and the columns that are not zero with their values."""
    from sklearn.datasets import dump_svmlight_file

    with path.open("wb") as file:
        for start in range(0, len(X), BLOCK_ROWS):
            text = BytesIO()
            part = slice(start, start + BLOCK_ROWS)
            dump_svmlight_file(X[part].astype(np.float64), y[part], text)
            for line in text.getvalue().splitlines():
                file.write(line.replace(b" ", b" | ", 1) + b"\n")
