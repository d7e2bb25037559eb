"""Evaluation of predictions against true labels, in mergeable sums: test sets of any size, in batches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.confusion import ConfusionMatrix
from mergesvm.analysis.curves import CalibrationHistogram, RankingHistograms, mean_of_known, ratio
from mergesvm.data.label_encoding import EncodedLabels
from mergesvm.data.labels import Label, as_labels
from mergesvm.data.rows.base import spans
from mergesvm.data.scan import Scan
from mergesvm.errors import DataError, SignatureError
from mergesvm.knowledge.learning.local import Progress
from mergesvm.models.base import Model
from mergesvm.models.heldout_scores import labelled_batches, read_labelled

Numbers = NDArray[np.float64]

BLOCK_PROBABILITIES = 1 << 22
"""Rows are predicted in blocks with at most this many probabilities (at least 256 rows)."""


def evaluate(
    model: Any, X: Any, y: Any = None, sample_weight: Any = None, *, progress: Progress | None = None
) -> Evaluation:
    """Evaluate a model on labelled rows: accuracy, confusion matrix, ROC, precision-recall and calibration curves.

    Rows are predicted block by block, and only sums are kept, so that a scan may be larger than memory. See
    :func:`mergesvm.evaluate` for the parameters.
    """
    predictor = getattr(model, "model_", model)
    if not isinstance(predictor, Model):
        raise TypeError(f"model must be a model or a fitted estimator of mergesvm, not {type(model).__name__}.")
    return read_labelled(X, predictor, lambda: _evaluation(predictor, X, y, sample_weight, progress))


def _evaluation(predictor: Model, X: Any, y: Any, sample_weight: Any, progress: Progress | None) -> Evaluation:
    evaluation, empty = Evaluation(predictor.labels), True
    step = max(256, BLOCK_PROBABILITIES // len(evaluation.classes))
    for batch in labelled_batches(X, y, sample_weight, progress):
        empty = False
        for start, stop in spans(batch.rows.n_rows, step):
            rows = batch.rows.part(start, stop)
            weights = None if batch.weights is None else batch.weights[start:stop]
            labels = batch.labels.part(start, stop)
            evaluation.add(labels, predictor.predict(rows), predictor.predict_proba(rows), weights, source=rows.source)
    if empty:
        raise DataError(f"{X.name if isinstance(X, Scan) else 'X'} has no rows to evaluate.")
    return evaluation


class Evaluation(ConfusionMatrix, RankingHistograms):
    """Predictions and probabilities compared with true labels, as sums that can be added.

    Accuracy, precision, recall, F1, log-loss and Brier score are exact. ROC and precision-recall curves come from
    histograms of equal bins in arcsinh(log-odds): 65,536 per class, fewer from 32 classes on, 4,096 from 512 on. Equal
    probabilities fall into the same bin, so ties and saturated probabilities are exact; different probabilities in one
    bin count as tied. The error of an AUC is at most :meth:`auc_error`; with 47 classes it is about 1e-4 for a class
    of a few dozen rows and 1e-5 for one of thousands, with 4,096 bins up to 5e-4. The error of an average precision is
    about 1e-4, but up to half a row's recall where two of the highest rows fall into one bin (4e-3 with 40 rows).

    True labels that the model does not know count as errors: they are listed in :attr:`unknown`, have probability 0,
    and are negatives of all curves.

    Parameters
    ----------
    classes : tuple of labels
        The classes of the model, in the order of the columns of its probabilities.

    Examples
    --------
    >>> evaluation = Evaluation(("cat", "dog"))
    >>> evaluation.add(["cat", "dog", "fox"], ["cat", "dog", "dog"], [[0.9, 0.1], [0.3, 0.7], [0.4, 0.6]])
    >>> evaluation.rows, round(evaluation.accuracy, 3), evaluation.unknown
    (3, 0.667, {'fox': 1.0})
    >>> evaluation.confusion
    array([[1., 0.],
           [0., 1.],
           [0., 1.]])
    >>> twice = evaluation + evaluation
    >>> twice.rows, twice.auc(1), twice.precision.tolist()
    (6, 1.0, [1.0, 0.5, nan])
    """

    def __init__(self, classes: tuple[Label, ...]) -> None:
        ConfusionMatrix.__init__(self, classes)
        RankingHistograms.__init__(self, len(self.classes))
        self.rows = 0
        self._losses = np.zeros(2)  # summed log-loss and Brier score
        self._calibration = [CalibrationHistogram() for _ in self.classes]
        self._confidence = CalibrationHistogram()

    @property
    def weighted(self) -> bool:
        """Whether the counts are weights that differ from the numbers of rows."""
        return bool(self.weight != self.rows)

    def add(self, truth: Any, predicted: Any, probabilities: Any, weights: Any = None, *, source: str = "y") -> None:
        """Add a batch: true labels, predicted labels, probabilities (rows, classes). Rows of weight 0 are ignored.

        ``source`` is what error messages call the origin of the labels.
        """
        truth = truth if isinstance(truth, EncodedLabels) else as_labels(truth)
        length = len(truth.codes) if isinstance(truth, EncodedLabels) else len(truth)
        predicted, probabilities = as_labels(predicted), np.asarray(probabilities, np.float64)
        weights = _checked_weights(weights, length)
        if probabilities.shape != (length, len(self.classes)) or not length == len(predicted) == weights.size:
            raise DataError(
                f"{length} labels and {len(self.classes)} classes need {length} predictions, {length} weights and "
                f"probabilities of shape {length, len(self.classes)}, not {len(predicted)}, {weights.size} and "
                f"{probabilities.shape}."
            )
        kept = weights > 0
        truth = truth if isinstance(truth, EncodedLabels) else EncodedLabels.encode(truth, kept)
        predicted, weights = EncodedLabels.encode(predicted, kept), weights[kept]
        probabilities = _checked_probabilities(probabilities[kept])
        true_at, predicted_at = self._count(truth, predicted, kept, weights, source)
        self.rows += len(weights)
        self._add_losses(true_at, probabilities, weights)
        of_predicted = probabilities[np.arange(len(weights)), predicted_at]
        self._confidence.add(of_predicted, true_at == predicted_at, weights)
        self._count_probabilities(probabilities, true_at, weights)
        for column, histogram in enumerate(self._calibration):
            histogram.add(probabilities[:, column], true_at == column, weights)

    def _add_losses(self, true_at: NDArray[np.intp], probabilities: Numbers, weights: Numbers) -> None:
        last = len(self.classes) - 1
        of_true = np.where(true_at <= last, probabilities[np.arange(len(weights)), np.minimum(true_at, last)], 0.0)
        brier = np.einsum("rc,rc->r", probabilities, probabilities) - of_true**2 + (1 - of_true) ** 2
        epsilon = np.finfo(np.float64).eps
        self._losses += weights @ -np.log(np.clip(of_true, epsilon, 1 - epsilon)), weights @ brier

    def __add__(self, other: object) -> Evaluation:
        if not isinstance(other, Evaluation):
            return NotImplemented
        if self.classes != other.classes:
            raise SignatureError(f"Cannot add an evaluation of classes {other.classes} to one of {self.classes}.")
        total = Evaluation(self.classes)
        for each in (self, other):
            total.rows += each.rows
            total._add_matrix(each)
            total._losses += each._losses
            total._add_histograms(each)
            total._confidence += each._confidence
            for histogram, added in zip(total._calibration, each._calibration, strict=True):
                histogram += added
        return total

    def __radd__(self, other: object) -> Evaluation:
        # sum(evaluations) begins with 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __repr__(self) -> str:
        return f"Evaluation of {self.rows:,} rows in {len(self.classes)} classes: accuracy {self.accuracy:.4f}"

    @property
    def log_loss(self) -> float:
        """Mean of -log of the probability of the true class, clipped at the float64 epsilon."""
        return float(ratio(self._losses[0], self.weight))

    @property
    def brier(self) -> float:
        """Mean squared error of the probabilities, summed over the classes; for two classes, of one of them."""
        return float(ratio(self._losses[1], self.weight)) / (2 if len(self.classes) < 3 else 1)

    def calibration(self, index: int | None = None, bins: int = 10) -> tuple[Numbers, Numbers, Numbers]:
        """Mean predicted probability, observed frequency and weight in equal intervals of the probability of a class.

        By default of the predicted class: its probability against the frequency of correct predictions. ``bins``
        divides 20.
        """
        return (self._confidence if index is None else self._calibration[index]).curve(bins)

    def calibration_error(self, index: int | None = None) -> float:
        """Expected calibration error: mean absolute difference of predicted and observed frequency, in 10 bins."""
        return (self._confidence if index is None else self._calibration[index]).error()

    def summary(self) -> dict[str, Any]:
        """All numbers as plain values, ready for JSON; None for NaN."""
        columns = {"precision": self.precision, "recall": self.recall, "f1": self.f1, "support": self.support}
        columns |= {"predicted": self.predicted}
        for name, function in (("auc", self.auc), ("average_precision", self.average_precision)):
            columns[name] = np.array([function(at) for at in range(len(self.classes))] + [np.nan] * len(self._unknown))
        names = ("rows", "weight", "accuracy", "balanced_accuracy", "log_loss", "brier")
        averaged = [name for name in columns if name not in ("support", "predicted")]
        return {
            **{name: _plain(getattr(self, name)) for name in names},
            "calibration_error": _plain(self.calibration_error()),
            "macro": {name: _plain(mean_of_known(columns[name])) for name in averaged},
            "classes": [
                {"label": label, "known": at < len(self.classes)}
                | {name: _plain(columns[name][at]) for name in columns}
                for at, label in enumerate(self.labels)
            ],
            "confusion": [[_plain(value) for value in row] for row in self.confusion],
        }


def _checked_weights(weights: Any, length: int) -> Numbers:
    if weights is None:
        return np.ones(length)
    found = np.asarray(weights, np.float64).ravel()
    wrong = ~((found >= 0) & np.isfinite(found))
    if wrong.any():
        raise DataError(f"Weights must be finite and not negative, not {found[wrong][0]}.")
    return found


def _checked_probabilities(probabilities: Numbers) -> Numbers:
    wrong = ~((np.abs(probabilities - 0.5) <= 0.5 + 1e-9).all(axis=1) & (np.abs(probabilities.sum(axis=1) - 1) < 1e-5))
    if wrong.any():
        raise DataError(f"Probabilities must be from 0 to 1 and add to 1, not {probabilities[wrong][0].tolist()}.")
    return np.clip(probabilities, 0, 1)


def _plain(value: Any) -> float | int | None:
    number = float(value)
    return None if np.isnan(number) else int(number) if number.is_integer() else number
