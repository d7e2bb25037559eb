"""Operating points for two classes, from the sums alone: where to put the threshold, and what to expect of it there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from mergesvm.analysis.score_normals import ScoreNormals
from mergesvm.data.labels import Label
from mergesvm.errors import ParameterError
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.models.linear import LinearModel

Numbers = NDArray[np.float64]
Pairs = Sequence[tuple[LinearModel, Knowledge]]

POINTS = 401
"""Thresholds that are looked at for each normal of a mixture."""


@dataclass(frozen=True)
class OperatingPoint:
    """A threshold for two classes, and what to expect of it if scores are normal within each class.

    Attributes
    ----------
    threshold : float
        On ``decision_function``: the second class is predicted above it, the first up to it. ``model.at(threshold)``
        is the model that does so.
    positive : label
        The class that recall and precision are of.
    recall : float
        The share of the positive class that is predicted as such.
    false_positive_rate : float
        The share of the other class that is predicted as positive.
    precision : float
        The share of the positive class among those predicted as it; NaN where none are.
    accuracy : float
    cost : float or None
        The mean cost of a row, where costs were given.
    shares : dict
        The share of each class in all rows.
    """

    threshold: float
    positive: Label
    recall: float
    false_positive_rate: float
    precision: float
    accuracy: float
    cost: float | None
    shares: dict[Label, float]


@dataclass(frozen=True, eq=False)
class OperatingCurve:
    """What to expect at every threshold, from none that are predicted as positive to all.

    Attributes
    ----------
    thresholds, recall, false_positive_rate, precision : arrays of shape (points,)
        The true and the false positive rate rise from 0 to 1; precision is NaN where none are predicted as positive.
    positive : label
    auc : float
        The area under the ROC curve: the probability that one of the positive class scores higher than another.
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
    """Where to put the threshold between two classes for a stated cost, recall or false-positive rate, with no data.

    Within class c the score is taken as normal, of mean w.mu_c + b and variance w' Sigma_c w of that class. Exactly one
    of ``cost``, ``recall`` and ``false_positive_rate`` is given.

    Parameters
    ----------
    knowledge : Knowledge, or sequence of (model, knowledge) pairs
        Of the rows on which the model is to work: those that it learned from, or better, others. Pairs are those of
        cross-validation, each model with the rows it had not seen: the scores are then a mixture of their normals.
    model : LinearModel
        Of the two classes of the knowledge. Not with pairs.
    cost : pair of numbers, optional
        What a false positive and a false negative cost: the least expected cost.
    recall : float, optional
        The highest threshold at which so large a share of the positive class is found, between 0 and 1.
    false_positive_rate : float, optional
        The lowest threshold at which no more of the other class is taken for positive, between 0 and 1.
    positive : label, optional
        The class to be found; the second by default. If it is the first, high and low change places.

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
    >>> safe = model.at(point.threshold)
    """
    positive_at, normals = _prepared(knowledge, model, positive)
    given = {"cost": cost, "recall": recall, "false_positive_rate": false_positive_rate}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise ParameterError(
            f"Exactly one of cost, recall and false_positive_rate decides on the threshold, not "
            f"{' and '.join(named) or 'none'}."
        )
    # The other class is what the positive one is told from; seen from the first, scores count downwards.
    sides = normals if positive_at else normals.mirrored()
    if recall is not None:
        missed = 1 - _share("recall", recall)
        threshold = _last(lambda at: sides.below(1, at) <= missed, sides)
    elif false_positive_rate is not None:
        allowed = _share("false_positive_rate", false_positive_rate)
        threshold = -_last(lambda at: sides.above(0, -at) <= allowed, sides, -1)
    else:
        assert cost is not None
        threshold = _cheapest(sides, *_costs(cost))
    return _point(sides, threshold, positive_at, normals.labels, None if cost is None else _costs(cost))


def operating_curve(
    knowledge: Knowledge | Pairs, model: LinearModel | None = None, *, positive: Label | None = None
) -> OperatingCurve:
    """The expected ROC curve of two classes and the precision along it, with no data; see :func:`operating_point`.

    >>> import mergesvm as ms
    >>> k = ms.learn([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    >>> curve = operating_curve(k, ms.solve(k))
    >>> round(curve.auc, 3), bool((curve.recall >= curve.false_positive_rate).all())
    (0.998, True)
    """
    positive_at, normals = _prepared(knowledge, model, positive)
    sides = normals if positive_at else normals.mirrored()
    thresholds = sides.grid(POINTS)[::-1]
    # Rising but for rounding, and so made to rise.
    recall, false = (np.maximum.accumulate(sides.above(side, thresholds)) for side in (1, 0))
    precision = _precision(sides.shares, recall, false)
    signed = thresholds if positive_at else -thresholds
    return OperatingCurve(signed, recall, false, precision, normals.labels[positive_at], sides.auc)


def _prepared(
    knowledge: Knowledge | Pairs, model: LinearModel | None, positive: Label | None
) -> tuple[int, ScoreNormals]:
    if isinstance(knowledge, Knowledge):
        if model is None:
            raise ParameterError("An operating point is that of a model: give one beside the knowledge, or pairs.")
        normals = ScoreNormals.of([(model, knowledge)])
    elif isinstance(knowledge, Folds):
        raise ParameterError(
            "Folds are not one knowledge: give folds.total beside a model of all rows, or pairs of a model and the "
            "knowledge of the fold that it has not seen."
        )
    else:
        if model is not None:
            raise ParameterError("Pairs have models of their own: leave model out.")
        normals = ScoreNormals.of(list(knowledge))
    if positive is None:
        return 1, normals
    if positive not in normals.labels:
        one, other = normals.labels
        raise ParameterError(f"positive has to be one of the classes {one!r} and {other!r}, not {positive!r}.")
    return normals.labels.index(positive), normals


def _share(name: str, value: Any) -> float:
    if not isinstance(value, (int, float, np.integer, np.floating)) or not 0 < value < 1:
        raise ParameterError(f"{name} has to be a number above 0 and below 1, not {value!r}.")
    return float(value)


def _costs(cost: Any) -> tuple[float, float]:
    try:
        false_positive, false_negative = (float(value) for value in cost)
    except (TypeError, ValueError):
        raise ParameterError(
            f"cost has to be two numbers, that of a false positive and that of a false negative, not {cost!r}."
        ) from None
    if not (0 < false_positive < np.inf and 0 < false_negative < np.inf):
        raise ParameterError(f"Both costs have to be positive numbers, not {cost!r}.")
    return false_positive, false_negative


def _last(holds: Any, sides: ScoreNormals, sign: int = 1) -> float:
    """The last number up to which something holds, to the last bit: found by halving, whatever the mixture."""
    low, high = sorted((sign * sides.lowest, sign * sides.highest))
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if holds(middle) else (low, middle)
    return float(low)


def _cheapest(sides: ScoreNormals, false_positive: float, false_negative: float) -> float:
    """The threshold of least expected cost: c+ p0 P0(score > t) + c- p1 P1(score <= t).

    Its slope is c- p1 f1(t) - c+ p0 f0(t), which changes its sign where the log-densities meet. A mixture may have
    several such minima, and where one class is rare or its scores are wide, none may be better than to predict but one
    class: then the threshold lies beyond all scores.
    """
    prices = np.array([false_positive, false_negative]) * sides.shares
    bias = float(np.log(prices[1]) - np.log(prices[0]))

    def slope(threshold: Any) -> Any:
        return sides.log_density(1, threshold) - sides.log_density(0, threshold) + bias

    grid = np.concatenate([[sides.lowest], sides.grid(POINTS), [sides.highest]])
    rising = slope(grid) > 0
    minima = [
        brentq(slope, grid[at], grid[at + 1], xtol=1e-300, rtol=4 * np.finfo(np.float64).eps)
        for at in np.flatnonzero(~rising[:-1] & rising[1:])
    ]
    candidates = np.array([*minima, sides.lowest, sides.highest])
    costs = prices[0] * sides.above(0, candidates) + prices[1] * sides.below(1, candidates)
    return float(candidates[np.argmin(costs)])


def _point(
    sides: ScoreNormals,
    threshold: float,
    positive_at: int,
    labels: tuple[Label, Label],
    costs: tuple[float, float] | None,
) -> OperatingPoint:
    found, missed, false = (
        float(side) for side in (sides.above(1, threshold), sides.below(1, threshold), sides.above(0, threshold))
    )
    other, own = sides.shares.tolist()
    return OperatingPoint(
        threshold if positive_at else -threshold,
        labels[positive_at],
        found,
        false,
        float(_precision(sides.shares, found, false)),
        own * found + other * float(sides.below(0, threshold)),
        None if costs is None else costs[0] * other * false + costs[1] * own * missed,
        dict(zip(labels, (other, own) if positive_at else (own, other), strict=True)),
    )


def _precision(shares: Numbers, recall: Any, false: Any) -> Numbers:
    with np.errstate(invalid="ignore"):
        precision: Numbers = np.divide(shares[1] * recall, shares[1] * recall + shares[0] * false)
    return precision
