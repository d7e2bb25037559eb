"""Expected scores of a model, computed from knowledge: on held-out folds, or on the rows it was learned from."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.cross_validation.validation import Validation, validate
from mergesvm.analysis.expected import ESTIMATES, MAX_DRAWN_SCORES, Expected, expected_of_all
from mergesvm.errors import FoldWarning, KnowledgeError
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.losses import LinearScores, squared_losses
from mergesvm.methods.proximal.options import SolveOptions
from mergesvm.methods.proximal.solve import solve
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.reports.subject import Subject

Numbers = NDArray[np.float64]
Model = LinearModel | PairwiseModel
Pairs = list[tuple[Model, Knowledge]]

SCORES = {
    "loss": "neg_squared_loss",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced_accuracy",
    "log_loss": "neg_log_loss",
    "auc": "roc_auc",
}
"""Each estimate, and the name of the score it comes from."""

SCORES_OF_MANY_CLASSES = {name: SCORES[name] for name in ("loss", "auc")}
"""The estimates that need no sampling, which would take too long for many classes."""


@dataclass(frozen=True)
class Estimates:
    """Expected scores of a model, the squared loss among them exact; means and deviations are over the folds.

    Without held-out rows they are optimistic, and deviations are NaN. Recalls are over all folds together; ``pairs``
    are the models, each with the rows that it scores.
    """

    held_out: bool
    means: dict[str, float]
    deviations: dict[str, float]
    recalls: Numbers
    pairs: Pairs


def estimate(subject: Subject, options: SolveOptions, model: Model) -> Estimates:
    """Score models solved without each fold on that fold; without folds, the model on its own rows."""
    if subject.folds is not None:
        with suppress(KnowledgeError):  # if all rows are in one fold
            found = _held_out(subject.folds, options)
            if not np.isnan(found.means["loss"]):
                return found
    return _in_sample(subject.total, options, model)


def validate_quietly(folds: Folds, **grid: Any) -> Validation:
    """Validate without the warning about classes in a single fold, which reports show as a remark."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FoldWarning)
        return validate(folds, **grid)


def can_estimate_accuracy(options: SolveOptions, knowledge: Knowledge) -> bool:
    """Whether there are few enough binary problems to sample their scores jointly."""
    return len(options.problems(knowledge)) <= MAX_DRAWN_SCORES


def _held_out(folds: Folds, options: SolveOptions) -> Estimates:
    scores = SCORES if can_estimate_accuracy(options, folds.total) else SCORES_OF_MANY_CLASSES
    validation = validate_quietly(
        folds,
        Cs=[options.C],
        class_weights=[options.class_weight],
        multiclass=options.multiclass,
        standardize=options.standardize,
        penalize_intercept=options.penalize_intercept,
        fit_intercept=options.fit_intercept,
        scoring=tuple(scores.values()),
    )
    (row,) = validation.table()
    signs = {name: -1.0 if score.startswith("neg_") else 1.0 for name, score in SCORES.items()}
    means = {name: signs[name] * row.get(score, np.nan) for name, score in SCORES.items()}
    deviations = {name: row.get(f"{score} deviation", np.nan) for name, score in SCORES.items()}
    pairs: Pairs = []
    for fold, held_out in enumerate(folds):
        train = folds.train(fold)
        if held_out.labels and train.labels:
            pairs.append((solve(train, **options.as_dict()), held_out))
    return Estimates(True, means, deviations, _recalls(folds.total, pairs), pairs)


def _expected(model: Model, knowledge: Knowledge) -> Expected:
    """Expected scores of a model; NaN for those that would need sampling of too many scores."""
    wanted = ESTIMATES if len(model.coef_) <= MAX_DRAWN_SCORES else ("aucs",)
    return expected_of_all([model], knowledge, wanted)[0]


def _recalls(total: Knowledge, pairs: Pairs) -> Numbers:
    """Expected recall of each class over all folds; classes unknown to a model count as missed."""
    found, counts = np.zeros(len(total.labels)), np.zeros(len(total.labels))
    for model, held_out in pairs:
        counts[[total.labels.index(label) for label in held_out.labels]] += held_out.frequencies
        known = [label for label in held_out.labels if label in model.labels]
        if known:
            expected = _expected(model, held_out.only(known))
            found[[total.labels.index(label) for label in known]] += expected.recalls * expected.counts
    with np.errstate(invalid="ignore"):
        recalls: Numbers = np.where(counts > 0, found / np.where(counts > 0, counts, 1.0), np.nan)
    return recalls


def _in_sample(total: Knowledge, options: SolveOptions, model: Model) -> Estimates:
    expected = _expected(model, total)
    signs = options.problems(total).signs
    losses = squared_losses(total, LinearScores(model.coef_, model.offsets_, model.anchor_), signs)
    means = {
        "loss": float((losses / (np.abs(signs) @ total.counts)).mean()),
        **{name: float(getattr(expected, name)) for name in SCORES if name != "loss"},
    }
    return Estimates(False, means, dict.fromkeys(SCORES, np.nan), expected.recalls, [(model, total)])
