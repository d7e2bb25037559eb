"""Base class of the workers that sum wide rows, with the rows and tasks that they share."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.features.base import FeatureMap
from mergesvm.knowledge.gram.running_sums import RunningSums

BLOCK_ROWS = 1024
"""Rows per product: enough to hide the cost of adding the product, few enough for the cache (measured)."""

EXACT_BLOCK_ROWS = 256
"""Rows per product of 8-bit integers: 256 x 255^2 is below 2^24, so float32 sums stay exact."""

FEATURES_PER_BLOCK_ROW = 2
"""Blocks of mapped rows have at least one row per this many features, so that adding the product costs little."""

EXACT_DTYPES = (np.dtype(np.uint8), np.dtype(np.int8), np.dtype(np.bool_))
"""Integers, such as pixels, whose products are exact in float32."""


@dataclass(frozen=True, eq=False)
class Source:
    """A span of rows, dense or CSR, and how to multiply them: the dtype, and the number of rows per product.

    The square roots of the weights are None if every row has weight 1.
    """

    block: Any
    anchor: NDArray[np.float64]
    root_weights: NDArray[np.float64] | None
    dtype: np.dtype[Any]
    block_rows: int
    features: FeatureMap | None

    @classmethod
    def of(
        cls,
        block: Any,
        anchor: NDArray[np.float64],
        root_weights: NDArray[np.float64] | None,
        precision: str,
        features: FeatureMap | None,
    ) -> Source:
        """Return rows to be multiplied, mapped if there is a map; unmapped 8-bit integers in float32, exactly."""
        if features is not None:
            block_rows = min(max(BLOCK_ROWS, len(anchor) // FEATURES_PER_BLOCK_ROW), block.shape[0])
            return cls(block, anchor, root_weights, np.dtype(precision), block_rows, features)
        exact = block.dtype in EXACT_DTYPES and root_weights is None and _stays_exact(anchor, block.dtype)
        dtype = np.dtype(np.float32 if exact or precision == "float32" else np.float64)
        block_rows = EXACT_BLOCK_ROWS if exact else BLOCK_ROWS
        return cls(block, anchor, root_weights, dtype, min(block_rows, len(block)), None)


@dataclass(frozen=True)
class Task:
    """Rows to be multiplied at once and added to the Gram matrix number ``gram``.

    ``members`` are the rows, ordered by class; ``runs`` are (class, first, end): the members of each class.
    """

    gram: int
    members: NDArray[np.intp]
    runs: list[tuple[int, int, int]]


class GramWorker(ABC):
    """Adds the sums of tasks to running sums. Each thread has its own, whose buffers serve all its tasks."""

    @abstractmethod
    def add(self, task: Task, sums: RunningSums, lock: threading.Lock) -> None:
        """Add the totals and at least the upper triangle of the Gram matrix of a task; the lock guards both."""


def tasks_of(codes: NDArray[Any], n_classes: int, pooled: bool, block_rows: int) -> list[Task]:
    """Divide the rows of each class, or of all classes if pooled, into tasks of similar size."""
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(n_classes + 1))
    groups = [(bounds[0], bounds[-1])] if pooled else list(pairwise(bounds))
    tasks = []
    for gram, (first, last) in enumerate(groups):
        if first == last:
            continue
        cuts = np.linspace(first, last, -(-(last - first) // block_rows) + 1).astype(np.intp)
        for begin, end in pairwise(cuts):
            low, high = np.searchsorted(bounds, begin, "right") - 1, np.searchsorted(bounds, end)
            inside = np.clip(bounds[low : high + 1], begin, end) - begin
            runs = [(int(low + index), int(a), int(b)) for index, (a, b) in enumerate(pairwise(inside)) if a < b]
            tasks.append(Task(gram, order[begin:end], runs))
    return tasks


def _stays_exact(anchor: NDArray[np.float64], dtype: np.dtype[Any]) -> bool:
    """Return whether differences of such integers and the anchor are integers of at most 255 in size."""
    low, high = (0, 1) if dtype == np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return bool(((anchor >= low) & (anchor <= high) & (anchor == np.rint(anchor))).all())
