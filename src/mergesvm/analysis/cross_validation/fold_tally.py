"""Counts of correct predictions, log-losses and probabilities of many candidates on the held-out rows of one fold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass
class FoldTally:
    """Scores of all candidates on one fold, as sums over its rows.

    Attributes
    ----------
    hits : array of shape (candidates, classes)
        Weight of the rows of each class that are predicted correctly.
    totals : array of shape (classes,)
        Weight of all rows of each class.
    log_losses : array of shape (candidates,)
        Summed log-loss.
    kept : list
        Classes, weights and probabilities (candidates, rows, classes) of each block, if ROC curves need them.
    """

    hits: Numbers
    totals: Numbers
    log_losses: Numbers
    kept: list[tuple[NDArray[Any], Numbers, Numbers]] = field(default_factory=list)

    @classmethod
    def empty(cls, n_candidates: int, n_classes: int) -> FoldTally:
        """A tally of no rows."""
        return cls(np.zeros((n_candidates, n_classes)), np.zeros(n_classes), np.zeros(n_candidates))

    def add(self, other: FoldTally) -> None:
        """Add the rows of another tally."""
        self.hits += other.hits
        self.totals += other.totals
        self.log_losses += other.log_losses
        self.kept += other.kept

    @property
    def accuracy(self) -> Numbers:
        """Fraction of rows predicted correctly, (candidates,)."""
        return self.hits.sum(axis=1) / self.totals.sum() if self.totals.any() else self.log_losses * np.nan

    @property
    def balanced_accuracy(self) -> Numbers:
        """Mean recall of the classes that occur, (candidates,)."""
        present = self.totals > 0
        recalls = self.hits[:, present] / self.totals[present]
        return recalls.mean(axis=1) if present.any() else self.log_losses * np.nan

    @property
    def log_loss(self) -> Numbers:
        """Mean of -log of the probability of the true class, (candidates,)."""
        return self.log_losses / self.totals.sum() if self.totals.any() else self.log_losses * np.nan

    @property
    def auc(self) -> Numbers:
        """Area under the ROC curve, (candidates,); for more than two classes the mean of each against the rest."""
        if not self.kept:
            return self.log_losses * np.nan
        codes = np.concatenate([codes for codes, _, _ in self.kept])
        weights = np.concatenate([weights for _, weights, _ in self.kept])
        first = len(self.totals) - self.kept[0][2].shape[2]  # of two classes only the second is kept
        areas = np.empty((len(self.hits), self.kept[0][2].shape[2]))
        for candidate, column in np.ndindex(*areas.shape):
            scores = np.concatenate([block[candidate, :, column] for _, _, block in self.kept])
            areas[candidate, column] = weighted_auc(scores, codes == first + column, weights)
        defined = ~np.isnan(areas).all(axis=0)  # the fold has rows of the class, and others
        return areas[:, defined].mean(axis=1) if defined.any() else self.log_losses * np.nan


def weighted_auc(scores: Numbers, positive: NDArray[np.bool_], weights: Numbers) -> float:
    """Area under the ROC curve of weighted rows; ties count half. NaN without both positives and negatives.

    >>> weighted_auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]), np.ones(4))
    0.75
    """
    if positive.all() or not positive.any():
        return float("nan")
    _, ranks = np.unique(scores, return_inverse=True)
    positives = np.bincount(ranks, weights * positive)
    negatives = np.bincount(ranks, weights * ~positive)
    below = np.cumsum(negatives) - negatives / 2
    return float(positives @ below / (positives.sum() * negatives.sum()))
