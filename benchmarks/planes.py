"""How well two planes tell the narrow rows apart: on fresh rows, row by row, and on all rows that there could be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import owens_t

import make_files


@dataclass
class Plane:
    """A row is of class 1 where its product with the weights, and the intercept, is above zero."""

    weights: np.ndarray
    intercept: float

    def is_right(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (X @ self.weights + self.intercept > 0) == y

    def expected(self) -> float:
        """The share of all rows that there could be, exactly: 1/2 + 2 T(b / |w|, r / sqrt(1 - r^2)), Owen's T.

        Rows and noise are normal, and so are score and truth before their signs are taken; r is their correlation.
        """
        truth = make_files.narrow_weights().astype(np.float64)
        length = np.linalg.norm(self.weights)
        alike = self.weights @ truth / (length * np.sqrt(truth @ truth + make_files.NOISE**2))
        return float(0.5 + 2 * owens_t(self.intercept / length, alike / np.sqrt(1 - alike**2)))


@dataclass
class Beside:
    """Two planes beside each other on the same rows: how many each tells rightly, and how many it alone does."""

    rows: int = 0
    ours: int = 0
    theirs: int = 0
    ours_alone: int = 0
    theirs_alone: int = 0

    @property
    def difference(self) -> float:
        return (self.ours - self.theirs) / self.rows

    @property
    def error(self) -> float:
        """The standard error of the difference, which only those rows bring about that are told differently."""
        return float(np.sqrt((self.ours_alone + self.theirs_alone) / self.rows - self.difference**2) / self.rows**0.5)


def beside(ours: Plane, theirs: Plane, rows: int) -> Beside:
    """Both planes on that many rows, or a few more, that no file has; block by block."""
    found = Beside()
    for number in range(-(-rows // make_files.GROUP_ROWS)):
        # The block HELD_OUT_BLOCK itself is what other benchmarks hold out.
        X, y = make_files.narrow_block(make_files.HELD_OUT_BLOCK + 1 + number, make_files.GROUP_ROWS)
        one, other = ours.is_right(X, y), theirs.is_right(X, y)
        found.rows += len(y)
        found.ours += int(one.sum())
        found.theirs += int(other.sum())
        found.ours_alone += int((one & ~other).sum())
        found.theirs_alone += int((other & ~one).sum())
    return found
