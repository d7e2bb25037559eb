"""How candidates are scored on folds: exactly, by what is to be expected, or by what is counted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.expected import expected_of_all
from mergesvm.analysis.fold_scoring import TINY, FoldScorer, Tally, examine
from mergesvm.analysis.grid import Grid, Solved
from mergesvm.analysis.learned_rows import LearnedRows
from mergesvm.engines.threads import Threads
from mergesvm.errors import ParameterError
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.losses import class_losses, squared_losses

Numbers = NDArray[np.float64]

LOSSES = ("neg_squared_loss", "neg_balanced_loss")
"""What is exact without data."""

SCORINGS = (*LOSSES, "accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc")

MEASURES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced_accuracy",
    "neg_log_loss": "log_loss",
    "roc_auc": "auc",
}
"""Of what is counted, where each score is found."""

EXPECTED = {
    "accuracy": "recalls",
    "balanced_accuracy": "recalls",
    "neg_log_loss": "log_losses",
    "roc_auc": "aucs",
}
"""What has to be expected for an estimate of each score."""

NEEDS = {"neg_log_loss": {"probabilities"}, "roc_auc": {"probabilities", "ranks"}}


def scorings_of(scoring: str | Sequence[str]) -> tuple[str, ...]:
    """Scorings by their names; one alone is meant as a list of one.

    >>> scorings_of("accuracy")
    ('accuracy',)
    """
    names = (scoring,) if isinstance(scoring, str) else tuple(scoring)
    unknown = [name for name in names if name not in SCORINGS]
    if unknown or not names:
        wrong = unknown[0] if unknown else scoring
        raise ParameterError(f"scoring has to be among {', '.join(SCORINGS)}, not {wrong!r}.")
    return names


def scored(
    grid: Grid, folds: Folds, names: tuple[str, ...], rows: LearnedRows | None, engine: Threads
) -> dict[str, Numbers]:
    """Scores of all candidates of a grid in all folds, for each scoring (candidates, folds)."""
    scores = {name: np.full((len(grid), len(folds)), np.nan) for name in names}
    needs: set[str] = set().union(*(NEEDS.get(name, set()) for name in names))
    counted = [name for name in names if name not in LOSSES]
    examiners: list[FoldScorer | None] = []
    for fold, held_out in enumerate(folds):
        train = folds.train(fold)
        if not held_out.labels or not train.labels:
            examiners.append(None)
            continue
        solved = grid.solve(train, engine)
        for name in set(names) & set(LOSSES):
            scores[name][:, fold] = np.concatenate([_loss(each, held_out, name) for each in solved])
        if counted and rows is None:
            _estimate(scores, counted, fold, solved, held_out, engine)
        examiners.append(FoldScorer(solved, folds.labels, needs) if counted and rows is not None else None)
    if rows is not None and any(examiners):
        for fold, tally in enumerate(examine(examiners, rows.batches(), engine)):
            if tally is not None:
                rows.check_whole(fold, tally.totals)
                for name in counted:
                    scores[name][:, fold] = _measured(tally, name)
    return scores


def _loss(solved: Solved, held_out: Knowledge, name: str) -> Numbers:
    """The mean over problems of the mean squared loss, negative, at each C."""
    known = [label for label in held_out.labels if label in solved.labels]
    if not known:
        return np.full(len(solved.Cs), np.nan)
    held_out = held_out.only(known) if len(known) < len(held_out.labels) else held_out
    signs, bundle = solved.signs(held_out.labels), solved.bundle()
    if name == "neg_squared_loss":
        totals, weights = squared_losses(held_out, bundle, signs), np.abs(signs) @ held_out.counts
    else:
        # Both sides of a problem count alike, as balanced weights would have it, and in each side all its classes.
        by_class, sides = class_losses(held_out, bundle, signs) / held_out.counts, (signs > 0, signs < 0)
        counts = [side.sum(axis=1) for side in sides]
        totals = sum((by_class * side).sum(axis=1) / np.maximum(n, 1) for side, n in zip(sides, counts, strict=True))
        weights = sum((n > 0).astype(np.float64) for n in counts)
    with np.errstate(invalid="ignore"):
        means = np.where(weights > 0, totals / weights, np.nan)
    return -mean_of(means.reshape(len(solved.Cs), -1))


def _estimate(
    scores: dict[str, Numbers],
    names: list[str],
    fold: int,
    solved: Sequence[Solved],
    held_out: Knowledge,
    engine: Threads,
) -> None:
    known = [label for label in held_out.labels if label in solved[0].labels]
    if not known:
        for name in {*names} - {"roc_auc"}:
            scores[name][:, fold] = np.log(TINY) if name == "neg_log_loss" else 0.0
        return
    there, wanted = held_out.only(known), [EXPECTED[name] for name in names]
    paths = (list(each.models()) for each in solved)
    guesses = [guess for models in paths for guess in expected_of_all(models, there, wanted, engine.workers)]
    for at, guess in enumerate(guesses):
        # Rows of classes that the model has not met are wrong, and given no probability.
        share = float(guess.counts.sum() / held_out.frequencies.sum())
        found = {
            "accuracy": guess.accuracy * share,
            "balanced_accuracy": guess.balanced_accuracy * len(known) / len(held_out.labels),
            "neg_log_loss": (1 - share) * np.log(TINY) - share * guess.log_loss,
            "roc_auc": guess.auc,
        }
        for name in names:
            scores[name][at, fold] = found[name]


def _measured(tally: Tally, name: str) -> Numbers:
    values: Numbers = getattr(tally, MEASURES[name])
    return -values if name.startswith("neg_") else values


def mean_of(values: Numbers) -> Numbers:
    """The mean of each row of the numbers that there are; NaN where there are none.

    >>> mean_of(np.array([[1.0, 3.0], [np.nan, 2.0]]))
    array([2., 2.])
    """
    known = ~np.isnan(values)
    count = known.sum(axis=1)
    return np.where(count > 0, np.where(known, values, 0.0).sum(axis=1) / np.maximum(count, 1), np.nan)


def deviation_of(values: Numbers) -> Numbers:
    """The standard deviation of each row, likewise."""
    return np.sqrt(mean_of((values - mean_of(values)[:, None]) ** 2))
