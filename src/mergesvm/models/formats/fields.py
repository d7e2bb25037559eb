"""Parts of the files of all models: options, class weights, moments of scores and calibration."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import plain_label
from mergesvm.files.content import Content
from mergesvm.files.header import Header
from mergesvm.models.calibration import CURVES, Calibration, Isotonic, Platt
from mergesvm.models.score_moments import ClassMoments, SideMoments
from mergesvm.multiclass.schemes import CLASS_WEIGHT_SCHEMES

PLATT, ISOTONIC = ("slope", "offset"), ("knots", "values")
"""Attributes of calibration curves. In files their names follow "calibration."; those of Platt are plural."""


def weight_fields(class_weight: Any) -> Any:
    """Class weights as plain values for a header.

    >>> weight_fields({"spam": 5.0})
    [{'class': 'spam', 'weight': 5.0}]
    """
    if not isinstance(class_weight, dict):
        return class_weight
    return [{"class": plain_label(label), "weight": float(weight)} for label, weight in class_weight.items()]


def read_options(header: Header) -> Header:
    """The options with which a model was trained; their field is called "terms"."""
    parts = header.parts("terms")
    if len(parts) != 1:
        header.refuse("does not have exactly one set of terms")
    return parts[0]


def read_weights(options: Header) -> Any:
    """Read class weights and check them."""
    weights = options.take("class_weight", str, list, type(None))
    if isinstance(weights, str):
        return options.text("class_weight", *CLASS_WEIGHT_SCHEMES)
    if weights is None:
        return None
    pairs = options.parts("class_weight")
    found = {pair.take("class", str, int, float, bool): pair.number("weight") for pair in pairs}
    if len(found) < len(pairs) or any(weight < 0 for weight in found.values()):
        options.refuse("has a class with two weights or a negative weight")
    return found


MOMENT_ARRAYS = {
    "means": "scores.means",
    "variances": "scores.variances",
    "counts": "scores.counts",
    "covariance": "scores.covariance",
    "proportions": "scores.shares",
}
"""Names of the attributes of moments in files."""


def moment_arrays(moments: SideMoments | ClassMoments | None) -> dict[str, NDArray[Any]]:
    """Moments as arrays, by their names in files."""
    return {MOMENT_ARRAYS[name]: value for name, value in vars(moments).items() if isinstance(value, np.ndarray)}


def read_side_moments(content: Content, problems: int, several: bool) -> SideMoments:
    """Read the moments of the two sides of each problem; ``several`` says whether there is more than one class."""
    means = content.expect("scores.means", (problems, 2))
    variances = content.expect("scores.variances", (problems,))
    counts = content.expect("scores.counts", (problems, 2))
    _not_negative(content, variances, counts)
    if several and not (counts > 0).all():
        content.refuse("a side without rows")
    return SideMoments(means, variances, counts)


def read_class_moments(content: Content, n_classes: int) -> ClassMoments:
    """Read the joint moments of all classes, and check them."""
    means = content.expect("scores.means", (n_classes, n_classes))
    covariance = content.expect("scores.covariance", (n_classes, n_classes))
    proportions = content.expect("scores.shares", (n_classes,))
    _not_negative(content, proportions)
    return ClassMoments(means, covariance, proportions)


def _not_negative(content: Content, *arrays: NDArray[np.float64]) -> None:
    if any((array < 0).any() for array in arrays):
        content.refuse("a negative variance or count")


def calibration_fields(calibration: Calibration | None) -> dict[str, Any]:
    """Header fields of a calibration; none if the model is not calibrated."""
    if calibration is None:
        return {}
    return {"calibration": [{"method": calibration.method, "rows": calibration.rows}]}


def calibration_arrays(calibration: Calibration | None) -> dict[str, NDArray[Any]]:
    """The curves of a calibration as arrays, by their names in files.

    >>> curve = Isotonic(np.array([0.0, 1.0]), np.array([0.25, 0.5]))
    >>> [name for name in calibration_arrays(Calibration("isotonic", 9, (curve,)))]
    ['calibration.starts', 'calibration.knots', 'calibration.values']
    """
    if calibration is None:
        return {}
    curves = calibration.curves
    if isinstance(curves[0], Platt):
        return {f"calibration.{name}s": np.array([getattr(curve, name) for curve in curves]) for name in PLATT}
    joined = {name: np.concatenate([getattr(curve, name) for curve in curves]) for name in ISOTONIC}
    starts = np.cumsum([0, *(len(curve.knots) for curve in curves if isinstance(curve, Isotonic))]).astype("<i8")
    return {"calibration.starts": starts} | {f"calibration.{name}": joined[name] for name in ISOTONIC}


def read_calibration(header: Header, content: Content, n_classes: int) -> Calibration | None:
    """Read the calibration of a model and check it; None if the header has none."""
    if "calibration" not in header.fields:
        return None
    parts = header.parts("calibration")
    if len(parts) != 1:
        header.refuse("does not have exactly one calibration")
    if n_classes < 2:
        header.refuse("has a calibration for a model of one class")
    method, rows = parts[0].text("method", *CURVES), parts[0].whole("rows", n_classes)
    curves = 1 if n_classes == 2 else n_classes
    if method == "platt":
        slopes, offsets = (content.expect(f"calibration.{name}s", (curves,)) for name in PLATT)
        sigmoids = tuple(Platt(*numbers) for numbers in zip(slopes.tolist(), offsets.tolist(), strict=True))
        return Calibration(method, rows, sigmoids)
    starts = content.expect("calibration.starts", (curves + 1,), "<i8")
    if starts[0] != 0 or (starts[1:] <= starts[:-1]).any():
        content.refuse("a calibration whose starts do not increase from 0")
    knots, values = (content.expect(f"calibration.{name}", (int(starts[-1]),)) for name in ISOTONIC)
    if (values < 0).any() or (values > 1).any():
        content.refuse("a calibrated probability outside of 0 to 1")
    steps = tuple(Isotonic(knots[start:stop], values[start:stop]) for start, stop in pairwise(starts.tolist()))
    if any((step.knots[1:] <= step.knots[:-1]).any() for step in steps):
        content.refuse("knots of a calibration that do not increase")
    if any((step.values[1:] < step.values[:-1]).any() for step in steps):
        content.refuse("calibrated probabilities that decrease")
    return Calibration(method, rows, steps)
