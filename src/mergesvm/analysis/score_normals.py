"""Scores of two classes as mixtures of normals, one component per model and the knowledge it is applied to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from mergesvm.data.labels import Label
from mergesvm.errors import FormError, KnowledgeError, ParameterError, SignatureError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.proximal.losses import LinearScores, score_moments
from mergesvm.models.hyperplanes import Hyperplanes
from mergesvm.models.linear import LinearModel

Numbers = NDArray[np.float64]

MAX_DEVIATIONS = 40.0
"""Beyond this many standard deviations the tail of a normal distribution is zero in float64."""

MIN_RELATIVE_DEVIATION = 1e-9
"""Smallest standard deviation relative to the range of all scores: a class of one row has 0."""


@dataclass(frozen=True, eq=False)
class ScoreNormals:
    """Scores of two classes, each a mixture of normals; side 0 is the class with low scores, side 1 with high scores.

    For each side there are the means, deviations and weights (which add to 1) of the components of its mixture, and the
    prevalence, its fraction of all rows. ``labels`` are the classes of the models, whichever side they are on.
    """

    labels: tuple[Label, Label]
    means: tuple[Numbers, Numbers]
    deviations: tuple[Numbers, Numbers]
    weights: tuple[Numbers, Numbers]
    prevalence: Numbers

    @classmethod
    def of(cls, pairs: Sequence[tuple[LinearModel, Knowledge]]) -> ScoreNormals:
        """Scores of models on the rows of knowledge: mean w.mu_c + b and variance w' Sigma_c w in class c."""
        labels = _labels(pairs)
        parts: tuple[list[tuple[float, float, float]], ...] = ([], [])
        for model, knowledge in pairs:
            means, variances = score_moments(knowledge, LinearScores(model.coef_, model.offsets_, model.anchor_))
            numbers = zip(knowledge.labels, means[:, 0], variances[:, 0], knowledge.frequencies, strict=True)
            for label, mean, variance, count in numbers:
                parts[labels.index(label)].append((float(mean), float(variance), float(count)))
        for label, part in zip(labels, parts, strict=True):
            if not part:
                raise KnowledgeError(
                    f"The knowledge has no rows of class {label!r}. An operating point needs rows of both classes."
                )
        low, high = (np.array(part).T for part in parts)
        means, variances, _ = np.hstack([low, high])
        spread = float(np.ptp(means) + np.sqrt(variances.max()))
        least = MIN_RELATIVE_DEVIATION * spread or 1e-12 * max(1.0, float(np.abs(means).max()))
        deviations = np.maximum(np.sqrt(low[1]), least), np.maximum(np.sqrt(high[1]), least)
        counts = np.array([low[2].sum(), high[2].sum()])
        weights = low[2] / counts[0], high[2] / counts[1]
        return cls(labels, (low[0], high[0]), deviations, weights, counts / counts.sum())

    def mirrored(self) -> ScoreNormals:
        """The mixtures of the negated scores, with the two sides exchanged."""
        (a, b), (c, d), (e, f) = self.means, self.deviations, self.weights
        return ScoreNormals(self.labels, (-b, -a), (d, c), (f, e), self.prevalence[::-1])

    def _distances(self, side: int, threshold: Any) -> Numbers:
        distances: Numbers = (np.asarray(threshold)[..., None] - self.means[side]) / self.deviations[side]
        return distances

    def above(self, side: int, threshold: Any) -> Any:
        """Fraction of a side that scores above a threshold, or above each of several."""
        return ndtr(-self._distances(side, threshold)) @ self.weights[side]

    def below(self, side: int, threshold: Any) -> Any:
        """Fraction of a side that scores at or below a threshold; accurate also if it is tiny."""
        return ndtr(self._distances(side, threshold)) @ self.weights[side]

    def log_density(self, side: int, threshold: Any) -> Any:
        """Logarithm of the density of a side at a score."""
        heights = np.log(self.weights[side]) - np.log(self.deviations[side]) - np.log(2 * np.pi) / 2
        return logsumexp(heights - self._distances(side, threshold) ** 2 / 2, axis=-1)

    @property
    def limits(self) -> tuple[float, float]:
        """A score below all others, and one above."""
        means, reach = np.concatenate(self.means), MAX_DEVIATIONS * np.concatenate(self.deviations)
        return float((means - reach).min()), float((means + reach).max())

    def grid(self, points: int) -> Numbers:
        """Increasing scores: ``points`` within eight standard deviations of the mean of each component."""
        means, deviations = np.concatenate(self.means), np.concatenate(self.deviations)
        return np.unique(means[:, None] + deviations[:, None] * np.linspace(-8, 8, points))

    @property
    def auc(self) -> float:
        """Area under the ROC curve: probability that a row of side 1 scores higher than one of side 0."""
        gaps = self.means[1][:, None] - self.means[0]
        widths = np.hypot(self.deviations[1][:, None], self.deviations[0])
        return float(self.weights[1] @ ndtr(gaps / widths) @ self.weights[0])


def _labels(pairs: Sequence[tuple[LinearModel, Knowledge]]) -> tuple[Label, Label]:
    """The two classes, after checking that models and knowledge match."""
    if not pairs or not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise ParameterError("Give knowledge and a model, or a list of (model, knowledge) pairs.")
    for model, knowledge in pairs:
        if not isinstance(model, LinearModel) or not isinstance(knowledge, Knowledge):
            found = f"{type(model).__name__} and {type(knowledge).__name__}"
            raise FormError(f"An operating point needs a linear model of two classes and knowledge, not {found}.")
        if len(model.labels) != 2:
            raise FormError(
                f"An operating point needs two classes, but the model has {len(model.labels)}. Join classes and solve "
                f"again: knowledge.join({{'other': [...]}})."
            )
        if model.labels != pairs[0][0].labels:
            raise KnowledgeError(f"The models have different classes: {pairs[0][0].labels} and {model.labels}.")
        check_alike(model, knowledge)
    one, other = pairs[0][0].labels
    return one, other


def check_alike(model: Hyperplanes, knowledge: Knowledge) -> None:
    """Raise an error if knowledge has other features than a model, or a class that the model does not know."""
    unknown = [label for label in knowledge.labels if label not in model.labels]
    if unknown:
        raise KnowledgeError(
            f"The knowledge has rows of class {unknown[0]!r}, but the model does not know it. Join the classes, "
            f"knowledge.join, or leave them out, knowledge.only."
        )
    # Pooling and the type of labels may differ, features may not.
    mine, theirs = model.signature, knowledge.signature
    if (mine.features, mine.layout) != (theirs.features, theirs.layout):
        raise SignatureError(
            f"The knowledge has {_described(theirs)}, but the model {_described(mine)}. Learn the rows with the "
            f"columns of the model, in the same order."
        )


def _described(signature: Signature) -> str:
    names = signature.names
    named = "without names" if names is None else f"named {', '.join(map(repr, names[:12]))}"
    return f"{signature.inputs} columns {named}, mapped by {signature.features}"
