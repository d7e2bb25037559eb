"""A stretch of rows and how they are to be multiplied; and the tasks into which the work on them is cut."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.features.base import FeatureMap

BLOCK_ROWS = 1024
"""Rows a product, by measurement: enough to hide the addition of the product, few enough for the cache."""

EXACT_ROWS = 256
"""Rows a product of pixels: 256 x 255^2 is below 2^24, so that float32 sums of whole numbers stay exact."""

DEEP = 2
"""Mapped rows are multiplied at least one for so many features at a time, so that adding the product is little work."""

PIXELS = (np.dtype(np.uint8), np.dtype(np.int8), np.dtype(np.bool_))


@dataclass(frozen=True, eq=False)
class Source:
    """A stretch of rows.

    Attributes
    ----------
    block : array or CSR array
    anchor : array of shape (width,)
    roots : array or None
        The roots of the weights of the rows; None where every row weighs 1.
    kind : dtype
        Of the products.
    depth : int
        How many rows are multiplied at one time.
    features : FeatureMap or None
        What rows are mapped by before.
    """

    block: Any
    anchor: NDArray[np.float64]
    roots: NDArray[np.float64] | None
    kind: np.dtype[Any]
    depth: int
    features: FeatureMap | None = None

    @classmethod
    def of(
        cls, block: NDArray[Any], anchor: NDArray[np.float64], roots: NDArray[np.float64] | None, precision: str
    ) -> Source:
        """Rows as they are; those of pixels are multiplied in float32, exactly."""
        exact = block.dtype in PIXELS and roots is None and _fits(anchor, block.dtype)
        kind = np.dtype(np.float32 if exact or precision == "float32" else np.float64)
        depth = EXACT_ROWS if exact else BLOCK_ROWS
        return cls(block, anchor, roots, kind, min(depth, len(block)))

    @classmethod
    def mapped(
        cls,
        block: Any,
        anchor: NDArray[np.float64],
        roots: NDArray[np.float64] | None,
        precision: str,
        features: FeatureMap,
    ) -> Source:
        """Rows to be mapped."""
        depth = min(max(BLOCK_ROWS, len(anchor) // DEEP), block.shape[0])
        return cls(block, anchor, roots, np.dtype(precision), depth, features)


@dataclass(frozen=True)
class Task:
    """Rows to be multiplied at one time: in the order of their classes, with the bounds of each."""

    gram: int
    members: NDArray[np.intp]
    runs: list[tuple[int, int, int]]


def tasks_of(codes: NDArray[Any], n_classes: int, pooled: bool, depth: int) -> list[Task]:
    """The rows of each class, or of all in the pooled form, in blocks of like size."""
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(n_classes + 1))
    groups = [(bounds[0], bounds[-1])] if pooled else list(pairwise(bounds))
    tasks = []
    for gram, (first, last) in enumerate(groups):
        if first == last:
            continue
        cuts = np.linspace(first, last, -(-(last - first) // depth) + 1).astype(np.intp)
        for begin, end in pairwise(cuts):
            low, high = np.searchsorted(bounds, begin, "right") - 1, np.searchsorted(bounds, end)
            inside = np.clip(bounds[low : high + 1], begin, end) - begin
            runs = [(int(low + index), int(a), int(b)) for index, (a, b) in enumerate(pairwise(inside)) if a < b]
            tasks.append(Task(gram, order[begin:end], runs))
    return tasks


def _fits(anchor: NDArray[np.float64], dtype: np.dtype[Any]) -> bool:
    # Differences of pixels and whole numbers of the same range stay within 255.
    low, high = (0, 1) if dtype == np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return bool(((anchor >= low) & (anchor <= high) & (anchor == np.rint(anchor))).all())
