"""Calibration of probabilities on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from mergesvm.checks import check_choice
from mergesvm.errors import DataError, FormError

Numbers = NDArray[np.float64]

MAX_NEWTON_STEPS, GRADIENT_TOLERANCE = 100, 1e-14
"""Limits of Newton's method, which takes about ten steps."""


@dataclass(frozen=True, eq=False)
class Isotonic:
    """Isotonic regression: an increasing, piecewise linear function through knots.

    >>> curve = Isotonic(np.array([-1.0, 1.0]), np.array([0.1, 0.9]))
    >>> curve.probability(np.array([-5.0, 0.0, 1.0]))
    array([0.1, 0.5, 0.9])
    """

    knots: Numbers
    values: Numbers

    @classmethod
    def fit(cls, scores: Numbers, truth: NDArray[np.bool_], weights: Numbers) -> Isotonic:
        """Fit with scikit-learn's pool-adjacent-violators algorithm."""
        from sklearn.isotonic import IsotonicRegression

        # It treats scores closer than 1e-15 as equal, so tiny scores are scaled up by a power of two, which is exact.
        unit = min(1.0, float(np.ldexp(1.0, np.frexp(np.abs(scores).max())[1])) or 1.0)
        steps = IsotonicRegression(out_of_bounds="clip").fit(scores / unit, truth.astype(np.float64), weights)
        return cls(steps.X_thresholds_ * unit, np.clip(steps.y_thresholds_, 0.0, 1.0))

    def probability(self, scores: Numbers) -> Numbers:
        """Interpolate between knots; constant outside of them."""
        with np.errstate(all="ignore"):  # knots read from a file may be so close that the slope overflows
            return np.clip(np.interp(scores, self.knots, self.values), 0.0, 1.0)

    def shifted(self, threshold: float) -> Isotonic:
        """The curve for scores that are lower by this threshold."""
        knots = self.knots - threshold
        for at in range(1, len(knots)):
            # Rounding can make close knots equal; keep them distinct.
            knots[at] = max(knots[at], np.nextafter(knots[at - 1], np.inf))
        return Isotonic(knots, self.values)


@dataclass(frozen=True)
class Platt:
    """Platt scaling, a sigmoid of the score: 1 / (1 + exp(-(slope score + offset))).

    >>> Platt(2.0, 0.0).probability(np.array([0.0, 100.0]))
    array([0.5, 1. ])
    """

    slope: float
    offset: float

    @classmethod
    def fit(cls, scores: Numbers, truth: NDArray[np.bool_], weights: Numbers) -> Platt:
        """Minimise the log-loss against smoothed targets, (n+ + 1)/(n+ + 2) and 1/(n- + 2) (Platt 1999, section 2.2).

        Newton's method with step halving (Lin, Lin and Weng 2007).
        """
        positives = float(weights[truth].sum())
        negatives = float(weights[~truth].sum())
        targets = np.where(truth, (positives + 1) / (positives + 2), 1 / (negatives + 2))
        weights = weights / weights.sum()
        centre = float(weights @ scores)
        unit = float(np.sqrt(weights @ (scores - centre) ** 2)) or 1.0
        design = np.stack([(scores - centre) / unit, np.ones(len(scores))])
        point = np.array([0.0, np.log((positives + 1) / (negatives + 1))])
        loss = _loss(point @ design, targets, weights)
        for _ in range(MAX_NEWTON_STEPS):
            found = expit(point @ design)
            gradient = design @ (weights * (found - targets))
            if np.abs(gradient).max() < GRADIENT_TOLERANCE:
                break
            curvature = (design * (weights * found * (1 - found))) @ design.T + 1e-12 * np.eye(2)
            step = np.linalg.solve(curvature, gradient)
            while (better := _loss((point - step) @ design, targets, weights)) > loss and np.abs(
                step
            ).max() > GRADIENT_TOLERANCE:
                step /= 2
            if better > loss:
                break  # only rounding is left
            point, loss = point - step, better
        slope = float(point[0]) / unit
        return cls(slope, float(point[1]) - slope * centre)

    def probability(self, scores: Numbers) -> Numbers:
        """The probability at each score."""
        with np.errstate(over="ignore"):  # infinite log-odds are probabilities of 0 and 1
            probabilities: Numbers = expit(self.slope * scores + self.offset)
        return probabilities

    def shifted(self, threshold: float) -> Platt:
        """The curve for scores that are lower by this threshold."""
        return Platt(self.slope, self.offset + self.slope * threshold)


def _loss(log_odds: Numbers, targets: Numbers, weights: Numbers) -> float:
    return float(weights @ (np.logaddexp(0.0, log_odds) - targets * log_odds))


CURVES: dict[str, type[Isotonic] | type[Platt]] = {"isotonic": Isotonic, "platt": Platt}
"""All methods of calibration by name."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """A map from ``decision_function`` to probabilities, fitted on held-out rows.

    Two classes have one curve, for the second class. More classes have one curve per class against all others, whose
    values are normalised to a sum of 1; if all are 0, the classes are equally likely.

    Attributes
    ----------
    method : {"isotonic", "platt"}
    rows : int
        Number of rows with positive weight that it was fitted on.
    curves : tuple of Isotonic or of Platt

    Examples
    --------
    >>> scores = np.array([[-2.0], [-1.0], [0.5], [1.0]])
    >>> calibration = Calibration.fit(scores, np.array([0, 0, 1, 1]), None, "isotonic", 2)
    >>> calibration.probabilities(np.array([[-3.0], [-0.25], [2.0]]))
    array([[1. , 0. ],
           [0.5, 0.5],
           [0. , 1. ]])
    """

    method: str
    rows: int
    curves: tuple[Isotonic | Platt, ...]

    @classmethod
    def fit(cls, scores: Any, codes: Any, weights: Any, method: str, n_classes: int) -> Calibration:
        """Fit on scores of rows that were not used for training.

        Parameters
        ----------
        scores : array of shape (rows, columns)
            As ``decision_function`` returns them: one column for two classes, otherwise one per class.
        codes : array of int, shape (rows,)
            Index of the class of each row.
        weights : array of shape (rows,), or None
            Rows with weight 0 are ignored.
        method : {"isotonic", "platt"}
        n_classes : int
        """
        check_method(method)
        if n_classes < 2:
            raise FormError("A model of one class cannot be calibrated: its probability is always 1.")
        scores, codes, weights = _checked(scores, codes, weights, n_classes)
        counts = np.bincount(codes, minlength=n_classes)
        if not counts.all():
            raise DataError(
                f"No row has class code {int(np.argmin(counts > 0))} (of {n_classes}, counted from 0). Calibration "
                f"needs held-out rows of every class."
            )
        classes = [1] if n_classes == 2 else range(n_classes)
        fit = CURVES[method].fit
        curves = tuple(fit(column, codes == code, weights) for code, column in zip(classes, scores.T, strict=True))
        return cls(method, len(scores), curves)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return max(2, len(self.curves))

    def probabilities(self, scores: Numbers) -> Numbers:
        """Probability of each class, (rows, classes), from scores (rows, columns)."""
        found = np.stack(
            [curve.probability(column) for curve, column in zip(self.curves, scores.T, strict=True)], axis=1
        )
        if len(self.curves) == 1:
            return np.hstack([1 - found, found])
        total = found.sum(axis=1, keepdims=True)
        equal = np.full_like(found, 1 / len(self.curves))
        probabilities: Numbers = np.divide(found, total, out=equal, where=total > 0)
        return probabilities

    def shifted(self, threshold: float) -> Calibration:
        """The calibration for scores that are lower by this threshold."""
        curves = tuple(curve.shifted(threshold) for curve in self.curves)
        return Calibration(self.method, self.rows, curves)

    def __repr__(self) -> str:
        return f"Calibration(method={self.method!r}, rows={self.rows})"


def check_method(method: Any) -> None:
    """Raise an error for an unknown method of calibration.

    >>> check_method("beta")
    Traceback (most recent call last):
    ...
    mergesvm.errors.ParameterError: method must be one of 'isotonic', 'platt', not 'beta'.
    """
    check_choice("method", method, CURVES)


def _checked(scores: Any, codes: Any, weights: Any, n_classes: int) -> tuple[Numbers, NDArray[np.intp], Numbers]:
    scores, codes = np.asarray(scores, np.float64), np.asarray(codes)
    weights = np.ones(len(scores)) if weights is None else np.asarray(weights, np.float64)
    columns = 1 if n_classes == 2 else n_classes
    if scores.ndim != 2 or scores.shape[1] != columns or not codes.shape == weights.shape == scores.shape[:1]:
        raise DataError(
            f"For {n_classes} classes, scores, codes and weights must have the shapes (rows, {columns}), (rows,) and "
            f"(rows,), not {scores.shape}, {codes.shape} and {weights.shape}."
        )
    good = (weights >= 0) & (weights < np.inf)
    if not good.all():
        row = int(np.argmin(good))
        raise DataError(f"Weights must be finite and not negative: row {row} has {weights[row]}.")
    counted = weights > 0
    scores, codes, weights = scores[counted], codes[counted], weights[counted]
    if not len(scores):
        raise DataError("Calibration needs at least one row with positive weight.")
    if not np.isfinite(scores).all():
        row, column = np.argwhere(~np.isfinite(scores))[0]
        raise DataError(f"Scores must be finite: row {row} has {scores[row, column]} in column {column}.")
    if codes.dtype.kind not in "iu" or codes.min() < 0 or codes.max() >= n_classes:
        raise DataError(f"Codes of {n_classes} classes must be integers from 0 to {n_classes - 1}.")
    return scores, codes.astype(np.intp), weights
