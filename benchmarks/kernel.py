"""Kernel machines beside their peers and the machine's limit, and what units cost: ``make bench-kernel``.

Ranks of MPI run the same file: mpiexec -n 2 python benchmarks/kernel.py --ranks FOLDER
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from rich.console import Console
from rich.table import Table
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import datasets
import mergesvm as ms
from machine import PeakMemory, describe, gemm_rate, warm_memory, within
from targets import Targets

THREADS = 2
PIXEL_GAMMA = 0.02
"""Of pixels from 0 to 1; that of pixels from 0 to 255 is this over 255^2."""

UNITS = (1, 2, 4, 8, 16)
PICTURES = Path(__file__).parent.parent / "docs" / "pictures"

# One thread a worker, as there are at least as many workers as cores.
SETTINGS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

console = Console(width=118)
targets = Targets()


@dataclass
class Problem:
    """Rows, and the machine to be trained on them."""

    name: str
    X: Any
    y: Any
    test: Any
    truth: Any
    gamma: float
    C: float
    wanted: float | None = None
    """How many times faster than SVC to be."""

    def first(self, rows: int, tests: int) -> Problem:
        less = {name: getattr(self, name)[:rows] for name in ("X", "y")}
        return replace(self, **less, test=self.test[:tests], truth=self.truth[:tests])

    def ours(self, **terms: Any) -> ms.ParallelKernelSVC:
        return ms.ParallelKernelSVC(**{"gamma": self.gamma, "C": self.C, "n_jobs": THREADS, **terms})

    @property
    def label(self) -> str:
        return f"{self.name}, C {self.C:g}"

    @property
    def title(self) -> str:
        classes = len(np.unique(self.y))
        return (
            f"{self.name}, {self.X.shape[0]:,} x {self.X.shape[1]}, {classes} classes, "
            f"gamma {self.gamma:.3g}, C {self.C:g}"
        )


@dataclass
class Outcome:
    """What a contender came to."""

    times: list[float] = field(default_factory=list)
    objective: float = np.nan
    support: int = 0
    accuracy: float = np.nan

    @property
    def best(self) -> float:
        return min(self.times)


def table(title: str, *columns: str) -> Table:
    shown = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        shown.add_column(column, justify="right" if index else "left")
    return shown


def plain_ticks(axis: Any) -> None:
    """Numbers as people write them, on an axis of logarithms."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.15g}"))
    axis.set_minor_locator(NullLocator())


def seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    time.sleep(0.15)  # threads of the one before may still be spinning
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def objective(vectors: Any, counts: Any, coefs: Any, gamma: float, block: int = 2000) -> float:
    """F = sum(alpha) - alpha' Q alpha / 2 of all pairs of classes together, in float64, whoever trained.

    ``coefs`` (classes - 1, vectors) are laid out as those of LIBSVM: y alpha against each of the other classes in turn.
    """
    vectors = vectors.astype(np.float64)
    coefs = coefs if isinstance(coefs, np.ndarray) else coefs.toarray()  # those of sparse rows may be sparse
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


def concluded(machine: Any, problem: Problem, outcome: Outcome) -> Outcome:
    vectors, counts = machine.support_vectors_, machine.n_support_
    outcome.objective = objective(vectors, counts, machine.dual_coef_, problem.gamma)
    outcome.support = int(np.sum(counts))
    outcome.accuracy = float(np.mean(machine.predict(problem.test) == problem.truth))
    return outcome


def clock() -> Any:
    """Where a process notes how long training took, so that it is known even if patience ends in what comes after."""
    return multiprocessing.get_context("fork").Value("d", 0.0)


def thunder(problem: Problem, spent: Any) -> Outcome | str:
    """Train by ThunderSVM, and note the seconds.

    It is loaded only here, in a process of its own: its OpenMP does not survive a fork.
    """
    try:
        import thundersvm

        # The package of 2019 reads labels of sparse rows wrongly, and numbers columns from 1 in its support vectors.
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
    except Exception as error:  # noqa: BLE001 - a peer that fails is reported, and the others go on
        return f"{type(error).__name__}: {error}"


def thunder_runs(patience: float) -> bool:
    """Whether ThunderSVM is installed, and comes to an end on a few rows."""
    if find_spec("thundersvm") is None:
        console.print("thundersvm-cpu is not installed: left out")
        return False
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 5))
    problem = Problem("", X, X[:, 0] > 0, X, X[:, 0] > 0, 0.2, 1.0)
    answer = within(min(60, patience), lambda: thunder(problem, clock()))
    if answer is None or isinstance(answer[1], str):
        console.print(f"thundersvm-cpu does not run here: {answer and answer[1]}")
        return False
    console.print(f"thundersvm-cpu {version('thundersvm-cpu')}, once in a process of its own, rows dense")
    return True


def pixels(where: Path | None) -> tuple[Any, Any, Any, Any]:
    X, y, test, truth = datasets.mnist(where)
    return X / np.float32(255), y, test / np.float32(255), truth


def three_or_eight(where: Path | None, C: float = 1.0) -> Problem:
    X, y, test, truth = pixels(where)
    kept, tested = np.isin(y, (3, 8)), np.isin(truth, (3, 8))
    return Problem("MNIST 3-vs-8", X[kept], y[kept], test[tested], truth[tested], PIXEL_GAMMA, C, 7.0)


def problems(where: Path | None, quick: bool) -> list[Problem]:
    """All that SVC is compared on."""
    digits = [three_or_eight(where, C) for C in (1.0, 10.0)]
    letters = datasets.letter(where)
    X, y, test, truth = datasets.covtype(where)
    X, y, test, truth = X[:20_000], y[:20_000] == 2, test[:10_000], truth[:10_000] == 2
    scaler = StandardScaler().fit(X)
    found = [
        *digits,
        Problem("a9a", *datasets.a9a(where), 0.05, 1.0, 3.0),
        Problem("letter", *letters, 5.0, 10.0, 3.0),
        Problem("letter", *letters, 16.0, 1.0, 3.0),
        Problem("covtype, kind 2", scaler.transform(X), y, scaler.transform(test), truth, 1 / 54, 1.0),
    ]
    return [problem.first(2000, 500) for problem in found] if quick else found


def svc(where: Path | None, options: argparse.Namespace) -> None:
    """Time to the objective of LIBSVM, in turns."""
    peer = thunder_runs(options.peer_patience)
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
        for _ in range(options.rounds):
            for name, make in contenders.items():
                taken, machines[name] = seconds(lambda make=make, problem=problem: make().fit(problem.X, problem.y))
                outcomes[name].times.append(taken)
        for name, machine in machines.items():
            concluded(machine, problem, outcomes[name])
        columns = machines["ParallelKernelSVC"]._training.trainer.registry.n_shared
        flop = 2 * columns * problem.X.shape[0] * problem.X.shape[1]
        rate = gemm_rate(np.float32, THREADS, problem.X.shape[1], 1024)
        spent = clock()
        theirs = (
            within(options.peer_patience, lambda problem=problem, spent=spent: thunder(problem, spent))
            if peer
            else None
        )
        if theirs is not None and not isinstance(theirs[1], str):
            outcomes["ThunderSVM"] = theirs[1]
        elif spent.value:
            outcomes["ThunderSVM"] = Outcome([spent.value])
        compare(problem, outcomes)
        if peer and "ThunderSVM" not in outcomes:
            told = theirs[1] if theirs else f"not done after {options.peer_patience:g} s"
            console.print(f"ThunderSVM: {told}", highlight=False)
        ours = outcomes["ParallelKernelSVC"].best
        if "ThunderSVM" in outcomes or (peer and theirs is None):
            took, more = (
                (outcomes["ThunderSVM"].best, "") if "ThunderSVM" in outcomes else (options.peer_patience, "> ")
            )
            targets.add(f"{problem.label}: x ThunderSVM", f"{more}{took / ours:.2f}x", took > ours, "> 1.00x")
        console.print(
            f"limit: {columns:,} columns of the kernel, {flop / 1e9:.3g} Gflop at the measured sgemm rate of "
            f"{rate / 1e9:.0f} Gflop/s, {flop / rate:.3f} s: {flop / rate / ours:.0%} of the time taken\n",
            highlight=False,
        )


def compare(problem: Problem, outcomes: dict[str, Outcome]) -> None:
    base, ours, apart = (outcomes[name] for name in ("SVC", "ParallelKernelSVC", "ParallelKernelSVC, 4 units"))
    shown = table(problem.title, "", "best s", "SVC / this", "F", "F / SVC's - 1", "support vectors", "accuracy %")
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
    if problem.wanted is not None:
        targets.at_least(f"{problem.label}: x SVC", base.best / ours.best, problem.wanted)
    targets.at_most(f"{problem.label}: 4 units / 1 unit", apart.best / ours.best, 1.5)
    off = max(abs(outcome.objective / base.objective - 1) for outcome in (ours, apart))
    targets.at_most(f"{problem.label}: F off by", off, 1e-3, "{:.0e}")
    error = 100 * (base.accuracy * (1 - base.accuracy) / problem.test.shape[0]) ** 0.5
    better = 100 * (min(ours.accuracy, apart.accuracy) - base.accuracy)
    targets.at_least(f"{problem.label}: points above SVC, to a standard error", better, -error, "{:+.2f}")


def digits(where: Path | None, options: argparse.Namespace) -> None:
    """All ten digits, once; SVC in a process of its own, as long as there is patience."""
    X, y, test, truth = pixels(where)
    problem = Problem("MNIST, all digits", X, y, test, truth, PIXEL_GAMMA, 10.0)
    if options.quick:
        problem = problem.first(4000, 1000)
    shown = table(problem.title, "", "s", "SVC / this", "support vectors", "accuracy %", "peak MB above the rows")
    with PeakMemory() as memory:
        taken, machine = seconds(lambda: problem.ours().fit(problem.X, problem.y))
    score = 100 * float(np.mean(machine.predict(problem.test) == problem.truth))

    noted = clock()

    def peer() -> tuple[int, float]:
        theirs = SVC(gamma=problem.gamma, C=problem.C, cache_size=2000)
        noted.value, _ = seconds(lambda: theirs.fit(problem.X, problem.y))
        return len(theirs.support_), 100 * float(np.mean(theirs.predict(problem.test) == problem.truth))

    answer = within(options.patience, peer)
    spent, more = (noted.value, "") if noted.value else (options.patience, "> ")
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
    console.print(
        f"{machine.n_iter_} rounds; the rows themselves are {problem.X.nbytes / 1e6:,.0f} MB\n", highlight=False
    )
    targets.at_least("All digits: accuracy", score, 98.3, "{:.2f} %")


def cost(where: Path | None, options: argparse.Namespace) -> None:
    by_rows(where, options)
    by_units(where, options)


def by_rows(where: Path | None, options: argparse.Namespace) -> None:
    """Even against odd digits: how time grows with rows."""
    X, y, test, truth = pixels(where)
    sizes = (1000, 2000, 4000) if options.quick else (5000, 10_000, 20_000, 40_000, 60_000)
    tests = 1000 if options.quick else 10_000
    whole = Problem("MNIST, even or odd", X, y % 2, test, truth % 2, PIXEL_GAMMA, 10.0)
    columns = ("rows", "s", "grows as rows", "rounds", "MB in all", "support vectors", "accuracy %")
    shown = table(f"{whole.name}, gamma {whole.gamma:g}, C {whole.C:g}: cost against rows", *columns)
    times, points = [], []
    for size in sizes:
        problem = whole.first(size, tests)
        runs = [
            seconds(lambda problem=problem: problem.ours().fit(problem.X, problem.y)) for _ in range(options.rounds)
        ]
        times.append(min(taken for taken, _ in runs))
        machine = runs[-1][1]
        # The power of the number of rows by which time has grown since the line above.
        done = len(times)
        grown = f"^{np.log(times[-1] / times[-2]) / np.log(size / sizes[done - 2]):.2f}" if done > 1 else ""
        score = 100 * float(np.mean(machine.predict(problem.test) == problem.truth))
        shown.add_row(
            f"{size:,}",
            f"{times[-1]:.2f}",
            grown,
            str(machine.n_iter_),
            f"{machine.traffic_.total / 1e6:.2f}",
            f"{int(machine.n_support_.sum()):,}",
            f"{score:.2f}",
        )
        points.append((times[-1], machine.n_iter_, machine.traffic_.total / 1e6, score))
    console.print(shown)
    everything = {"all rows": [X[0].nbytes * size / 1e6 for size in sizes]}
    draw("kernel-rows.png", f"{whole.name}, one unit, {THREADS} threads", "rows", sizes, {"1 unit": points}, everything)


def draw(
    name: str,
    title: str,
    unit: str,
    steps: Sequence[int],
    curves: dict[str, list[tuple[float, ...]]],
    everything: dict[str, list[float]],
) -> None:
    """Seconds, rounds, megabytes and accuracy against rows or units; the megabytes beside those of all rows."""
    figure = Figure(figsize=(11, 7.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, 2, sharex=True).ravel()
    for number, (label, points) in enumerate(curves.items()):
        for panel, values in zip(panels, zip(*points, strict=True), strict=True):
            panel.plot(steps, values, "o-", color=f"C{number}", label=label)
    for number, (label, values) in enumerate(everything.items()):
        panels[2].plot(steps, values, "--", color=f"C{number}", alpha=0.6, label=label)
    panels[2].set_yscale("log")
    plain_ticks(panels[2].yaxis)
    names = ("seconds", "rounds", "MB to and from all units", "accuracy, %")
    for panel, measure in zip(panels, names, strict=True):
        panel.set(title=measure, xscale="log", xlabel=unit if panel in panels[2:] else "")
        panel.set_xticks(steps, [f"{step:,}" for step in steps])
        panel.xaxis.set_minor_locator(NullLocator())
    for panel in panels[:2]:
        panel.set_ylim(0, None)
    panels[3].set_ylim(min(min(values[3] for values in points) for points in curves.values()) - 0.5, 100)
    panels[2].legend(frameon=False)
    figure.suptitle(title)
    figure.savefig(PICTURES / name, dpi=90)


def by_units(where: Path | None, options: argparse.Namespace) -> None:
    """What units cost, and what travels between them, beside sending all rows to all of them once."""
    problem = three_or_eight(where, 10.0)
    if options.quick:
        problem = problem.first(2000, 500)
    as_bytes = Problem(
        problem.name,
        np.rint(255 * problem.X).astype(np.uint8),
        problem.y,
        np.rint(255 * problem.test).astype(np.uint8),
        problem.truth,
        problem.gamma / 255**2,
        problem.C,
    )
    kinds = {"float32": problem, "uint8": as_bytes}
    columns = ("method", "units", "pixels", "s", "rounds", "MB in all", "MB sent", "/ all rows", "vectors", "acc. %")
    shown = table(f"{problem.title}: cost against units", *columns)
    drawn: dict[str, list[tuple[float, ...]]] = {f"{kind} pixels": [] for kind in kinds}

    def run(name: str, kind: str, units: int, **terms: Any) -> tuple[float, ...]:
        given, runs = kinds[kind], []
        for _ in range(options.rounds):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ms.errors.SolverWarning)
                runs.append(seconds(lambda: given.ours(units=units, **terms).fit(given.X, given.y)))
        machine, taken = runs[-1][1], min(taken for taken, _ in runs)
        traffic, everything = machine.traffic_, given.X.nbytes * units
        score = 100 * float(np.mean(machine.predict(given.test) == given.truth))
        shown.add_row(
            name,
            str(units),
            kind,
            f"{taken:.2f}",
            f"{machine.n_iter_:,}",
            f"{traffic.total / 1e6:.2f}",
            f"{traffic.sent.sum() / 1e6:.2f}",
            f"{traffic.total / everything:.3f}",
            f"{int(machine.n_support_.sum()):,}",
            f"{score:.2f}",
        )
        return taken, machine.n_iter_, traffic.total / 1e6, score

    for kind in kinds:
        for units in UNITS:
            drawn[f"{kind} pixels"].append(run("working-set", kind, units))
        for most in (100, 300):
            run(f"active-set, at most {most}", kind, 4, method="active-set", max_support_vectors=most)
    console.print(shown)
    everything = {
        f"{kind}, all rows to all units": [given.X.nbytes * units / 1e6 for units in UNITS]
        for kind, given in kinds.items()
    }
    draw("kernel-units.png", f"{problem.title}; {THREADS} threads in all", "units", UNITS, drawn, everything)


def gradient(where: Path | None, options: argparse.Namespace) -> None:
    """The gradient method of the paper: the distance to the optimum falls by a factor each round."""
    problem = three_or_eight(where).first(300 if options.quick else 1000, 500)
    rounds = 2000 if options.quick else 20_000
    terms = {"beta": 1.0, "units": 4, "precision": "float64"}
    optimum = problem.ours(tol=1e-8, **terms).fit(problem.X, problem.y).objective_
    columns = ("", "rounds", "F* - F at the end, / F*", "factor a round", "rounds for a digit", "s")
    shown = table(f"{problem.title}, beta 1, 4 units: F* = {optimum:.6f}", *columns)
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, accelerated in (("plain", False), ("accelerated", True)):
        machine = problem.ours(method="gradient", accelerated=accelerated, max_iter=rounds, tol=1e-9, **terms)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ms.errors.SolverWarning)
            taken, machine = seconds(lambda machine=machine: machine.fit(problem.X, problem.y))
        left = 1 - np.array(machine._training.result.history) / optimum
        # Below this, F* itself is not known: what is left there is rounding.
        known = np.flatnonzero(left < 1e-12)
        left = left[: known[0]] if len(known) else left
        half = np.arange(len(left) // 2, len(left))
        factor = float(np.exp(np.polyfit(half, np.log(left[half]), 1)[0]))
        axes.semilogy(np.arange(1, len(left) + 1), left, label=f"{name}: x {factor:.4f} a round")
        digit = f"{-1 / np.log10(factor):,.0f}" if factor < 1 else ""
        shown.add_row(name, f"{len(left):,}", f"{left[-1]:.1e}", f"{factor:.5f}", digit, f"{taken:.2f}")
        targets.add(f"gradient, {name}: factor a round", f"{factor:.5f}", factor < 1, "< 1")
    console.print(shown)
    axes.set(
        title=f"Projected gradient on {problem.X.shape[0]:,} rows of {problem.name}, 4 units, beta 1",
        xlabel="round",
        ylabel="(F* - F) / F*",
    )
    axes.legend(frameon=False)
    figure.savefig(PICTURES / "kernel-gradient.png", dpi=90)


def engines(where: Path | None, options: argparse.Namespace) -> None:
    """The same machine by ranks of MPI and by workers of Dask."""
    problem = three_or_eight(where)
    if options.quick:
        problem = problem.first(2000, 500)
    shown = table(problem.title, "", "best s", "F", "F / threads' - 1", "engine's MB", "messages", "accuracy %")
    base = None
    for name, measure, workers in (
        ("threads, 1 unit", None, 1),
        ("threads, 4 units", None, 4),
        ("MPI, 2 ranks", by_mpi, 2),
        ("MPI, 4 ranks", by_mpi, 4),
        ("Dask, 2 workers", by_dask, 2),
    ):
        found = (measure or by_threads)(problem, workers, options.rounds)
        base = base or found
        off = found["objective"] / base["objective"] - 1
        sent = (f"{found['bytes'] / 1e6:.2f}", f"{found['messages']:,}") if measure else ("", "")
        told = "" if found is base else f"{off:+.1e}"
        shown.add_row(
            name, f"{min(found['times']):.3f}", f"{found['objective']:.4f}", told, *sent, f"{found['accuracy']:.2f}"
        )
        if measure:
            targets.at_most(f"{name}: objective off by", abs(off), 1e-3, "{:.0e}")
    console.print(shown)


def repeated(problem: Problem, rounds: int, machine: Callable[[], ms.ParallelKernelSVC], engine: Any = None) -> Any:
    """Train once to warm up, then as often as is asked; what engines count is of the last."""
    times = []
    for _ in range(rounds + 1):
        before = engine.traffic if engine is not None else None
        taken, fitted = seconds(lambda: machine().fit(problem.X, problem.y))
        times.append(taken)
    found = {"times": times[1:], "bytes": 0, "messages": 0}
    if engine is not None:
        after = engine.traffic
        found |= {"bytes": after.total - before.total, "messages": after.messages - before.messages}
    outcome = concluded(fitted, problem, Outcome())
    return {**found, "objective": outcome.objective, "accuracy": 100 * outcome.accuracy}


def by_threads(problem: Problem, units: int, rounds: int) -> Any:
    return repeated(problem, rounds, lambda: problem.ours(units=units))


def by_dask(problem: Problem, workers: int, rounds: int) -> Any:
    import dask
    import distributed  # noqa: F401 - it brings the settings that are changed here

    settings = {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in SETTINGS.items()}
    with dask.config.set(settings), ms.engines.Dask(workers=workers) as engine:
        return repeated(problem, rounds, lambda: problem.ours(engine=engine, n_jobs=None), engine)


def by_mpi(problem: Problem, ranks: int, rounds: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("X", "y", "test", "truth"):
            np.save(Path(folder) / f"{name}.npy", getattr(problem, name))
        mpiexec = Path(sys.executable).parent / "mpiexec"
        command = [mpiexec, "-n", str(ranks), sys.executable, __file__, "--ranks", folder, "--rounds", str(rounds)]
        command += ["--terms", json.dumps([problem.gamma, problem.C])]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **SETTINGS})
        return json.loads(done.stdout.splitlines()[-1])


def rank(folder: Path, terms: list[float], rounds: int) -> None:
    """What each rank of MPI runs: it holds a share of the rows, and trains with the others."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    loaded = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("X", "y", "test", "truth")}
    mine = slice(len(loaded["y"]) * comm.rank // comm.size, len(loaded["y"]) * (comm.rank + 1) // comm.size)
    X, y = np.array(loaded["X"][mine]), np.array(loaded["y"][mine])
    problem = Problem("", X, y, np.array(loaded["test"]), np.array(loaded["truth"]), *terms)
    engine = ms.engines.MPI(comm)

    def machine() -> ms.ParallelKernelSVC:
        comm.Barrier()
        return problem.ours(engine=engine, n_jobs=1)

    found = repeated(problem, rounds, machine, engine)
    if comm.rank == 0:
        print(json.dumps(found))


# Digits come first: their peak of memory would be too low if it were filled from what others have given back.
PARTS = {"digits": digits, "svc": svc, "cost": cost, "gradient": gradient, "engines": engines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="the folder of the data sets, else MERGESVM_DATA, else OpenML")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="few rows, to see that all of it runs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--patience", type=float, default=1500.0, help="seconds for SVC on all digits")
    parser.add_argument("--peer-patience", type=float, default=300.0, help="seconds for each training by ThunderSVM")
    parser.add_argument("--ranks", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--terms", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ranks:
        rank(options.ranks, options.terms, options.rounds)
        return
    console.print(describe(THREADS), highlight=False)
    warm_memory(0.5 if options.quick else 4.0)
    PICTURES.mkdir(exist_ok=True)
    generator = np.random.default_rng(0)
    X = generator.normal(size=(3000, 5))
    for rows in (500, 3000):  # few rows are trained in float64, more in float32: both are compiled once
        ms.ParallelKernelSVC(n_jobs=THREADS).fit(X[:rows], X[:rows, 0] > X[:rows, 1] ** 2)
    where = datasets.folder(options.data)
    if options.quick:
        console.print("Few rows, to see that all of it runs: targets are meant for all rows", highlight=False)
    for name in options.only:
        PARTS[name](where, options)
    targets.show(console)


if __name__ == "__main__":
    main()
