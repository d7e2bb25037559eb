"""Prequential accuracy: every row is a test before it is learned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.methods.recursive.live import LiveModel

MOST_POINTS = 512
"""When there are so many points, each two become one."""


@dataclass
class Prequential:
    """How well a live model has predicted the rows that it was about to learn.

    Beside it goes what anyone could have said: the class that was most frequent so far.

    Parameters
    ----------
    live : LiveModel
    every : int
        For how many rows there is one point; doubled when there are too many points.

    Attributes
    ----------
    rows, right, frequent : int
        How many rows have come, how many of them were predicted rightly, and how many were of the most frequent class.
    points : list of (rows, accuracy, accuracy of the most frequent class)
        Of each stretch of ``every`` rows, at its end.

    Examples
    --------
    >>> from mergesvm.features.maps.identity import Identity
    >>> from mergesvm.knowledge.signature import Signature
    >>> from mergesvm.methods.recursive.options import RecursiveOptions
    >>> live = LiveModel(Signature(Identity(), 1), RecursiveOptions(C=100.0))
    >>> test = Prequential(live, every=2)
    >>> test.take(Batch.of([[0.0], [1.0], [0.1], [0.9]], ["a", "b", "a", "b"]))
    >>> test.accuracy, test.points
    (0.5, [(2, 0.0, 0.0), (4, 1.0, 0.5)])
    """

    live: LiveModel
    every: int = 1000
    rows: int = 0
    right: int = 0
    frequent: int = 0
    points: list[tuple[int, float, float]] = field(default_factory=list)
    _counts: list[int] = field(default_factory=list)
    _leader: int = -1
    _open: tuple[int, int, int] = (0, 0, 0)

    def __post_init__(self) -> None:
        # A model that goes on from knowledge has met classes before.
        self._counts = self.live.class_rows()
        self._leader = int(np.argmax(self._counts)) if self._counts else -1

    def take(self, batch: Batch) -> None:
        """Predict, then learn, row by row."""
        predicted = self.live.predict_then_learn(batch)
        places = np.array([*(self.live.labels.index(label) for label in batch.labels.classes), -1])
        truth = places[batch.labels.codes]
        counted = truth >= 0
        right, usual = (predicted == truth)[counted], (self._most_frequent(truth[counted]) == truth[counted])
        self.rows += len(right)
        self.right += int(right.sum())
        self.frequent += int(usual.sum())
        self._add_points(right, usual)

    @property
    def accuracy(self) -> float:
        """The share of all rows that were predicted rightly."""
        return float(self.right / self.rows) if self.rows else 0.0

    @property
    def frequent_accuracy(self) -> float:
        """The share of all rows that were of the class that was most frequent so far."""
        return float(self.frequent / self.rows) if self.rows else 0.0

    @property
    def recent(self) -> float:
        """The accuracy of the last whole stretch, or of all rows as long as there is none."""
        return self.points[-1][1] if self.points else self.accuracy

    def _most_frequent(self, truth: NDArray[Any]) -> NDArray[Any]:
        """The class most frequent before each row; the first to have come so far, where several are."""
        counts = [*self._counts, *[0] * (len(self.live.labels) - len(self._counts))]
        said, leader = np.empty(len(truth), dtype=np.int64), self._leader
        for index, place in enumerate(truth.tolist()):
            said[index] = leader
            counts[place] += 1
            if leader < 0 or counts[place] > counts[leader]:
                leader = place
        self._counts, self._leader = counts, leader
        return said

    def _add_points(self, right: NDArray[Any], usual: NDArray[Any]) -> None:
        at = 0
        while at < len(right):
            seen, hits, common = self._open
            stop = min(len(right), at + self.every - seen)
            seen, hits, common = seen + stop - at, hits + int(right[at:stop].sum()), common + int(usual[at:stop].sum())
            at = stop
            self._open = (seen, hits, common)
            if seen == self.every:
                end = self.rows - len(right) + at
                self.points.append((end, hits / seen, common / seen))
                self._open = (0, 0, 0)
                if len(self.points) == MOST_POINTS:
                    self._halve()

    def _halve(self) -> None:
        pairs = zip(self.points[::2], self.points[1::2], strict=True)
        self.points = [(b[0], (a[1] + b[1]) / 2, (a[2] + b[2]) / 2) for a, b in pairs]
        self.every *= 2
