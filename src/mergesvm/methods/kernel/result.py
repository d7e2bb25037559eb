"""TrainingResult: the outcome of one training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.methods.kernel.coordinator.exchange import Exchange
from mergesvm.methods.kernel.messages import RowPacket
from mergesvm.methods.kernel.ragged_array import RaggedArray
from mergesvm.methods.kernel.setup import Pair
from mergesvm.models.score_moments import SideMoments


@dataclass(frozen=True)
class TrainingResult:
    """The dual solution of all pairs of classes, and how it was reached.

    Attributes
    ----------
    pairs : list of pairs of classes
    class_counts : dict of class to int
        Rows of each class.
    coefs : RaggedArray
        y alpha of the support vectors of each pair, by index of the row.
    support : RowPacket or None
        The rows that are support vectors of any pair; None if there are none.
    intercepts : array of shape (pairs,)
    objectives, gaps : arrays of shape (pairs,)
        The dual objective, and the duality gap.
    violation : float
        The largest violation of the optimality conditions.
    moments : SideMoments
    n_iter : int
    exchange : Exchange
    history : list of float
        The objective after each iteration, for method "gradient" only.
    """

    pairs: list[Pair]
    class_counts: dict[Label, int]
    coefs: RaggedArray
    support: RowPacket | None
    intercepts: NDArray[np.float64]
    objectives: NDArray[np.float64]
    gaps: NDArray[np.float64]
    violation: float
    moments: SideMoments
    n_iter: int
    exchange: Exchange
    history: list[float]
