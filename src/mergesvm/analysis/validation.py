"""Cross-validation of a whole grid, from the sums of the folds alone or with one more pass over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.grid import Grid
from mergesvm.analysis.learned_rows import LearnedRows
from mergesvm.analysis.scoring import LOSSES, deviation_of, mean_of, scored, scorings_of
from mergesvm.data.labels import Label
from mergesvm.engines.threads import Threads
from mergesvm.errors import FoldWarning, KnowledgeError, ParameterError, warn_caller
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.local import Progress
from mergesvm.methods.proximal.definiteness import check_sound
from mergesvm.methods.proximal.factor import small_blas
from mergesvm.methods.proximal.options import SolveOptions
from mergesvm.methods.proximal.solve import solve
from mergesvm.models.calibration import Calibration, check_method
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel

Numbers = NDArray[np.float64]

KEPT_BYTES = 2**29
"""Curves need all scores at one time: of more candidates than fit in here, some are examined after the others."""


@dataclass(frozen=True)
class Validation:
    """How well each candidate does on rows that it has not seen.

    Attributes
    ----------
    grid : Grid
        The candidates; ``grid[i]`` are the terms of the i-th.
    scoring : tuple of str
        The first decides.
    scores : dict of scoring to array of shape (candidates, folds)
        Higher is better.
    measured : bool
        Whether rows were looked at. If not, losses are exact, and all else is estimated from the class-conditional
        normal of the scores.
    folds : Folds
    """

    grid: Grid
    scoring: tuple[str, ...]
    scores: dict[str, Numbers]
    measured: bool
    folds: Folds

    def mean(self, scoring: str | None = None) -> Numbers:
        """The mean over the folds, (candidates,); NaN where there is no number for any."""
        return mean_of(self.scores[scoring or self.scoring[0]])

    @property
    def best_index(self) -> int:
        """The candidate with the highest mean; of equals the first, whose C is smallest."""
        means = self.mean()
        if np.isnan(means).all():
            raise KnowledgeError(
                f"No candidate has a number for {self.scoring[0]}: no fold has rows of the classes that this needs."
            )
        return int(np.nanargmax(means))

    @property
    def best(self) -> SolveOptions:
        """The terms of the best candidate."""
        return self.grid[self.best_index]

    @property
    def best_score(self) -> float:
        """Its mean score."""
        return float(self.mean()[self.best_index])

    def solve(self, n_jobs: int | None = None) -> LinearModel | PairwiseModel:
        """The model of all rows on the best terms."""
        return solve(self.folds, **self.best.as_dict(), n_jobs=n_jobs)

    def held_out(self) -> list[tuple[LinearModel | PairwiseModel, Knowledge]]:
        """For each fold, the model of all others on the best terms, and the knowledge of the fold.

        Folds without rows are left out, and those without which a class has no rows.

        >>> import mergesvm as ms
        >>> from sklearn.datasets import load_breast_cancer
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> pairs = ms.validate(ms.learn(X, y, folds=5), standardize=True).held_out()
        >>> round(ms.operating_point(pairs, recall=0.99).false_positive_rate, 2)
        0.09
        """
        return [
            (solve(self.folds.train(fold), **self.best.as_dict()), part)
            for fold, part in enumerate(self.folds)
            if part.labels and self.folds.train(fold).labels == self.folds.labels
        ]

    def calibrated(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        method: str = "isotonic",
        *,
        groups: Any = None,
        numbers: Any = None,
        n_jobs: int | None = None,
    ) -> LinearModel | PairwiseModel:
        """The model of all rows on the best terms, with probabilities fitted on rows that their model had not seen.

        Each row that was learned, given once more, is scored by the model of all folds but its own; see
        :meth:`Model.calibrated` for the methods, and :func:`validate` for the rows.

        >>> import mergesvm as ms
        >>> from sklearn.datasets import load_breast_cancer
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> ms.validate(ms.learn(X, y, folds=5), standardize=True).calibrated(X, y, method="platt").calibration_
        Calibration(method='platt', rows=569)
        """
        check_method(method)
        model, engine = self.solve(n_jobs), Threads(n_jobs)
        rows = LearnedRows(self.folds, X, y, sample_weight, groups, numbers, engine)
        scores, codes, weights = rows.decisions(
            [solve(self.folds.train(fold), **self.best.as_dict()) for fold in range(len(self.folds))]
        )
        return model.with_calibration(Calibration.fit(scores, codes, weights, method, len(model.labels)))

    def table(self) -> list[dict[str, Any]]:
        """One row a candidate: its terms, and mean and standard deviation of each score."""
        columns = {name: (mean_of(scores), deviation_of(scores)) for name, scores in self.scores.items()}
        return [
            {"C": terms.C, "class_weight": terms.class_weight, "multiclass": terms.multiclass}
            | {name: float(mean[at]) for name, (mean, _) in columns.items()}
            | {f"{name} deviation": float(deviation[at]) for name, (_, deviation) in columns.items()}
            for at, terms in enumerate(self.grid)
        ]

    def __repr__(self) -> str:
        best, name = self.best, self.scoring[0]
        return (
            f"Validation of {len(self.grid)} candidates in {len(self.folds)} folds: C={best.C:g}, "
            f"class_weight={best.class_weight!r}, multiclass={best.multiclass!r} has "
            f"{'' if self.exact(name) else 'an estimated '}{name} {self.best_score:.4f}"
        )

    def exact(self, scoring: str) -> bool:
        """Whether a score is what measuring all rows gives, and not an estimate."""
        return self.measured or scoring in LOSSES


def validate(
    folds: Folds,
    X: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    *,
    Cs: Any = None,
    class_weights: Any = None,
    multiclass: Any = "ovr",
    standardize: bool = False,
    penalize_intercept: bool = True,
    ties: str = "recount",
    scoring: str | Sequence[str] = "neg_squared_loss",
    groups: Any = None,
    numbers: Any = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Validation:
    """Score all candidates on the folds that each has not seen: what cross-validation by as many trainings gives.

    Without rows, squared losses are exact, and all else is estimated, as if the scores of each class were normal. With
    the rows that were learned, given once more, everything is measured, for all candidates at once.

    Parameters
    ----------
    folds : Folds
        What ``ms.learn(..., folds=5)`` gives.
    X, y, sample_weight : rows as they were learned; or a scan, optional
        The order does not matter, unless folds were given by hand.
    Cs : list of float, optional
        By default 25 from 1e-6 to 1e6.
    class_weights : a weighting, or list of weightings
        None, "inverse", "complement", "balanced", or a mapping; see :func:`solve`.
    multiclass : {"ovr", "ovo"}, or list of both
    standardize, penalize_intercept, ties
        As in :func:`solve`, the same for all candidates.
    scoring : str or list of str
        The first decides: "neg_squared_loss", the mean over binary problems of the mean of (1 - y f(x))^2 over rows;
        "neg_balanced_loss", in which both sides of a problem count alike, and in each side its classes; "accuracy",
        "balanced_accuracy", "neg_log_loss", "roc_auc" (of more than two classes the mean of each against the rest).
    groups : as in :func:`learn`
    numbers : sequence of int, optional
        The fold of each row of X, where folds were given by hand.
    n_jobs : int, optional
    progress : function, optional
        Called with the scan after each of its slices.

    Examples
    --------
    >>> import mergesvm as ms
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> folds = ms.learn(X, y, folds=5)
    >>> validation = ms.validate(folds, class_weights=[None, "balanced"])
    >>> validation
    Validation of 50 candidates in 5 folds: C=3.16228, class_weight=None, multiclass='ovr' has neg_squared_loss -0.3767
    >>> validation.solve()
    LinearModel of 3 classes x 4 features
    >>> ms.validate(folds, X, y, multiclass="ovo", scoring="accuracy").best_score > 0.95
    True
    """
    if not isinstance(folds, Folds):
        kind = type(folds).__name__
        raise TypeError(f"Only folds can be validated, not {kind}: learn with folds=5, or make Folds of pieces.")
    grid = Grid.of(Cs, class_weights, multiclass, standardize, penalize_intercept, ties)
    names = scorings_of(scoring)
    if names[0] in LOSSES and len(folds.labels) > 2 and len({setting.multiclass for setting in grid.settings}) > 1:
        raise ParameterError(
            f"{names[0]} does not compare one-vs-rest with one-vs-one, whose problems have other rows. Let accuracy "
            f"decide (scoring='accuracy'), or validate one scheme at a time."
        )
    if not folds.labels:
        raise KnowledgeError("There is nothing to validate: the folds have no rows, or rows of weight zero only.")
    if not folds.rows.any():
        raise KnowledgeError("No row lies in a fold: all are never held out.")
    if int((folds.rows > 0).sum()) < (2 if folds.rest is None else 1):
        raise KnowledgeError(
            f"All rows lie in one fold (n_samples = {int(folds.total.rows.sum())}), so that there are none left to "
            f"learn from. Equal rows, and those of a group, stay together: give more rows, other groups or folds=[...]."
        )
    with small_blas(folds.total.width):
        for piece in (folds.total, *folds):
            check_sound(piece)
    _warn_of_lone_classes(folds)
    engine = Threads(n_jobs)
    rows = None if X is None else LearnedRows(folds, X, y, sample_weight, groups, numbers, engine, progress)
    scores = {name: np.full((len(grid), len(folds)), np.nan) for name in names}
    kept = 8 * int(folds.rows.sum()) * len(folds.labels) * len(grid)
    passes = -(-kept // KEPT_BYTES) if rows is not None and "roc_auc" in names else 1
    for places, some in grid.parts(passes):
        for name, found in scored(some, folds, names, rows, engine).items():
            scores[name][places] = found
    return Validation(grid, names, scores, rows is not None, folds)


def _warn_of_lone_classes(folds: Folds) -> None:
    lone = lone_class(folds)
    if lone is not None:
        warn_caller(
            f"All rows of class {lone[0]!r} lie in fold {lone[1]}: what is learned without it has never met them, and "
            f"is wrong there. Deal the rows out otherwise: folds=[...], or other groups.",
            FoldWarning,
        )


def lone_class(folds: Folds) -> tuple[Label, int] | None:
    """A class of which all rows lie in one fold, and that fold; None where there is no such class.

    >>> import mergesvm as ms
    >>> lone_class(ms.learn([[0.0], [1.0], [2.0]], ["a", "a", "b"], folds=[0, 1, 1]))
    ('b', 1)
    """
    for fold, part in enumerate(folds) if len(folds.labels) > 1 else ():
        others = {label for other in folds.pieces(without=fold) for label in other.labels}
        lone = [label for label in part.labels if label not in others]
        if lone:
            return lone[0], fold
    return None
