"""How the scores of many models are distributed within the classes of many pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.pieces.pieces import Pieces
from mergesvm.knowledge.knowledge import Knowledge

Numbers = NDArray[np.float64]


class Scores(NamedTuple):
    """Counts (..., classes), means (..., classes, planes) and covariances of scores, the last by class and plane.

    Covariances are (..., classes, planes, planes), or, where only variances were asked for, (..., classes, planes). A
    class without rows has zeros. In the pooled form all classes share the covariance within them: it is there once.
    """

    counts: Numbers
    means: Numbers
    covariances: Numbers

    @property
    def variances(self) -> Numbers:
        """The variance of each score."""
        if not self._full:
            return self.covariances
        diagonal: Numbers = np.einsum("...ii->...i", self.covariances)
        return diagonal

    def loss(self, signs: NDArray[np.int8]) -> Numbers:
        """The mean over planes f of the mean of (1 - y f)^2 over the rows that take part in each; NaN without rows.

        Rows of class c have y = signs[f, c], and n_c of them have n_c ((y - m_c)^2 + s_c^2) together.
        """
        taken = np.abs(signs.T) * self.counts[..., None]
        losses = taken * ((signs.T - self.means) ** 2 + np.maximum(self.variances, 0.0))
        weights = taken.sum(axis=-2)
        there = weights > 0
        means = losses.sum(axis=-2) / np.where(there, weights, 1.0)
        with np.errstate(invalid="ignore"):
            mean: Numbers = means.sum(axis=-1) / there.sum(axis=-1)
        return mean

    def pooled(self) -> Scores:
        """The same, as if all classes had the covariance within them."""
        within = np.einsum("...c,...cpq->...pq" if self._full else "...c,...cp->...p", self.counts, self.covariances)
        weight = np.maximum(self.counts.sum(axis=-1), np.finfo(np.float64).tiny)
        within /= weight.reshape(*weight.shape, *(1,) * (2 if self._full else 1))
        return self._replace(covariances=within[..., None, :, :] if self._full else within[..., None, :])

    @property
    def _full(self) -> bool:
        return self.covariances.ndim > self.means.ndim

    def without(self, part: Scores, per_class: bool) -> Scores:
        """The scores of the rows that remain if a part of them is taken out."""
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
            return Scores(counts, means, (squares - _between(counts, means, full)) / weight)
        squares = _raised(self.counts, self) - _raised(part.counts, part)
        own = squares / (left[..., None] if full else left) - _outer(means, full)
        return Scores(counts, means, own)


def scores_on_pieces(pieces: Pieces, at: Sequence[int], coefs: Numbers, offsets: Numbers, full: bool) -> Scores:
    """Scores within the classes of pieces, each with models of its own: (pieces, models, classes, planes).

    ``coefs`` (pieces, models, planes, width) and ``offsets`` (pieces, models, planes), about the anchor of the total.
    Covariances are the same about any anchor, so that Gram matrices are used where they are.
    """
    total, n_models, n_planes = pieces.total, coefs.shape[1], coefs.shape[2]
    width, n_classes, n_grams = total.width, len(total.labels), len(total.grams)
    if pieces.stack is None:
        turned = np.zeros((len(at), n_grams, n_models * n_planes, width))
        for row, index in enumerate(at):
            grams, rows = pieces.grams[index], coefs[row].reshape(-1, width)
            places = range(n_grams) if len(grams) in (0, n_grams) else pieces.places(index)
            for place, gram in zip(places, grams, strict=bool(grams)):
                np.dot(rows, gram, out=turned[row, place])
        turned = turned.reshape(len(at), n_grams, n_models, n_planes, width).swapaxes(1, 2)
        squares = _forms(turned, coefs, full)
    else:
        from mergesvm.analysis.pieces.jit import quadratic_forms

        squares = np.empty((len(at), n_models, n_planes if full else 1, n_planes))
        quadratic_forms(np.asarray(at, dtype=np.intp), pieces.stack, np.ascontiguousarray(coefs), squares, full)
        squares = squares[:, :, None] if full else squares
    counts = np.broadcast_to(pieces.counts[at][:, None], (len(at), n_models, n_classes))
    known = np.where(counts > 0, counts, 1.0)
    central = pieces.sums[at] @ coefs.reshape(len(at), -1, width).swapaxes(1, 2)  # about the anchor of the total
    centres = central.reshape(len(at), n_classes, n_models, n_planes).swapaxes(1, 2) / known[..., None]
    present = (counts > 0)[..., None]
    means = np.where(present, centres + offsets[:, :, None], 0.0)
    moves = np.einsum("nmpd,nd->nmp", coefs, pieces.shifts[at])[:, :, None]
    about = np.where(present, centres - moves, 0.0)  # about the anchor of the piece
    return Scores(counts, means, _spread(squares, counts, about, total.per_class, full))


def scores_on_whole(knowledge: Knowledge, places: Sequence[int], n_classes: int, coefs: Numbers, full: bool) -> Scores:
    """Scores within the classes of one knowledge, of many models (models, planes, width); offsets are left out.

    ``places`` are those of its classes among all.
    """
    n_models, n_planes, width = coefs.shape
    at = list(places) if knowledge.per_class else [0] * len(knowledge.grams)
    n_grams = n_classes if knowledge.per_class else 1
    turned, flat = np.zeros((n_models, n_grams, n_planes, width)), coefs.reshape(-1, width)
    for place, gram in zip(at, knowledge.grams, strict=True):
        turned[:, place] = (flat @ gram).reshape(n_models, n_planes, width)
    counts, centres = np.zeros(n_classes), np.zeros((n_models, n_classes, n_planes))
    counts[list(places)] = knowledge.counts
    means = coefs @ (knowledge.sums / knowledge.counts[:, None]).T
    centres[:, list(places)] = means.swapaxes(1, 2)
    counts = np.broadcast_to(counts, (n_models, n_classes))
    return Scores(counts, centres, _spread(_forms(turned, coefs, full), counts, centres, knowledge.per_class, full))


def _forms(turned: Numbers, coefs: Numbers, full: bool) -> Numbers:
    """The products W M W', or their diagonals, from W M (..., grams, planes, width)."""
    if full:
        return turned @ coefs[..., None, :, :].swapaxes(-1, -2)
    diagonals: Numbers = np.einsum("...gpd,...pd->...gp", turned, coefs)
    return diagonals


def _spread(squares: Numbers, counts: Numbers, centres: Numbers, per_class: bool, full: bool) -> Numbers:
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
    """The sum of n_c m_c m_c' over the classes, (..., 1, planes, planes), or its diagonal."""
    weighted = counts[..., None] * means
    if full:
        return (weighted.swapaxes(-1, -2) @ means)[..., None, :, :]
    summed: Numbers = (weighted * means).sum(axis=-2, keepdims=True)
    return summed


def _outer(means: Numbers, full: bool) -> Numbers:
    return means[..., :, None] * means[..., None, :] if full else means**2


def _raised(counts: Numbers, scores: Scores) -> Numbers:
    """Sums of squares and products about zero."""
    full = scores.covariances.ndim > scores.means.ndim
    shape = (1,) * (2 if full else 1)
    raised: Numbers = counts.reshape(*counts.shape, *shape) * (scores.covariances + _outer(scores.means, full))
    return raised
