"""Operating points of two classes from the sums alone: the decision threshold, and the expected rates there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.score_normals import ScoreNormals
from mergesvm.data.labels import Label
from mergesvm.errors import ParameterError
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.models.linear import LinearModel

Numbers = NDArray[np.float64]
Pairs = Sequence[tuple[LinearModel, Knowledge]]

MAX_BISECTIONS = 2200
"""Enough to halve any interval of float64 down to one number."""

GRID_POINTS = 401
"""Number of thresholds evaluated per component of a mixture."""


@dataclass(frozen=True)
class OperatingPoint:
    """A decision threshold for two classes, and its expected rates if scores are normal within each class.

    Attributes
    ----------
    threshold : float
        For ``decision_function``: the second class is predicted from it on. ``model.with_threshold(threshold)`` is
        the model that does so.
    positive : label
        The class to which recall and precision refer.
    recall : float
        Fraction of the positive class that is predicted as positive.
    false_positive_rate : float
        Fraction of the other class that is predicted as positive.
    precision : float
        Fraction of the rows predicted as positive that are; NaN if there are none.
    accuracy : float
    cost : float or None
        Mean cost per row, if costs were given.
    prevalence : dict
        Fraction of all rows in each class.
    """

    threshold: float
    positive: Label
    recall: float
    false_positive_rate: float
    precision: float
    accuracy: float
    cost: float | None
    prevalence: dict[Label, float]


@dataclass(frozen=True, eq=False)
class OperatingCurve:
    """Expected rates at all thresholds, from no row predicted as positive to all rows.

    Attributes
    ----------
    thresholds, recall, false_positive_rate, precision : arrays of shape (points,)
        True and false positive rates rise from 0 to 1; precision is NaN where no row is predicted as positive.
    positive : label
    auc : float
        Area under the ROC curve: probability that a positive row scores higher than a negative one.
    """

    thresholds: Numbers
    recall: Numbers
    false_positive_rate: Numbers
    precision: Numbers
    positive: Label
    auc: float


def operating_point(
    knowledge: Knowledge | Pairs,
    model: LinearModel | None = None,
    *,
    cost: tuple[float, float] | None = None,
    recall: float | None = None,
    false_positive_rate: float | None = None,
    positive: Label | None = None,
) -> OperatingPoint:
    """Decision threshold between two classes for a given cost, recall or false positive rate, without data.

    Assumes that scores are normal within class c, with mean w.mu_c + b and variance w' Sigma_c w. Give exactly one of
    ``cost``, ``recall`` and ``false_positive_rate``.

    Parameters
    ----------
    knowledge : Knowledge, or sequence of (model, knowledge) pairs
        Knowledge of rows to which the model is applied: the training rows or, better, others. Pairs come from
        cross-validation (:meth:`Validation.held_out`), each model with rows that it has not seen: scores are then a
        mixture of normals.
    model : LinearModel
        A model of two classes. Not with pairs.
    cost : pair of numbers, optional
        Cost of a false positive and of a false negative: minimises the expected cost.
    recall : float, optional
        Between 0 and 1: the highest threshold with at least this recall.
    false_positive_rate : float, optional
        Between 0 and 1: the lowest threshold with at most this false positive rate.
    positive : label, optional
        The positive class (default: the second). If it is the first, low scores are positive.

    Examples
    --------
    >>> import mergesvm as ms, numpy as np
    >>> generator = np.random.default_rng(0)
    >>> y = np.arange(20_000) % 10 == 0
    >>> knowledge = ms.learn(generator.normal(size=(20_000, 1)) + 2 * y[:, None], y)
    >>> model = ms.solve(knowledge)
    >>> point = operating_point(knowledge, model, recall=0.9)
    >>> round(point.recall, 6), round(point.false_positive_rate, 2), round(point.precision, 2)
    (0.9, 0.24, 0.29)
    >>> safe = model.with_threshold(point.threshold)
    """
    positive_at, sides = _prepared(knowledge, model, positive)
    given = {"cost": cost, "recall": recall, "false_positive_rate": false_positive_rate}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise ParameterError(
            f"Give exactly one of cost, recall and false_positive_rate, not {' and '.join(named) or 'none'}."
        )
    costs = None if cost is None else _checked_costs(cost)
    if costs is not None:
        threshold = _cheapest(sides, *costs)
    elif recall is not None:
        missed = 1 - _checked_rate("recall", recall)
        threshold = _last_that_holds(lambda at: sides.below(1, at) <= missed, sides)
    else:
        allowed = _checked_rate("false_positive_rate", false_positive_rate)
        threshold = -_last_that_holds(lambda at: sides.above(0, -at) <= allowed, sides, -1)
    return _point(sides, threshold, positive_at, costs)


def operating_curve(
    knowledge: Knowledge | Pairs, model: LinearModel | None = None, *, positive: Label | None = None
) -> OperatingCurve:
    """Expected ROC curve of two classes, and the precision along it, without data; see :func:`operating_point`.

    >>> import mergesvm as ms
    >>> k = ms.learn([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    >>> curve = operating_curve(k, ms.solve(k))
    >>> round(curve.auc, 3), bool((curve.recall >= curve.false_positive_rate).all())
    (0.998, True)
    """
    positive_at, sides = _prepared(knowledge, model, positive)
    thresholds = sides.grid(GRID_POINTS)[::-1]
    # Monotonic despite rounding.
    recall, false = (np.maximum.accumulate(sides.above(side, thresholds)) for side in (1, 0))
    precision = _precision(sides.prevalence, recall, false)
    signed = thresholds if positive_at else -thresholds
    return OperatingCurve(signed, recall, false, precision, sides.labels[positive_at], sides.auc)


def _prepared(
    knowledge: Knowledge | Pairs, model: LinearModel | None, positive: Label | None
) -> tuple[int, ScoreNormals]:
    """Index of the positive class, and the mixtures of normals in which it is on side 1."""
    if isinstance(knowledge, Knowledge):
        if model is None:
            raise ParameterError(
                "model is missing. Give a model with the knowledge, or a list of (model, knowledge) pairs."
            )
        normals = ScoreNormals.of([(model, knowledge)])
    elif isinstance(knowledge, Folds):
        raise ParameterError(
            "Folds are not supported. Give folds.total and a model of all rows, or the pairs of validation.held_out()."
        )
    else:
        if model is not None:
            raise ParameterError("Pairs contain models: leave out model.")
        normals = ScoreNormals.of(list(knowledge))
    if positive is None:
        return 1, normals
    if positive not in normals.labels:
        one, other = normals.labels
        raise ParameterError(f"positive must be one of the classes {one!r} and {other!r}, not {positive!r}.")
    positive_at = normals.labels.index(positive)
    return positive_at, normals if positive_at else normals.mirrored()


def _checked_rate(name: str, value: Any) -> float:
    if not isinstance(value, (int, float, np.integer, np.floating)) or not 0 < value < 1:
        raise ParameterError(f"{name} must be a number between 0 and 1, not {value!r}.")
    return float(value)


def _checked_costs(cost: Any) -> tuple[float, float]:
    try:
        false_positive, false_negative = (float(value) for value in cost)
    except (TypeError, ValueError):
        raise ParameterError(
            f"cost must be two numbers, for a false positive and for a false negative, not {cost!r}."
        ) from None
    if not (0 < false_positive < np.inf and 0 < false_negative < np.inf):
        raise ParameterError(f"Both costs must be positive and finite, not {cost!r}.")
    return false_positive, false_negative


def _last_that_holds(holds: Any, sides: ScoreNormals, sign: int = 1) -> float:
    """The last number up to which a condition holds, to the last bit, by bisection."""
    low, high = sorted(sign * limit for limit in sides.limits)
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if holds(middle) else (low, middle)
    return float(low)


def _cheapest(sides: ScoreNormals, false_positive: float, false_negative: float) -> float:
    """Threshold of minimal expected cost c+ p0 P0(score > t) + c- p1 P1(score <= t).

    Its derivative c- p1 f1(t) - c+ p0 f0(t) changes sign where the weighted log-densities are equal. A mixture may have
    several minima. If a class is rare or its scores have a wide spread, predicting a single class may be cheapest: then
    the threshold is beyond all scores.
    """
    from scipy.optimize import brentq  # slow to import

    prices = np.array([false_positive, false_negative]) * sides.prevalence
    bias = float(np.log(prices[1]) - np.log(prices[0]))

    def slope(threshold: Any) -> Any:
        return sides.log_density(1, threshold) - sides.log_density(0, threshold) + bias

    lowest, highest = sides.limits
    grid = np.concatenate([[lowest], sides.grid(GRID_POINTS), [highest]])
    rising = slope(grid) > 0
    minima = [
        brentq(slope, grid[at], grid[at + 1], xtol=1e-300, rtol=4 * np.finfo(np.float64).eps, maxiter=MAX_BISECTIONS)
        for at in np.flatnonzero(~rising[:-1] & rising[1:])
    ]
    candidates = np.array([*minima, lowest, highest])
    costs = prices[0] * sides.above(0, candidates) + prices[1] * sides.below(1, candidates)
    return float(candidates[np.argmin(costs)])


def _point(
    sides: ScoreNormals, threshold: float, positive_at: int, costs: tuple[float, float] | None
) -> OperatingPoint:
    found, missed, false = (
        float(side) for side in (sides.above(1, threshold), sides.below(1, threshold), sides.above(0, threshold))
    )
    other, own = sides.prevalence.tolist()
    return OperatingPoint(
        threshold if positive_at else -threshold,
        sides.labels[positive_at],
        found,
        false,
        float(_precision(sides.prevalence, found, false)),
        own * found + other * float(sides.below(0, threshold)),
        None if costs is None else costs[0] * other * false + costs[1] * own * missed,
        dict(zip(sides.labels, (other, own) if positive_at else (own, other), strict=True)),
    )


def _precision(prevalence: Numbers, recall: Any, false: Any) -> Numbers:
    with np.errstate(invalid="ignore"):
        precision: Numbers = np.divide(prevalence[1] * recall, prevalence[1] * recall + prevalence[0] * false)
    return precision
