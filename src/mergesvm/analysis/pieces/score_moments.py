"""Means and covariances of the scores of many models within the classes of many pieces, and expected accuracies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.normal import normal_draws, probability_highest, probability_positive
from mergesvm.analysis.pieces.pieces import Pieces
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.multiclass.votes import winners

Numbers = NDArray[np.float64]

DRAWS = 128
"""Number of quasi-random draws per class for one-vs-one voting, which has no closed form."""


class ScoreMoments(NamedTuple):
    """Moments of scores within classes: counts (..., classes), means (..., classes, problems), and covariances.

    Covariances are (..., classes, problems, problems), or only variances, (..., classes, problems). A class without
    rows has zeros. In the pooled form there is one covariance within all classes: (..., 1, ...).
    """

    counts: Numbers
    means: Numbers
    covariances: Numbers

    @property
    def variances(self) -> Numbers:
        """Variance of each score."""
        if not self._full:
            return self.covariances
        diagonal: Numbers = np.einsum("...ii->...i", self.covariances)
        return diagonal

    def loss(self, signs: NDArray[np.int8]) -> Numbers:
        """Mean over problems f of the mean of (1 - y f)^2 over the rows that take part in each; NaN without rows.

        Rows of class c have y = signs[f, c]; their loss is n_c ((y - m_c)^2 + s_c^2).
        """
        taken = np.abs(signs.T) * self.counts[..., None]
        losses = taken * ((signs.T - self.means) ** 2 + np.maximum(self.variances, 0.0))
        weights = taken.sum(axis=-2)
        there = weights > 0
        means = losses.sum(axis=-2) / np.where(there, weights, 1.0)
        with np.errstate(invalid="ignore"):
            mean: Numbers = means.sum(axis=-1) / there.sum(axis=-1)
        return mean

    def accuracies(self, one_vs_one: bool) -> Numbers:
        """Expected fraction of rows predicted correctly if scores are normal, (...,); NaN without rows.

        With one problem, scores of the second class are positive. With one problem per class, the score of the true
        class is the highest; one-vs-one, the true class has most votes.
        """
        if self.means.shape[-1] == 1:
            variances = np.broadcast_to(np.maximum(self.variances[..., 0], 0.0), self.counts.shape)
            recalls = probability_positive(self.means * np.array([[-1.0], [1.0]]), variances[..., None, None])
        elif one_vs_one:
            recalls = self._recalls_by_voting()
        else:
            recalls = probability_highest(self.means, self.covariances)
        with np.errstate(invalid="ignore"):
            fractions: Numbers = (recalls * self.counts).sum(axis=-1) / self.counts.sum(axis=-1)
        return fractions

    def _recalls_by_voting(self) -> Numbers:
        n_classes, n_problems = self.means.shape[-2:]
        draws, recalls = normal_draws(n_problems, DRAWS), np.zeros(self.counts.shape)
        spread = np.broadcast_to(self.covariances, (*self.counts.shape, n_problems, n_problems))
        for at in zip(*np.nonzero(self.counts), strict=True):
            values, vectors = np.linalg.eigh(spread[at])
            drawn = self.means[at] + draws @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
            recalls[at] = (winners(drawn, n_classes, "recount") == at[-1]).mean()
        return recalls

    def pooled(self) -> ScoreMoments:
        """The moments with one covariance for all classes."""
        within = np.einsum("...c,...cpq->...pq" if self._full else "...c,...cp->...p", self.counts, self.covariances)
        weight = np.maximum(self.counts.sum(axis=-1), np.finfo(np.float64).tiny)
        within /= weight.reshape(*weight.shape, *(1,) * (2 if self._full else 1))
        return self._replace(covariances=within[..., None, :, :] if self._full else within[..., None, :])

    @property
    def _full(self) -> bool:
        return self.covariances.ndim > self.means.ndim

    def without(self, part: ScoreMoments, per_class: bool) -> ScoreMoments:
        """Moments of the rows that remain without a part of them."""
        counts = self.counts - part.counts
        left = np.where(counts > 0, counts, 1.0)[..., None]
        means = (self.counts[..., None] * self.means - part.counts[..., None] * part.means) / left
        full = self._full
        if not per_class:
            whole, taken, weight = (
                each.sum(axis=-1).reshape(*each.shape[:-1], *(1,) * (3 if full else 2))
                for each in (self.counts, part.counts, counts)
            )
            squares = whole * self.covariances - taken * part.covariances
            squares += _between(self.counts, self.means, full) - _between(part.counts, part.means, full)
            return ScoreMoments(
                counts, means, (squares - _between(counts, means, full)) / np.where(weight > 0, weight, 1.0)
            )
        squares = self._about_zero() - part._about_zero()
        own = squares / (left[..., None] if full else left) - _outer(means, full)
        return ScoreMoments(counts, means, own)

    def _about_zero(self) -> Numbers:
        """Sums of squares and products about zero."""
        counts = self.counts.reshape(*self.counts.shape, *(1,) * (2 if self._full else 1))
        raised: Numbers = counts * (self.covariances + _outer(self.means, self._full))
        return raised


def moments_on_pieces(pieces: Pieces, at: Sequence[int], coefs: Numbers, offsets: Numbers, full: bool) -> ScoreMoments:
    """Moments within the classes of pieces, each with models of its own: (pieces, models, classes, problems).

    ``coefs`` (pieces, models, problems, width) and ``offsets`` (pieces, models, problems) are about the anchor of the
    total. Covariances do not depend on the anchor, so Gram matrices are used as they are.
    """
    total, n_models, n_problems = pieces.total, coefs.shape[1], coefs.shape[2]
    width, n_classes, n_grams = total.width, len(total.labels), len(total.grams)
    products = np.zeros((len(at), n_grams, n_models * n_problems, width))
    for row, index in enumerate(at):
        grams, flat = pieces.grams[index], coefs[row].reshape(-1, width)
        places = range(n_grams) if len(grams) in (0, n_grams) else pieces.places(index)
        for place, gram in zip(places, grams, strict=bool(grams)):
            np.dot(flat, gram, out=products[row, place])
    products = products.reshape(len(at), n_grams, n_models, n_problems, width).swapaxes(1, 2)
    counts = np.broadcast_to(pieces.counts[at][:, None], (len(at), n_models, n_classes))
    known = np.where(counts > 0, counts, 1.0)
    central = pieces.sums[at] @ coefs.reshape(len(at), -1, width).swapaxes(1, 2)  # about the anchor of the total
    centres = central.reshape(len(at), n_classes, n_models, n_problems).swapaxes(1, 2) / known[..., None]
    present = (counts > 0)[..., None]
    means = np.where(present, centres + offsets[:, :, None], 0.0)
    moves = np.einsum("nmpd,nd->nmp", coefs, pieces.shifts[at])[:, :, None]
    about = np.where(present, centres - moves, 0.0)  # about the anchor of the piece
    squares = _quadratic_forms(products, coefs, full)
    return ScoreMoments(counts, means, _covariances(squares, counts, about, total.per_class, full))


def moments_on_knowledge(
    knowledge: Knowledge, places: Sequence[int], n_classes: int, coefs: Numbers, full: bool
) -> ScoreMoments:
    """Moments of the scores without offsets within the classes of one knowledge, of models (models, problems, width).

    ``places`` are those of its classes among all ``n_classes``.
    """
    n_models, n_problems, width = coefs.shape
    at = list(places) if knowledge.per_class else [0] * len(knowledge.grams)
    n_grams = n_classes if knowledge.per_class else 1
    products, flat = np.zeros((n_models, n_grams, n_problems, width)), coefs.reshape(-1, width)
    for place, gram in zip(at, knowledge.grams, strict=True):
        products[:, place] = (flat @ gram).reshape(n_models, n_problems, width)
    counts, centres = np.zeros(n_classes), np.zeros((n_models, n_classes, n_problems))
    counts[list(places)] = knowledge.counts
    means = coefs @ (knowledge.sums / knowledge.counts[:, None]).T
    centres[:, list(places)] = means.swapaxes(1, 2)
    counts = np.broadcast_to(counts, (n_models, n_classes))
    squares = _quadratic_forms(products, coefs, full)
    return ScoreMoments(counts, centres, _covariances(squares, counts, centres, knowledge.per_class, full))


def _quadratic_forms(products: Numbers, coefs: Numbers, full: bool) -> Numbers:
    """W M W', or its diagonal, from W M (..., grams, problems, width)."""
    if full:
        return products @ coefs[..., None, :, :].swapaxes(-1, -2)
    diagonals: Numbers = np.einsum("...gpd,...pd->...gp", products, coefs)
    return diagonals


def _covariances(squares: Numbers, counts: Numbers, centres: Numbers, per_class: bool, full: bool) -> Numbers:
    """Covariances, or variances, from sums of squares and products, and means about the same point."""
    shape = (1,) * (2 if full else 1)
    if per_class:
        known = np.where(counts > 0, counts, 1.0).reshape(*counts.shape, *shape)
        spread: Numbers = squares / known - _outer(centres, full)
        return spread
    weight = np.maximum(counts.sum(axis=-1), np.finfo(np.float64).tiny).reshape(*counts.shape[:-1], 1, *shape)
    within: Numbers = (squares - _between(counts, centres, full)) / weight
    return within


def _between(counts: Numbers, means: Numbers, full: bool) -> Numbers:
    """Sum of n_c m_c m_c' over the classes, (..., 1, problems, problems), or its diagonal."""
    weighted = counts[..., None] * means
    if full:
        return (weighted.swapaxes(-1, -2) @ means)[..., None, :, :]
    summed: Numbers = (weighted * means).sum(axis=-2, keepdims=True)
    return summed


def _outer(means: Numbers, full: bool) -> Numbers:
    return means[..., :, None] * means[..., None, :] if full else means**2
