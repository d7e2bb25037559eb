"""Problems of the kernel benchmarks, and how their solutions are evaluated."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.metrics.pairwise import rbf_kernel

import datasets
import mergesvm as ms

THREADS = 2
PIXEL_GAMMA = 0.02
"""For pixels from 0 to 1; divided by 255^2 for pixels from 0 to 255."""

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"

console = Console(width=118)


@dataclass
class Problem:
    """Training and test rows, and the parameters of the kernel SVM."""

    name: str
    X: Any
    y: Any
    test: Any
    truth: Any
    gamma: float
    C: float

    def first(self, rows: int, tests: int) -> Problem:
        """The problem of the first rows."""
        less = {name: getattr(self, name)[:rows] for name in ("X", "y")}
        return replace(self, **less, test=self.test[:tests], truth=self.truth[:tests])

    def ours(self, **parameters: Any) -> ms.ParallelKernelSVC:
        return ms.ParallelKernelSVC(**{"gamma": self.gamma, "C": self.C, "n_jobs": THREADS, **parameters})

    @property
    def title(self) -> str:
        classes = len(np.unique(self.y))
        return (
            f"{self.name}, {self.X.shape[0]:,} x {self.X.shape[1]}, {classes} classes, "
            f"gamma {self.gamma:.3g}, C {self.C:g}"
        )


@dataclass
class Outcome:
    """Times, objective and accuracy of a contender."""

    times: list[float] = field(default_factory=list)
    objective: float = np.nan
    support: int = 0
    accuracy: float = np.nan

    @property
    def best(self) -> float:
        return min(self.times)


def seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    time.sleep(0.15)  # threads of the previous contender may still be spinning
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def objective(vectors: Any, counts: Any, coefs: Any, gamma: float, block: int = 2000) -> float:
    """Dual objective sum(alpha) - alpha' Q alpha / 2, summed over all pairs of classes, in float64.

    ``coefs`` (classes - 1, vectors) has the layout of LIBSVM: y alpha against each of the other classes in turn.
    """
    vectors = vectors.astype(np.float64)
    coefs = coefs if isinstance(coefs, np.ndarray) else coefs.toarray()  # may be sparse for sparse rows
    ends = np.cumsum(counts)
    classes = [np.arange(end - count, end) for count, end in zip(counts, ends, strict=True)]
    total = 0.0
    for one, other in combinations(range(len(classes)), 2):
        at = np.concatenate([classes[one], classes[other]])
        signed = np.concatenate([coefs[other - 1][classes[one]], coefs[one][classes[other]]])
        at, signed = at[signed != 0], signed[signed != 0].astype(np.float64)
        total += np.abs(signed).sum()
        for start in range(0, len(at), block):
            part = slice(start, start + block)
            total -= signed[part] @ rbf_kernel(vectors[at[part]], vectors[at], gamma=gamma) @ signed / 2
    return float(total)


def evaluated(machine: Any, problem: Problem, outcome: Outcome) -> Outcome:
    """Set objective, support vectors and accuracy of an outcome."""
    vectors, counts = machine.support_vectors_, machine.n_support_
    outcome.objective = objective(vectors, counts, machine.dual_coef_, problem.gamma)
    outcome.support = int(np.sum(counts))
    outcome.accuracy = float(np.mean(machine.predict(problem.test) == problem.truth))
    return outcome


def pixels(where: Path | None) -> tuple[Any, Any, Any, Any]:
    X, y, test, truth = datasets.mnist(where)
    return X / np.float32(255), y, test / np.float32(255), truth


def three_or_eight(where: Path | None, C: float = 1.0) -> Problem:
    X, y, test, truth = pixels(where)
    kept, tested = np.isin(y, (3, 8)), np.isin(truth, (3, 8))
    return Problem("MNIST 3-vs-8", X[kept], y[kept], test[tested], truth[tested], PIXEL_GAMMA, C)
