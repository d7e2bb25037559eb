"""How well a model is expected to do, from the sums alone: on rows held out, or on those it was learned from."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.expected import EVERYTHING, MOST_SCORES, Expected, expected_of_all
from mergesvm.analysis.validation import Validation, validate
from mergesvm.errors import FoldWarning, KnowledgeError
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.losses import Bundle, squared_losses
from mergesvm.methods.proximal.options import SolveOptions
from mergesvm.methods.proximal.solve import solve
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.report.subject import Subject

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
"""What is told, and what it is called as a score, of which higher is better."""

UNDRAWN = {name: SCORES[name] for name in ("loss", "auc")}
"""What can be told of any number of classes: all else is drawn, and takes too long for more than so many scores."""


@dataclass(frozen=True)
class Estimates:
    """What to expect of a model on the terms chosen.

    Attributes
    ----------
    held_out : bool
        Whether on rows that the models had not seen; if not, all is too good.
    means : dict of str to float
        The squared loss, which is exact, and the accuracy, balanced accuracy, log-loss and AUC, which are estimates.
        Held out, each is the mean over the folds.
    deviations : dict of str to float
        How they differ between the folds; NaN where nothing was held out.
    recalls : array of shape (classes,)
        Of all folds together.
    pairs : list of (model, Knowledge)
        Each model, and the rows that it is judged on.
    """

    held_out: bool
    means: dict[str, float]
    deviations: dict[str, float]
    recalls: Numbers
    pairs: Pairs


def estimate(subject: Subject, terms: SolveOptions, model: Model) -> Estimates:
    """Judge a model by its like on each fold that they have not seen, or else by itself."""
    if subject.folds is not None:
        with suppress(KnowledgeError):  # where all rows lie in one fold
            found = _held_out(subject.folds, terms)
            if not np.isnan(found.means["loss"]):
                return found
    return _in_sample(subject.total, terms, model)


def solved(knowledge: Knowledge, terms: SolveOptions) -> Model:
    """The model of knowledge on these terms."""
    return solve(
        knowledge,
        terms.C,
        terms.class_weight,
        terms.multiclass,
        terms.standardize,
        penalize_intercept=terms.penalize_intercept,
    )


def options(terms: SolveOptions) -> dict[str, Any]:
    """Terms as functions take them that do not choose any."""
    return {
        "C": terms.C,
        "class_weight": terms.class_weight,
        "multiclass": terms.multiclass,
        "standardize": terms.standardize,
        "penalize_intercept": terms.penalize_intercept,
    }


def quietly(folds: Folds, **wishes: Any) -> Validation:
    """Validate without a warning of classes of one fold alone: reports say it once, among their remarks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FoldWarning)
        return validate(folds, **wishes)


def _held_out(folds: Folds, terms: SolveOptions) -> Estimates:
    scores = SCORES if can_be_drawn(terms, folds.total) else UNDRAWN
    validation = quietly(
        folds,
        Cs=[terms.C],
        class_weights=[terms.class_weight],
        multiclass=terms.multiclass,
        standardize=terms.standardize,
        penalize_intercept=terms.penalize_intercept,
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
            pairs.append((solved(train, terms), held_out))
    return Estimates(True, means, deviations, _recalls(folds.total, pairs), pairs)


def can_be_drawn(terms: SolveOptions, knowledge: Knowledge) -> bool:
    """Whether accuracy and log-loss can be estimated: not where there are too many scores to be drawn together."""
    return len(terms.problems(knowledge)) <= MOST_SCORES


def _guess(model: Model, knowledge: Knowledge) -> Expected:
    """What to expect of a model; what would have to be drawn and cannot be is NaN."""
    wanted = EVERYTHING if len(model.coef_) <= MOST_SCORES else ("aucs",)
    return expected_of_all([model], knowledge, wanted)[0]


def _recalls(total: Knowledge, pairs: Pairs) -> Numbers:
    """The expected recall of each class over all folds; a class that a model has not met is never found."""
    found, counts = np.zeros(len(total.labels)), np.zeros(len(total.labels))
    for model, held_out in pairs:
        counts[[total.labels.index(label) for label in held_out.labels]] += held_out.frequencies
        known = [label for label in held_out.labels if label in model.labels]
        if known:
            guess = _guess(model, held_out.only(known))
            found[[total.labels.index(label) for label in known]] += guess.recalls * guess.counts
    with np.errstate(invalid="ignore"):
        recalls: Numbers = np.where(counts > 0, found / np.where(counts > 0, counts, 1.0), np.nan)
    return recalls


def _in_sample(total: Knowledge, terms: SolveOptions, model: Model) -> Estimates:
    guess = _guess(model, total)
    signs = terms.problems(total).signs
    losses = squared_losses(total, Bundle(model.coef_, model._offsets, model.anchor_), signs)
    means = {
        "loss": float((losses / (np.abs(signs) @ total.counts)).mean()),
        **{name: float(getattr(guess, name)) for name in SCORES if name != "loss"},
    }
    return Estimates(False, means, dict.fromkeys(SCORES, np.nan), guess.recalls, [(model, total)])
