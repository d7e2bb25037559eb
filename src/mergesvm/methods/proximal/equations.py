"""The normal equations of binary problems with the same weights, before C is chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import KnowledgeError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.rounding import CancellationGuard

Numbers = NDArray[np.float64]

MIN_ALONG_EMPTY = 2.0**-40
"""A smaller fraction of the mean along a direction in which the rows do not vary is rounding error."""


@dataclass(frozen=True)
class CoefficientScaling:
    """The coordinates in which coefficients are penalised: (x - origin) / scale."""

    origin: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, knowledge: Knowledge, standardize: bool, fit_intercept: bool = True) -> CoefficientScaling:
        """The features as they are, or in units of their standard deviation, about their mean if there is an intercept.

        Without an intercept every score is zero at the origin of the features, which therefore stays where it is.
        """
        if not standardize:
            return cls(np.zeros(knowledge.width), np.ones(knowledge.width))
        count = knowledge.counts.sum()
        mean = knowledge.sums.sum(axis=0) / count
        square = np.sum([gram.diagonal() for gram in knowledge.grams], axis=0) / count
        variance = square - mean**2
        # A constant feature has no variance but rounding, and stays as it is, as in scikit-learn's StandardScaler.
        rounding = 64 * np.finfo(np.float64).eps
        origin = knowledge.anchor + mean
        constant = variance <= np.maximum(rounding * square, (rounding * origin) ** 2)
        return cls(origin if fit_intercept else np.zeros_like(origin), np.sqrt(np.where(constant, 1.0, variance)))

    def scaled(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """A Gram matrix in these units, in place."""
        if (self.scale != 1).any():
            matrix /= self.scale
            matrix /= self.scale[:, None]
        return matrix


@dataclass(frozen=True)
class Equations:
    """(I/C + S) w = t for one set of class weights, about the weighted mean of the rows and in scaled coordinates.

    Attributes
    ----------
    gram : array of shape (features, features)
        S: the weighted sum of the Gram matrices about the weighted mean.
    rights : array of shape (problems, features)
        t of problems with these weights and different signs.
    towards : array of shape (features,)
        The mean relative to the origin of the scaling, at which the intercept is penalised; None if it is not.
    slack : float
        The inverse of the penalty on the intercept, relative to that on coefficients: 1, or 0 for an intercept of 0.
    count : float
        The total weight of the rows.
    rows : int
        The number of rows.
    means : array of shape (problems,)
        The mean of the signs.
    mean : array of shape (features,)
        The mean of the rows, relative to the anchor.
    scale : array of shape (features,)
    noise : array of shape (features,)
        Bound of the rounding error of the diagonal of S.
    rounding : float
        Typical rounding error of the sums, relative to the squares whose rounding is bounded by ``noise``.
    squares : array of shape (features,)
        The squares that were added up, in the coordinates of S; 0 for features that are left out.
    """

    gram: Numbers
    rights: Numbers
    towards: Numbers | None
    slack: float
    count: float
    rows: int
    means: Numbers
    mean: Numbers
    scale: Numbers
    noise: Numbers
    rounding: float
    squares: Numbers

    @classmethod
    def of(
        cls,
        knowledge: Knowledge,
        weights: Numbers,
        signs: Numbers,
        scaling: CoefficientScaling,
        guard: CancellationGuard,
        intercept_penalty: float = 1.0,
    ) -> Equations:
        """The equations of problems whose classes weigh ``weights`` (classes,), with ``signs`` (problems, classes).

        ``intercept_penalty`` is relative to that on coefficients: 1, 0 for none, or infinite for an intercept of 0.
        """
        counts = weights * knowledge.counts
        count = counts.sum()
        if not count > 0:
            raise KnowledgeError(
                "All classes of a problem have weight zero. Give at least one class a positive weight."
            )
        mean = weights @ knowledge.sums / count
        balance = signs @ counts
        gram = _centred_gram(knowledge, weights, count, mean)
        rights = (signs * weights) @ knowledge.sums - balance[:, None] * mean
        noise = weights @ guard.rounding if knowledge.per_class else guard.rounding[0]
        noise = guard.leave_out(gram, rights, noise, weights @ np.abs(knowledge.sums))
        towards = (knowledge.anchor + mean - scaling.origin) / scaling.scale if intercept_penalty else None
        scaled, noise = scaling.scaled(gram), noise / scaling.scale**2
        return cls(
            scaled,
            rights / scaling.scale,
            towards,
            1 / intercept_penalty if intercept_penalty else 0.0,
            count,
            int(knowledge.rows[weights > 0].sum()),
            balance / count,
            mean,
            scaling.scale,
            noise,
            guard.typical,
            noise / guard.bound,
        )

    @property
    def columns(self) -> Numbers:
        """All right-hand sides, (features, problems); the last one, g, is for the penalty of the intercept."""
        return (self.rights if self.towards is None else np.vstack([self.rights, self.towards])).T

    def divided(self, solved: Numbers, C: float | Numbers, empty: Numbers | None = None) -> Numbers:
        """Solutions for :attr:`columns`, in place, with that for g divided by C, as :meth:`hyperplanes` needs it.

        ``empty`` (features, directions) are directions in which the rows do not vary, and which the solutions leave
        out: only the penalty is left there, and the system is I/C.
        """
        if self.towards is not None:
            solved[:, -1] /= C
            if empty is not None and empty.size:
                along = self.towards @ empty
                along[np.abs(along) <= MIN_ALONG_EMPTY * np.linalg.norm(self.towards)] = 0.0
                solved[:, -1] += (empty @ along).reshape(-1, *[1] * (solved.ndim - 2))
        return solved

    def hyperplanes(self, C: float | Numbers, solved: Numbers) -> tuple[Numbers, Numbers]:
        """Coefficients and offsets at the anchor, from the solutions (features, columns, ...) at C.

        The intercept at the origin of the scaling is u.z with u = [-g; 1]: its penalty adds u u'/C to the system, which
        is solved by Sherman-Morrison. The last solution is that for g/C, which is bounded for any C, also along
        directions in which rows do not vary. An infinite penalty, without slack, gives an intercept of 0.
        """
        w = solved[:, : len(self.rights)]
        at_mean = self.means.reshape(-1, *[1] * (solved.ndim - 2)) + np.zeros(w.shape[1:])
        if self.towards is not None:
            q = solved[:, -1:]
            along = np.tensordot(self.towards, solved, 1)
            pull = (at_mean - along[:-1]) / (self.slack + along[-1:] + 1 / (self.count * C))
            w = w + pull * q
            at_mean = at_mean - pull / (self.count * C)
        w = w / self.scale.reshape(-1, *[1] * (solved.ndim - 1))
        return w, at_mean - np.tensordot(self.mean, w, 1)


def _centred_gram(knowledge: Knowledge, weights: Numbers, count: float, mean: Numbers) -> Numbers:
    """The weighted sum of the Gram matrices about the weighted mean."""
    total = np.outer(mean, -count * mean)
    if (weights == 1).all():
        total += knowledge.pooled_gram
        return total
    for weight, gram in zip(weights, knowledge.grams, strict=True):
        if weight == 1:
            total += gram
        elif weight:
            total += weight * gram
    return total
