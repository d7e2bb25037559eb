"""The rows of the experiments, and problem (2) of the paper in plain numpy."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel

from mergesvm.errors import SolverWarning
from mergesvm.estimators.parallel_kernel_svc import ParallelKernelSVC
from mergesvm.reproduce.paper_data import DATA, PaperData, Source

WHITE = 255
C = 10.0
"""Alpha_max of the paper."""

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Digits:
    """The digits 3 (label -1) and 8 (label 1), pixels from 0 to 1."""

    title: str
    X: Vector
    y: Vector
    test: Vector
    truth: Vector

    @classmethod
    def load(cls, source: Source, seed: int) -> Digits:
        """Read and shuffle them; a seventh are test rows."""
        data: PaperData = replace(DATA["mnist"], train_fraction=6 / 7)
        X, y, test, truth = data.load(source, seed)
        parts = []
        for rows, labels in ((X, y), (test, truth)):
            chosen = np.isin(labels, (3, 8))
            parts += [rows[chosen] / WHITE, np.where(labels[chosen] == 8, 1.0, -1.0)]
        return cls(f"{data.described(source)}, 3 against 8", *parts)

    def first(self, n_rows: int) -> Digits:
        """The same with the first training rows only."""
        return replace(self, X=self.X[:n_rows], y=self.y[:n_rows])

    @property
    def gamma(self) -> float:
        """The width of the RBF kernel, 1 / (columns x variance)."""
        return float(1 / (self.X.shape[1] * self.X.var()))

    def machine(self, **options: Any) -> ParallelKernelSVC:
        """Train a machine on these rows; it may stop at its limit of iterations without a warning."""
        made = ParallelKernelSVC(gamma=self.gamma, C=C, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SolverWarning)
            return made.fit(self.X, self.y)

    def accuracy(self, scores: Vector) -> float:
        """Accuracy of the scores of the test rows in per cent."""
        return 100 * float(np.mean(np.where(scores >= 0, 1.0, -1.0) == self.truth))


@dataclass(frozen=True)
class Dual:
    """Problem (2): maximise F(alpha) = sum(alpha) - alpha' H alpha / 2 for 0 <= alpha <= C, H = Q + M beta y y'."""

    rows: Digits
    units: int
    beta: float

    @cached_property
    def Q(self) -> Vector:  # noqa: N802
        """Kernel values with the signs of the labels."""
        y = self.rows.y
        return np.asarray(y[:, None] * y * rbf_kernel(self.rows.X, gamma=self.rows.gamma))

    @cached_property
    def eigenvalues(self) -> Vector:
        """Of H, ascending."""
        y = self.rows.y
        return np.asarray(np.linalg.eigvalsh(self.Q + self.units * self.beta * np.outer(y, y)), dtype=np.float64)

    @property
    def largest_step(self) -> float:
        """The limit of kappa for the gradient of (2), 2 / lambda_max(H)."""
        return float(2 / self.eigenvalues[-1])

    @cached_property
    def printed_step(self) -> float:
        """The limit of kappa as theorem 1 is printed, 2 / |A| with A = diag(Q) / 2 + Q / 2 + beta y y'."""
        y = self.rows.y
        A = np.diag(np.diag(self.Q)) / 2 + self.Q / 2 + self.beta * np.outer(y, y)
        return float(2 / np.linalg.norm(A, 2))

    def rate_bound(self, kappa: float) -> float:
        """The factor by which a step of the gradient shrinks distances: the rate of theorem 2, with lambda_min."""
        return float(np.abs(1 - kappa * self.eigenvalues[[0, -1]]).max())

    def objective(self, alpha: Vector) -> float:
        """F(alpha)."""
        total = float(alpha @ self.rows.y)
        return float(alpha.sum() - alpha @ self.Q @ alpha / 2 - self.units * self.beta * total**2 / 2)

    @cached_property
    def optimum(self) -> float:
        """The maximum of F, by the working-set method."""
        return float(self.machine(method="working-set", tol=1e-9).objective_)

    def machine(self, **options: Any) -> ParallelKernelSVC:
        """Train a machine on this problem."""
        return self.rows.machine(units=self.units, beta=self.beta, precision="float64", n_jobs=1, **options)

    def equation_4(self, sign: float, n_iter: int) -> Vector:
        """Alpha after iterations of equation (4), with the sign of its sum over e inside the bracket.

        The paper prints -1; +1 gives the gradient of the problem (3) of each unit.
        """
        y, kappa, alpha = self.rows.y, self.printed_step / 2, np.zeros(len(self.rows.y))
        diagonal = np.diag(self.Q)
        for _ in range(n_iter):
            inside = diagonal * alpha + sign * (self.Q @ alpha)
            alpha = np.clip(alpha + kappa * (1 - inside / 2 - self.beta * y * (alpha @ y)), 0, C)
        return alpha

    def scores(self, alpha: Vector) -> Vector:
        """Scores of the test rows, with the intercept M beta y'alpha of problem (2)."""
        signed = alpha * self.rows.y
        kernel = rbf_kernel(self.rows.test, self.rows.X, gamma=self.rows.gamma)
        scores: Vector = kernel @ signed + self.units * self.beta * signed.sum()
        return scores
