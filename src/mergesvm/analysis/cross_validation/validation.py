"""Cross-validation of a grid of candidates, from the sums of the folds alone or with one pass over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.cross_validation.grid import Grid
from mergesvm.analysis.cross_validation.learned_rows import LearnedRows
from mergesvm.analysis.cross_validation.score_names import LOSSES, check_scoring
from mergesvm.analysis.cross_validation.scoring import deviation_per_row, mean_per_row, score_candidates
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

MAX_KEPT_BYTES = 2**29
"""ROC curves need the probabilities of all rows: if they take more memory than this, candidates are split."""


@dataclass(frozen=True)
class Validation:
    """Scores of each candidate on rows that it was not learned from.

    Attributes
    ----------
    grid : Grid
        The candidates; ``grid[i]`` are the options of the i-th.
    scoring : tuple of str
        The first decides.
    scores : dict of scoring to array of shape (candidates, folds)
        Higher is better.
    measured : bool
        Whether candidates were scored on rows. If not, losses are exact, and the other scores are estimates that assume
        normal scores within each class.
    folds : Folds
    """

    grid: Grid
    scoring: tuple[str, ...]
    scores: dict[str, Numbers]
    measured: bool
    folds: Folds

    def mean(self, scoring: str | None = None) -> Numbers:
        """Mean over the folds, (candidates,); NaN if no fold has a score."""
        return mean_per_row(self.scores[scoring or self.scoring[0]])

    @property
    def best_index(self) -> int:
        """Index of the candidate with the highest mean score; of equal ones the first, with the smallest C."""
        means = self.mean()
        if np.isnan(means).all():
            raise KnowledgeError(
                f"No candidate has a score for {self.scoring[0]}: no fold has rows of the classes that it needs."
            )
        return int(np.nanargmax(means))

    @property
    def best(self) -> SolveOptions:
        """Options of the best candidate."""
        return self.grid[self.best_index]

    @property
    def best_score(self) -> float:
        """Mean score of the best candidate."""
        return float(self.mean()[self.best_index])

    def solve(self, n_jobs: int | None = None) -> LinearModel | PairwiseModel:
        """The model of all rows with the best options."""
        return solve(self.folds, **self.best.as_dict(), n_jobs=n_jobs)

    def held_out(self) -> list[tuple[LinearModel | PairwiseModel, Knowledge]]:
        """For each fold, the model of all other folds with the best options, and the knowledge of the fold.

        Leaves out empty folds, and folds that hold all rows of a class.

        >>> import mergesvm as ms
        >>> from sklearn.datasets import load_breast_cancer
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> pairs = ms.validate(ms.learn(X, y, folds=5), standardize=True).held_out()
        >>> round(ms.operating_point(pairs, recall=0.99).false_positive_rate, 2)
        0.09
        """
        return [
            (self._without(fold), part)
            for fold, part in enumerate(self.folds)
            if part.labels and self.folds.train(fold).labels == self.folds.labels
        ]

    def _without(self, fold: int) -> LinearModel | PairwiseModel:
        return solve(self.folds.train(fold), **self.best.as_dict())

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
        """The model of all rows with the best options, and probabilities calibrated by cross-validation.

        Takes the rows that were learned, and scores each by the model of all other folds. See
        :meth:`Model.calibrated` for the methods, and :func:`validate` for the rows.

        >>> import mergesvm as ms
        >>> from sklearn.datasets import load_breast_cancer
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> ms.validate(ms.learn(X, y, folds=5), standardize=True).calibrated(X, y, method="platt").calibration_
        Calibration(method='platt', rows=569)
        """
        check_method(method)
        model, engine = self.solve(n_jobs), Threads.of_jobs(n_jobs)
        rows = LearnedRows(self.folds, X, y, sample_weight, groups, numbers, engine)
        scores, codes, weights = rows.decisions([self._without(fold) for fold in range(len(self.folds))])
        return model.with_calibration(Calibration.fit(scores, codes, weights, method, len(model.labels)))

    def table(self) -> list[dict[str, Any]]:
        """One row per candidate: its options, and mean and standard deviation of each score."""
        columns = {name: (mean_per_row(scores), deviation_per_row(scores)) for name, scores in self.scores.items()}
        return [
            {"C": options.C, "class_weight": options.class_weight, "multiclass": options.multiclass}
            | {name: float(mean[at]) for name, (mean, _) in columns.items()}
            | {f"{name} deviation": float(deviation[at]) for name, (_, deviation) in columns.items()}
            for at, options in enumerate(self.grid)
        ]

    def __repr__(self) -> str:
        best, name = self.best, self.scoring[0]
        return (
            f"Validation of {len(self.grid)} candidates in {len(self.folds)} folds: C={best.C:g}, "
            f"class_weight={best.class_weight!r}, multiclass={best.multiclass!r} has "
            f"{'' if self.exact(name) else 'an estimated '}{name} {self.best_score:.4f}"
        )

    def exact(self, scoring: str) -> bool:
        """Whether a score is exact, and not an estimate."""
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
    fit_intercept: bool = True,
    ties: str = "recount",
    scoring: str | Sequence[str] = "neg_squared_loss",
    groups: Any = None,
    numbers: Any = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Validation:
    """Cross-validate a grid of candidates from the sums of the folds, as if each had been trained on the other folds.

    Without rows, squared losses are exact, and other scores are estimates that assume normal scores within each class.
    With the rows that were learned, all scores are measured, for all candidates in one pass.

    Parameters
    ----------
    folds : Folds
        The result of ``ms.learn(..., folds=5)``.
    X, y, sample_weight : rows as they were learned; or a scan, optional
        In any order, unless folds were given as a sequence.
    Cs : list of float, optional
        By default 25 values from 1e-6 to 1e6.
    class_weights : a weighting, or list of weightings
        None, "inverse", "complement", "balanced", or a mapping; see :func:`solve`.
    multiclass : {"ovr", "ovo"}, or list of both
    standardize, penalize_intercept, fit_intercept, ties
        As in :func:`solve`, the same for all candidates.
    scoring : str or list of str
        The first decides: "neg_squared_loss", the mean over binary problems of the mean of (1 - y f(x))^2 over rows;
        "neg_balanced_loss", in which both sides of a problem count the same, and in each side its classes; "accuracy",
        "balanced_accuracy", "neg_log_loss", "roc_auc" (for more than two classes the mean of each against the rest).
    groups : as in :func:`learn`
    numbers : sequence of int, optional
        The fold of each row of X, if folds were given as a sequence.
    n_jobs : int, optional
        Number of threads (default: one per core).
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
        raise TypeError(f"folds must be Folds, as learned with folds=5, not {type(folds).__name__}.")
    grid = Grid.of(Cs, class_weights, multiclass, standardize, penalize_intercept, ties, fit_intercept)
    names = check_scoring(scoring)
    if names[0] in LOSSES and len(folds.labels) > 2 and len({setting.multiclass for setting in grid.settings}) > 1:
        raise ParameterError(
            f"{names[0]} cannot compare one-vs-rest with one-vs-one, because their problems have different rows. Use "
            f"scoring='accuracy', or validate one scheme at a time."
        )
    check_folds(folds)
    engine = Threads.of_jobs(n_jobs)
    rows = None if X is None else LearnedRows(folds, X, y, sample_weight, groups, numbers, engine, progress)
    scores = {name: np.full((len(grid), len(folds)), np.nan) for name in names}
    kept = 8 * int(folds.rows.sum()) * len(folds.labels) * len(grid)
    passes = -(-kept // MAX_KEPT_BYTES) if rows is not None and "roc_auc" in names else 1
    for places, some in grid.parts(passes):
        for name, found in score_candidates(some, folds, names, rows, engine).items():
            scores[name][places] = found
    return Validation(grid, names, scores, rows is not None, folds)


def check_folds(folds: Folds) -> None:
    """Raise an error if the folds cannot be held out in turn or are unsound, and warn of a class in a single fold."""
    if not folds.labels:
        raise KnowledgeError("The folds have no rows, or only rows of weight zero. Learn some first.")
    if not folds.rows.any():
        raise KnowledgeError("No row is in a fold: all are never held out.")
    if int((folds.rows > 0).sum()) < (2 if folds.rest is None else 1):
        raise KnowledgeError(
            f"All rows are in one fold (n_samples = {int(folds.total.rows.sum())}), so none are left to learn from. "
            f"Equal rows, and those of a group, stay together: give more rows, other groups or folds=[...]."
        )
    with small_blas(folds.total.width):
        for piece in (folds.total, *folds):
            check_sound(piece)
    lone = lone_class(folds)
    if lone is not None:
        warn_caller(
            f"All rows of class {lone[0]!r} are in fold {lone[1]}: models learned without it do not know the class and "
            f"predict these rows wrongly. Assign rows to folds differently: pass folds=[...] or different groups.",
            FoldWarning,
        )


def lone_class(folds: Folds) -> tuple[Label, int] | None:
    """A class with all its rows in one fold, and that fold; None if there is no such class."""
    for fold, part in enumerate(folds) if len(folds.labels) > 1 else ():
        others = {label for other in folds.pieces(without=fold) for label in other.labels}
        lone = [label for label in part.labels if label not in others]
        if lone:
            return lone[0], fold
    return None
