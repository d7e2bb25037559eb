"""Features that have lost their digits to rounding, and what is left out for it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import SolverWarning
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.signature import Signature
from mergesvm.knowledge.sums import ROUNDING

CERTAIN = {"float64": 1e-12, "float32": 1e-5}
"""From what share of a sum on its sign is beyond rounding."""


@dataclass(frozen=True)
class CancellationGuard:
    """How far rounding may have moved sums of squares.

    Attributes
    ----------
    rounding : array of shape (grams, width)
        Of each Gram matrix, a share of the largest that its diagonal ever was.
    certain : float
    signature : Signature
        For names.
    """

    rounding: NDArray[np.float64]
    certain: float
    signature: Signature

    @classmethod
    def of(cls, knowledge: Knowledge) -> CancellationGuard:
        """Of the Gram matrices of knowledge."""
        diagonals = np.array([gram.diagonal() for gram in knowledge.grams]).reshape(-1, knowledge.width)
        rounding = ROUNDING[knowledge.precision] * np.maximum(diagonals, knowledge.peaks)
        return cls(rounding, CERTAIN[knowledge.precision], knowledge.signature)

    def leave_out(
        self,
        gram: NDArray[np.float64],
        right: NDArray[np.float64],
        noise: NDArray[np.float64],
        sums: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Clear features of which rounding has left no variance; returns the rounding in the diagonal of the others.

        Such features are constant, unless their class means say otherwise: then a warning says what was lost. ``sums``
        are those of which the right sides are differences.
        """
        lost = gram.diagonal() <= noise
        telling = np.flatnonzero(lost & (np.abs(right).max(axis=0) > self.certain * sums))
        gram[lost], gram[:, lost], right[:, lost] = 0.0, 0.0, 0.0
        # Of a thousand features that a map has drawn, one that hardly varies among these classes is no loss.
        if len(telling) and not self.signature.mapped:
            names = self.signature.names
            feature = telling[0] if names is None else repr(names[telling[0]])
            warnings.warn(
                f"Feature {feature} has lost its digits to rounding and is left out ({len(telling)} such in all): it "
                f"lies too far from the anchor, or much larger rows were subtracted. Learn the remaining rows again.",
                SolverWarning,
                stacklevel=2,
            )
        return np.where(lost, 0.0, noise)
