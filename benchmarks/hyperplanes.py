"""Accuracy of two hyperplanes on the narrow rows of ``make_files``: on new rows, and its expected value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import owens_t

import make_files


@dataclass
class Hyperplane:
    """A linear classifier: class 1 if ``weights.x + intercept > 0``."""

    weights: np.ndarray
    intercept: float

    def is_right(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (X @ self.weights + self.intercept > 0) == y

    def expected_accuracy(self) -> float:
        """Accuracy over the distribution of the rows: 1/2 + 2 T(b / |w|, r / sqrt(1 - r^2)), T of Owen.

        Rows and noise are normal, so the score and the latent variable of the label are, too; r is their correlation.
        """
        truth = make_files.narrow_weights().astype(np.float64)
        length = np.linalg.norm(self.weights)
        correlation = self.weights @ truth / (length * np.sqrt(truth @ truth + make_files.NOISE**2))
        return float(0.5 + 2 * owens_t(self.intercept / length, correlation / np.sqrt(1 - correlation**2)))


@dataclass
class PairedCounts:
    """Numbers of rows that two classifiers predict correctly, and that only one of them does."""

    rows: int = 0
    ours: int = 0
    theirs: int = 0
    ours_alone: int = 0
    theirs_alone: int = 0

    @property
    def difference(self) -> float:
        """Difference of the accuracies."""
        return (self.ours - self.theirs) / self.rows

    @property
    def error(self) -> float:
        """Standard error of the difference."""
        return float(np.sqrt((self.ours_alone + self.theirs_alone) / self.rows - self.difference**2) / self.rows**0.5)


def compare(ours: Hyperplane, theirs: Hyperplane, rows: int) -> PairedCounts:
    """Compare on at least the given number of rows that are in no file, block by block."""
    counts = PairedCounts()
    for number in range(-(-rows // make_files.GROUP_ROWS)):
        # The block HELD_OUT_BLOCK itself holds the test rows of other benchmarks.
        X, y = make_files.narrow_block(make_files.HELD_OUT_BLOCK + 1 + number, make_files.GROUP_ROWS)
        one, other = ours.is_right(X, y), theirs.is_right(X, y)
        counts.rows += len(y)
        counts.ours += int(one.sum())
        counts.theirs += int(other.sum())
        counts.ours_alone += int((one & ~other).sum())
        counts.theirs_alone += int((other & ~one).sum())
    return counts
