"""From the scores of all pairs of classes to votes, decisions and probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from mergesvm.models.score_moments import SideMoments
from mergesvm.multiclass.votes import count_votes, sum_margins, winners

WINNER_LEAD = 1 + 2.0**-20
"""Factor by which the probability of the predicted class exceeds that of a class that would be more probable."""


@dataclass(frozen=True)
class Voting:
    """One-vs-one voting: each pair of classes has one vote; the class with the most votes wins.

    All methods take scores (rows, pairs), and return arrays (rows, classes).

    >>> moments = SideMoments(np.tile([-1.0, 1.0], (3, 1)), np.ones(3), np.ones((3, 2)))
    >>> voting = Voting(3, "recount", moments)
    >>> voting.votes(np.array([[1.0, 1.0, -1.0]]))
    array([[0., 2., 1.]])
    """

    n_classes: int
    ties: str
    moments: SideMoments

    def votes(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Number of votes per class."""
        return count_votes(scores, self.n_classes)

    def winners(self, scores: NDArray[np.float64]) -> NDArray[np.intp]:
        """Index of the winning class, (rows,)."""
        return winners(scores, self.n_classes, self.ties)

    def decide(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Votes plus a fraction from the summed margins; the highest is the winner."""
        n_classes = self.n_classes
        margins = sum_margins(scores, n_classes)
        # Fractions stay below 1/3, and the winner of a tie is lifted above the others by 2/3.
        decision: NDArray[np.float64] = count_votes(scores, n_classes) + margins / (3 * (np.abs(margins) + 1))
        at = np.arange(len(scores)), winners(scores, n_classes, self.ties)
        rivals = (decision >= decision[at][:, None]).sum(axis=1) > 1
        decision[at] += np.where(rivals, 2 / 3, 0.0)
        return decision

    def couple(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability of each class by pairwise coupling.

        With r_ij the probability of i against j, p_i = 1 / (sum_j 1/r_ij - (k - 2)), normalised to a sum of 1: exact
        where the pairs are consistent. If another class is more probable than the winner of the
        votes, the winner is raised to the same probability.
        """
        n_classes = self.n_classes
        second = np.clip(expit(self.moments.log_odds(scores)), 1e-12, 1 - 1e-12)
        inverse = np.full((len(scores), n_classes), float(2 - n_classes))
        for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
            inverse[:, j] += 1 / second[:, pair]
            inverse[:, i] += 1 / (1 - second[:, pair])
        probabilities: NDArray[np.float64] = 1 / inverse
        # Where pairs contradict each other, another class than the winner of the votes may be the most probable.
        return raise_winners(probabilities, self.winners(scores))


def raise_winners(probabilities: NDArray[np.float64], winners: NDArray[np.intp]) -> NDArray[np.float64]:
    """Probabilities, (rows, classes), normalised to a sum of 1, of which the highest is that of the winner.

    A winner below another class is raised just above it.

    >>> raise_winners(np.array([[0.7, 0.3], [0.2, 0.8]]), np.array([1, 1])).round(3)
    array([[0.5, 0.5],
           [0.2, 0.8]])
    """
    at = np.arange(len(probabilities)), winners
    rivals = (probabilities >= probabilities[at][:, None]).sum(axis=1) > 1
    raised = probabilities.copy()
    raised[at] = np.where(rivals, probabilities.max(axis=1) * WINNER_LEAD, probabilities[at])
    raised /= raised.sum(axis=1, keepdims=True)
    return raised
