"""Sums that grow in place, batch by batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label


@dataclass
class RunningSums:
    """Class totals and Gram matrices about one anchor, with one matrix per class or one pooled matrix.

    Gram matrices may be valid in their upper triangles only. ``places`` has the index of each class.
    """

    width: int
    pooled: bool = False
    places: dict[Label, int] = field(default_factory=dict)
    totals: list[NDArray[np.float64]] = field(default_factory=list)
    grams: list[NDArray[np.float64]] = field(default_factory=list)

    def for_classes(self, labels: tuple[Label, ...]) -> RunningSums:
        """Return a view of the sums of these classes, in this order. New classes start at zero."""
        new = [label for label in labels if label not in self.places]
        self.places |= {label: len(self.places) + index for index, label in enumerate(new)}
        self.totals += list(np.zeros((len(new), self.width)))
        # Allocated together, because one large block of fresh memory is cheaper than many.
        count = int(bool(new) and not self.grams) if self.pooled else len(new)
        self.grams += list(np.zeros((count, self.width, self.width)))
        at = [self.places[label] for label in labels]
        grams = self.grams if self.pooled else [self.grams[index] for index in at]
        places = {label: index for index, label in enumerate(labels)}
        return RunningSums(self.width, self.pooled, places, [self.totals[index] for index in at], grams)

    def add(self, totals: NDArray[Any], grams: list[NDArray[Any]]) -> None:
        """Add sums of the same classes in the same order."""
        for mine, more in zip(self.totals, totals, strict=True):
            mine += more
        for mine, more in zip(self.grams, grams, strict=True):
            mine += more
