"""Give rows to ranks and collect their measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.features.base import FeatureMap
from mergesvm.reproduce.cascade.cost import Measured
from mergesvm.reproduce.launch import run_ranks

PROGRAM = "mergesvm.reproduce.cascade.ranks"


def put_rows(folder: Path, X: NDArray[Any], y: NDArray[Any], features: FeatureMap | None = None) -> Path:
    """Write rows, and an optional feature map, to the folder from which ranks read them."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    if features is not None:
        features.save(folder / "map.features")
    return folder


def measure(folder: Path, n_rows: int, ranks: int, repeats: int) -> Measured:
    """Learn the first rows of a folder with several ranks, each of which has its own part."""
    return Measured.of(run_ranks(PROGRAM, ranks, folder, n_rows, repeats))
