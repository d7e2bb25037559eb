"""One-vs-one voting as steps of ONNX graphs.

A tie rule can be exported if it has an entry in ``TIE_STEPS``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mergesvm.checks import listed
from mergesvm.errors import FormError
from mergesvm.models.calibration import Calibration
from mergesvm.models.formats.onnx import POSITIVE_PROBABILITY, Steps, log_odds_constants
from mergesvm.models.formats.onnx_calibration import calibration_steps
from mergesvm.models.score_moments import SideMoments
from mergesvm.models.voting import WINNER_LEAD

# The signs are -1 for the first class of a pair and 1 for the second, members are 1 for both. Among m + 1 classes,
# wins minus losses are twice the votes minus m, so they rank classes as votes do.
VOTES = """
    first_members = Cast <to = 11> (first)
    second_members = Cast <to = 11> (second)
    signs = Sub(second_members, first_members)
    members_of_pairs = Add(first_members, second_members)
    members = Transpose(members_of_pairs)
    second_wins = GreaterOrEqual(hyperplane_scores, zero)
    outcomes = Where(second_wins, one, minus_one)
    balance = MatMul(outcomes, signs)
    doubled_votes = Add(balance, opponents)
    votes = Div(doubled_votes, two)
    most_votes = ReduceMax(votes, columns)
    leaders = Equal(votes, most_votes)
"""

DECISION = """
    margins = MatMul(hyperplane_scores, signs)
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
    second_probability = Clip(positive_probability, min_probability, max_probability)
    first_probability = Sub(one, second_probability)
    inverse_of_second = Div(one, second_probability)
    inverse_of_first = Div(one, first_probability)
    inverses_of_second = MatMul(inverse_of_second, second_members)
    inverses_of_first = MatMul(inverse_of_first, first_members)
    inverses_of_both = Add(inverses_of_first, inverses_of_second)
    inverses = Sub(inverses_of_both, opponents_but_one)
    coupled = Div(one, inverses)
    winning_probability = GatherElements <axis = 1> (coupled, winner_column)
    as_probable = GreaterOrEqual(coupled, winning_probability)
    as_probable_numbers = Cast <to = 11> (as_probable)
    as_probable_counts = ReduceSum(as_probable_numbers, columns)
    has_more_probable = Greater(as_probable_counts, one)
    highest_probability = ReduceMax(coupled, columns)
    raised_probability = Mul(highest_probability, winner_lead)
    probability_of_winner = Where(has_more_probable, raised_probability, winning_probability)
    unscaled = ScatterElements <axis = 1> (coupled, winner_column, probability_of_winner)
    sum_of_unscaled = ReduceSum(unscaled, columns)
    probabilities = Div(unscaled, sum_of_unscaled)
"""


def pairwise_steps(n_classes: int, ties: str, moments: SideMoments, calibration: Calibration | None) -> Steps:
    """Steps of one-vs-one, from ``hyperplane_scores`` to ``scores``, ``winner`` and ``probabilities``."""
    if ties not in TIE_STEPS:
        raise FormError(
            f"A model with ties={ties!r} cannot be exported to ONNX. Solve with ties set to one of {listed(TIE_STEPS)}."
        )
    first, second = np.triu_indices(n_classes, 1)
    numbers = np.arange(n_classes)
    constants = log_odds_constants(moments) | {
        "first": (first[:, None] == numbers).astype(np.int8),
        "second": (second[:, None] == numbers).astype(np.int8),
        "n_classes": np.array(n_classes),
        "opponents": np.array(n_classes - 1.0),
        "opponents_but_one": np.array(n_classes - 2.0),
        "winner_lead": np.array(WINNER_LEAD),
        "n_challengers": np.array(n_classes - 1),
        # The pair of classes i < j is number pair_starts[i] + j.
        "pair_starts": np.searchsorted(first, numbers) - numbers - 1,
    }
    decision = VOTES + TIE_STEPS[ties]() + DECISION
    if calibration is None:
        return decision + POSITIVE_PROBABILITY + COUPLING, constants
    steps, curves = calibration_steps(calibration)
    return decision + steps, constants | curves


def _sequential() -> str:
    """Each leader in turn against the best so far."""
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
    """Recount among the remaining classes until none drops out, in at most one iteration per class."""
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
    """The largest sum of margins among the remaining classes."""
    return f"""
    {_sums_among("hyperplane_scores", standing, "margins_among")}
    winner = ArgMax <axis = 1, keepdims = 0> (margins_among)
    """


def _confidence() -> str:
    """The largest sum of margins against all classes."""
    return """
    all_margins = MatMul(hyperplane_scores, signs)
    leading_margins = Where(leaders, all_margins, minus_infinity)
    winner = ArgMax <axis = 1, keepdims = 0> (leading_margins)
    """


def _first() -> str:
    """The first leader."""
    return """
    leader_numbers = Cast <to = 11> (leaders)
    winner = ArgMax <axis = 1, keepdims = 0> (leader_numbers)
    """


def _sums_among(values: str, standing: str, sums: str) -> str:
    """Sums per class over pairs of remaining classes; minus infinity for the other classes."""
    return f"""
    {sums}_present = Cast <to = 11> ({standing})
    {sums}_members = MatMul({sums}_present, members)
    {sums}_met = Equal({sums}_members, two)
    {sums}_values = Where({sums}_met, {values}, zero)
    {sums}_all = MatMul({sums}_values, signs)
    {sums} = Where({standing}, {sums}_all, minus_infinity)
    """


TIE_STEPS: dict[str, Callable[[], str]] = {
    "sequential": _sequential,
    "recount": _recount,
    "margin": _margin,
    "confidence": _confidence,
    "first": _first,
}
"""Steps from ``leaders`` to ``winner`` of each tie rule."""
