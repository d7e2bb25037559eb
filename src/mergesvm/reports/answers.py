"""Compute everything a report shows from knowledge alone; a text in place of an answer says why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from mergesvm.analysis.constant_features import constant_features
from mergesvm.analysis.cross_validation.validation import Validation, lone_class
from mergesvm.analysis.expected import DRAWS
from mergesvm.analysis.importance import Elimination, Importance, eliminate, standardized_coefficients
from mergesvm.analysis.pieces.drift import Drift, drift
from mergesvm.analysis.pieces.influence import Influence, influence
from mergesvm.analysis.threshold import OperatingCurve, OperatingPoint, operating_curve, operating_point
from mergesvm.data.labels import Label
from mergesvm.errors import FormError, KnowledgeError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.options import SolveOptions
from mergesvm.methods.proximal.path import DEFAULT_CS
from mergesvm.methods.proximal.solve import solve
from mergesvm.models.linear import LinearModel
from mergesvm.reports.estimates import Estimates, Model, can_estimate_accuracy, estimate, validate_quietly
from mergesvm.reports.knowledge_facts import constant_note
from mergesvm.reports.subject import Subject
from mergesvm.text import counted

AUTO = "auto"

MAX_OPERATIONS = {"path": 5e10, "accuracy": 5e10, "elimination": 1.5e10}
"""Work beyond about this many multiplications is left out or done in part; each takes less than half a minute."""

OPERATING_GOALS: dict[str, dict[str, Any]] = {
    "recall 90 %": {"recall": 0.9},
    "recall 95 %": {"recall": 0.95},
    "recall 99 %": {"recall": 0.99},
    "false positives 1 %": {"false_positive_rate": 0.01},
    "false positives 5 %": {"false_positive_rate": 0.05},
    "equal costs": {"cost": (1.0, 1.0)},
    "a miss costs 10 times a false alarm": {"cost": (1.0, 10.0)},
}
"""The operating points shown for two classes, as arguments of :func:`operating_point`."""

Answer = TypeVar("Answer")
Step = Callable[[float], None]


@dataclass(frozen=True)
class Curve:
    """The operating curve of two classes, and the operating point of each goal."""

    curve: OperatingCurve
    points: dict[str, OperatingPoint]


@dataclass(frozen=True)
class Answers:
    """What a report shows; a text in place of an answer is the reason why there is none.

    ``how`` says how C was chosen, ``path`` has the scores over C for each class weighting, and ``remarks`` are warnings
    and what was left out. Model, estimates and importance are None if there is only one class.
    """

    subject: Subject
    options: SolveOptions
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
        """What was held out, if anything."""
        return self.subject.held_out if self.estimates is not None and self.estimates.held_out else None


@dataclass(frozen=True)
class ReportOptions:
    """Options of the model to report on, as in :func:`mergesvm.solve`; C and class weights may be "auto"."""

    C: float | str = AUTO
    class_weight: Any = None
    multiclass: str = "ovr"
    standardize: bool = False
    penalize_intercept: bool = True
    fit_intercept: bool = True
    level: float = 0.01

    def initial(self) -> SolveOptions:
        """Options to solve with before anything is chosen, or if nothing can be."""
        C = 1.0 if self.C == AUTO else float(self.C)
        weights = None if self._auto_weights else self.class_weight
        return SolveOptions(
            C,
            weights,
            self.multiclass,
            self.standardize,
            self.penalize_intercept,
            fit_intercept=self.fit_intercept,
        ).check()

    @property
    def _auto_weights(self) -> bool:
        return isinstance(self.class_weight, str) and self.class_weight == AUTO

    def tries(self, weighting: Any, given: Any) -> bool:
        """Whether a weighting has to be tried however long it takes."""
        return self._auto_weights or weighting == given

    def choose(self, path: Validation | str, options: SolveOptions) -> tuple[SolveOptions, str]:
        """The best options on the path, as far as they are "auto", and how they were chosen."""
        auto_C = self.C == AUTO
        if not (auto_C or self._auto_weights):
            return options, "as given"
        if isinstance(path, str):
            return options, "by default" if auto_C else "as given"
        scoring = "neg_squared_loss" if self.class_weight is None else "neg_balanced_loss"
        scores = path.mean(scoring).reshape(len(path.grid.settings), -1)
        if not self._auto_weights:
            scores = scores[:1]
        if not auto_C:
            # Compare weightings at the C tried that is nearest to the given one.
            nearest = int(np.abs(np.log(path.grid.Cs / options.C)).argmin())
            scores = np.where(np.arange(scores.shape[1]) == nearest, scores, np.nan)
        setting, at = divmod(int(np.nanargmax(scores)), scores.shape[1])
        chosen = replace(options, class_weight=path.grid.settings[setting].class_weight)
        loss = "squared loss" if scoring == "neg_squared_loss" else "balanced squared loss"
        if not auto_C:
            return chosen, f"as given; class weights by the least held-out {loss}"
        return replace(chosen, C=float(path.grid.Cs[at])), f"by the least held-out {loss}"


def answer(subject: Subject, wanted: ReportOptions, step: Step) -> Answers:
    """Compute all answers; ``step`` is called with the fraction of the work that is done."""
    step(0.0)
    options = wanted.initial()
    remarks = list(subject.remarks)
    if not subject.total.per_class:
        remarks.append("Pooled knowledge has one covariance for all classes, so estimates are less accurate.")
    if note := constant_note(constant_features(subject.total), subject.total.width):
        remarks.append(note)
    single = "" if len(subject.pieces) > 1 else "There is only one piece: name several files, or a folder of them."
    drifts: Drift | str = single or _answer_or_reason(lambda: drift(subject.pieces, level=wanted.level))
    if len(subject.total.labels) < 2:
        only = f"There is only one class, {subject.total.labels[0]!r}."
        return Answers(subject, options, "given", None, None, only, None, only, only, only, drifts, tuple(remarks))
    step(0.1)
    remarks += _remarks_on_classes(subject, options)
    path = _path(subject, options, wanted, remarks)
    options, how = wanted.choose(path, options)
    if how.startswith("by the") and not isinstance(path, str) and options.C in (path.grid.Cs[0], path.grid.Cs[-1]):
        side = "smallest" if path.grid.Cs[0] == options.C else "largest"
        remarks.append(f"{options.C:g} is the {side} C tried; one beyond it may be better: mergesvm solve --Cs.")
    step(0.6)
    model = solve(subject.total, **options.as_dict())
    estimates = estimate(subject, options, model)
    step(0.7)
    importance = standardized_coefficients(model, subject.total)
    elimination = _elimination(subject, options, remarks)
    step(0.9)
    arguments = options.as_dict(ties=False)
    influences: Influence | str = single or _answer_or_reason(lambda: influence(subject.pieces, **arguments))
    curve = _curve(subject.total.labels, estimates)
    return Answers(
        subject,
        options,
        how,
        model,
        estimates,
        path,
        importance,
        elimination,
        curve,
        influences,
        drifts,
        tuple(remarks),
    )


def _remarks_on_classes(subject: Subject, options: SolveOptions) -> list[str]:
    remarks = []
    lone = None if subject.folds is None else lone_class(subject.folds)
    if lone is not None:
        remarks.append(
            f"All rows of class {lone[0]!r} are in one fold or piece, so held-out scores say nothing about this class."
        )
    if not can_estimate_accuracy(options, subject.total):
        remarks.append("Accuracy and log-loss were not estimated: there are too many pairs of classes.")
    return remarks


def _answer_or_reason(find: Callable[[], Answer]) -> Answer | str:
    """An answer, or the error why this knowledge has none."""
    try:
        return find()
    except (FormError, KnowledgeError) as error:
        return str(error)


def _path(subject: Subject, options: SolveOptions, wanted: ReportOptions, remarks: list[str]) -> Validation | str:
    """Scores over C, for the given class weights and for others to compare, unless that takes too long."""
    folds = subject.folds
    if folds is None:
        return subject.held_out
    given = options.class_weight
    weightings = [given, *(other for other in (None, "balanced") if other != given)]
    width, n_folds = folds.total.width, len(folds)
    work = [_n_systems(replace(options, class_weight=each), subject) * n_folds * width**3 for each in weightings]
    limit = MAX_OPERATIONS["path"]
    tried = [each for each, cost in zip(weightings, work, strict=True) if wanted.tries(each, given) or cost <= limit]
    omitted = [str(each or "none") for each in weightings if each not in tried]
    if omitted:
        remarks.append(
            f"Class weights {' and '.join(omitted)} were not tried: it would take too long with {width:,} features."
        )
    n_problems = len(options.problems(folds.total))
    n_models = len(tried) * len(DEFAULT_CS) * n_folds * len(folds.labels)
    possible = can_estimate_accuracy(options, folds.total)
    accuracy = possible and n_models * n_problems * (width**2 + DRAWS * n_problems) <= MAX_OPERATIONS["accuracy"]
    if possible and not accuracy:
        remarks.append("Accuracy over C was not estimated: it would take too long with so many classes or features.")
    found = _answer_or_reason(
        lambda: validate_quietly(
            folds,
            class_weights=tried,
            multiclass=options.multiclass,
            standardize=options.standardize,
            penalize_intercept=options.penalize_intercept,
            fit_intercept=options.fit_intercept,
            scoring=("neg_squared_loss", "neg_balanced_loss", *(("accuracy",) if accuracy else ())),
        )
    )
    if not isinstance(found, str) and np.isnan(found.mean()).all():
        return "No class is in two folds or pieces, so no held-out rows are of a known class."
    return found


def _n_systems(options: SolveOptions, subject: Subject) -> int:
    """The number of different systems of equations: binary problems with equal weights share one."""
    problems = options.problems(subject.total)
    return len({problems.weights(problem).tobytes() for problem in range(len(problems))})


def _elimination(subject: Subject, options: SolveOptions, remarks: list[str]) -> Elimination | str:
    """Backward elimination, scored on as many held-out folds as time allows."""
    total, folds, arguments = subject.total, subject.folds, options.as_dict(ties=False)
    if total.width < 2:
        return "There is only one feature."
    once = (_n_systems(options, subject) + len(total.labels) / 4) * float(total.width) ** 3
    affordable = int(MAX_OPERATIONS["elimination"] // once)
    if affordable < 1 + (folds is not None):
        return f"It would take too long with {total.width:,} features. Select some first: knowledge.select."
    if folds is None:
        return _answer_or_reason(lambda: eliminate(total, **arguments))
    pairs: list[tuple[Knowledge, Knowledge]] = []
    for fold, held_out in enumerate(folds):
        if len(pairs) < affordable - 1 and held_out.labels:
            train = folds.train(fold)
            if set(train.labels) & set(held_out.labels):
                pairs.append((train, held_out))
    if len(pairs) == affordable - 1 < len(folds):
        some = counted(len(pairs), "fold")
        remarks.append(f"Elimination was scored on {some} of {len(folds)}: all would take too long.")
    return _answer_or_reason(lambda: eliminate(total, **arguments, held_out=pairs or None))


def _curve(labels: tuple[Label, ...], estimates: Estimates) -> Curve | str:
    """Operating points, on held-out rows if there are any."""
    if len(labels) != 2:
        return "Operating points are for two classes. Join the others first: knowledge.join."
    pairs = [(model, rows) for model, rows in estimates.pairs if isinstance(model, LinearModel)]
    pairs = [(model, rows) for model, rows in pairs if len(model.labels) == 2]

    def find() -> Curve:
        points = {goal: operating_point(pairs, **arguments) for goal, arguments in OPERATING_GOALS.items()}
        return Curve(operating_curve(pairs), points)

    return _answer_or_reason(find) if pairs else "No model without a fold has seen both classes."
