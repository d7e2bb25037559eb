"""Pegasos one-vs-one as in the paper, with averaged coefficients, and the closed form."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from mergesvm.estimators.pegasos_svc import PegasosSVC
from mergesvm.knowledge.learning.learn import learn
from mergesvm.methods.proximal.solve import solve
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.reproduce.democratic.split import Split

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1)
"""The values of lambda to choose from."""

AS_PRINTED: dict[str, Any] = {"average": 0.0, "ties": "sequential"}
"""The coefficients of the last step, and the paper's rule for ties."""


@dataclass(frozen=True)
class ClosedForm:
    """The exact one-vs-one model of the same rows, with its time and accuracy in per cent."""

    seconds: float
    accuracy: float
    model: LinearModel | PairwiseModel

    @classmethod
    def of(cls, split: Split, C: float) -> ClosedForm:
        """Learn and solve."""
        start = time.perf_counter()
        model = solve(learn(split.X, split.y), C, multiclass="ovo")
        return cls(time.perf_counter() - start, 100 * model.score(split.test, split.truth), model)

    def figures(self) -> dict[str, Any]:
        """Time and accuracy."""
        return {"seconds": self.seconds, "accuracy": self.accuracy}


@dataclass(frozen=True)
class PegasosRun:
    """Pegasos with one number of steps."""

    steps: int
    lambda_: float
    serial: float  # seconds with one thread
    parallel: float  # seconds with several threads
    accuracy: float  # per cent, as in the paper: coefficients of the last step, no intercept, and its tie rule
    averaged: float  # per cent, with the defaults of PegasosSVC and no intercept
    model: LinearModel | PairwiseModel  # of the paper

    @classmethod
    def of(cls, split: Split, steps: int, lambda_: float, workers: int, seed: int) -> PegasosRun:
        """Train as in the paper, serial and parallel, and with averaged coefficients."""
        options = shared_options(steps, lambda_, seed)
        seconds = []
        for n_jobs in (1, workers):
            start = time.perf_counter()
            paper = PegasosSVC(**options, **AS_PRINTED, n_jobs=n_jobs).fit(split.X, split.y)
            seconds.append(time.perf_counter() - start)
        averaged = PegasosSVC(**options, n_jobs=workers).fit(split.X, split.y)
        accuracy, better = (100 * machine.score(split.test, split.truth) for machine in (paper, averaged))
        return cls(steps, lambda_, seconds[0], seconds[1], accuracy, better, paper.model_)

    def figures(self) -> dict[str, Any]:
        """Times and accuracies."""
        return {
            name: getattr(self, name) for name in ("steps", "lambda_", "serial", "parallel", "accuracy", "averaged")
        }


def choose_strength(split: Split, steps: int, seed: int) -> dict[float, float]:
    """Accuracy in per cent of each lambda on held-out training rows; the best one is the first.

    Trained as in the paper. Of equally good ones, the largest is the first.
    """
    inner, found = split.held_out(seed), {}
    for lambda_ in sorted(STRENGTHS, reverse=True):
        machine = PegasosSVC(**shared_options(steps, lambda_, seed), **AS_PRINTED).fit(inner.X, inner.y)
        found[lambda_] = 100 * machine.score(inner.test, inner.truth)
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def shared_options(steps: int, lambda_: float, seed: int) -> dict[str, Any]:
    """Parameters of the estimator that are the same for the last and for averaged coefficients."""
    return {"lambda_": lambda_, "n_iter": steps, "random_state": seed, "fit_intercept": False}


def warm_up() -> None:
    """Load the compiled functions, so that their compilation is not timed."""
    PegasosSVC(n_iter=1, n_jobs=1).fit(np.zeros((2, 1), dtype=np.float32), [0, 1])
