"""Accuracy by C on held-out training rows."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mergesvm.engines.threads import Threads
from mergesvm.reproduce.recursive.binary_tasks import Split
from mergesvm.reproduce.recursive.contenders import BLOCKS, LIBLINEAR, SGD_EPOCHS, learned
from mergesvm.reproduce.recursive.row_file import RowFile

SWEPT = {"recursive": BLOCKS, "LIBLINEAR": LIBLINEAR, "SGD": SGD_EPOCHS}
"""The methods that have a C; the recursion in blocks gives the coefficients of that row by row."""

HELD_OUT_FRACTION = 0.2


@dataclass(frozen=True)
class Curve:
    """Accuracy of one method on held-out rows in per cent, for each C."""

    method: str
    Cs: tuple[float, ...]
    accuracies: tuple[float, ...]

    @property
    def best(self) -> float:
        """The smallest C with the highest accuracy."""
        return self.Cs[int(np.argmax(self.accuracies))]

    @property
    def span(self) -> float:
        """Difference of the highest and the lowest accuracy."""
        return max(self.accuracies) - min(self.accuracies)


def sweep(split: Split, Cs: tuple[float, ...], max_rows: int, seed: int) -> dict[str, Curve]:
    """Learn from the first training rows with each C, and test on the training rows after them."""
    n_rows = min(max_rows, len(split.y))
    cut = round((1 - HELD_OUT_FRACTION) * n_rows)
    part = replace(split, X=split.X[:cut], y=split.y[:cut], test=split.X[cut:n_rows], truth=split.y[cut:n_rows])
    held_out = part.standardised(part.test)
    curves = {}
    with tempfile.TemporaryDirectory() as folder, Threads.single_threaded_blas():
        rows = RowFile.write(Path(folder), part)
        for method, name in SWEPT.items():
            hyperplanes = [learned(name, rows, C, seed) for C in Cs]
            found = tuple(part.accuracy(hyperplane.coefs, hyperplane.intercept, held_out) for hyperplane in hyperplanes)
            curves[method] = Curve(method, Cs, found)
    return curves
