"""Parallel democratic support vector machines (Vieira and Lerena): Pegasos by vote, beside the closed form."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.estimators.pegasos_svc import PegasosSVC
from mergesvm.knowledge.learning.learn import learn
from mergesvm.methods.proximal.solve import solve
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.multiclass.votes import count_votes, winners
from mergesvm.reproduce.paper_data import PaperData
from mergesvm.reproduce.tables import ResultTable

COMPARED_RULES = ("sequential", "recount", "margin")
"""The rules for ties of the paper, of its outlook, and ours."""

EXPLAINED_VARIANCE = 0.9999

STEPS = {
    "mnist": (1_000, 10_000, 50_000, 100_000, 1_000_000),
    "fashion": (1_000, 10_000, 50_000, 100_000, 1_000_000),
    "emnist": (1_000, 10_000, 50_000, 100_000),
}
"""Numbers of steps in the tables of the paper."""

PAPER = {
    "mnist": {1_000: (0.69, 0.07, 86.05), 10_000: (5.3, 0.78, 89.8), 50_000: (25.99, 3.47, 91.06),
              100_000: (51.6, 7.14, 91.09)},
    "fashion": {1_000: (1.12, 0.16, 75.56), 10_000: (4.5, 0.7, 82.54), 50_000: (19.3, 2.53, 84.34),
                100_000: (37.9, 4.97, 83.92), 1_000_000: (372.6, 46.8, 84.9)},
    "emnist": {1_000: (17.3, 3.1, 64.7), 10_000: (132.8, 17.8, 67.07), 50_000: (646.0, 87.2, 67.45)},
}  # fmt: skip
"""The paper's serial and parallel seconds, on 8 threads, and accuracy in per cent, by the number of steps."""

SCORED_ROWS = 4096
"""Test rows that are scored at a time."""


@dataclass(frozen=True)
class Split:
    """Principal components of training rows and test rows, and their labels."""

    X: NDArray[Any]
    y: NDArray[Any]
    test: NDArray[Any]
    truth: NDArray[Any]

    @classmethod
    def of(cls, data: PaperData, folder: Path | None, seed: int) -> Split:
        """Load a data set and keep 99.99 % of the variance of its training rows, computed from their sums."""
        X, y, test, truth = data.load(folder, seed)
        components = learn(X, y).pca(EXPLAINED_VARIANCE, precision="float32")
        white = np.float32(255)  # with pixels from 0 to 1, the same lambda suits all data sets
        return cls(components.transform(X) / white, y, components.transform(test) / white, truth)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(np.unique(self.y))


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
    serial: float  # seconds with one thread
    parallel: float  # seconds with several threads
    accuracy: float  # per cent, as in the paper: coefficients of the last step, no intercept, and its tie rule
    averaged: float  # per cent, with the defaults of PegasosSVC and no intercept
    model: LinearModel | PairwiseModel  # of the paper

    @classmethod
    def of(cls, split: Split, steps: int, lambda_: float, workers: int, seed: int) -> PegasosRun:
        """Train as in the paper, serial and parallel, and with averaged coefficients."""
        options: dict[str, Any] = {"lambda_": lambda_, "n_iter": steps, "random_state": seed, "fit_intercept": False}
        seconds = []
        for n_jobs in (1, workers):
            start = time.perf_counter()
            paper = PegasosSVC(**options, average=0.0, ties="sequential", n_jobs=n_jobs).fit(split.X, split.y)
            seconds.append(time.perf_counter() - start)
        averaged = PegasosSVC(**options, n_jobs=workers).fit(split.X, split.y)
        accuracy, better = (100 * machine.score(split.test, split.truth) for machine in (paper, averaged))
        return cls(steps, seconds[0], seconds[1], accuracy, better, paper.model_)

    def figures(self) -> dict[str, Any]:
        """Times and accuracies."""
        return {name: getattr(self, name) for name in ("steps", "serial", "parallel", "accuracy", "averaged")}


def warm_up() -> None:
    """Load the compiled functions, so that their compilation is not timed."""
    PegasosSVC(n_iter=1, n_jobs=1).fit(np.zeros((2, 1), dtype=np.float32), [0, 1])


def accuracy_table(
    name: str, data: PaperData, split: Split, runs: list[PegasosRun], closed: ClosedForm, workers: int
) -> ResultTable:
    """Times and accuracies beside those of the paper."""
    rows = []
    for run in runs:
        paper = PAPER[name].get(run.steps, (None, None, None))
        serial, parallel, accuracy = ("" if value is None else f"{value:g}" for value in paper)
        rows.append(
            (
                f"{run.steps:,}",
                f"{run.serial:.2f}",
                serial,
                f"{run.parallel:.2f}",
                parallel,
                f"{run.accuracy:.2f}",
                accuracy,
                f"{run.averaged:.2f}",
                f"{closed.accuracy:.2f}",
            )
        )
    columns = ("T", "serial s", "paper", f"parallel s ({workers})", "paper (8)", "accuracy %", "paper")
    return ResultTable(
        f"{data.title}: {len(split.y):,} training rows, {len(split.truth):,} test rows, {split.X.shape[1]} components, "
        f"{split.n_classes} classes, {split.n_classes * (split.n_classes - 1) // 2:,} pairs",
        (*columns, "averaged %", "closed form %"),
        rows,
        note=f"closed form: learned and solved in {closed.seconds:.2f} s on all cores",
    )


def tie_figures(split: Split, model: PairwiseModel) -> dict[str, Any]:
    """Percentage of test rows with tied votes, and the accuracy of each tie rule on all rows and on tied rows."""
    n_classes = len(model.classes_)
    tied: list[NDArray[np.bool_]] = []
    correct: dict[str, list[NDArray[np.bool_]]] = {rule: [] for rule in COMPARED_RULES}
    for start in range(0, len(split.test), SCORED_ROWS):
        scores = model.scores(split.test[start : start + SCORED_ROWS])
        truth = split.truth[start : start + SCORED_ROWS]
        votes = count_votes(scores, n_classes)
        tied.append((votes == votes.max(axis=1, keepdims=True)).sum(axis=1) > 1)
        for rule in COMPARED_RULES:
            correct[rule].append(model.classes_[winners(scores, n_classes, rule)] == truth)
    is_tied = np.concatenate(tied)
    by_rule = {rule: np.concatenate(found) for rule, found in correct.items()}
    return {
        "tied": 100 * float(is_tied.mean()),
        **{rule: 100 * float(found.mean()) for rule, found in by_rule.items()},
        **{f"{rule}_when_tied": 100 * float(found[is_tied].mean()) for rule, found in by_rule.items() if is_tied.any()},
    }


def tie_table(steps: int, pegasos: dict[str, Any], closed: dict[str, Any]) -> ResultTable:
    """Accuracy of each tie rule."""
    rows = []
    for title, found in ((f"Pegasos, {steps:,} steps", pegasos), ("closed form", closed)):
        when_tied = (f"{found.get(f'{rule}_when_tied', 0.0):.2f}" for rule in COMPARED_RULES)
        rows += [
            (title, f"{found['tied']:.2f}", *(f"{found[rule]:.2f}" for rule in COMPARED_RULES)),
            ("  on the tied rows alone", "", *when_tied),
        ]
    return ResultTable(
        "Ties: rows for which several classes have the most votes",
        ("model", "tied rows %", *(f"{rule} %" for rule in COMPARED_RULES)),
        rows,
        ("model",),
    )
