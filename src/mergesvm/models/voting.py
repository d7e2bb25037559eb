"""From the scores of all pairs of classes to votes, decisions and probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from mergesvm.models.score_moments import SideMoments
from mergesvm.multiclass.votes import count_votes, sum_margins, winners


@dataclass(frozen=True)
class Voting:
    """How pairs of classes decide: each has one vote, and the class with most votes wins.

    All take scores (rows, pairs), and give arrays (rows, classes).

    >>> moments = SideMoments(np.tile([-1.0, 1.0], (3, 1)), np.ones(3), np.ones((3, 2)))
    >>> ballot = Voting(3, "recount", moments)
    >>> ballot.votes(np.array([[1.0, 1.0, -1.0]]))
    array([[0., 2., 1.]])
    """

    n_classes: int
    ties: str
    moments: SideMoments

    def votes(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """How many votes each class has."""
        return count_votes(scores, self.n_classes)

    def winners(self, scores: NDArray[np.float64]) -> NDArray[np.intp]:
        """The class of each row, (rows,)."""
        return winners(scores, self.n_classes, self.ties)

    def decide(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Votes, and in their fraction the summed margins; the highest is the winner."""
        n_classes = self.n_classes
        margins = sum_margins(scores, n_classes)
        # Fractions stay below 1/3, and the winner of a tie is lifted above the others by 2/3.
        decision: NDArray[np.float64] = count_votes(scores, n_classes) + margins / (3 * (np.abs(margins) + 1))
        at = np.arange(len(scores)), winners(scores, n_classes, self.ties)
        rivals = (decision >= decision[at][:, None]).sum(axis=1) > 1
        decision[at] += np.where(rivals, 2 / 3, 0.0)
        return decision

    def couple(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability of each class.

        With r_ij the probability of i against j, p_i = 1 / (sum_j 1/r_ij - (k - 2)), brought to a sum of 1: exact
        where the pairs agree with one another.
        """
        n_classes = self.n_classes
        second = np.clip(expit(self.moments.log_odds(scores)), 1e-12, 1 - 1e-12)
        inverse = np.full((len(scores), n_classes), float(2 - n_classes))
        for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
            inverse[:, j] += 1 / second[:, pair]
            inverse[:, i] += 1 / (1 - second[:, pair])
        shares: NDArray[np.float64] = 1 / inverse
        shares /= shares.sum(axis=1, keepdims=True)
        return shares
