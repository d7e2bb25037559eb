"""The scores of two classes as mixtures of normals, one for each model and the rows that it is asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from mergesvm.data.labels import Label
from mergesvm.errors import FormError, KnowledgeError, ParameterError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.losses import Bundle, score_moments
from mergesvm.models.linear import LinearModel

Numbers = NDArray[np.float64]

FARTHEST = 40.0
"""Beyond so many standard deviations a normal distribution has nothing that float64 could tell."""

SHARPEST = 1e-9
"""The least standard deviation, as a share of the range of all scores: that of a class of one row is 0."""


@dataclass(frozen=True, eq=False)
class ScoreNormals:
    """Scores of two classes, each a mixture of normals; place 0 is the class with low scores, 1 that with high ones.

    Attributes
    ----------
    labels : pair of labels
        The first and the second class of the models, wherever they are here.
    means, deviations, weights : pairs of arrays
        Of each class one number for each part of the mixture; weights add to 1.
    shares : array of shape (2,)
        The share of each class in all rows.
    """

    labels: tuple[Label, Label]
    means: tuple[Numbers, Numbers]
    deviations: tuple[Numbers, Numbers]
    weights: tuple[Numbers, Numbers]
    shares: Numbers

    @classmethod
    def of(cls, pairs: Sequence[tuple[LinearModel, Knowledge]]) -> ScoreNormals:
        """The scores that models give to rows of which these are the sums, by class: w.mu_c + b and w' Sigma_c w."""
        labels = _labels(pairs)
        parts: tuple[list[tuple[float, float, float]], ...] = ([], [])
        for model, knowledge in pairs:
            means, variances = score_moments(knowledge, Bundle(model.coef_, model._offsets, model.anchor_))
            numbers = zip(knowledge.labels, means[:, 0], variances[:, 0], knowledge.frequencies, strict=True)
            for label, mean, variance, count in numbers:
                parts[labels.index(label)].append((float(mean), float(variance), float(count)))
        for label, part in zip(labels, parts, strict=True):
            if not part:
                raise KnowledgeError(f"There are no rows of class {label!r}, of which nothing can be expected then.")
        low, high = (np.array(part).T for part in parts)
        every = np.hstack([low, high])
        spread = float(np.ptp(every[0]) + np.sqrt(every[1].max()))
        least = SHARPEST * spread or 1e-12 * max(1.0, float(np.abs(every[0]).max()))
        counts = np.array([low[2].sum(), high[2].sum()])
        return cls(
            labels,
            (low[0], high[0]),
            (np.maximum(np.sqrt(low[1]), least), np.maximum(np.sqrt(high[1]), least)),
            (low[2] / counts[0], high[2] / counts[1]),
            counts / counts.sum(),
        )

    def mirrored(self) -> ScoreNormals:
        """The same with the classes changed, and all scores with the other sign: what is above was below."""
        (a, b), (c, d), (e, f) = self.means, self.deviations, self.weights
        return ScoreNormals(self.labels, (-b, -a), (d, c), (f, e), self.shares[::-1])

    def above(self, side: int, threshold: Any) -> Numbers:
        """The share of a class that scores above a threshold, or above each of several."""
        return self._tail(side, threshold, -1.0)

    def below(self, side: int, threshold: Any) -> Numbers:
        """The share of a class that does not; as exact, where it is tiny, as the other."""
        return self._tail(side, threshold, 1.0)

    def _tail(self, side: int, threshold: Any, sign: float) -> Numbers:
        distance = (np.asarray(threshold)[..., None] - self.means[side]) / self.deviations[side]
        share: Numbers = ndtr(sign * distance) @ self.weights[side]
        return share

    def log_density(self, side: int, threshold: Any) -> Numbers:
        """The logarithm of the density of a class at a score."""
        distance = (np.asarray(threshold)[..., None] - self.means[side]) / self.deviations[side]
        heights = np.log(self.weights[side]) - np.log(self.deviations[side]) - np.log(2 * np.pi) / 2
        density: Numbers = logsumexp(heights - distance**2 / 2, axis=-1)
        return density

    @property
    def lowest(self) -> float:
        """A score below all."""
        return float(min((m - FARTHEST * s).min() for m, s in zip(self.means, self.deviations, strict=True)))

    @property
    def highest(self) -> float:
        """A score above all."""
        return float(max((m + FARTHEST * s).max() for m, s in zip(self.means, self.deviations, strict=True)))

    def grid(self, points: int) -> Numbers:
        """Rising scores, so many over eight standard deviations to either side of each normal of the mixtures."""
        steps = np.linspace(-8, 8, points)
        parts = [
            (mean[:, None] + spread[:, None] * steps).ravel()
            for mean, spread in zip(self.means, self.deviations, strict=True)
        ]
        return np.unique(np.concatenate(parts))

    @property
    def auc(self) -> float:
        """The probability that a row of the second class here scores higher than one of the first."""
        gaps = self.means[1][:, None] - self.means[0]
        widths = np.hypot(self.deviations[1][:, None], self.deviations[0])
        return float(self.weights[1] @ ndtr(gaps / widths) @ self.weights[0])


def _labels(pairs: Sequence[tuple[LinearModel, Knowledge]]) -> tuple[Label, Label]:
    """The two classes, once everything is found to go together."""
    if not pairs or not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise ParameterError("Give knowledge and a model, or a sequence of (model, knowledge) pairs.")
    for model, knowledge in pairs:
        if not isinstance(model, LinearModel) or not isinstance(knowledge, Knowledge):
            found = f"{type(model).__name__} and {type(knowledge).__name__}"
            raise FormError(
                f"Operating points are found for linear models of two classes and knowledge of their rows, not for "
                f"{found}."
            )
        if len(model.labels) != 2:
            raise FormError(
                f"An operating point is between two classes, and the model has {len(model.labels)}. Join the others "
                f"first, and solve again: knowledge.join({{'other': [...]}})."
            )
        if model.labels != pairs[0][0].labels:
            raise KnowledgeError(f"The models differ in their classes: {pairs[0][0].labels} and {model.labels}.")
        strangers = [label for label in knowledge.labels if label not in model.labels]
        if strangers:
            raise KnowledgeError(
                f"The knowledge is of class {strangers[0]!r} too, and the model of {model.labels[0]!r} and "
                f"{model.labels[1]!r} only. Join the others first: knowledge.join; or leave them out: knowledge.only."
            )
        # The form and the kind of labels may differ; features may not.
        if (model.signature.features, model.layout) != (knowledge.features, knowledge.layout):
            raise KnowledgeError(
                f"The knowledge is of {_said(knowledge)}, the model of {_said(model)}: it cannot score such rows."
            )
    one, other = pairs[0][0].labels
    return one, other


def _said(thing: Any) -> str:
    names = thing.signature.names
    named = "without names" if names is None else f"named {', '.join(map(repr, names[:12]))}"
    return f"{thing.signature.inputs} columns {named}, mapped by {thing.signature.features}"
