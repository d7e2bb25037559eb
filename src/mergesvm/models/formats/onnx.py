"""Models as ONNX graphs, written in ONNX's textual syntax.

All numbers are double, except within feature maps of single precision. In ONNX's numbering of types, double is 11 and
int64 is 7. After the scores, no step holds more per row than one number per pair of classes or per knot of an isotonic
curve.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.errors import ParameterError
from mergesvm.files.atomic import write_atomically
from mergesvm.knowledge.signature import Signature
from mergesvm.models.calibration import Calibration
from mergesvm.models.formats.onnx_calibration import calibration_steps
from mergesvm.models.formats.onnx_features import Constants, map_steps
from mergesvm.models.score_moments import ClassMoments, SideMoments

VERSIONS = '<ir_version: 8, opset_import: ["": 18]>'
"""Versions of early 2023: supported since onnxruntime 1.14, with all operators needed in double."""

SURROGATE = re.compile("[\ud800-\udfff]")
"""Halves of characters, which UTF-8 cannot encode."""

MAX_FILE_BYTES = 2**31 - 1
"""The maximum size of an ONNX file: it is one protobuf message, which is limited to 2 GiB."""

Steps = tuple[str, Constants]
"""Steps of a graph as text, and the constants they refer to by name."""

NUMBERS: Constants = {
    "zero": np.array(0.0),
    "one": np.array(1.0),
    "two": np.array(2.0),
    "three": np.array(3.0),
    "minus_one": np.array(-1.0),
    "two_thirds": np.array(2 / 3),
    "minus_infinity": np.array(-np.inf),
    "min_probability": np.array(1e-12),
    "max_probability": np.array(1 - 1e-12),
    "true": np.array(True),
    "next": np.array(1),
    "columns": np.array([1]),
}

# Gemm instead of MatMul, for the same reason as in feature maps.
SCORES = """
    centred = Sub({rows}, anchor)
    hyperplane_scores = Gemm(centred, coefs, offsets)
"""

HIGHEST_WINS = """
    winner = ArgMax <axis = 1, keepdims = 0> (hyperplane_scores)
"""

SOFTMAX = """
    heated = Mul(hyperplane_scores, temperature)
    probabilities = Softmax <axis = 1> (heated)
"""

# Not the operator Sigmoid: onnxruntime computes small values as 1 - (1 - p), which loses digits.
POSITIVE_PROBABILITY = """
    from_centre = Sub(hyperplane_scores, centre)
    above_prior = Mul(from_centre, slope)
    log_odds = Add(above_prior, prior)
    log_odds_against = Neg(log_odds)
    odds_against = Exp(log_odds_against)
    all_odds = Add(odds_against, one)
    positive_probability = Div(one, all_odds)
"""

SIGN_WINS = """
    is_last = GreaterOrEqual(scores, zero)
    winner = Cast <to = 7> (is_last)
    negative_probability = Sub(one, positive_probability)
    probabilities = Concat <axis = 1> (negative_probability, positive_probability)
"""


class HyperplaneModel(Protocol):
    """The parts of a model that a graph is built from."""

    labels: tuple[Label, ...]
    classes_: NDArray[Any]
    signature: Signature
    feature_names_: tuple[str, ...] | None

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients, (problems, features)."""

    @property
    def anchor_(self) -> NDArray[np.float64]:
        """The point from which differences are scored, (features,)."""

    @property
    def offsets_(self) -> NDArray[np.float64]:
        """Scores at the anchor, (problems,)."""


def write_onnx(path: str | os.PathLike[str], model: HyperplaneModel, steps: Steps, *, overwrite: bool = True) -> None:
    """Write a model as an ONNX graph from ``X`` to ``label``, ``scores`` and ``probabilities``.

    These equal what ``predict``, ``decision_function`` and ``predict_proba`` return for dense rows, up to the order of
    additions. A graph raises no errors: rows that are not finite get an arbitrary label.

    Parameters
    ----------
    path : path
    model : HyperplaneModel
    steps : Steps
        Steps from ``hyperplane_scores`` to ``scores``, ``winner`` and ``probabilities``.

    Examples
    --------
    >>> import tempfile, mergesvm as ms, onnxruntime
    >>> model = ms.solve(ms.learn([[0.0], [1.0], [2.0], [3.0]], [7, 7, 8, 8]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.to_onnx(f"{folder}/model.onnx")
    ...     session = onnxruntime.InferenceSession(f"{folder}/model.onnx")
    >>> session.run(["label"], {"X": np.array([[0.2], [2.9]])})[0].tolist()
    [7, 8]
    """
    try:
        import onnx
    except ImportError as error:
        raise ParameterError(
            "Writing ONNX graphs needs the package onnx, which is not installed. "
            "Install it with: pip install 'mergesvm[onnx]'"
        ) from error
    text, constants = _graph(model, steps)
    notes = _notes(model)
    size = sum(array.nbytes for array in constants.values()) + sum(map(len, notes.values())) + len(text)
    if size > MAX_FILE_BYTES:
        raise ParameterError(
            f"{model!r} would take {size:,} bytes as an ONNX file, which can have at most {MAX_FILE_BYTES:,}. "
            f"Learn from fewer features, or solve with multiclass='ovr'."
        )
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in constants.items())
    proto.producer_name, proto.producer_version = "mergesvm", version("mergesvm")
    proto.doc_string = f"{model!r}: double rows X to label, scores (decision_function) and probabilities."
    onnx.helper.set_model_props(proto, notes)
    onnx.checker.check_model(proto, full_check=True)
    write_atomically(path, proto.SerializeToString(), overwrite=overwrite)


def _notes(model: HyperplaneModel) -> dict[str, str]:
    notes = {"classes": json.dumps(model.labels)}
    if model.feature_names_ is not None:
        notes["feature_names"] = json.dumps(model.feature_names_)
    return notes


def _graph(model: HyperplaneModel, steps: Steps) -> Steps:
    """Steps of the complete graph, from the input rows to the outputs, and their constants."""
    label_type, classes = _label_table(model)
    n_classes = len(classes)
    mapping, map_constants, rows = map_steps(model.signature.features)
    text, constants = steps
    constants |= {"anchor": model.anchor_, "coefs": model.coef_.T, "offsets": model.offsets_, "classes": classes}
    shape = f"rows, {n_classes}" if n_classes > 2 else "rows"
    outputs = f"{label_type}[rows] label, double[{shape}] scores, double[rows, {n_classes}] probabilities"
    body = f"{mapping}{SCORES.format(rows=rows)}{text}    label = Gather(classes, winner)"
    text = f"{VERSIONS} mergesvm (double[rows, {model.signature.inputs}] X) => ({outputs}) {{{body}}}"
    used = set(re.findall(r"\w+", text))
    return text, {name: array for name, array in (NUMBERS | map_constants | constants).items() if name in used}


def _label_table(model: HyperplaneModel) -> tuple[str, NDArray[Any]]:
    """The ONNX type of the labels, and the classes as an array of that type."""
    kind = model.classes_.dtype.kind
    if kind == "U":
        surrogate = next((label for label in map(str, model.labels) if SURROGATE.search(label)), None)
        if surrogate is not None:
            raise ParameterError(f"Class {surrogate!r} is not valid Unicode, as ONNX needs. Learn other labels.")
        return "string", model.classes_.astype(object)
    if kind in "bf":
        return "bool" if kind == "b" else "double", model.classes_
    for label in model.labels:
        if not -(2**63) <= int(label) < 2**63:
            raise ParameterError(f"Class {label} does not fit into 64 bits, as ONNX needs. Learn labels as text.")
    return "int64", model.classes_.astype(np.int64)


def linear_steps(n_classes: int, moments: SideMoments | ClassMoments | None, calibration: Calibration | None) -> Steps:
    """Steps of one-vs-rest: one hyperplane per class, or a single one for two classes."""
    output = "scores = Identity(hyperplane_scores)" if n_classes > 2 else "scores = Squeeze(hyperplane_scores, columns)"
    if calibration is not None:
        steps, constants = calibration_steps(calibration)
        return output + "\n" + steps + (SIGN_WINS if n_classes == 2 else HIGHEST_WINS), constants
    if n_classes == 2 and isinstance(moments, SideMoments):
        return output + POSITIVE_PROBABILITY + SIGN_WINS, log_odds_constants(moments)
    # A single class has the highest score and probability 1 at any temperature.
    temperature = moments.temperature if isinstance(moments, ClassMoments) else 1.0
    return output + HIGHEST_WINS + SOFTMAX, {"temperature": np.array(temperature)}


def log_odds_constants(moments: SideMoments) -> Constants:
    """Constants of ``POSITIVE_PROBABILITY``."""
    centre = moments.means.mean(axis=1)
    half = (moments.means[:, 1] - moments.means[:, 0]) / 2
    # Centred and without prior, the log-odds of a score of 1 are the slope.
    centred = replace(moments, means=np.stack([-half, half], axis=1), counts=np.ones_like(moments.counts))
    slope = centred.log_odds(np.ones((1, len(half))))
    return {"centre": centre, "slope": slope[0], "prior": moments.log_odds(centre[None])[0]}
