"""Pegasos one-vs-one as in the paper, with averaged coefficients, and the closed form."""

from __future__ import annotations

import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mergesvm.errors import EngineError
from mergesvm.estimators.pegasos_svc import PegasosSVC
from mergesvm.knowledge.learning.learn import learn
from mergesvm.methods.proximal.solve import solve
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.reproduce.democratic.split import Split
from mergesvm.reproduce.launch import run_ranks

PROGRAM = "mergesvm.reproduce.democratic.ranks"

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
    mpi: float | None  # seconds with as many ranks, with the broadcast of the rows; None if not measured
    accuracy: float  # per cent, as in the paper: coefficients of the last step, no intercept, and its tie rule
    averaged: float  # per cent, with the defaults of PegasosSVC and no intercept
    model: LinearModel | PairwiseModel  # of the paper

    @classmethod
    def of(cls, split: Split, steps: int, lambda_: float, workers: int, seed: int, *, mpi: bool) -> PegasosRun:
        """Train as in the paper, serial and parallel, and with averaged coefficients."""
        options = shared_options(steps, lambda_, seed)
        seconds = []
        for n_jobs in (1, workers):
            start = time.perf_counter()
            paper = PegasosSVC(**options, **AS_PRINTED, n_jobs=n_jobs).fit(split.X, split.y)
            seconds.append(time.perf_counter() - start)
        on_ranks = _seconds_on_ranks(split, paper, workers) if mpi else None
        averaged = PegasosSVC(**options, n_jobs=workers).fit(split.X, split.y)
        accuracy, better = (100 * machine.score(split.test, split.truth) for machine in (paper, averaged))
        return cls(steps, lambda_, seconds[0], seconds[1], on_ranks, accuracy, better, paper.model_)

    def figures(self) -> dict[str, Any]:
        """Times and accuracies."""
        names = ("steps", "lambda_", "serial", "parallel", "mpi", "accuracy", "averaged")
        return {name: getattr(self, name) for name in names}


def _seconds_on_ranks(split: Split, machine: PegasosSVC, ranks: int) -> float:
    """Seconds of algorithm 3 on ranks of MPI, of which only the first has the rows.

    Raises an error if the coefficients are not those of this machine, bit for bit.
    """
    with TemporaryDirectory() as folder:
        np.save(Path(folder, "X.npy"), split.X)
        np.save(Path(folder, "y.npy"), split.y)
        found = run_ranks(PROGRAM, ranks, folder, machine.n_iter, machine.lambda_, machine.random_state)
    if found["digest"] != digest(machine):
        raise EngineError(f"{ranks} ranks have other coefficients than a single process with the same seed.")
    seconds: float = found["seconds"]
    return seconds


def digest(machine: PegasosSVC) -> str:
    """A digest of the coefficients."""
    return sha256(machine.coef_.tobytes()).hexdigest()


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
