"""What a kernel machine is to be, and what has become of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.methods.kernel.exchange import Exchange
from mergesvm.methods.kernel.messages import Packet, Pair, RaggedArray
from mergesvm.models.kernel_function import Kernel
from mergesvm.models.score_moments import SideMoments


@dataclass(frozen=True)
class KernelOptions:
    """What a kernel machine is to be.

    Attributes
    ----------
    kernel : Kernel
        Its gamma may be "scale" or "auto".
    C : float
    class_weight : None, str or mapping
    beta : float or None
        Times the number of units, the penalty of (y'alpha)^2 / 2; None for y'alpha = 0.
    method : {"working-set", "active-set", "gradient"}
    tolerance : float
    gap : bool
    rounds : int or None
    most_support : int or None
    accelerated : bool
    size : int
        Of the working set.
    memory : int
        Bytes for columns of the kernel matrix, at all units together.
    precision : {"float32", "float64"} or None
    """

    kernel: Kernel
    C: float
    class_weight: Mapping[Any, float] | str | None
    beta: float | None
    method: str
    tolerance: float
    gap: bool
    rounds: int | None
    most_support: int | None
    accelerated: bool
    size: int
    memory: int
    precision: str | None


@dataclass(frozen=True)
class Trained:
    """What training has come to.

    Attributes
    ----------
    pairs : list of pairs of classes
    rows : dict of class to int
    coefs : RaggedArray
        Y alpha of the rows in use, by number, for each pair.
    support : Packet or None
        The rows that are in use in any pair; None if there are none.
    intercepts : array of shape (pairs,)
    objectives, gaps : arrays of shape (pairs,)
        F, and by how much the primal objective is larger.
    violation : float
        The largest there is.
    moments : SideMoments
    rounds : int
    exchange : Exchange
    history : list of float
        F after each round, of the gradient method.
    """

    pairs: list[Pair]
    rows: dict[Label, int]
    coefs: RaggedArray
    support: Packet | None
    intercepts: NDArray[np.float64]
    objectives: NDArray[np.float64]
    gaps: NDArray[np.float64]
    violation: float
    moments: SideMoments
    rounds: int
    exchange: Exchange
    history: list[float]
