"""From scores to probabilities by rows kept back, where scores are not normal within each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from mergesvm.errors import DataError, FormError, ParameterError

Numbers = NDArray[np.float64]

METHODS = ("isotonic", "platt")

FEW = 1000
"""With fewer rows than this, isotonic regression follows them too closely, as scikit-learn advises."""

STEPS, CLOSE = 100, 1e-14
"""Newton's method ends after so many steps, or where the mean gradient is so small; it takes about ten."""


@dataclass(frozen=True, eq=False)
class Isotonic:
    """The rising steps that come closest to the truth, with straight lines between their ends (the knots).

    >>> curve = Isotonic(np.array([-1.0, 1.0]), np.array([0.1, 0.9]))
    >>> curve.share(np.array([-5.0, 0.0, 1.0]))
    array([0.1, 0.5, 0.9])
    """

    knots: Numbers
    values: Numbers

    @classmethod
    def fit(cls, scores: Numbers, truth: NDArray[np.bool_], weights: Numbers) -> Isotonic:
        """By the pool-adjacent-violators algorithm of scikit-learn."""
        # To which scores closer than 1e-15 are the same: tiny ones are made larger, by a power of two, which is exact.
        unit = min(1.0, float(np.ldexp(1.0, np.frexp(np.abs(scores).max())[1])) or 1.0)
        steps = IsotonicRegression(out_of_bounds="clip").fit(scores / unit, truth.astype(np.float64), weights)
        return cls(steps.X_thresholds_ * unit, np.clip(steps.y_thresholds_, 0.0, 1.0))

    def share(self, scores: Numbers) -> Numbers:
        """The value on the line between two knots; outside of all knots that of the nearest."""
        with np.errstate(all="ignore"):  # knots of a file may be closer than a slope can tell
            return np.clip(np.interp(scores, self.knots, self.values), 0.0, 1.0)

    def shifted(self, threshold: float) -> Isotonic:
        """The same values at knots that are less by this."""
        knots = self.knots - threshold
        for at in range(1, len(knots)):
            # Far from where they were, close knots may have become one, and are to stay two.
            knots[at] = max(knots[at], np.nextafter(knots[at - 1], np.inf))
        return Isotonic(knots, self.values)


@dataclass(frozen=True)
class Platt:
    """Log-odds that are linear in the score: 1 / (1 + exp(-(slope score + offset))).

    >>> Platt(2.0, 0.0).share(np.array([0.0, 100.0]))
    array([0.5, 1. ])
    """

    slope: float
    offset: float

    @classmethod
    def fit(cls, scores: Numbers, truth: NDArray[np.bool_], weights: Numbers) -> Platt:
        """The least log-loss against smoothed targets, (n+ + 1)/(n+ + 2) and 1/(n- + 2) (Platt 1999, section 2.2).

        By Newton's method, halving steps that do not help (Lin, Lin and Weng 2007).
        """
        positives = float(weights[truth].sum())
        negatives = float(weights[~truth].sum())
        targets = np.where(truth, (positives + 1) / (positives + 2), 1 / (negatives + 2))
        shares = weights / weights.sum()
        centre = float(shares @ scores)
        unit = float(np.sqrt(shares @ (scores - centre) ** 2)) or 1.0
        design = np.stack([(scores - centre) / unit, np.ones(len(scores))])
        point = np.array([0.0, np.log((positives + 1) / (negatives + 1))])
        loss = _loss(point @ design, targets, shares)
        for _ in range(STEPS):
            found = expit(point @ design)
            gradient = design @ (shares * (found - targets))
            if np.abs(gradient).max() < CLOSE:
                break
            curvature = (design * (shares * found * (1 - found))) @ design.T + 1e-12 * np.eye(2)
            step = np.linalg.solve(curvature, gradient)
            while (better := _loss((point - step) @ design, targets, shares)) > loss and np.abs(step).max() > CLOSE:
                step /= 2
            if better > loss:
                break  # what is left is rounding
            point, loss = point - step, better
        slope = float(point[0]) / unit
        return cls(slope, float(point[1]) - slope * centre)

    def share(self, scores: Numbers) -> Numbers:
        """The probability at each score."""
        with np.errstate(over="ignore"):  # infinite log-odds are probabilities of 0 and 1
            shares: Numbers = expit(self.slope * scores + self.offset)
        return shares

    def shifted(self, threshold: float) -> Platt:
        """The same log-odds of scores that are less by this."""
        return Platt(self.slope, self.offset + self.slope * threshold)


def _loss(log_odds: Numbers, targets: Numbers, shares: Numbers) -> float:
    return float(shares @ (np.logaddexp(0.0, log_odds) - targets * log_odds))


CURVES: dict[str, type[Isotonic] | type[Platt]] = {"isotonic": Isotonic, "platt": Platt}


@dataclass(frozen=True, eq=False)
class Calibration:
    """What makes probabilities of what ``decision_function`` gives, fitted on rows that were kept back.

    Of two classes one curve, for the second; of more one for each class against all others, and their values brought
    to a sum of 1. Where all of them are 0, every class has the same share.

    Attributes
    ----------
    method : {"isotonic", "platt"}
    rows : int
        How many rows of positive weight it was fitted on.
    curves : tuple of Isotonic, or of Platt

    Examples
    --------
    >>> scores = np.array([[-2.0], [-1.0], [0.5], [1.0]])
    >>> calibration = Calibration.fit(scores, np.array([0, 0, 1, 1]), None, "isotonic", 2)
    >>> calibration.shares(np.array([[-3.0], [-0.25], [2.0]]))
    array([[1. , 0. ],
           [0.5, 0.5],
           [0. , 1. ]])
    """

    method: str
    rows: int
    curves: tuple[Isotonic | Platt, ...]

    @classmethod
    def fit(cls, scores: Any, codes: Any, weights: Any, method: str, n_classes: int) -> Calibration:
        """Fit on scores of rows that the model, or the models, had not seen.

        Parameters
        ----------
        scores : array of shape (rows, columns)
            As ``decision_function`` gives them: one column for two classes, else one a class.
        codes : array of int, shape (rows,)
            The place of the class of each row.
        weights : array of shape (rows,), or None
            A row of weight 0 counts as absent.
        method : {"isotonic", "platt"}
        n_classes : int
        """
        check_method(method)
        if n_classes < 2:
            raise FormError("A model of one class has nothing to calibrate: that class is certain.")
        scores, codes, weights = _checked(scores, codes, weights, n_classes)
        counts = np.bincount(codes, minlength=n_classes)
        if not counts.all():
            raise DataError(
                f"There is no row of class number {int(np.argmin(counts > 0))} (of {n_classes}, from 0 on) to "
                f"calibrate on. Keep back rows of every class."
            )
        classes = [1] if n_classes == 2 else range(n_classes)
        fit = CURVES[method].fit
        curves = tuple(fit(column, codes == code, weights) for code, column in zip(classes, scores.T, strict=True))
        return cls(method, len(scores), curves)

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return max(2, len(self.curves))

    def shares(self, scores: Numbers) -> Numbers:
        """The probability of each class, (rows, classes), from scores (rows, columns)."""
        found = np.stack([curve.share(column) for curve, column in zip(self.curves, scores.T, strict=True)], axis=1)
        if len(self.curves) == 1:
            return np.hstack([1 - found, found])
        total = found.sum(axis=1, keepdims=True)
        shares: Numbers = np.divide(found, total, out=np.full_like(found, 1 / len(self.curves)), where=total > 0)
        return shares

    def shifted(self, threshold: float) -> Calibration:
        """The same probabilities for scores that are less by this."""
        curves = tuple(curve.shifted(threshold) for curve in self.curves)
        return Calibration(self.method, self.rows, curves)

    def __repr__(self) -> str:
        return f"Calibration(method={self.method!r}, rows={self.rows})"


def check_method(method: Any) -> None:
    """Raise an error for a method that there is not.

    >>> check_method("beta")
    Traceback (most recent call last):
    ...
    mergesvm.errors.ParameterError: method has to be one of 'isotonic', 'platt', not 'beta'.
    """
    if method not in METHODS:
        raise ParameterError(f"method has to be one of {', '.join(map(repr, METHODS))}, not {method!r}.")


def _checked(scores: Any, codes: Any, weights: Any, n_classes: int) -> tuple[Numbers, NDArray[np.intp], Numbers]:
    scores, codes = np.asarray(scores, np.float64), np.asarray(codes)
    weights = np.ones(len(scores)) if weights is None else np.asarray(weights, np.float64)
    columns = 1 if n_classes == 2 else n_classes
    if scores.ndim != 2 or scores.shape[1] != columns or not codes.shape == weights.shape == scores.shape[:1]:
        raise DataError(
            f"Of {n_classes} classes, scores have to be of shape (rows, {columns}) with a code and a weight for each "
            f"row, not of shapes {scores.shape}, {codes.shape} and {weights.shape}."
        )
    good = (weights >= 0) & (weights < np.inf)
    if not good.all():
        row = int(np.argmin(good))
        raise DataError(f"Weights have to be finite and not negative: row {row} has {weights[row]}.")
    counted = weights > 0
    scores, codes, weights = scores[counted], codes[counted], weights[counted]
    if not len(scores):
        raise DataError("There are no rows to calibrate on, or none of positive weight.")
    if not np.isfinite(scores).all():
        row, column = np.argwhere(~np.isfinite(scores))[0]
        raise DataError(f"Scores have to be finite: row {row} has {scores[row, column]} in column {column}.")
    if codes.dtype.kind not in "iu" or codes.min() < 0 or codes.max() >= n_classes:
        raise DataError(f"Codes of {n_classes} classes have to be whole numbers from 0 to {n_classes - 1}.")
    return scores, codes.astype(np.intp), weights
