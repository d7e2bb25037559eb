"""Cross-validation scores of candidates: exact losses, estimates from the sums, or measurements on the rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.cross_validation.fold_scoring import FoldScorer, score_folds
from mergesvm.analysis.cross_validation.grid import Grid, SolvedSetting
from mergesvm.analysis.cross_validation.learned_rows import LearnedRows
from mergesvm.analysis.cross_validation.score_names import LOSSES
from mergesvm.analysis.expected import expected_of_all
from mergesvm.analysis.normal import EPSILON
from mergesvm.engines.threads import Threads
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.losses import class_losses, squared_losses

Numbers = NDArray[np.float64]

TINY = np.finfo(np.float64).tiny

EXPECTED = {"accuracy": "recalls", "balanced_accuracy": "recalls", "neg_log_loss": "log_losses", "roc_auc": "aucs"}
"""Attribute of Expected from which each scoring is estimated."""

NEEDS = {"neg_log_loss": {"probabilities"}, "roc_auc": {"probabilities", "ranks"}}


def score_candidates(
    grid: Grid, folds: Folds, names: tuple[str, ...], rows: LearnedRows | None, engine: Threads
) -> dict[str, Numbers]:
    """Scores (candidates, folds) of all candidates of a grid in all folds, by name of the scoring."""
    scores = {name: np.full((len(grid), len(folds)), np.nan) for name in names}
    needs: set[str] = set().union(*(NEEDS.get(name, set()) for name in names))
    others = [name for name in names if name not in LOSSES]
    scorers: dict[int, FoldScorer] = {}
    for fold, held_out in enumerate(folds):
        train = folds.train(fold)
        if not held_out.labels or not train.labels:
            continue
        solved = grid.solve(train, engine)
        for name in set(names) & set(LOSSES):
            scores[name][:, fold] = np.concatenate([_loss(each, held_out, name) for each in solved])
        if others and rows is None:
            for name, found in _estimate(others, solved, held_out, engine).items():
                scores[name][:, fold] = found
        elif others:
            scorers[fold] = FoldScorer(solved, folds.labels, needs)
    if rows is not None and scorers:
        for fold, tally in score_folds(scorers, rows).items():
            rows.check_complete(fold, tally.totals)
            for name in others:
                scores[name][:, fold] = getattr(tally, name)
    return scores


def _loss(solved: SolvedSetting, held_out: Knowledge, name: str) -> Numbers:
    """Negative mean over problems of the mean squared loss, at each C."""
    known = [label for label in held_out.labels if label in solved.labels]
    if not known:
        return np.full(len(solved.Cs), np.nan)
    held_out = held_out.only(known) if len(known) < len(held_out.labels) else held_out
    signs = solved.problems.signs[:, [solved.labels.index(label) for label in known]]
    signs, bundle = np.tile(signs, (len(solved.Cs), 1)), solved.bundle()
    if name == "neg_squared_loss":
        totals, weights = squared_losses(held_out, bundle, signs), np.abs(signs) @ held_out.counts
    else:
        # Both sides of a problem count the same, as with balanced weights, and in each side all its classes.
        by_class, sides = class_losses(held_out, bundle, signs) / held_out.counts, (signs > 0, signs < 0)
        counts = [side.sum(axis=1) for side in sides]
        totals = sum((by_class * side).sum(axis=1) / np.maximum(n, 1) for side, n in zip(sides, counts, strict=True))
        weights = sum((n > 0).astype(np.float64) for n in counts)
    with np.errstate(invalid="ignore"):
        means = np.where(weights > 0, totals / weights, np.nan)
    return -mean_per_row(means.reshape(len(solved.Cs), -1))


def _estimate(
    names: list[str], solved: Sequence[SolvedSetting], held_out: Knowledge, engine: Threads
) -> dict[str, Numbers | float]:
    """Expected scores of all candidates, by name of the scoring."""
    known = [label for label in held_out.labels if label in solved[0].labels]
    if not known:
        without = {"accuracy": 0.0, "balanced_accuracy": 0.0, "neg_log_loss": float(np.log(EPSILON))}
        return {name: without.get(name, float("nan")) for name in names}
    present, wanted = held_out.only(known), [EXPECTED[name] for name in names]
    paths = (list(each.models()) for each in solved)
    found = [each for models in paths for each in expected_of_all(models, present, wanted, engine.workers)]
    # Rows of classes that the model has not seen are predicted wrongly, with probability 0 of their class.
    fraction = float(present.frequencies.sum() / held_out.frequencies.sum())
    scores = {
        "accuracy": [each.accuracy * fraction for each in found],
        "balanced_accuracy": [each.balanced_accuracy * len(known) / len(held_out.labels) for each in found],
        "neg_log_loss": [(1 - fraction) * np.log(EPSILON) - fraction * each.log_loss for each in found],
        "roc_auc": [each.auc for each in found],
    }
    return {name: np.array(scores[name]) for name in names}


def mean_per_row(values: Numbers) -> Numbers:
    """Mean of each row, without NaN; NaN for a row of NaN."""
    known = ~np.isnan(values)
    count = known.sum(axis=1)
    return np.where(count > 0, np.where(known, values, 0.0).sum(axis=1) / np.maximum(count, 1), np.nan)


def deviation_per_row(values: Numbers) -> Numbers:
    """Standard deviation of each row, without NaN."""
    gaps = np.abs(values - mean_per_row(values)[:, None])
    unit = np.maximum(np.max(gaps, axis=1, initial=0.0, where=~np.isnan(gaps), keepdims=True), TINY)
    # Divided by the largest, because squares may overflow.
    return np.asarray(unit[:, 0] * np.sqrt(mean_per_row((gaps / unit) ** 2)))
