"""ParallelKernelSVC beside LIBSVM and ThunderSVM, and its cost by rows and by units: ``make bench-kernel``."""

from __future__ import annotations

import argparse
import multiprocessing
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import datasets
import mergesvm as ms
from kernel_cost import cost, gradient
from kernel_engines import engines
from kernel_problem import (
    PICTURES,
    PIXEL_GAMMA,
    THREADS,
    Outcome,
    Problem,
    console,
    evaluated,
    objective,
    pixels,
    seconds,
    three_or_eight,
)
from machine import PeakMemory, describe, gemm_rate, warm_memory, within
from tables import table


def clock() -> Any:
    """Shared seconds of training, known even if the timeout ends the process after training."""
    return multiprocessing.get_context("fork").Value("d", 0.0)


def thunder(problem: Problem, spent: Any) -> Outcome | str:
    """Train ThunderSVM, and store the seconds.

    It is imported only here, in a separate process, because its OpenMP does not survive a fork.
    """
    try:
        import thundersvm

        # thundersvm-cpu 0.3.3 misreads the labels of sparse rows, and counts columns of support vectors from 1.
        X, test = (rows if isinstance(rows, np.ndarray) else rows.toarray() for rows in (problem.X, problem.test))
        codes = np.unique(problem.y, return_inverse=True)[1]
        truth = np.searchsorted(np.unique(problem.y), problem.truth)
        machine = thundersvm.SVC(kernel="rbf", gamma=problem.gamma, C=problem.C, n_jobs=THREADS, max_mem_size=2000)
        start = time.perf_counter()
        machine.fit(X, codes)
        spent.value = time.perf_counter() - start
        found = objective(X[machine.support_], machine.n_support_, machine.dual_coef_, problem.gamma)
        accuracy = float(np.mean(machine.predict(test) == truth))
        return Outcome([spent.value], found, int(machine.n_support_.sum()), accuracy)
    except Exception as error:  # noqa: BLE001 - a failure is reported, and other contenders run
        return f"{type(error).__name__}: {error}"


def thunder_runs(timeout: float) -> bool:
    """Whether ThunderSVM is installed, and finishes on a few rows."""
    if find_spec("thundersvm") is None:
        console.print("thundersvm-cpu is not installed")
        return False
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 5))
    problem = Problem("", X, X[:, 0] > 0, X, X[:, 0] > 0, 0.2, 1.0)
    answer = within(min(60, timeout), lambda: thunder(problem, clock()))
    if answer is None or isinstance(answer[1], str):
        console.print(f"thundersvm-cpu does not run: {answer and answer[1]}")
        return False
    console.print(f"thundersvm-cpu {version('thundersvm-cpu')}, one run in its own process, on dense rows")
    return True


def problems(where: Path | None, quick: bool) -> list[Problem]:
    """The problems of the comparison with SVC."""
    digits = [three_or_eight(where, C) for C in (1.0, 10.0)]
    letters = datasets.letter(where)
    X, y, test, truth = datasets.covtype(where)
    X, y, test, truth = X[:20_000], y[:20_000] == 2, test[:10_000], truth[:10_000] == 2
    scaler = StandardScaler().fit(X)
    found = [
        *digits,
        Problem("a9a", *datasets.a9a(where), 0.05, 1.0),
        Problem("letter", *letters, 5.0, 10.0),
        Problem("letter", *letters, 16.0, 1.0),
        Problem("covtype, class 2", scaler.transform(X), y, scaler.transform(test), truth, 1 / 54, 1.0),
    ]
    return [problem.first(2000, 500) for problem in found] if quick else found


def svc(where: Path | None, options: argparse.Namespace) -> None:
    """Time and objective of all contenders, in turn."""
    peer = thunder_runs(options.peer_timeout)
    for problem in problems(where, options.quick):
        contenders = {
            "ParallelKernelSVC": problem.ours,
            "ParallelKernelSVC, 4 units": lambda problem=problem: problem.ours(units=4),
            "SVC": lambda problem=problem: SVC(gamma=problem.gamma, C=problem.C, cache_size=2000),
        }
        if find_spec("sklearnex") is not None:
            from sklearnex import svm as intelex

            contenders["SVC of scikit-learn-intelex"] = lambda problem=problem: intelex.SVC(
                gamma=problem.gamma, C=problem.C, cache_size=2000
            )
        outcomes = {name: Outcome() for name in contenders}
        machines: dict[str, Any] = {}
        for _ in range(options.repeats):
            for name, make in contenders.items():
                taken, machines[name] = seconds(lambda make=make, problem=problem: make().fit(problem.X, problem.y))
                outcomes[name].times.append(taken)
        for name, machine in machines.items():
            evaluated(machine, problem, outcomes[name])
        columns = machines["ParallelKernelSVC"]._training.trainer.registry.n_shared
        flop = 2 * columns * problem.X.shape[0] * problem.X.shape[1]
        rate = gemm_rate(np.float32, THREADS, problem.X.shape[1], 1024)
        spent = clock()
        theirs = (
            within(options.peer_timeout, lambda problem=problem, spent=spent: thunder(problem, spent)) if peer else None
        )
        if theirs is not None and not isinstance(theirs[1], str):
            outcomes["ThunderSVM"] = theirs[1]
        elif spent.value:
            outcomes["ThunderSVM"] = Outcome([spent.value])
        compare(problem, outcomes)
        if peer and "ThunderSVM" not in outcomes:
            reason = theirs[1] if theirs else f"not finished after {options.peer_timeout:g} s"
            console.print(f"ThunderSVM: {reason}", highlight=False)
        ours = outcomes["ParallelKernelSVC"].best
        console.print(
            f"limit: {columns:,} kernel columns, {flop / 1e9:.3g} Gflop at the measured sgemm rate of "
            f"{rate / 1e9:.0f} Gflop/s, {flop / rate:.3f} s: {flop / rate / ours:.0%} of the time\n",
            highlight=False,
        )


def compare(problem: Problem, outcomes: dict[str, Outcome]) -> None:
    """Print a table of all contenders."""
    base = outcomes["SVC"]
    shown = table(problem.title, "", "best s", "SVC / this", "F", "F / F of SVC - 1", "support vectors", "accuracy %")
    for name, outcome in outcomes.items():
        shown.add_row(
            name,
            f"{outcome.best:.3f}",
            f"{base.best / outcome.best:.2f}",
            f"{outcome.objective:.3f}",
            "" if outcome is base else f"{outcome.objective / base.objective - 1:+.1e}",
            f"{outcome.support:,}",
            f"{100 * outcome.accuracy:.2f}",
        )
    console.print(shown)


def digits(where: Path | None, options: argparse.Namespace) -> None:
    """All ten digits, once; SVC in its own process, until the timeout."""
    X, y, test, truth = pixels(where)
    problem = Problem("MNIST, all digits", X, y, test, truth, PIXEL_GAMMA, 10.0)
    if options.quick:
        problem = problem.first(4000, 1000)
    shown = table(problem.title, "", "s", "SVC / this", "support vectors", "accuracy %", "peak MB without rows")
    with PeakMemory() as memory:
        taken, machine = seconds(lambda: problem.ours().fit(problem.X, problem.y))
    score = 100 * float(np.mean(machine.predict(problem.test) == problem.truth))

    training_seconds = clock()

    def peer() -> tuple[int, float]:
        theirs = SVC(gamma=problem.gamma, C=problem.C, cache_size=2000)
        training_seconds.value, _ = seconds(lambda: theirs.fit(problem.X, problem.y))
        return len(theirs.support_), 100 * float(np.mean(theirs.predict(problem.test) == problem.truth))

    answer = within(options.timeout, peer)
    spent, more = (training_seconds.value, "") if training_seconds.value else (options.timeout, "> ")
    support = f"{int(machine.n_support_.sum()):,}"
    shown.add_row(
        "ParallelKernelSVC",
        f"{taken:.2f}",
        f"{more}{spent / taken:.1f}",
        support,
        f"{score:.2f}",
        f"{memory.bytes / 1e6:,.0f}",
    )
    theirs = (f"{answer[1][0]:,}", f"{answer[1][1]:.2f}") if answer else ("", "")
    shown.add_row("SVC", f"{more}{spent:.2f}", "1.0", *theirs, "")
    console.print(shown)
    console.print(f"{machine.n_iter_} iterations; the rows are {problem.X.nbytes / 1e6:,.0f} MB\n", highlight=False)


# Digits first, because memory freed by other parts would lower their peak.
PARTS = {"digits": digits, "svc": svc, "cost": cost, "gradient": gradient, "engines": engines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of data sets (default: MERGESVM_DATA, else OpenML)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="few rows, as a smoke test")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=1500.0, help="seconds after which SVC is stopped")
    parser.add_argument("--peer-timeout", type=float, default=300.0, help="seconds after which ThunderSVM is stopped")
    options = parser.parse_args()
    console.print(describe(THREADS), highlight=False)
    warm_memory(0.5 if options.quick else 4.0)
    PICTURES.mkdir(exist_ok=True)
    generator = np.random.default_rng(0)
    X = generator.normal(size=(3000, 5))
    for rows in (500, 3000):  # compile for float64 (few rows) and float32
        ms.ParallelKernelSVC(n_jobs=THREADS).fit(X[:rows], X[:rows, 0] > X[:rows, 1] ** 2)
    where = datasets.folder(options.data)
    for name in options.only:
        PARTS[name](where, options)


if __name__ == "__main__":
    main()
