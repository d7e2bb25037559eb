"""ROC, precision-recall and calibration curves from histograms of predicted probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

MIN_BINS, MAX_BINS, MAX_BINS_OF_ALL_CLASSES = 1 << 12, 1 << 16, 1 << 21
"""Limits of the number of histogram bins per class, and of all classes together."""

LOWEST, HIGHEST = np.arcsinh(-747.0), np.arcsinh(36.9)
"""The range of arcsinh(log-odds) of float64 probabilities; 0 and 1 fall into the outermost bins."""

CALIBRATION_BINS = 20
"""Number of equal intervals of the probability in which calibration is counted."""

GRID = np.linspace(0, 1, 501)
"""False positive rates or recalls at which the curves of all classes are averaged."""


class RankingHistograms:
    """Histograms of the probability of each class, for its own rows and for all rows, from which ROC curves follow.

    There are ``bins`` of equal width in arcsinh(log-odds) per class. Equal probabilities fall into the same bin, so
    ties are exact.
    """

    def __init__(self, n_classes: int) -> None:
        self.bins = min(max(MAX_BINS_OF_ALL_CLASSES // max(n_classes, 1), MIN_BINS), MAX_BINS)
        self._positives, self._all = np.zeros((n_classes, self.bins)), np.zeros((n_classes, self.bins))

    def _count_probabilities(self, probabilities: Numbers, codes: NDArray[np.intp], weights: Numbers) -> None:
        """Count rows: probabilities (rows, classes), the column of the true class, and weights."""
        for column in range(len(self._all)):
            of_class, bins = codes == column, self._bins_of(probabilities[:, column])
            self._all[column] += weighted_count(bins, weights, self.bins)
            self._positives[column] += weighted_count(bins[of_class], weights[of_class], self.bins)

    def _bins_of(self, probabilities: Numbers) -> NDArray[np.intp]:
        with np.errstate(divide="ignore"):
            positions = np.arcsinh(np.log(probabilities) - np.log1p(-probabilities))
        scaled: Numbers = (positions - LOWEST) * (self.bins / (HIGHEST - LOWEST))
        return np.clip(scaled, 0, self.bins - 1).astype(np.intp)

    def _add_histograms(self, other: RankingHistograms) -> None:
        self._positives += other._positives
        self._all += other._all

    def roc(self, index: int | None = None) -> tuple[Numbers, Numbers]:
        """False and true positive rate of a class, from (0, 0) to (1, 1); by default the mean over the classes."""
        if index is None:
            curves = [self.roc(at) for at in range(len(self._all)) if not np.isnan(self.auc(at))]
            mean = np.mean([np.interp(GRID, *curve) for curve in curves], axis=0) if curves else GRID * np.nan
            return np.append(0.0, GRID), np.append(0.0, mean)
        positives, negatives = self._at_or_above(index)
        return ratio(negatives, negatives[-1]), ratio(positives, positives[-1])

    def auc(self, index: int | None = None) -> float:
        """Area under the ROC curve of a class, by default the mean over the classes; NaN without a curve."""
        if index is None:
            return mean_of_known([self.auc(at) for at in range(len(self._all))])
        false_rate, true_rate = self.roc(index)
        return float(np.trapezoid(true_rate, false_rate))

    def auc_error(self, index: int) -> float:
        """Bound on the error of the AUC of a class due to binning: (1/2) sum over bins of dTPR dFPR."""
        positives, negatives = self._at_or_above(index)
        # The outermost bins hold probabilities of exactly 0 and 1 only, which really are tied.
        inner = self._positives[index, 1:-1]
        pairs = inner @ np.maximum(self._all[index, 1:-1] - inner, 0.0)
        return float(ratio(pairs, 2 * positives[-1] * negatives[-1]))

    def precision_recall(self, index: int | None = None) -> tuple[Numbers, Numbers]:
        """Recall, rising from 0 to 1, and precision of a class; by default the mean precision over the classes."""
        if index is None:
            curves = [self.precision_recall(at) for at in range(len(self._all)) if self._positives[at].any()]
            steps = [precision[np.searchsorted(recall, GRID)] for recall, precision in curves]
            return GRID, np.mean(steps, axis=0) if steps else GRID * np.nan
        positives, negatives = self._at_or_above(index)
        precision = ratio(positives, positives + negatives)
        precision[0] = 1.0
        return ratio(positives, positives[-1]), precision

    def average_precision(self, index: int | None = None) -> float:
        """Sum of precision times the step in recall of a class, by default the mean over the classes."""
        if index is None:
            return mean_of_known([self.average_precision(at) for at in range(len(self._all))])
        recall, precision = self.precision_recall(index)
        return float(np.diff(recall) @ precision[1:])

    def _at_or_above(self, index: int) -> tuple[Numbers, Numbers]:
        """Weight of the positives and negatives at or above each non-empty bin, from the highest bin down."""
        used = np.flatnonzero(self._all[index])[::-1]
        # Without rows, a single empty bin makes all ratios NaN.
        used = used if used.size else np.zeros(1, np.intp)
        positives = self._positives[index, used]
        negatives = np.maximum(self._all[index, used] - positives, 0.0)
        return np.append(0.0, np.cumsum(positives)), np.append(0.0, np.cumsum(negatives))


class CalibrationHistogram:
    """Predicted probability against observed frequency, in equal intervals of the probability."""

    def __init__(self) -> None:
        # Rows: weight, weight of the positives, and weighted sum of the probabilities.
        self._sums = np.zeros((3, CALIBRATION_BINS))

    def add(self, probabilities: Numbers, positive: NDArray[np.bool_], weights: Numbers) -> None:
        """Count rows: the predicted probability of an event, and whether it occurred."""
        bins = np.searchsorted(np.linspace(0, 1, CALIBRATION_BINS + 1)[1:-1], probabilities)
        for sums, amounts in zip(self._sums, (weights, weights * positive, weights * probabilities), strict=True):
            sums += weighted_count(bins, amounts, CALIBRATION_BINS)

    def __iadd__(self, other: CalibrationHistogram) -> CalibrationHistogram:
        self._sums += other._sums
        return self

    def curve(self, bins: int = 10) -> tuple[Numbers, Numbers, Numbers]:
        """Mean predicted probability, observed frequency and weight of each bin; ``bins`` divides 20."""
        weights, positives, predicted = self._sums.reshape(3, bins, -1).sum(axis=2)
        return ratio(predicted, weights), ratio(positives, weights), weights

    def error(self) -> float:
        """Expected calibration error: mean absolute difference of predicted and observed, in 10 bins."""
        predicted, observed, weights = self.curve()
        return float(ratio(np.nansum(np.abs(predicted - observed) * weights), weights.sum()))


def weighted_count(bins: NDArray[np.intp], weights: Numbers, size: int) -> Numbers:
    """Sum of the weights in each of ``size`` bins, as float64 also if there are no rows."""
    return np.bincount(bins, weights, size).astype(np.float64, copy=False)


def ratio(numerator: Any, denominator: Any) -> Numbers:
    """Elementwise quotient, NaN where the denominator is zero."""
    out = np.full(np.shape(numerator), np.nan)
    np.divide(numerator, denominator, out=out, where=np.asarray(denominator) != 0)
    return out


def mean_of_known(values: Any) -> float:
    """Mean of the values that are not NaN; NaN if there are none."""
    known = np.asarray(values)[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")
