"""Importance of features from the sums alone: backward elimination and standardised coefficients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.constant_features import feature_names
from mergesvm.analysis.elimination import BackwardElimination, run_elimination
from mergesvm.errors import KnowledgeError, ParameterError
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.definiteness import check_sound
from mergesvm.methods.proximal.factor import small_blas
from mergesvm.methods.proximal.options import SolveOptions
from mergesvm.methods.proximal.rounding import scatter
from mergesvm.methods.proximal.solve import solvable
from mergesvm.models.hyperplanes import Hyperplanes
from mergesvm.text import counted

Numbers = NDArray[np.float64]

LOSS_TOLERANCE = 1e-12
"""Difference of losses that is due to rounding, relative to them and to 1, the loss of scores of zero."""


@dataclass(frozen=True)
class Elimination:
    """Backward elimination of features, the least important first; step 0 has all of them.

    Attributes
    ----------
    names : tuple of str
        Names of all features.
    order : array of int, shape (steps,)
        Indices of the features, in the order of their removal.
    objective : array of shape (steps + 1,)
        1/2 (|w|^2 + b^2) + C/2 sum_i omega_i (1 - y_i (w.x_i + b))^2, summed over the binary problems.
    loss : array of shape (steps + 1,)
        Mean of (1 - y (w.x + b))^2 over the training rows, and over the binary problems.
    held_out_loss : array of shape (steps + 1,), or None
        The same on held-out rows, averaged over all pairs of training and held-out rows.
    """

    names: tuple[str, ...]
    order: NDArray[np.intp]
    objective: Numbers
    loss: Numbers
    held_out_loss: Numbers | None = None

    @property
    def best(self) -> int | None:
        """Number of features with the lowest held-out loss; the smallest number, if losses are equal to rounding."""
        if self.held_out_loss is None:
            return None
        losses = np.where(np.isnan(self.held_out_loss), np.inf, self.held_out_loss)
        lowest = losses.min()
        return len(self.names) - int(np.flatnonzero(losses <= lowest + LOSS_TOLERANCE * max(1.0, lowest))[-1])

    def features(self, n: int) -> NDArray[np.intp]:
        """Indices of the n features that are removed last, in increasing order, for ``knowledge.select``."""
        width = len(self.names)
        if not width - len(self.order) <= n <= width:
            raise ParameterError(f"n must be a number of features from {width - len(self.order)} to {width}, not {n}.")
        return np.setdiff1d(np.arange(width), self.order[: width - n])

    def table(self) -> list[dict[str, Any]]:
        """One row per step: the number of features left, the name of the feature removed, objective and losses."""
        rows: list[dict[str, Any]] = []
        for step, (objective, loss) in enumerate(zip(self.objective.tolist(), self.loss.tolist(), strict=True)):
            removed = self.names[self.order[step - 1]] if step else None
            row = {"features": len(self.names) - step, "removed": removed, "objective": objective, "loss": loss}
            rows.append(row if self.held_out_loss is None else row | {"held-out loss": float(self.held_out_loss[step])})
        return rows

    def __repr__(self) -> str:
        best = "" if self.best is None else f", the lowest held-out loss with {self.best}"
        return f"Elimination of {len(self.order)} of {counted(len(self.names), 'feature')}{best}"


def eliminate(
    knowledge: Knowledge | Folds,
    C: float = 1.0,
    class_weight: Mapping[Any, float] | str | None = None,
    multiclass: str = "ovr",
    standardize: bool = False,
    *,
    penalize_intercept: bool = True,
    fit_intercept: bool = True,
    keep: int = 1,
    held_out: Sequence[tuple[Knowledge, Knowledge]] | Folds | None = None,
    max_steps: int | None = None,
) -> Elimination:
    """Backward elimination: repeatedly remove the feature whose removal raises the objective least.

    Needs only the knowledge, not the data. Each step gives what solving with the remaining features alone would give;
    all steps together cost a few solutions.
    Without ``standardize`` the penalty, and so the order, depends on the units of the features.

    Parameters
    ----------
    knowledge : Knowledge or Folds
        Folds are also held out in turn.
    C, class_weight, multiclass, standardize, penalize_intercept, fit_intercept
        As in :func:`~mergesvm.methods.proximal.solve.solve`.
    keep : int
        Number of features at which to stop.
    held_out : sequence of (training, held-out) pairs of Knowledge, or Folds, optional
        The order is found on ``knowledge`` and applied to each training part, whose loss is computed on the held-out
        rows. If ``knowledge`` includes those rows, as with folds, the loss is slightly too low.
    max_steps : int, optional
        Maximum number of features to remove.

    Examples
    --------
    >>> import mergesvm as ms
    >>> from mergesvm.analysis.importance import eliminate
    >>> from sklearn.datasets import load_iris
    >>> data = load_iris()
    >>> folds = ms.learn(data.data, data.target, feature_names=data.feature_names, folds=5)
    >>> elimination = eliminate(folds, standardize=True)
    >>> elimination
    Elimination of 3 of 4 features, the lowest held-out loss with 3
    >>> [elimination.names[i] for i in elimination.features(2)]
    ['sepal width (cm)', 'petal width (cm)']
    """
    folds = knowledge if isinstance(knowledge, Folds) and held_out is None else held_out
    knowledge = solvable(knowledge)
    pairs = _pairs(knowledge, folds)
    options = SolveOptions(
        C, class_weight, multiclass, standardize, penalize_intercept, fit_intercept=fit_intercept
    ).check()
    steps = _steps(knowledge.width, keep, max_steps)
    with small_blas(knowledge.width):
        order, objective, loss = _eliminate(options, knowledge, knowledge, steps)
        losses = [_eliminate(options, train, test, steps, order.tolist())[2] for train, test in pairs]
    return Elimination(
        feature_names(knowledge.signature), order, objective, loss, np.mean(losses, axis=0) if losses else None
    )


def _pairs(knowledge: Knowledge, held_out: Any) -> list[tuple[Knowledge, Knowledge]]:
    """Pairs of training and held-out knowledge, checked to match the whole."""
    if held_out is None:
        return []
    if isinstance(held_out, Folds):
        every = [(held_out.train(fold), part) for fold, part in enumerate(held_out)]
        # Leaves out empty folds.
        held_out = [(train, test) for train, test in every if set(train.labels) & set(test.labels)]
    pairs = list(held_out) if isinstance(held_out, Iterable) else [held_out]
    if not pairs:
        raise ParameterError("held_out is empty. Give pairs of training and held-out knowledge, or leave it out.")
    for number, pair in enumerate(pairs):
        if not isinstance(pair, (tuple, list)) or [isinstance(each, Knowledge) for each in pair] != [True, True]:
            raise ParameterError(
                f"held_out must be pairs of training and held-out knowledge, but item {number} is {pair!r}."
            )
        if not set(pair[0].labels) & set(pair[1].labels):
            raise KnowledgeError(
                f"Pair {number} of held_out has no class that is in both its training and its held-out rows."
            )
        for each in pair:
            knowledge.signature.joined(each.signature, "validate", "beside")
    return [(train, test) for train, test in pairs]


def _steps(width: int, keep: Any, max_steps: Any) -> int:
    if not isinstance(keep, (int, np.integer)) or isinstance(keep, bool) or not 1 <= keep <= width:
        raise ParameterError(f"keep must be a number of features from 1 to {width}, not {keep!r}.")
    if max_steps is None:
        return width - int(keep)
    if not isinstance(max_steps, (int, np.integer)) or isinstance(max_steps, bool) or max_steps < 0:
        raise ParameterError(f"max_steps must be None or a non-negative integer, not {max_steps!r}.")
    return min(width - int(keep), int(max_steps))


def _eliminate(
    options: SolveOptions, train: Knowledge, test: Knowledge, steps: int, order: list[int] | None = None
) -> tuple[NDArray[np.intp], Numbers, Numbers]:
    """Order, objective, and mean over the problems of the mean squared loss on ``test``, after each step."""
    check_sound(train)
    problems = options.problems(train)
    known = [label for label in test.labels if label in train.labels]
    # Classes that are not in the training part have no hyperplanes.
    test = test.only(known) if len(known) < len(test.labels) else test
    signs = problems.signs[:, [train.labels.index(label) for label in known]]
    removed, objectives, losses = run_elimination(
        BackwardElimination(train, problems, options), test, signs, steps, order
    )
    counts = np.abs(signs) @ test.counts
    present = counts > 0
    return removed, objectives, (losses[:, present] / counts[present]).mean(axis=1)


@dataclass(frozen=True)
class Importance:
    """Standardised coefficients, which are comparable between features.

    Attributes
    ----------
    names : tuple of str
        Names of the features.
    coefs : array of shape (problems, features)
        Change of each score when a feature changes by its standard deviation.
    overall : array of shape (features,)
        Root mean square of the coefficients over the problems.
    """

    names: tuple[str, ...]
    coefs: Numbers
    overall: Numbers

    def table(self) -> list[dict[str, Any]]:
        """One row per feature, the most important first."""
        order = np.argsort(-self.overall, kind="stable").tolist()
        return [{"feature": self.names[at], "importance": float(self.overall[at])} for at in order]


def standardized_coefficients(model: Hyperplanes, knowledge: Knowledge | Folds) -> Importance:
    """Standardised coefficients of a model: w_j times the standard deviation of feature j over all rows of knowledge.

    >>> import mergesvm as ms
    >>> from mergesvm.analysis.importance import standardized_coefficients
    >>> k = ms.learn([[0.0, 500.0], [1.0, 400.0], [2.0, 500.0], [3.0, 400.0]], ["low", "low", "high", "high"])
    >>> standardized_coefficients(ms.solve(k), k).coefs.round(2)
    array([[-0.67,  0.08]])
    """
    if not isinstance(model, Hyperplanes):
        raise TypeError(f"model must be a linear model with coefficients, not {type(model).__name__}.")
    knowledge = solvable(knowledge)
    model.signature.joined(knowledge.signature, "compare", "with")
    coefs = model.coef_ * np.sqrt(scatter(knowledge) / knowledge.counts.sum())
    return Importance(feature_names(knowledge.signature), coefs, np.sqrt((coefs**2).mean(axis=0)))
