"""Squared losses and moments of scores on rows of which only the sums are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import FormError
from mergesvm.knowledge.knowledge import Knowledge

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Bundle:
    """Any number of planes about one anchor: the score of plane p is ``coefs[p] . (x - anchor) + offsets[p]``.

    Attributes
    ----------
    coefs : array of shape (planes, features)
    offsets : array of shape (planes,)
    anchor : array of shape (features,)
    """

    coefs: Numbers
    offsets: Numbers
    anchor: Numbers

    def about(self, anchor: Numbers) -> Bundle:
        """The same planes about another anchor."""
        shift = anchor - self.anchor
        return Bundle(self.coefs, self.offsets + self.coefs @ shift, anchor) if shift.any() else self


def squared_losses(knowledge: Knowledge, planes: Bundle, signs: NDArray[np.int8]) -> Numbers:
    """The sum of s_i (1 - y_i f(x_i))^2 over all rows of knowledge, exactly, for each plane f, (planes,).

    ``signs`` (planes, classes) says which side each class takes, 0 for none. With y^2 = 1, n_c rows of mean score m_c
    and summed squares q_c of the scores give n_c - 2 y_c n_c m_c + q_c.

    >>> import mergesvm as ms
    >>> k = ms.learn([[0.0], [1.0]], ["a", "b"])
    >>> planes = Bundle(np.array([[2.0]]), np.array([-0.5]), np.zeros(1))
    >>> squared_losses(k, planes, np.array([[-1, 1]], np.int8))  # (1 - 0.5)^2 + (1 - 1.5)^2
    array([0.5])
    """
    planes = planes.about(knowledge.anchor)
    totals = planes.coefs @ knowledge.sums.T + planes.offsets[:, None] * knowledge.counts
    if (signs != 0).all():
        squares = _squares(planes, knowledge.pooled_gram, knowledge.sums.sum(axis=0), knowledge.counts.sum())
        losses: Numbers = knowledge.counts.sum() - 2 * (signs * totals).sum(axis=1) + squares
        return losses
    losses = np.abs(signs) @ knowledge.counts - 2 * (signs * totals).sum(axis=1)
    for index, gram in enumerate(_grams(knowledge)):
        used = np.flatnonzero(signs[:, index])
        part = Bundle(planes.coefs[used], planes.offsets[used], planes.anchor)
        losses[used] += _squares(part, gram, knowledge.sums[index], knowledge.counts[index])
    return losses


def class_losses(knowledge: Knowledge, planes: Bundle, signs: NDArray[np.int8]) -> Numbers:
    """The same for each class by itself, (planes, classes); 0 where a class takes no part."""
    means, variances = score_moments(knowledge, planes)
    losses: Numbers = np.abs(signs) * knowledge.counts * ((signs - means.T) ** 2 + variances.T)
    return losses


def score_moments(knowledge: Knowledge, planes: Bundle) -> tuple[Numbers, Numbers]:
    """Mean w.mu_c + b and variance w' Sigma_c w of each score within each class, both (classes, planes)."""
    planes = planes.about(knowledge.anchor)
    centres = (knowledge.sums / knowledge.counts[:, None]) @ planes.coefs.T
    variances = np.empty_like(centres)
    for index, gram in enumerate(_grams(knowledge)):
        square = np.einsum("pd,pd->p", planes.coefs @ gram, planes.coefs) / knowledge.counts[index]
        variances[index] = np.maximum(square - centres[index] ** 2, 0.0)
    return centres + planes.offsets, variances


def _squares(planes: Bundle, gram: Numbers, total: Numbers, count: float) -> Numbers:
    """The sum of the squared scores of rows with this Gram matrix, sum and count."""
    square = np.einsum("pd,pd->p", planes.coefs @ gram, planes.coefs)
    result: Numbers = square + planes.offsets * (2 * planes.coefs @ total + planes.offsets * count)
    return result


def _grams(knowledge: Knowledge) -> tuple[Numbers, ...]:
    if not knowledge.per_class and len(knowledge.labels) > 1:
        raise FormError(
            "This needs the Gram matrix of every class, and this knowledge holds one pooled matrix. Learn with "
            "per_class=True."
        )
    return knowledge.grams
