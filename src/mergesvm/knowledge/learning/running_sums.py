"""Sums that grow batch by batch, in place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label


@dataclass
class RunningSums:
    """Sums of each class and Gram matrices, one a class or a pooled one, about one anchor.

    Gram matrices are right in their upper triangles; the lower ones are filled at the end.

    Attributes
    ----------
    width : int
    pooled : bool
    places : dict
        The place of each class, in the order in which they came.
    totals, grams : lists of arrays
    """

    width: int
    pooled: bool = False
    places: dict[Label, int] = field(default_factory=dict)
    totals: list[NDArray[np.float64]] = field(default_factory=list)
    grams: list[NDArray[np.float64]] = field(default_factory=list)

    def room_for(self, labels: tuple[Label, ...]) -> RunningSums:
        """The sums of these classes, in this order: what is added to them is added here. New classes begin at zero."""
        new = [label for label in labels if label not in self.places]
        self.places |= {label: len(self.places) + index for index, label in enumerate(new)}
        self.totals += list(np.zeros((len(new), self.width)))
        # Together, because fresh memory comes cheaper in one large piece.
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
