"""Expected accuracy, log-loss and AUC of models on rows of which only the sums are known, for normal scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from mergesvm.analysis.normal import EPSILON, normal_draws
from mergesvm.analysis.score_normals import check_alike
from mergesvm.data.labels import Label
from mergesvm.engines.threads import Threads
from mergesvm.errors import FormError, KnowledgeError
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.factor import small_blas
from mergesvm.methods.proximal.losses import LinearScores
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.multiclass.votes import is_second

Numbers = NDArray[np.float64]

DRAWS = 1024
"""Number of quasi-random draws of the scores per class, where there is no closed form."""

BLOCK_VALUES = 1 << 20
"""Number of scores drawn together."""

MAX_DRAWN_SCORES = 300
"""With more scores per row (25 classes, one-vs-one, have 300), drawing them jointly takes too long."""

MAX_DEVIATIONS = 9.0
"""Limit of the numerical integration over one standard normal number."""

ESTIMATES = ("recalls", "log_losses", "aucs")


@dataclass(frozen=True)
class Expected:
    """Expected scores of a model, assuming that its scores are normal within each class.

    Attributes
    ----------
    labels : tuple
        The classes of the rows.
    counts : array of shape (classes,)
        Their weight.
    recalls : array of shape (classes,)
        Expected fraction of each class that is predicted correctly.
    log_losses : array of shape (classes,)
        Expected -log of the probability of the true class.
    aucs : array of shape (classes,)
        Expected area under the ROC curve of each class against the rest, by its score; NaN if there is no other class.
    """

    labels: tuple[Label, ...]
    counts: Numbers
    recalls: Numbers
    log_losses: Numbers
    aucs: Numbers

    @property
    def accuracy(self) -> float:
        """Expected fraction of rows predicted correctly."""
        return float(self.recalls @ self.counts / self.counts.sum())

    @property
    def balanced_accuracy(self) -> float:
        """Mean of the recalls."""
        return float(self.recalls.mean())

    @property
    def log_loss(self) -> float:
        """Expected mean of -log of the probability of the true class."""
        return float(self.log_losses @ self.counts / self.counts.sum())

    @property
    def auc(self) -> float:
        """Expected area under the ROC curve; for more than two classes the mean of each against the rest."""
        return float(self.aucs.mean())


def expected(model: LinearModel | PairwiseModel, knowledge: Knowledge | Folds) -> Expected:
    """Expected recall, log-loss and AUC of a model on rows given by their knowledge alone.

    Assumes that scores are normal within class c, with mean W mu_c + b and covariance W Sigma_c W'. For two classes
    recall and AUC have closed forms; other numbers are averages over quasi-random draws, the same on every call.

    >>> import mergesvm as ms
    >>> k = ms.learn([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    >>> round(ms.expected(ms.solve(k, C=100.0), k).accuracy, 3)
    0.977
    """
    return expected_of_all([model], knowledge.total if isinstance(knowledge, Folds) else knowledge)[0]


def expected_of_all(
    models: Sequence[LinearModel | PairwiseModel],
    knowledge: Knowledge,
    wanted: Sequence[str] = ESTIMATES,
    n_jobs: int | None = None,
) -> list[Expected]:
    """Expected scores of many models of the same classes and type, such as a path; those not ``wanted`` are NaN."""
    first = models[0]
    if not knowledge.labels:
        raise KnowledgeError("The knowledge has no rows, so there is nothing to expect of a model.")
    check_alike(first, knowledge)
    places = [first.labels.index(label) for label in knowledge.labels]
    shape = len(models), len(places)
    recalls, losses, aucs = (np.full(shape, np.nan) for _ in range(3))
    with small_blas(knowledge.width):
        normals = _Normals.of(models, knowledge)
    two = len(first.labels) == 2
    drawn = "log_losses" in wanted or ("recalls" in wanted and not two)
    if drawn and normals.n_scores > MAX_DRAWN_SCORES:
        raise FormError(
            f"{normals.n_scores:,} scores of {len(first.labels)} classes are too many to estimate (at most "
            f"{MAX_DRAWN_SCORES}). Measure on rows instead, or use one-vs-rest."
        )

    def run(task: tuple[int, int]) -> None:
        index, place = task
        if "recalls" in wanted and two:
            means, spreads = normals.combine(np.ones((1, 1)), index)
            recalls[:, index] = _above(means[:, 0] if place else -means[:, 0], spreads[:, 0])
        if drawn:
            normals.draw(index, place, None if two else recalls, losses if "log_losses" in wanted else None)

    with Threads.single_threaded_blas():  # matrices are small: one row per score
        Threads.of_jobs(n_jobs).map(run, list(enumerate(places)))
    if "aucs" in wanted and len(places) > 1:
        aucs = _aucs(first, places, normals, knowledge.frequencies)
    rows = zip(recalls, losses, aucs, strict=True)
    return [Expected(knowledge.labels, knowledge.frequencies, *row) for row in rows]


@dataclass(frozen=True)
class _Normals:
    """Scores of models on rows of given knowledge: coefs (models, scores, features), and offsets at its anchor."""

    models: Sequence[LinearModel | PairwiseModel]
    coefs: Numbers
    offsets: Numbers
    knowledge: Knowledge

    @classmethod
    def of(cls, models: Sequence[LinearModel | PairwiseModel], knowledge: Knowledge) -> _Normals:
        stacked = LinearScores(
            np.concatenate([model.coef_ for model in models]),
            np.concatenate([model.offsets_ for model in models]),
            models[0].anchor_,
        ).about(knowledge.anchor)
        coefs = stacked.coefs.reshape(len(models), -1, knowledge.width)
        return cls(models, coefs, stacked.offsets.reshape(len(models), -1), knowledge)

    @property
    def n_scores(self) -> int:
        return int(self.coefs.shape[1])

    def scatter(self, index: int) -> tuple[Numbers, Numbers]:
        """Mean relative to the anchor, and covariance, of a class; in the pooled form the covariance of all classes."""
        known = self.knowledge
        centres = known.sums / known.counts[:, None]
        if known.per_class:
            return centres[index], known.grams[index] / known.counts[index] - np.outer(centres[index], centres[index])
        between = (centres.T * known.counts) @ centres
        return centres[index], (known.pooled_gram - between) / known.counts.sum()

    def combine(self, weights: Numbers, index: int) -> tuple[Numbers, Numbers]:
        """Means and standard deviations, (models, sums), of weighted sums of the scores, weights (sums, scores)."""
        centre, covariance = self.scatter(index)
        coefs = weights @ self.coefs
        variances = np.einsum("mwd,mwd->mw", coefs @ covariance, coefs)
        return coefs @ centre + self.offsets @ weights.T, np.sqrt(np.maximum(variances, 0.0))

    def draw(self, index: int, place: int, recalls: Numbers | None, losses: Numbers | None) -> None:
        """Fill recalls and log-losses of one class with averages over draws, some models at a time."""
        points, weights = _nodes(self.n_scores)
        centre, covariance = self.scatter(index)
        step = max(1, BLOCK_VALUES // max(points.size, self.n_scores**2))
        for some in (slice(start, start + step) for start in range(0, len(self.models), step)):
            coefs = self.coefs[some]
            values, vectors = np.linalg.eigh(coefs @ covariance @ coefs.transpose(0, 2, 1))
            roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]
            means = coefs @ centre + self.offsets[some]
            scores = means[:, None] + points @ roots.transpose(0, 2, 1)
            if recalls is not None:
                won = _won(self.models[0], scores.reshape(-1, self.n_scores), place)
                recalls[some, index] = won.reshape(scores.shape[:2]) @ weights
            for model, own, row in zip(self.models[some], scores, () if losses is None else losses[some], strict=False):
                row[index] = weights @ -np.log(np.clip(model.probabilities(own)[:, place], EPSILON, 1 - EPSILON))


def _won(model: LinearModel | PairwiseModel, scores: Numbers, place: int) -> NDArray[np.bool_]:
    """Whether a class is predicted, (rows,)."""
    if isinstance(model, LinearModel):
        best: NDArray[np.bool_] = model.winners(scores) == place
        return best
    # A class that beats all others wins; votes are counted only for the other rows.
    first, second = np.triu_indices(len(model.labels), 1)
    for_second = is_second(scores)
    won = np.asarray(for_second[:, second == place].all(axis=1) & ~for_second[:, first == place].any(axis=1))
    others = np.flatnonzero(~won)
    won[others] = model.winners(scores[others]) == place
    return won


def _aucs(model: LinearModel | PairwiseModel, places: list[int], normals: _Normals, counts: Numbers) -> Numbers:
    """P(a row of the class scores higher than one of the rest), the rest being a mixture of normals."""
    weights = np.array([_score_weights(model, place) for place in places])
    found = [normals.combine(weights, index) for index in range(len(places))]
    centres, spreads = (np.array(each).swapaxes(0, 1) for each in zip(*found, strict=True))  # (models, classes, sums)
    aucs = np.empty(centres.shape[:2])
    for index in range(len(places)):
        rest = [other for other in range(len(places)) if other != index]
        gaps = centres[:, index, index, None] - centres[:, rest, index]
        widths = np.hypot(spreads[:, index, index, None], spreads[:, rest, index])
        aucs[:, index] = _above(gaps, widths) @ counts[rest] / counts[rest].sum()
    return aucs


def _score_weights(model: LinearModel | PairwiseModel, place: int) -> Numbers:
    """Weights by which scores add up to the score of a class: its own, or the sum of its margins against all others."""
    problems = len(model.coef_)
    if isinstance(model, LinearModel):
        return np.eye(problems)[place] if len(model.labels) > 2 else np.full(1, 1.0 if place else -1.0)
    first, second = np.triu_indices(len(model.labels), 1)
    margins: Numbers = (second == place).astype(np.float64) - (first == place)
    return margins


def _above(mean: Numbers, spread: Numbers) -> Numbers:
    """Probability that a normal number is above 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        probability = ndtr(mean / spread)
    return np.where(spread > 0, probability, (np.sign(mean) + 1) / 2)


def _nodes(dimensions: int) -> tuple[Numbers, Numbers]:
    """Points (draws, dimensions) and weights to average over independent standard normal numbers."""
    if dimensions > 1:
        return normal_draws(dimensions, DRAWS), np.full(DRAWS, 1 / DRAWS)
    # A fine grid over a single number is exact to many digits.
    points = np.linspace(-MAX_DEVIATIONS, MAX_DEVIATIONS, DRAWS + 1)[:, None]
    weights = np.exp(-(points[:, 0] ** 2) / 2)
    return points, weights / weights.sum()
