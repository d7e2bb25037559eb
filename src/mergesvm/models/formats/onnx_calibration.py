"""Calibrated probabilities as ONNX steps."""

from __future__ import annotations

import numpy as np

from mergesvm.models.calibration import Calibration, Isotonic, Platt
from mergesvm.models.formats.onnx_features import Constants

# As the sum of all steps of the curve of a class, each climbed from its knot to the next: no step searches.
ISOTONIC = """
    climbers = Gather <axis = 1> ({scores}, step_columns)
    above_knots = Sub(climbers, step_knots)
    climbed = Div(above_knots, step_widths)
    climbed_shares = Clip(climbed, zero, one)
    climbs = MatMul(climbed_shares, step_heights)
    {curved} = Add(climbs, lowest_shares)
"""

# Not by the operator Sigmoid, for the same reason as without calibration.
PLATT = """
    sloped = Mul({scores}, slopes)
    log_odds = Add(sloped, log_odds_at_zero)
    log_odds_against = Neg(log_odds)
    odds_against = Exp(log_odds_against)
    all_odds = Add(odds_against, one)
    {curved} = Div(one, all_odds)
"""

SUM_OF_ONE = """
    sum_of_curved = ReduceSum(curved_shares, columns)
    some_are_positive = Greater(sum_of_curved, zero)
    divisor = Where(some_are_positive, sum_of_curved, one)
    parts_of_sum = Div(curved_shares, divisor)
    probabilities = Where(some_are_positive, parts_of_sum, equal_share)
"""


def calibration_steps(calibration: Calibration) -> tuple[str, Constants]:
    """The steps from decisions to probabilities; for two classes from plane_scores to positive_share."""
    several = len(calibration.curves) > 1
    names = {"scores": "scores" if several else "plane_scores", "curved": "curved_shares" if several else "curve"}
    isotonic = [curve for curve in calibration.curves if isinstance(curve, Isotonic)]
    text, constants = (ISOTONIC, _climbs(isotonic)) if isotonic else (PLATT, _sigmoids(calibration))
    if several:
        constants["equal_share"] = np.array(1 / len(calibration.curves))
        return text.format(**names) + SUM_OF_ONE, constants
    # Sums of steps may be beyond 1 by rounding.
    return text.format(**names) + "    positive_share = Clip(curve, zero, one)\n", constants


def _sigmoids(calibration: Calibration) -> Constants:
    curves = [curve for curve in calibration.curves if isinstance(curve, Platt)]
    return {
        "slopes": np.array([curve.slope for curve in curves]),
        "log_odds_at_zero": np.array([curve.offset for curve in curves]),
    }


def _climbs(curves: list[Isotonic]) -> Constants:
    columns = np.repeat(np.arange(len(curves)), [len(curve.knots) - 1 for curve in curves])
    rises = np.concatenate([np.diff(curve.values) for curve in curves])
    widths = np.concatenate([np.diff(curve.knots) for curve in curves])
    heights = np.zeros((len(columns), len(curves)))
    heights[np.arange(len(columns)), columns] = rises
    climbing = rises > 0  # between two knots of one value there is nothing to climb
    return {
        "step_columns": columns[climbing],
        "step_knots": np.concatenate([curve.knots[:-1] for curve in curves])[climbing],
        "step_widths": widths[climbing],
        "step_heights": heights[climbing],
        "lowest_shares": np.array([curve.values[0] for curve in curves]),
    }
