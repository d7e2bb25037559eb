"""Squared losses and moments of scores, computed from knowledge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import FormError
from mergesvm.knowledge.knowledge import Knowledge

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class LinearScores:
    """Linear scores about one anchor: score p is ``coefs[p] . (x - anchor) + offsets[p]``.

    Attributes
    ----------
    coefs : array of shape (scores, features)
    offsets : array of shape (scores,)
    anchor : array of shape (features,)
    """

    coefs: Numbers
    offsets: Numbers
    anchor: Numbers

    def about(self, anchor: Numbers) -> LinearScores:
        """The same scores about another anchor."""
        shift = anchor - self.anchor
        return LinearScores(self.coefs, self.offsets + self.coefs @ shift, anchor) if shift.any() else self


def squared_losses(knowledge: Knowledge, scores: LinearScores, signs: NDArray[np.int8]) -> Numbers:
    """The sum of s_i (1 - y_i f(x_i))^2 over all rows of knowledge, exactly, for each score f, (scores,).

    ``signs`` (scores, classes) is the side of each class, 0 for none. With y^2 = 1, n_c rows of mean score m_c
    and summed squares q_c of the scores give n_c - 2 y_c n_c m_c + q_c, which rounding must not make negative.

    >>> import mergesvm as ms
    >>> k = ms.learn([[0.0], [1.0]], ["a", "b"])
    >>> scores = LinearScores(np.array([[2.0]]), np.array([-0.5]), np.zeros(1))
    >>> squared_losses(k, scores, np.array([[-1, 1]], np.int8))  # (1 - 0.5)^2 + (1 - 1.5)^2
    array([0.5])
    """
    scores = scores.about(knowledge.anchor)
    totals = scores.coefs @ knowledge.sums.T + scores.offsets[:, None] * knowledge.counts
    if (signs != 0).all():
        squares = _squares(scores, knowledge.pooled_gram, knowledge.sums.sum(axis=0), knowledge.counts.sum())
        return _not_negative(knowledge.counts.sum() - 2 * (signs * totals).sum(axis=1) + squares)
    losses: Numbers = np.abs(signs) @ knowledge.counts - 2 * (signs * totals).sum(axis=1)
    for index, gram in enumerate(_grams(knowledge)):
        used = np.flatnonzero(signs[:, index])
        part = LinearScores(scores.coefs[used], scores.offsets[used], scores.anchor)
        losses[used] += _squares(part, gram, knowledge.sums[index], knowledge.counts[index])
    return _not_negative(losses)


def class_losses(knowledge: Knowledge, scores: LinearScores, signs: NDArray[np.int8]) -> Numbers:
    """The same per class, (scores, classes); 0 where a class takes no part."""
    means, variances = score_moments(knowledge, scores)
    losses: Numbers = np.abs(signs) * knowledge.counts * ((signs - means.T) ** 2 + variances.T)
    return losses


def score_moments(knowledge: Knowledge, scores: LinearScores) -> tuple[Numbers, Numbers]:
    """Mean w.mu_c + b and variance w' Sigma_c w of each score within each class, both (classes, scores)."""
    scores = scores.about(knowledge.anchor)
    centres = (knowledge.sums / knowledge.counts[:, None]) @ scores.coefs.T
    variances = np.empty_like(centres)
    for index, gram in enumerate(_grams(knowledge)):
        square = np.einsum("pd,pd->p", scores.coefs @ gram, scores.coefs) / knowledge.counts[index]
        variances[index] = np.maximum(square - centres[index] ** 2, 0.0)
    return centres + scores.offsets, variances


def _not_negative(losses: Numbers) -> Numbers:
    return np.asarray(np.maximum(losses, 0.0))


def _squares(scores: LinearScores, gram: Numbers, total: Numbers, count: float) -> Numbers:
    """The sum of the squared scores of rows with this Gram matrix, sum and count."""
    square = np.einsum("pd,pd->p", scores.coefs @ gram, scores.coefs)
    result: Numbers = square + scores.offsets * (2 * scores.coefs @ total + scores.offsets * count)
    return result


def _grams(knowledge: Knowledge) -> tuple[Numbers, ...]:
    if not knowledge.per_class and len(knowledge.labels) > 1:
        raise FormError(
            "This needs the Gram matrix of every class, and this knowledge holds one pooled matrix. Learn with "
            "per_class=True."
        )
    return knowledge.grams
