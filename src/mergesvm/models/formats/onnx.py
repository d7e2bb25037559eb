"""Models as ONNX graphs, for predicting where there is no Python: the steps are written in ONNX's own language.

All numbers are double, but within feature maps of single precision. As a type, double is number 11 in ONNX, and int64
is 7. After the scores, no step holds more of a row than one number for each pair of classes, or each step of isotonic
curves.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import ParameterError
from mergesvm.files.atomic import write_atomically
from mergesvm.models.formats.onnx_calibration import calibration_steps
from mergesvm.models.formats.onnx_features import Constants, map_steps
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.models.score_moments import ClassMoments, SideMoments

VERSIONS = '<ir_version: 8, opset_import: ["": 18]>'
"""Of early 2023: old enough for every onnxruntime since 1.14, and with all that is needed in double."""

LARGEST = 2**31 - 1
"""An ONNX file is one protobuf message, which cannot have more bytes."""

NUMBERS: Constants = {
    "zero": np.array(0.0),
    "one": np.array(1.0),
    "two": np.array(2.0),
    "three": np.array(3.0),
    "minus_one": np.array(-1.0),
    "two_thirds": np.array(2 / 3),
    "minus_infinity": np.array(-np.inf),
    "least_share": np.array(1e-12),
    "most_share": np.array(1 - 1e-12),
    "true": np.array(True),
    "next": np.array(1),
    "columns": np.array([1]),
}

# By Gemm, not by MatMul, for the same reason as in feature maps.
SCORES = """
    near = Sub({rows}, anchor)
    plane_scores = Gemm(near, planes, offsets)
"""

HIGHEST_WINS = """
    winner = ArgMax <axis = 1, keepdims = 0> (plane_scores)
"""

SOFTMAX = """
    heated = Mul(plane_scores, temperature)
    probabilities = Softmax <axis = 1> (heated)
"""

# Not by the operator Sigmoid: onnxruntime takes small ones as 1 - (1 - p), of which few digits are left.
POSITIVE_SHARE = """
    from_centre = Sub(plane_scores, centre)
    above_prior = Mul(from_centre, slope)
    log_odds = Add(above_prior, prior)
    log_odds_against = Neg(log_odds)
    odds_against = Exp(log_odds_against)
    all_odds = Add(odds_against, one)
    positive_share = Div(one, all_odds)
"""

SIGN_WINS = """
    is_last = Greater(scores, zero)
    winner = Cast <to = 7> (is_last)
    negative_share = Sub(one, positive_share)
    probabilities = Concat <axis = 1> (negative_share, positive_share)
"""

# The signs are -1 for the first class of a pair and 1 for the second, members are 1 for both. Among m + 1 classes,
# victories less defeats are twice the votes less m, so that they rank the classes as votes do.
VOTES = """
    first_members = Cast <to = 11> (first)
    second_members = Cast <to = 11> (second)
    signs = Sub(second_members, first_members)
    members_of_pairs = Add(first_members, second_members)
    members = Transpose(members_of_pairs)
    second_wins = Greater(plane_scores, zero)
    outcomes = Where(second_wins, one, minus_one)
    balance = MatMul(outcomes, signs)
    doubled_votes = Add(balance, opponents)
    votes = Div(doubled_votes, two)
    most_votes = ReduceMax(votes, columns)
    leaders = Equal(votes, most_votes)
"""

DECISION = """
    margins = MatMul(plane_scores, signs)
    margin_sizes = Abs(margins)
    margin_sizes_and_one = Add(margin_sizes, one)
    margin_scales = Mul(margin_sizes_and_one, three)
    fractions = Div(margins, margin_scales)
    decision = Add(votes, fractions)
    winner_column = Unsqueeze(winner, columns)
    winning_decision = GatherElements <axis = 1> (decision, winner_column)
    as_high = GreaterOrEqual(decision, winning_decision)
    as_high_numbers = Cast <to = 11> (as_high)
    as_high_counts = ReduceSum(as_high_numbers, columns)
    has_rivals = Greater(as_high_counts, one)
    lift = Where(has_rivals, two_thirds, zero)
    scores = ScatterElements <axis = 1, reduction = "add"> (decision, winner_column, lift)
"""

COUPLING = """
    second_share = Clip(positive_share, least_share, most_share)
    first_share = Sub(one, second_share)
    inverse_of_second = Div(one, second_share)
    inverse_of_first = Div(one, first_share)
    inverses_of_second = MatMul(inverse_of_second, second_members)
    inverses_of_first = MatMul(inverse_of_first, first_members)
    inverses_of_both = Add(inverses_of_first, inverses_of_second)
    inverses = Sub(inverses_of_both, opponents_but_one)
    shares = Div(one, inverses)
    all_shares = ReduceSum(shares, columns)
    probabilities = Div(shares, all_shares)
"""


def write_onnx(model: LinearModel | PairwiseModel, path: str | os.PathLike[str]) -> None:
    """Write a model as an ONNX graph from ``X`` to ``label``, ``scores`` and ``probabilities``.

    These are what ``predict``, ``decision_function`` and ``predict_proba`` return for dense rows, up to the order in
    which numbers are added. A graph raises no errors: rows that are not finite get some label.

    >>> import tempfile, mergesvm as ms, onnxruntime
    >>> model = ms.solve(ms.learn([[0.0], [1.0], [2.0], [3.0]], [7, 7, 8, 8]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_onnx(model, f"{folder}/model.onnx")
    ...     session = onnxruntime.InferenceSession(f"{folder}/model.onnx")
    >>> session.run(["label"], {"X": np.array([[0.2], [2.9]])})[0].tolist()
    [7, 8]
    """
    try:
        import onnx
    except ImportError as error:
        raise ParameterError(
            "The package onnx, which writes models as ONNX graphs, is not installed. "
            "Install it with: pip install 'mergesvm[onnx]'"
        ) from error
    text, constants = _graph(model)
    notes = _notes(model)
    size = sum(array.nbytes for array in constants.values()) + sum(map(len, notes.values())) + len(text)
    if size > LARGEST:
        raise ParameterError(
            f"{model!r} would have {size:,} bytes as an ONNX file, which can have {LARGEST:,}. "
            f"Learn from fewer features, or solve with multiclass='ovr'."
        )
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in constants.items())
    proto.producer_name, proto.producer_version = "mergesvm", version("mergesvm")
    proto.doc_string = f"{model!r}: double rows X to label, scores (decision_function) and probabilities."
    onnx.helper.set_model_props(proto, notes)
    onnx.checker.check_model(proto, full_check=True)
    write_atomically(path, proto.SerializeToString())


def _notes(model: LinearModel | PairwiseModel) -> dict[str, str]:
    notes = {"classes": json.dumps(model.labels)}
    if model.feature_names_ is not None:
        notes["feature_names"] = json.dumps(model.feature_names_)
    return notes


def _graph(model: LinearModel | PairwiseModel) -> tuple[str, Constants]:
    """The graph as text, and the constants that it refers to by name."""
    label_type, classes = _label_table(model)
    n_classes = len(classes)
    mapping, map_constants, rows = map_steps(model.signature.features)
    steps, constants = _pairwise(model) if isinstance(model, PairwiseModel) else _linear(model)
    constants |= {"anchor": model.anchor_, "planes": model.coef_.T, "offsets": model._offsets, "classes": classes}
    shape = f"rows, {n_classes}" if isinstance(model, PairwiseModel) or n_classes > 2 else "rows"
    outputs = f"{label_type}[rows] label, double[{shape}] scores, double[rows, {n_classes}] probabilities"
    body = f"{mapping}{SCORES.format(rows=rows)}{steps}    label = Gather(classes, winner)"
    text = f"{VERSIONS} mergesvm (double[rows, {model.signature.inputs}] X) => ({outputs}) {{{body}}}"
    used = set(re.findall(r"\w+", text))
    return text, {name: array for name, array in (NUMBERS | map_constants | constants).items() if name in used}


def _label_table(model: LinearModel | PairwiseModel) -> tuple[str, NDArray[Any]]:
    """The type of the labels in ONNX, and the classes as an array of that type."""
    kind = model.classes_.dtype.kind
    if kind == "U":
        return "string", model.classes_.astype(object)
    if kind in "bf":
        return "bool" if kind == "b" else "double", model.classes_
    for label in model.labels:
        if not -(2**63) <= int(label) < 2**63:
            raise ParameterError(
                f"Class {label} is beyond the whole numbers of ONNX, of 64 bits. Learn labels as text."
            )
    return "int64", model.classes_.astype(np.int64)


def _linear(model: LinearModel) -> tuple[str, Constants]:
    """The steps of one plane a class, or of one for two classes."""
    n_classes, moments = len(model.classes_), model._moments
    output = "scores = Identity(plane_scores)" if n_classes > 2 else "scores = Squeeze(plane_scores, columns)"
    if model.calibration_ is not None:
        steps, constants = calibration_steps(model.calibration_)
        return output + "\n" + steps + (SIGN_WINS if n_classes == 2 else HIGHEST_WINS), constants
    if n_classes == 2 and isinstance(moments, SideMoments):
        return output + POSITIVE_SHARE + SIGN_WINS, _log_odds_constants(moments)
    # A single class is the highest, and has all of the probability, at any temperature.
    temperature = moments.temperature if isinstance(moments, ClassMoments) else 1.0
    return output + HIGHEST_WINS + SOFTMAX, {"temperature": np.array(temperature)}


def _log_odds_constants(moments: SideMoments) -> Constants:
    centre = moments.means.mean(axis=1)
    half = (moments.means[:, 1] - moments.means[:, 0]) / 2
    # About zero and without prior, the log-odds of a score of 1 are the slope.
    centred = replace(moments, means=np.stack([-half, half], axis=1), counts=np.ones_like(moments.counts))
    slope = centred.log_odds(np.ones((1, len(half))))
    return {"centre": centre, "slope": slope[0], "prior": moments.log_odds(centre[None])[0]}


def _pairwise(model: PairwiseModel) -> tuple[str, Constants]:
    """The steps of one plane for each pair of classes."""
    n_classes = len(model.classes_)
    first, second = np.triu_indices(n_classes, 1)
    numbers = np.arange(n_classes)
    constants = _log_odds_constants(model._moments) | {
        "first": (first[:, None] == numbers).astype(np.int8),
        "second": (second[:, None] == numbers).astype(np.int8),
        "n_classes": np.array(n_classes),
        "opponents": np.array(n_classes - 1.0),
        "opponents_but_one": np.array(n_classes - 2.0),
        "n_challengers": np.array(n_classes - 1),
        # The pair of classes i < j is number pair_starts[i] + j.
        "pair_starts": np.searchsorted(first, numbers) - numbers - 1,
    }
    choice = {"sequential": _sequential, "recount": _recount, "margin": _margin}[model.ties]
    if model.calibration_ is None:
        return VOTES + choice() + DECISION + POSITIVE_SHARE + COUPLING, constants
    steps, curves = calibration_steps(model.calibration_)
    return VOTES + choice() + DECISION + steps, constants | curves


def _sequential() -> str:
    """Each leader in turn against the winner among those before."""
    return """
    leader_numbers = Cast <to = 11> (leaders)
    first_leader = ArgMax <axis = 1, keepdims = 0> (leader_numbers)
    winner = Loop <body = challenge (int64 round, bool go_in, int64[rows] champion)
        => (bool go_out, int64[rows] next_champion)
    {
        go_out = Identity(go_in)
        challenger = Add(round, next)
        is_leader = Gather <axis = 1> (leaders, challenger)
        is_later = Greater(challenger, champion)
        pair_start = Gather(pair_starts, champion)
        pair = Add(pair_start, challenger)
        pair_column = Unsqueeze(pair, columns)
        pair_won = GatherElements <axis = 1> (second_wins, pair_column)
        has_won = Squeeze(pair_won, columns)
        may_win = And(is_leader, is_later)
        is_next = And(may_win, has_won)
        next_champion = Where(is_next, challenger, champion)
    }> (n_challengers, true, first_leader)
    """


def _recount() -> str:
    """Votes among the standing only, until all stay: every other round fells one, so one a class is enough."""
    return f"""
    survivors = Loop <body = recount (int64 round, bool go_in, bool[rows, classes] standing)
        => (bool go_out, bool[rows, classes] still_standing)
    {{
        {_sums_among("outcomes", "standing", "recounted")}
        most_recounted = ReduceMax(recounted, columns)
        still_standing = Equal(recounted, most_recounted)
        has_fallen = Xor(standing, still_standing)
        fallen_numbers = Cast <to = 11> (has_fallen)
        fallen = ReduceSum <keepdims = 0> (fallen_numbers)
        go_out = Greater(fallen, zero)
    }}> (n_classes, true, leaders)
    {_margin("survivors")}
    """


def _margin(standing: str = "leaders") -> str:
    """The highest sum of margins among the standing classes."""
    return f"""
    {_sums_among("plane_scores", standing, "margins_among")}
    winner = ArgMax <axis = 1, keepdims = 0> (margins_among)
    """


def _sums_among(values: str, standing: str, sums: str) -> str:
    """Values of the pairs summed by class, over the pairs of which both are standing; no others have a sum."""
    return f"""
    {sums}_present = Cast <to = 11> ({standing})
    {sums}_members = MatMul({sums}_present, members)
    {sums}_met = Equal({sums}_members, two)
    {sums}_values = Where({sums}_met, {values}, zero)
    {sums}_all = MatMul({sums}_values, signs)
    {sums} = Where({standing}, {sums}_all, minus_infinity)
    """
