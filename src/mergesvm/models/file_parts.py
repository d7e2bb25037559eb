"""What files of all models have in common: class weights, and the moments of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import plain_label
from mergesvm.files import Content, Header
from mergesvm.solvers import ClassMoments, SideMoments
from mergesvm.solvers.weighting import SCHEMES


def weight_fields(class_weight: Any) -> Any:
    """Class weights as plain values.

    >>> weight_fields({"spam": 5.0})
    [{'class': 'spam', 'weight': 5.0}]
    """
    if not isinstance(class_weight, dict):
        return class_weight
    return [{"class": plain_label(label), "weight": float(weight)} for label, weight in class_weight.items()]


def read_terms(header: Header) -> Header:
    """The one set of terms on which a model was made."""
    parts = header.parts("terms")
    if len(parts) != 1:
        header.refuse("has not one set of terms")
    return parts[0]


def read_weights(terms: Header) -> Any:
    """Class weights from plain values, each checked."""
    weights = terms.take("class_weight", str, list, type(None))
    if isinstance(weights, str):
        return terms.text("class_weight", *SCHEMES)
    if weights is None:
        return None
    pairs = terms.parts("class_weight")
    found = {pair.take("class", str, int, float, bool): pair.number("weight") for pair in pairs}
    if len(found) < len(pairs) or any(weight < 0 for weight in found.values()):
        terms.refuse("weighs a class twice, or by less than nothing")
    return found


def moment_arrays(moments: SideMoments | ClassMoments | None) -> dict[str, NDArray[Any]]:
    """Moments as arrays, by the names they have in files."""
    return {f"scores.{name}": value for name, value in vars(moments).items() if isinstance(value, np.ndarray)}


def read_side_moments(content: Content, problems: int, several: bool) -> SideMoments:
    """Moments of the two sides of each problem, each checked; ``several`` is whether there are two classes or more."""
    means = content.expect("scores.means", (problems, 2))
    variances = content.expect("scores.variances", (problems,))
    counts = content.expect("scores.counts", (problems, 2))
    _not_negative(content, variances, counts)
    if several and not (counts > 0).all():
        content.refuse("a side of no rows")
    return SideMoments(means, variances, counts)


def read_class_moments(content: Content, n_classes: int) -> ClassMoments:
    """Moments of all classes together, each checked."""
    means = content.expect("scores.means", (n_classes, n_classes))
    covariance = content.expect("scores.covariance", (n_classes, n_classes))
    shares = content.expect("scores.shares", (n_classes,))
    _not_negative(content, shares)
    return ClassMoments(means, covariance, shares)


def _not_negative(content: Content, *arrays: NDArray[np.float64]) -> None:
    if any((array < 0).any() for array in arrays):
        content.refuse("a variance or count that is negative")
