"""Detection of features whose variance was lost to cancellation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import warn_solver
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.signature import Signature
from mergesvm.knowledge.sums import ROUNDING

CERTAIN = {"float64": 1e-12, "float32": 1e-5}
"""Differences of sums that are larger than this fraction of the sums are not due to rounding."""

TYPICAL_ROUNDING = {"float64": 2.0**-48, "float32": 2.0**-23}
"""Usual relative rounding error of a sum of squares, by the precision of the products."""


def scatter(knowledge: Knowledge) -> NDArray[np.float64]:
    """The sum of squares of each feature about its mean, exactly 0 if it is constant up to rounding, (features,).

    >>> import mergesvm as ms
    >>> scatter(ms.learn([[0.0, 5.0], [1.0, 5.0]], ["a", "b"]))
    array([0.5, 0. ])
    """
    squares = np.sum([gram.diagonal() for gram in knowledge.grams], axis=0)
    found = squares - knowledge.sums.sum(axis=0) ** 2 / knowledge.counts.sum()
    constant = found <= CancellationGuard.of(knowledge).rounding.sum(axis=0)
    return np.where(constant, 0.0, found)


@dataclass(frozen=True)
class CancellationGuard:
    """Bounds of the rounding errors of sums of squares.

    Attributes
    ----------
    rounding : array of shape (grams, width)
        Bound for each Gram matrix: a fraction of the largest diagonal it ever had.
    bound, typical : float
        The fraction, and the rounding error of a sum relative to the same squares that is usual.
    certain : float
    signature : Signature
        Provides the names of features.
    """

    rounding: NDArray[np.float64]
    bound: float
    typical: float
    certain: float
    signature: Signature

    @classmethod
    def of(cls, knowledge: Knowledge) -> CancellationGuard:
        """The bounds of the Gram matrices of knowledge."""
        diagonals = np.array([gram.diagonal() for gram in knowledge.grams]).reshape(-1, knowledge.width)
        bound, typical = ROUNDING[knowledge.precision], TYPICAL_ROUNDING[knowledge.precision]
        rounding = bound * np.maximum(diagonals, knowledge.peaks)
        return cls(rounding, bound, typical, CERTAIN[knowledge.precision], knowledge.signature)

    def leave_out(
        self,
        gram: NDArray[np.float64],
        right: NDArray[np.float64],
        noise: NDArray[np.float64],
        sums: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Zero features without variance beyond rounding; return the rounding errors of the diagonal of the others.

        Such features are constant, unless their class means differ: then a warning names the loss. ``sums`` are those
        of which the right-hand sides are differences.
        """
        lost = gram.diagonal() <= noise
        telling = np.flatnonzero(lost & (np.abs(right).max(axis=0) > self.certain * sums))
        gram[lost], gram[:, lost], right[:, lost] = 0.0, 0.0, 0.0
        # A random feature that hardly varies among these classes is no loss.
        if len(telling) and not self.signature.mapped:
            names = self.signature.names
            feature = telling[0] if names is None else repr(names[telling[0]])
            warn_solver(
                f"Feature {feature} has lost its digits to rounding and is left out ({len(telling)} such in all): it "
                f"is too far from the anchor, or much larger rows were subtracted. Learn the remaining rows again."
            )
        return np.where(lost, 0.0, noise)
