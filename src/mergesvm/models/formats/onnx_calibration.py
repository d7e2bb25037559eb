"""Calibration as steps of ONNX graphs."""

from __future__ import annotations

import numpy as np

from mergesvm.models.calibration import Calibration, Isotonic, Platt
from mergesvm.models.formats.onnx_features import Constants

# The curve of a class is the sum of its linear pieces, each clipped to its interval: no search is needed.
ISOTONIC = """
    piece_scores = Gather <axis = 1> ({scores}, step_columns)
    above_knots = Sub(piece_scores, step_knots)
    relative = Div(above_knots, step_widths)
    clipped = Clip(relative, zero, one)
    piece_sums = MatMul(clipped, step_heights)
    {curved} = Add(piece_sums, lowest_values)
"""

# Not the operator Sigmoid, for the same reason as without calibration.
PLATT = """
    sloped = Mul({scores}, slopes)
    log_odds = Add(sloped, log_odds_at_zero)
    log_odds_against = Neg(log_odds)
    odds_against = Exp(log_odds_against)
    all_odds = Add(odds_against, one)
    {curved} = Div(one, all_odds)
"""

SUM_OF_ONE = """
    sum_of_values = ReduceSum(curve_values, columns)
    some_are_positive = Greater(sum_of_values, zero)
    divisor = Where(some_are_positive, sum_of_values, one)
    normalised = Div(curve_values, divisor)
    probabilities = Where(some_are_positive, normalised, equal_probability)
"""


def calibration_steps(calibration: Calibration) -> tuple[str, Constants]:
    """Steps from ``scores`` to ``probabilities``; for two classes to ``positive_probability``."""
    several = len(calibration.curves) > 1
    names = {"scores": "scores" if several else "hyperplane_scores", "curved": "curve_values" if several else "curve"}
    isotonic = [curve for curve in calibration.curves if isinstance(curve, Isotonic)]
    text, constants = (ISOTONIC, _pieces(isotonic)) if isotonic else (PLATT, _sigmoids(calibration))
    if several:
        constants["equal_probability"] = np.array(1 / len(calibration.curves))
        return text.format(**names) + SUM_OF_ONE, constants
    # Rounding can make the sum exceed 1.
    return text.format(**names) + "    positive_probability = Clip(curve, zero, one)\n", constants


def _sigmoids(calibration: Calibration) -> Constants:
    curves = [curve for curve in calibration.curves if isinstance(curve, Platt)]
    return {
        "slopes": np.array([curve.slope for curve in curves]),
        "log_odds_at_zero": np.array([curve.offset for curve in curves]),
    }


def _pieces(curves: list[Isotonic]) -> Constants:
    columns = np.repeat(np.arange(len(curves)), [len(curve.knots) - 1 for curve in curves])
    rises = np.concatenate([np.diff(curve.values) for curve in curves])
    widths = np.concatenate([np.diff(curve.knots) for curve in curves])
    heights = np.zeros((len(columns), len(curves)))
    heights[np.arange(len(columns)), columns] = rises
    rising = rises > 0  # flat pieces contribute nothing
    return {
        "step_columns": columns[rising],
        "step_knots": np.concatenate([curve.knots[:-1] for curve in curves])[rising],
        "step_widths": widths[rising],
        "step_heights": heights[rising],
        "lowest_values": np.array([curve.values[0] for curve in curves]),
    }
