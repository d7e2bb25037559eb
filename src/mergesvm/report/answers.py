"""All answers of a report, from the sums alone; where there is none, the reason takes its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from mergesvm.analysis.expected import DRAWS
from mergesvm.analysis.importance import Elimination, Importance, eliminate, standardized_coefficients
from mergesvm.analysis.pieces.drift import Drift, drift
from mergesvm.analysis.pieces.influence import Influence, influence
from mergesvm.analysis.threshold import OperatingCurve, OperatingPoint, operating_curve, operating_point
from mergesvm.analysis.validation import Validation, lone_class
from mergesvm.cli.choose import AUTO, ChoiceOptions
from mergesvm.cli.options import as_class_weight, as_number
from mergesvm.data.labels import Label
from mergesvm.errors import FormError, KnowledgeError
from mergesvm.knowledge.knowledge import Knowledge, counted
from mergesvm.methods.proximal.options import SolveOptions
from mergesvm.methods.proximal.path import USUAL_CS
from mergesvm.models.linear import LinearModel
from mergesvm.report.estimates import Estimates, Model, can_be_drawn, estimate, options, quietly, solved
from mergesvm.report.subject import Subject

PATIENCE = {"path": 5e10, "accuracy": 5e10, "elimination": 1.5e10}
"""Work beyond this, in multiplications or so, is left out, or done in part: each is less than half a minute."""

WISHES: dict[str, dict[str, Any]] = {
    "recall 90 %": {"recall": 0.9},
    "recall 95 %": {"recall": 0.95},
    "recall 99 %": {"recall": 0.99},
    "false positives 1 %": {"false_positive_rate": 0.01},
    "false positives 5 %": {"false_positive_rate": 0.05},
    "equal costs": {"cost": (1.0, 1.0)},
    "a miss costs 10 times a false alarm": {"cost": (1.0, 10.0)},
}
"""What is wanted at the operating points of two classes."""

Answer = TypeVar("Answer")
Step = Callable[[float], None]


@dataclass(frozen=True)
class Curve:
    """The operating curve of two classes, and points on it by what is wanted."""

    curve: OperatingCurve
    points: dict[str, OperatingPoint]


@dataclass(frozen=True)
class Answers:
    """What the sums tell; texts are reasons why they do not.

    Attributes
    ----------
    subject : Subject
    terms : SolveOptions
    how : str
        How C was chosen.
    model, estimates, importance
        None where there is one class only.
    path : Validation or str
        Scores over C, for each class weighting.
    elimination, curve, influence, drift
    remarks : tuple of str
        What was left out, and why; and what else is to be said.
    """

    subject: Subject
    terms: SolveOptions
    how: str
    model: Model | None
    estimates: Estimates | None
    path: Validation | str
    importance: Importance | None
    elimination: Elimination | str
    curve: Curve | str
    influence: Influence | str
    drift: Drift | str
    remarks: tuple[str, ...]

    @property
    def held_out(self) -> str | None:
        """What was held out, if anything was."""
        return self.subject.held_out if self.estimates is not None and self.estimates.held_out else None


def answer(subject: Subject, wishes: ChoiceOptions, fixed: dict[str, Any], level: float, step: Step) -> Answers:
    """Find all answers, on the terms that are wished; ``step`` is called with the share of the work that is done."""
    step(0.0)
    terms = _given_terms(subject, wishes, fixed)
    remarks = list(subject.remarks)
    if not subject.total.per_class:
        remarks.append("Pooled knowledge has one covariance for all classes, so that estimates are coarser.")
    alone = _several(subject)
    drifts: Drift | str = alone if alone else _tried(lambda: drift(subject.pieces, level=level))
    if len(subject.total.labels) < 2:
        only = f"There is one class only, {subject.total.labels[0]!r}: there is nothing to tell apart."
        return Answers(subject, terms, "given", None, None, only, None, only, only, only, drifts, tuple(remarks))
    step(0.1)
    lone = None if subject.folds is None else lone_class(subject.folds)
    if lone is not None:
        remarks.append(
            f"All rows of class {lone[0]!r} lie in one fold or piece: what is learned without it has never met them, "
            f"so that what is held out says nothing of that class."
        )
    if not can_be_drawn(terms, subject.total):
        remarks.append("Accuracies and log-losses were not estimated: with so many pairs of classes it takes too long.")
    path = _path(subject, terms, wishes, remarks)
    terms, how = _chosen(path, terms, wishes)
    if how.startswith("by the") and not isinstance(path, str) and terms.C in (path.grid.Cs[0], path.grid.Cs[-1]):
        side = "smallest" if path.grid.Cs[0] == terms.C else "largest"
        remarks.append(f"{terms.C:g} is the {side} C that was tried; one beyond it may be better: mergesvm solve --Cs.")
    step(0.6)
    model = solved(subject.total, terms)
    estimates = estimate(subject, terms, model)
    step(0.7)
    importance = standardized_coefficients(model, subject.total)
    elimination = _elimination(subject, terms, remarks)
    step(0.9)
    influences: Influence | str = alone if alone else _tried(lambda: influence(subject.pieces, **options(terms)))
    curve = _curve(subject.total.labels, estimates)
    return Answers(
        subject, terms, how, model, estimates, path, importance, elimination, curve, influences, drifts, tuple(remarks)
    )


def _given_terms(subject: Subject, wishes: ChoiceOptions, fixed: dict[str, Any]) -> SolveOptions:
    """The terms as far as they are given; what is to be chosen is what it would be if it could not."""
    C = 1.0 if wishes.C == AUTO else as_number(wishes.C, "--C")
    weights = None if wishes.class_weight == AUTO else as_class_weight(wishes.class_weight, subject.total.labels)
    return SolveOptions(C, weights, wishes.multiclass, **fixed).check()


def _several(subject: Subject) -> str:
    return "" if len(subject.pieces) > 1 else "There is one piece only: name several files, or a folder of them."


def _tried(find: Callable[[], Answer]) -> Answer | str:
    """An answer, or why knowledge of this form or with these rows has none."""
    try:
        return find()
    except (FormError, KnowledgeError) as error:
        return str(error)


def _path(subject: Subject, terms: SolveOptions, wishes: ChoiceOptions, remarks: list[str]) -> Validation | str:
    """Scores over C: the balanced weights beside those that are given, unless that takes too long."""
    folds = subject.folds
    if folds is None:
        return subject.held_out
    weightings = [terms.class_weight, *(other for other in (None, "balanced") if other != terms.class_weight)]
    width, n_folds = folds.total.width, len(folds)
    work = [_systems(replace(terms, class_weight=each), subject) * n_folds * width**3 for each in weightings]
    chosen = [
        each
        for at, each in enumerate(weightings)
        if at == 0 or wishes.class_weight == AUTO or work[at] <= PATIENCE["path"]
    ]
    left = [each or "none" for each in weightings if each not in chosen]
    if left:
        remarks.append(
            f"Class weights {' and '.join(map(str, left))} were not tried: {width:,} features take too long."
        )
    planes = len(terms.problems(folds.total))
    rounds = len(chosen) * len(USUAL_CS) * n_folds * len(folds.labels)
    guessed = can_be_drawn(terms, folds.total) and rounds * planes * (width**2 + DRAWS * planes) <= PATIENCE["accuracy"]
    if not guessed and can_be_drawn(terms, folds.total):
        remarks.append("Accuracies over C were not estimated: with so many classes or features it takes too long.")
    found = _tried(
        lambda: quietly(
            folds,
            class_weights=chosen,
            multiclass=terms.multiclass,
            standardize=terms.standardize,
            penalize_intercept=terms.penalize_intercept,
            scoring=("neg_squared_loss", "neg_balanced_loss", *(("accuracy",) if guessed else ())),
        )
    )
    if not isinstance(found, str) and np.isnan(found.mean()).all():
        return "No class is in two folds or pieces: what is held out is of classes that the rest does not know."
    return found


def _systems(terms: SolveOptions, subject: Subject) -> int:
    """How many different systems of equations the binary problems have: as many as there are sets of weights."""
    problems = terms.problems(subject.total)
    return len({problems.weights(problem).tobytes() for problem in range(len(problems))})


def _chosen(path: Validation | str, terms: SolveOptions, wishes: ChoiceOptions) -> tuple[SolveOptions, str]:
    """The best terms of those that are wished, and how they were found."""
    if AUTO not in (wishes.C, wishes.class_weight):
        return terms, "as given"
    if isinstance(path, str):
        return terms, "by default" if wishes.C == AUTO else "as given"
    scoring = wishes.decides(terms.multiclass, False)
    scores = path.mean(scoring).reshape(len(path.grid.settings), -1)
    if wishes.class_weight != AUTO:
        scores = scores[:1]
    if wishes.C != AUTO:
        # Of a C that is given, the nearest that was tried tells which weights are better.
        nearest = int(np.abs(np.log(path.grid.Cs / terms.C)).argmin())
        scores = np.where(np.arange(scores.shape[1]) == nearest, scores, np.nan)
    setting, at = divmod(int(np.nanargmax(scores)), scores.shape[1])
    chosen = replace(terms, class_weight=path.grid.settings[setting].class_weight)
    loss = "squared loss" if scoring == "neg_squared_loss" else "squared loss in which classes count alike"
    if wishes.C != AUTO:
        return chosen, f"as given; class weights by the least held-out {loss}"
    return replace(chosen, C=float(path.grid.Cs[at])), f"by the least held-out {loss}"


def _elimination(subject: Subject, terms: SolveOptions, remarks: list[str]) -> Elimination | str:
    """Backward elimination, held out in as many folds as time allows."""
    total, folds = subject.total, subject.folds
    if total.width < 2:
        return "There is one feature only."
    once = (_systems(terms, subject) + len(total.labels) / 4) * float(total.width) ** 3
    most = int(PATIENCE["elimination"] // once)
    if most < 1 + (folds is not None):
        return f"It would take too long with {total.width:,} features. Select some first: knowledge.select."
    if folds is None:
        return _tried(lambda: eliminate(total, **options(terms)))
    pairs: list[tuple[Knowledge, Knowledge]] = []
    for fold, held_out in enumerate(folds):
        if len(pairs) < most - 1 and held_out.labels:
            train = folds.train(fold)
            if set(train.labels) & set(held_out.labels):
                pairs.append((train, held_out))
    if len(pairs) == most - 1 < len(folds):
        remarks.append(f"Elimination was judged on {counted(len(pairs), 'fold')} of {len(folds)}: all take too long.")
    return _tried(lambda: eliminate(total, **options(terms), held_out=pairs or None))


def _curve(labels: tuple[Label, ...], estimates: Estimates) -> Curve | str:
    """Operating points, on the rows that models had not seen, if there are such."""
    if len(labels) != 2:
        return "Operating points are for two classes. Join the others first: knowledge.join."
    pairs = [(model, rows) for model, rows in estimates.pairs if isinstance(model, LinearModel)]
    pairs = [(model, rows) for model, rows in pairs if len(model.labels) == 2]

    def find() -> Curve:
        return Curve(operating_curve(pairs), {name: operating_point(pairs, **wish) for name, wish in WISHES.items()})

    return _tried(find) if pairs else "No fold leaves both classes to learn from."
