"""Confusion matrix of predicted against true labels, and the scores that follow from it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.curves import mean_of_known, ratio, weighted_count
from mergesvm.data.label_encoding import EncodedLabels
from mergesvm.data.labels import Label
from mergesvm.errors import DataError

Numbers = NDArray[np.float64]

MAX_UNKNOWN_LABELS = 10_000
"""With more labels than this that are no class of the model, the column of labels is probably the wrong one."""


class ConfusionMatrix:
    """Weighted counts of true labels by predicted class; labels that the model does not know have rows of their own."""

    def __init__(self, classes: tuple[Label, ...]) -> None:
        self.classes = tuple(classes)
        self._known = np.zeros((len(self.classes), len(self.classes)))
        self._unknown: dict[Any, Numbers] = {}

    def _count(
        self, truth: EncodedLabels, predicted: EncodedLabels, kept: NDArray[np.bool_], weights: Numbers, source: str
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Count the kept rows; returns the places of their true labels (unknown ones last) and predicted classes."""
        known = {label: at for at, label in enumerate(self.classes)}
        strange = [label for label in predicted.classes if label not in known]
        if strange:
            raise DataError(f"Predicted class {strange[0]!r} is not one of the model's classes.")
        unknown = self._unknown_labels(truth, source)
        rows_of = known | {label: len(known) + at for at, label in enumerate(unknown)}
        true_at = np.array([rows_of[label] for label in truth.classes], np.intp)[truth.codes[kept]]
        predicted_at = np.array([known[label] for label in predicted.classes], np.intp)[predicted.codes[kept]]
        flat = weighted_count(true_at * len(known) + predicted_at, weights, len(rows_of) * len(known))
        table = flat.reshape(-1, len(known))
        self._known += table[: len(known)]
        for label, row in zip(unknown, table[len(known) :], strict=True):
            self._unknown[label] = self._unknown.get(label, 0.0) + row
        return true_at, predicted_at

    def _add_matrix(self, other: ConfusionMatrix) -> None:
        self._known += other._known
        for label, row in other._unknown.items():
            self._unknown[label] = self._unknown.get(label, 0.0) + row

    def _unknown_labels(self, truth: EncodedLabels, source: str) -> list[Label]:
        """The true labels that the model does not know, checked for signs of a wrong column."""
        is_text = isinstance(self.classes[0], str)
        other = [label for label in truth.classes if isinstance(label, str) != is_text]
        if other:
            kind = "text" if is_text else "number"
            raise DataError(
                f"{source} has {truth.kind} labels such as {other[0]!r}, but the model was learned from {kind} labels "
                f"such as {self.classes[0]!r}. Convert them to the type of the model's classes."
            )
        known = set(self.classes)
        unknown = [label for label in truth.classes if label not in known]
        if len({*self._unknown, *unknown}) > MAX_UNKNOWN_LABELS:
            raise DataError(
                f"{source} has more than {MAX_UNKNOWN_LABELS:,} labels that the model does not know, such as "
                f"{unknown[0]!r}. Is that the column of the labels?"
            )
        return unknown

    @property
    def unknown(self) -> dict[Label, float]:
        """True labels that the model does not know, sorted, and their weight."""
        return {label: float(self._unknown[label].sum()) for label in sorted(self._unknown)}

    @property
    def labels(self) -> tuple[Label, ...]:
        """The classes of the model, then the unknown labels: the rows of the confusion matrix."""
        return self.classes + tuple(self.unknown)

    @property
    def confusion(self) -> Numbers:
        """Confusion matrix (labels, classes): weight of the rows of each true label (down) by predicted class."""
        return np.vstack([self._known, *(self._unknown[label] for label in self.unknown)])

    @property
    def weight(self) -> float:
        """The summed weight of the rows: their number if no weights were given."""
        return float(self.support.sum())

    @property
    def support(self) -> Numbers:
        """Weight of the rows of each true label, (labels,)."""
        support: Numbers = self.confusion.sum(axis=1)
        return support

    @property
    def predicted(self) -> Numbers:
        """Weight of the rows predicted as each label, (labels,)."""
        return self._padded(self.confusion.sum(axis=0))

    @property
    def accuracy(self) -> float:
        """Fraction of rows predicted correctly."""
        return float(ratio(np.trace(self._known), self.weight))

    @property
    def balanced_accuracy(self) -> float:
        """Mean recall of the labels that occur."""
        return mean_of_known(self.recall)

    @property
    def precision(self) -> Numbers:
        """Fraction of the rows predicted as a label that have it, (labels,); NaN if none are predicted."""
        return ratio(self._correct, self.predicted)

    @property
    def recall(self) -> Numbers:
        """Fraction of the rows of a label that are predicted as it, (labels,); NaN if there are none."""
        return ratio(self._correct, self.support)

    @property
    def f1(self) -> Numbers:
        """Harmonic mean of precision and recall, (labels,); NaN for a label neither true nor predicted."""
        return ratio(2 * self._correct, self.support + self.predicted)

    @property
    def _correct(self) -> Numbers:
        return self._padded(np.diag(self._known))

    def _padded(self, of_classes: Any) -> Numbers:
        return np.append(of_classes, np.zeros(len(self._unknown)))
