"""What models are to be expected to do on rows of which only the sums are known, if their scores are normal there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from mergesvm.data.labels import Label
from mergesvm.engines.threads import Threads
from mergesvm.errors import FormError, KnowledgeError, SignatureError
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.factor import small_blas
from mergesvm.methods.proximal.losses import Bundle
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel

Numbers = NDArray[np.float64]

DRAWS = 1024
"""Scores are drawn so often for each class, where there is no formula."""

BLOCK_VALUES = 1 << 20
"""So many scores are drawn at a time."""

MOST_SCORES = 300
"""More scores than this, those of 25 classes in pairs, take too long to be drawn together."""

REACH = 9.0
"""Standard normal numbers are averaged up to this size."""

EVERYTHING = ("recalls", "log_losses", "aucs")
TINY = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Expected:
    """Estimates for rows of a class-conditional normal distribution of the scores.

    Attributes
    ----------
    labels : tuple
        The classes of the rows.
    counts : array of shape (classes,)
        What they weigh.
    recalls : array of shape (classes,)
        The expected share of each class that is predicted rightly.
    log_losses : array of shape (classes,)
        Expected -log of the probability given to the true class.
    aucs : array of shape (classes,)
        The expected area under the ROC curve of each class against the rest, by its score; NaN without a rest.
    """

    labels: tuple[Label, ...]
    counts: Numbers
    recalls: Numbers
    log_losses: Numbers
    aucs: Numbers

    @property
    def accuracy(self) -> float:
        """The expected share of rows predicted rightly."""
        return float(self.recalls @ self.counts / self.counts.sum())

    @property
    def balanced_accuracy(self) -> float:
        """The mean of the recalls."""
        return float(self.recalls.mean())

    @property
    def log_loss(self) -> float:
        """The expected mean of -log of the probability given to the true class."""
        return float(self.log_losses @ self.counts / self.counts.sum())

    @property
    def auc(self) -> float:
        """The area under the ROC curve; of more than two classes the mean, each against all others."""
        return float(self.aucs.mean())


def expected(model: LinearModel | PairwiseModel, knowledge: Knowledge | Folds) -> Expected:
    """What a model is expected to do on rows of which this is the knowledge, with no look at them.

    Within class c the scores are taken as normal, of mean W mu_c + b and covariance W Sigma_c W'. For two classes
    recall and AUC have formulas; what has none is averaged over an even set of draws, the same each time.

    >>> import mergesvm as ms
    >>> k = ms.learn([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    >>> round(ms.expected(ms.solve(k, C=100.0), k).accuracy, 3)
    0.977
    """
    return expected_of_all([model], knowledge.total if isinstance(knowledge, Folds) else knowledge)[0]


def expected_of_all(
    models: Sequence[LinearModel | PairwiseModel],
    knowledge: Knowledge,
    wanted: Sequence[str] = EVERYTHING,
    n_jobs: int | None = None,
) -> list[Expected]:
    """The same for many models of the same classes and kind, such as those of a path; what is not wanted is NaN."""
    first = models[0]
    _check_alike(first, knowledge)
    places = [first.labels.index(label) for label in knowledge.labels]
    shape = len(models), len(places)
    recalls, losses, aucs = (np.full(shape, np.nan) for _ in range(3))
    with small_blas(knowledge.width):
        normals = _Normals.of(models, knowledge)
    two = len(first.labels) == 2
    drawn = "log_losses" in wanted or ("recalls" in wanted and not two)
    if drawn and normals.n_scores > MOST_SCORES:
        raise FormError(
            f"What {normals.n_scores:,} scores of {len(first.labels)} classes do together takes too long to be "
            f"estimated. Give the rows once more, to measure it, or use one-vs-rest."
        )

    def run(task: tuple[int, int]) -> None:
        index, place = task
        if "recalls" in wanted and two:
            means, spreads = normals.along(np.ones((1, 1)), index)
            recalls[:, index] = _above(means[:, 0] if place else -means[:, 0], spreads[:, 0])
        if drawn:
            _draw(models, normals, index, place, None if two else recalls, losses, "log_losses" in wanted)

    with Threads.single_threaded_blas():  # most matrices are as small as there are scores
        Threads(n_jobs).map(run, list(enumerate(places)))
    if "aucs" in wanted and len(places) > 1:
        aucs = _aucs(first, places, normals, knowledge.frequencies)
    rows = zip(recalls, losses, aucs, strict=True)
    return [Expected(knowledge.labels, knowledge.frequencies, *row) for row in rows]


def _check_alike(model: LinearModel | PairwiseModel, knowledge: Knowledge) -> None:
    strangers = [label for label in knowledge.labels if label not in model.labels]
    if strangers or not knowledge.labels:
        what = f"The rows are of class {strangers[0]!r}" if strangers else "There are no rows"
        raise KnowledgeError(f"{what}, which the model does not know: nothing can be expected of it there.")
    mine, theirs = model.signature, knowledge.signature
    if mine.features.fingerprint != theirs.features.fingerprint or mine.layout != theirs.layout:
        raise SignatureError(
            "The model and the knowledge are of other features, or of the same in another order: nothing can be "
            "expected of it there. Take knowledge of the rows by the features of the model."
        )


@dataclass(frozen=True)
class _Normals:
    """The scores of models on rows of some classes: planes (models, scores, features), their values at the anchor."""

    planes: Numbers
    offsets: Numbers
    knowledge: Knowledge

    @classmethod
    def of(cls, models: Sequence[LinearModel | PairwiseModel], knowledge: Knowledge) -> _Normals:
        stacked = Bundle(
            np.concatenate([model.coef_ for model in models]),
            np.concatenate([model._offsets for model in models]),
            models[0].anchor_,
        ).about(knowledge.anchor)
        planes = stacked.coefs.reshape(len(models), -1, knowledge.width)
        return cls(planes, stacked.offsets.reshape(len(models), -1), knowledge)

    @property
    def n_scores(self) -> int:
        return int(self.planes.shape[1])

    def scatter(self, index: int) -> tuple[Numbers, Numbers]:
        """Mean about the anchor, and covariance, of the rows of a class; in the pooled form that within all classes."""
        known = self.knowledge
        centres = known.sums / known.counts[:, None]
        if known.per_class:
            return centres[index], known.grams[index] / known.counts[index] - np.outer(centres[index], centres[index])
        between = (centres.T * known.counts) @ centres
        return centres[index], (known.pooled_gram - between) / known.counts.sum()

    def along(self, ways: Numbers, index: int) -> tuple[Numbers, Numbers]:
        """Means and standard deviations, (models, ways), of scores added up with weights, (ways, scores)."""
        centre, covariance = self.scatter(index)
        planes = ways @ self.planes
        variances = np.einsum("mwd,mwd->mw", planes @ covariance, planes)
        return planes @ centre + self.offsets @ ways.T, np.sqrt(np.maximum(variances, 0.0))


def _draw(
    models: Sequence[LinearModel | PairwiseModel],
    normals: _Normals,
    index: int,
    place: int,
    recalls: Numbers | None,
    losses: Numbers,
    with_losses: bool,
) -> None:
    """Fill recalls and losses of one class by averages over points, some models at a time."""
    points, weights = _even(normals.n_scores)
    centre, covariance = normals.scatter(index)
    step = max(1, BLOCK_VALUES // max(points.size, normals.n_scores**2))
    for start in range(0, len(models), step):
        some = slice(start, start + step)
        planes = normals.planes[some]
        values, vectors = np.linalg.eigh(planes @ covariance @ planes.transpose(0, 2, 1))
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]
        means = planes @ centre + normals.offsets[some]
        scores = means[:, None] + points @ roots.transpose(0, 2, 1)
        if recalls is not None:
            right = _won(models[0], scores.reshape(-1, normals.n_scores), place)
            recalls[some, index] = right.reshape(scores.shape[:2]) @ weights
        for model, own, row in zip(models[some], scores, losses[some] if with_losses else (), strict=False):
            row[index] = weights @ -np.log(np.clip(model.shares(own)[:, place], TINY, 1 - TINY))


def _won(model: LinearModel | PairwiseModel, scores: Numbers, place: int) -> NDArray[np.bool_]:
    """Whether a class wins, (rows,)."""
    if isinstance(model, LinearModel):
        best: NDArray[np.bool_] = model.winners(scores) == place
        return best
    # Who has won against all others has won; votes are counted only of the few that have not.
    first, second = np.triu_indices(len(model.labels), 1)
    right = np.asarray((scores[:, second == place] > 0).all(axis=1) & (scores[:, first == place] <= 0).all(axis=1))
    others = np.flatnonzero(~right)
    right[others] = model.winners(scores[others]) == place
    return right


def _aucs(model: LinearModel | PairwiseModel, places: list[int], normals: _Normals, counts: Numbers) -> Numbers:
    """P(a row of the class scores higher than one of the rest), the rest being a mixture of normals."""
    ways = np.array([_way(model, place) for place in places])  # of each class, the weights of the scores
    found = [normals.along(ways, index) for index in range(len(places))]
    centres, spreads = (np.array(each).swapaxes(0, 1) for each in zip(*found, strict=True))  # (models, classes, ways)
    aucs = np.empty(centres.shape[:2])
    for index in range(len(places)):
        rest = [other for other in range(len(places)) if other != index]
        gaps = centres[:, index, index, None] - centres[:, rest, index]
        widths = np.hypot(spreads[:, index, index, None], spreads[:, rest, index])
        aucs[:, index] = _above(gaps, widths) @ counts[rest] / counts[rest].sum()
    return aucs


def _way(model: LinearModel | PairwiseModel, place: int) -> Numbers:
    """How scores add up to what is_root for a class: its own score, or its margins against all others."""
    problems = len(model.coef_)
    if isinstance(model, LinearModel):
        return np.eye(problems)[place] if len(model.labels) > 2 else np.full(1, 1.0 if place else -1.0)
    first, second = np.triu_indices(len(model.labels), 1)
    way: Numbers = (second == place).astype(np.float64) - (first == place)
    return way


def _above(mean: Numbers, spread: Numbers) -> Numbers:
    """The probability that a normal number is above 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = ndtr(mean / spread)
    return np.where(spread > 0, share, (np.sign(mean) + 1) / 2)


@lru_cache(maxsize=8)
def _even(dimensions: int) -> tuple[Numbers, Numbers]:
    """Points (draws, dimensions) and their weights, by which to average over standard normal numbers; always the same.

    A single number is averaged over a fine grid, which is exact to many digits; more of them over even draws (Sobol).
    """
    if dimensions == 1:
        points = np.linspace(-REACH, REACH, DRAWS + 1)[:, None]
        weights = np.exp(-(points[:, 0] ** 2) / 2)
    else:
        sobol = qmc.Sobol(dimensions, rng=np.random.default_rng(0)).random(DRAWS)
        points = ndtri(np.clip(sobol, TINY, 1 - TINY))
        weights = np.ones(DRAWS)
    weights /= weights.sum()
    points.flags.writeable = weights.flags.writeable = False
    return points, weights
