"""TrainingHistory: the course of a training run, iteration by iteration."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import DataError

TAIL_FRACTION = 0.1
"""The rate of convergence is measured over this fraction of the iterations, the last ones."""


@dataclass
class TrainingHistory:
    """The state of training before each iteration, and at the end; of several pairs of classes, their sum.

    While method "working-set" leaves rows out, because they stay at a bound, only the other rows count.

    >>> history = TrainingHistory(np.array([0.5]))
    >>> for step in (8.0, 4.0, 2.0, 1.0):
    ...     history.record(objective=-step, violation=step, n_support=3, step=step, n_bytes=100)
    >>> history.objective.tolist(), history.rate()
    ([-8.0, -4.0, -2.0, -1.0], 0.5)

    Attributes
    ----------
    kappa : array of shape (pairs,) or None
        The step of each pair of classes, for method "gradient".
    """

    kappa: NDArray[np.float64] | None = None
    _records: list[tuple[float, float, float, float, float]] = field(default_factory=list)

    def record(self, *, objective: float, violation: float, n_support: float, step: float, n_bytes: float) -> None:
        """Record one iteration."""
        self._records.append((objective, violation, n_support, step, n_bytes))

    def __len__(self) -> int:
        return len(self._records)

    @property
    def objective(self) -> NDArray[np.float64]:
        """The dual objective."""
        return self._column(0)

    @property
    def violation(self) -> NDArray[np.float64]:
        """The largest violation of the optimality conditions, or the largest relative gap if that stops training."""
        return self._column(1)

    @property
    def n_support(self) -> NDArray[np.int64]:
        """Number of support vectors of all pairs; a row counts once for each of its pairs."""
        return self._column(2).astype(np.int64)

    @property
    def step(self) -> NDArray[np.float64]:
        """The Euclidean norm of the change of alpha that follows; 0 at the end."""
        return self._column(3)

    @property
    def bytes(self) -> NDArray[np.int64]:
        """Bytes of the messages of all units about the state, and of those that follow to all units."""
        return self._column(4).astype(np.int64)

    def rate(self) -> float:
        """The factor by which the distance of alpha from the optimum shrinks per iteration (theorem 2 of the paper).

        It is the mean ratio of successive steps, over the last tenth of the iterations. Without momentum, theorem 2
        bounds it by max |1 - kappa lambda| over the smallest and the largest eigenvalue lambda of Q + M beta y y'; it
        approaches that of the free rows, whose alpha are between the bounds.
        """
        steps = self.step[self.step > 0]
        count = max(1, int(TAIL_FRACTION * len(steps)))
        if len(steps) < 2:
            raise DataError(
                f"A rate needs two iterations that change alpha, but there were {len(steps)}. Decrease tol."
            )
        return float((steps[-1] / steps[-1 - count]) ** (1 / count))

    def _column(self, number: int) -> NDArray[np.float64]:
        return np.array(self._records, dtype=np.float64).reshape(-1, 5)[:, number]

    def __repr__(self) -> str:
        return f"TrainingHistory of {len(self)} states, objective {self.objective[-1:].tolist()}"
