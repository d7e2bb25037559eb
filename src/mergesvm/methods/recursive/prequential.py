"""Prequential evaluation (test-then-train): every row is predicted before it is learned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.methods.recursive.live import LiveModel

MAX_POINTS = 512
"""At this number of points, each two neighbours are merged into one."""


@dataclass
class Prequential:
    """Accuracy of a live model on rows predicted before they are learned.

    The baseline predicts the class that was most frequent so far.

    A point is the number of rows at the end of an interval of ``every`` rows, and the accuracy of the model and of the
    baseline in it. Intervals are doubled when there are too many points.

    >>> from mergesvm.features.maps.identity import Identity
    >>> from mergesvm.knowledge.signature import Signature
    >>> from mergesvm.methods.recursive.options import RecursiveOptions
    >>> live = LiveModel(Signature(Identity(), 1), RecursiveOptions(C=100.0))
    >>> test = Prequential(live, every=2)
    >>> test.update(Batch.of([[0.0], [1.0], [0.1], [0.9]], ["a", "b", "a", "b"]))
    >>> test.accuracy, test.points
    (0.5, [(2, 0.0, 0.0), (4, 1.0, 0.5)])
    """

    live: LiveModel
    every: int = 1000
    rows: int = 0
    correct: int = 0
    baseline_correct: int = 0
    points: list[tuple[int, float, float]] = field(default_factory=list)
    _counts: list[int] = field(default_factory=list)
    _most_frequent: int = -1
    _open: tuple[int, int, int] = (0, 0, 0)

    def __post_init__(self) -> None:
        # A model that continues from knowledge has seen classes before.
        self._counts = self.live.class_rows()
        self._most_frequent = int(np.argmax(self._counts)) if self._counts else -1

    def update(self, batch: Batch) -> None:
        """Predict, then learn, row by row."""
        predicted = self.live.predict_then_learn(batch)
        class_codes = np.array([*(self.live.labels.index(label) for label in batch.labels.classes), -1])
        codes = class_codes[batch.labels.codes]
        counted = codes >= 0
        correct, baseline = (predicted == codes)[counted], (self._baseline(codes[counted]) == codes[counted])
        self.rows += len(correct)
        self.correct += int(correct.sum())
        self.baseline_correct += int(baseline.sum())
        self._add_points(correct, baseline)

    @property
    def accuracy(self) -> float:
        """Accuracy on all rows."""
        return float(self.correct / self.rows) if self.rows else 0.0

    @property
    def baseline_accuracy(self) -> float:
        """Accuracy of the baseline on all rows."""
        return float(self.baseline_correct / self.rows) if self.rows else 0.0

    @property
    def recent_accuracy(self) -> float:
        """Accuracy on the last full interval; on all rows if there is none yet."""
        return self.points[-1][1] if self.points else self.accuracy

    def _baseline(self, codes: NDArray[Any]) -> NDArray[Any]:
        """The most frequent class before each row; the first to reach its count if there are several."""
        counts = [*self._counts, *[0] * (len(self.live.labels) - len(self._counts))]
        predicted, leader = np.empty(len(codes), dtype=np.int64), self._most_frequent
        for index, code in enumerate(codes.tolist()):
            predicted[index] = leader
            counts[code] += 1
            if leader < 0 or counts[code] > counts[leader]:
                leader = code
        self._counts, self._most_frequent = counts, leader
        return predicted

    def _add_points(self, correct: NDArray[Any], baseline: NDArray[Any]) -> None:
        at = 0
        while at < len(correct):
            seen, hits, baseline_hits = self._open
            stop = min(len(correct), at + self.every - seen)
            seen += stop - at
            hits += int(correct[at:stop].sum())
            baseline_hits += int(baseline[at:stop].sum())
            at = stop
            self._open = (seen, hits, baseline_hits)
            if seen == self.every:
                end = self.rows - len(correct) + at
                self.points.append((end, hits / seen, baseline_hits / seen))
                self._open = (0, 0, 0)
                if len(self.points) == MAX_POINTS:
                    pairs = zip(self.points[::2], self.points[1::2], strict=True)
                    self.points = [(b[0], (a[1] + b[1]) / 2, (a[2] + b[2]) / 2) for a, b in pairs]
                    self.every *= 2
