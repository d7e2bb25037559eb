"""Kernel machines of few support vectors beside the full one, random rows and Nystroem: ``make bench-reduced``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import datasets
from kernel_problem import PIXEL_GAMMA, THREADS, Problem, console, seconds, three_or_eight
from machine import describe
from tables import table

FRACTIONS = (0.01, 0.02, 0.05, 0.10)
NYSTROEM_C = (1.0, 100.0)


def scaled(X: Any, y: Any, test: Any, truth: Any) -> tuple[Any, Any, Any, Any]:
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), y, scaler.transform(test), truth


def shirts(where: Path | None) -> tuple[Any, Any, Any, Any]:
    X, y, test, truth = datasets.fashion_mnist(where)
    kept, tested = np.isin(y, (0, 6)), np.isin(truth, (0, 6))
    return X[kept] / np.float32(255), y[kept], test[tested] / np.float32(255), truth[tested]


def pens(where: Path | None) -> tuple[Any, Any, Any, Any]:
    X, y, test, truth = datasets.pendigits(where)
    return X / 100, y, test / 100, truth


def problems(where: Path | None) -> dict[str, Callable[[], Problem]]:
    return {
        "spambase": lambda: Problem("spambase", *scaled(*datasets.spambase(where)), 1 / 57, 10.0),
        "mnist": lambda: three_or_eight(where, 10.0),
        "a9a": lambda: Problem("a9a", *datasets.a9a(where), 0.05, 1.0),
        "fashion": lambda: Problem("Fashion-MNIST, T-shirt or shirt", *shirts(where), PIXEL_GAMMA, 1.0),
        "pendigits": lambda: Problem("pendigits", *pens(where), 2.0, 10.0),
        "letter": lambda: Problem("letter", *datasets.letter(where), 5.0, 10.0),
    }


def nystroem(problem: Problem, size: int) -> float:
    """Accuracy of a linear SVM on Nystroem features with this number of landmarks; C by cross-validation."""
    features = Nystroem(gamma=problem.gamma, n_components=size, random_state=0)
    search = GridSearchCV(LinearSVC(dual=False, tol=1e-3), {"C": NYSTROEM_C}, cv=3)
    return float(make_pipeline(features, search).fit(problem.X, problem.y).score(problem.test, problem.truth))


def random_rows(model: Any, problem: Problem, size: int) -> float:
    """Accuracy of a machine trained on this number of random rows, mean of five draws."""
    found, classes = [], len(model.classes_)
    for seed in range(5):
        chosen = np.random.default_rng(seed).permutation(problem.X.shape[0])[:size]
        if len(np.unique(problem.y[chosen])) < min(classes, 2):
            continue
        few = replace(problem, X=problem.X[chosen], y=problem.y[chosen])
        found.append(few.ours().fit(few.X, few.y).score(problem.test, problem.truth))
    return float(np.mean(found))


def cpu_seconds(function: Callable[[], Any]) -> float:
    """The least CPU time of a few calls, which other programs on the machine hardly change."""
    found = []
    for _ in range(5):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return min(found)


def compare(problem: Problem) -> None:
    """Print a table of all sizes."""
    trained, machine = seconds(lambda: problem.ours().fit(problem.X, problem.y))
    model, n_vectors = machine.model_, len(machine.support_)
    shown = table(
        problem.title, "", "vectors", "accuracy %", "full minus this", "from the model", "random rows",
        "Nystroem + linear", "s to reduce", "CPU to predict, full / this",
    )  # fmt: skip
    full = 100 * model.score(problem.test, problem.truth)
    before = cpu_seconds(lambda: model.predict(problem.test))
    shown.add_row("full", f"{n_vectors:,}", f"{full:.2f}", "", "", "", "", "", "1.0")
    for fraction in FRACTIONS:
        size = max(2, round(fraction * n_vectors))
        taken, small = seconds(lambda size=size: model.reduced(size, problem.X, problem.y))
        accuracy = 100 * small.score(problem.test, problem.truth)
        after = cpu_seconds(lambda small=small: small.predict(problem.test))
        shown.add_row(
            f"{fraction:.0%}",
            f"{size:,}",
            f"{accuracy:.2f}",
            f"{full - accuracy:.2f}",
            f"{100 * model.reduced(size).score(problem.test, problem.truth):.2f}",
            f"{100 * random_rows(model, problem, size):.2f}",
            f"{100 * nystroem(problem, size):.2f}",
            f"{taken:.1f}",
            f"{before / after:.1f}",
        )
    console.print(shown)
    console.print(f"training took {trained:.1f} s\n", highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of data sets (default: MERGESVM_DATA, else OpenML)")
    parser.add_argument("--only", nargs="+", metavar="SET", help="some of the data sets")
    parser.add_argument("--quick", action="store_true", help="few rows, as a smoke test")
    options = parser.parse_args()
    console.print(describe(THREADS), highlight=False)
    console.print(f"mergesvm {version('mergesvm')}, scikit-learn {version('scikit-learn')}", highlight=False)
    made = problems(datasets.folder(options.data))
    for name in options.only or made:
        problem = made[name]()
        compare(problem.first(1000, 500) if options.quick else problem)


if __name__ == "__main__":
    main()
