"""ParallelKernelSVC beside LIBSVM and ThunderSVM, and its cost by rows and by units: ``make bench-kernel``.

MPI ranks run the same file: mpiexec -n 2 python benchmarks/kernel.py --ranks FOLDER
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

THREADS = 2
PIXEL_GAMMA = 0.02
"""For pixels from 0 to 1; divided by 255^2 for pixels from 0 to 255."""

UNITS = (1, 2, 4, 8, 16)
PICTURES = Path(__file__).parent.parent / "docs" / "pictures"

# One thread per worker, because there are no fewer workers than cores.
SETTINGS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

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


def table(title: str, *columns: str) -> Table:
    shown = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        shown.add_column(column, justify="right" if index else "left")
    return shown


def plain_ticks(axis: Any) -> None:
    """Plain numbers instead of powers on a logarithmic axis."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.15g}"))
    axis.set_minor_locator(NullLocator())


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


def pixels(where: Path | None) -> tuple[Any, Any, Any, Any]:
    X, y, test, truth = datasets.mnist(where)
    return X / np.float32(255), y, test / np.float32(255), truth


def three_or_eight(where: Path | None, C: float = 1.0) -> Problem:
    X, y, test, truth = pixels(where)
    kept, tested = np.isin(y, (3, 8)), np.isin(truth, (3, 8))
    return Problem("MNIST 3-vs-8", X[kept], y[kept], test[tested], truth[tested], PIXEL_GAMMA, C)


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


def cost(where: Path | None, options: argparse.Namespace) -> None:
    by_rows(where, options)
    by_units(where, options)


def by_rows(where: Path | None, options: argparse.Namespace) -> None:
    """Even against odd digits: cost by the number of rows."""
    X, y, test, truth = pixels(where)
    sizes = (1000, 2000, 4000) if options.quick else (5000, 10_000, 20_000, 40_000, 60_000)
    tests = 1000 if options.quick else 10_000
    whole = Problem("MNIST, even against odd", X, y % 2, test, truth % 2, PIXEL_GAMMA, 10.0)
    columns = ("rows", "s", "growth", "iterations", "total MB", "support vectors", "accuracy %")
    shown = table(f"{whole.name}, gamma {whole.gamma:g}, C {whole.C:g}: cost by rows", *columns)
    times, points = [], []
    for size in sizes:
        problem = whole.first(size, tests)
        runs = [
            seconds(lambda problem=problem: problem.ours().fit(problem.X, problem.y)) for _ in range(options.repeats)
        ]
        times.append(min(taken for taken, _ in runs))
        machine = runs[-1][1]
        # Exponent p of time ~ rows^p since the previous line.
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
    """Plot seconds, iterations, traffic and accuracy by rows or units, with the traffic of sending all rows."""
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
    names = ("seconds", "iterations", "MB to and from all units", "accuracy, %")
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
    """Cost and traffic by the number of units; traffic is relative to sending all rows to all units once."""
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
    columns = ("method", "units", "pixels", "s", "iterations", "total MB", "MB sent", "/ all rows", "vectors", "acc. %")
    shown = table(f"{problem.title}: cost by units", *columns)
    curves: dict[str, list[tuple[float, ...]]] = {f"{kind} pixels": [] for kind in kinds}

    def run(name: str, kind: str, units: int, **parameters: Any) -> tuple[float, ...]:
        given, runs = kinds[kind], []
        for _ in range(options.repeats):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ms.errors.SolverWarning)
                runs.append(seconds(lambda: given.ours(units=units, **parameters).fit(given.X, given.y)))
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
            curves[f"{kind} pixels"].append(run("working-set", kind, units))
        for limit in (100, 300):
            run(f"active-set, at most {limit}", kind, 4, method="active-set", max_support_vectors=limit)
    console.print(shown)
    everything = {
        f"{kind}, all rows to all units": [given.X.nbytes * units / 1e6 for units in UNITS]
        for kind, given in kinds.items()
    }
    draw("kernel-units.png", f"{problem.title}; {THREADS} threads in all", "units", UNITS, curves, everything)


def gradient(where: Path | None, options: argparse.Namespace) -> None:
    """Convergence of the gradient method of the paper: the factor of F* - F per iteration."""
    problem = three_or_eight(where).first(300 if options.quick else 1000, 500)
    n_iter = 2000 if options.quick else 20_000
    parameters = {"beta": 1.0, "units": 4, "precision": "float64"}
    optimum = problem.ours(tol=1e-8, **parameters).fit(problem.X, problem.y).objective_
    columns = ("", "iterations", "final (F* - F) / F*", "factor per iteration", "iterations per digit", "s")
    shown = table(f"{problem.title}, beta 1, 4 units: F* = {optimum:.6f}", *columns)
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, accelerated in (("plain", False), ("accelerated", True)):
        machine = problem.ours(method="gradient", accelerated=accelerated, max_iter=n_iter, tol=1e-9, **parameters)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ms.errors.SolverWarning)
            taken, machine = seconds(lambda machine=machine: machine.fit(problem.X, problem.y))
        left = 1 - np.array(machine._result.history) / optimum
        # F* itself is known only to this accuracy.
        known = np.flatnonzero(left < 1e-12)
        left = left[: known[0]] if len(known) else left
        half = np.arange(len(left) // 2, len(left))
        factor = float(np.exp(np.polyfit(half, np.log(left[half]), 1)[0]))
        axes.semilogy(np.arange(1, len(left) + 1), left, label=f"{name}: x {factor:.4f} per iteration")
        digit = f"{-1 / np.log10(factor):,.0f}" if factor < 1 else ""
        shown.add_row(name, f"{len(left):,}", f"{left[-1]:.1e}", f"{factor:.5f}", digit, f"{taken:.2f}")
    console.print(shown)
    axes.set(
        title=f"Projected gradient on {problem.X.shape[0]:,} rows of {problem.name}, 4 units, beta 1",
        xlabel="iteration",
        ylabel="(F* - F) / F*",
    )
    axes.legend(frameon=False)
    figure.savefig(PICTURES / "kernel-gradient.png", dpi=90)


def engines(where: Path | None, options: argparse.Namespace) -> None:
    """The same problem on threads, MPI and Dask."""
    problem = three_or_eight(where)
    if options.quick:
        problem = problem.first(2000, 500)
    shown = table(problem.title, "", "best s", "F", "F / F of threads - 1", "engine MB", "messages", "accuracy %")
    base = None
    for name, measure, workers in (
        ("threads, 1 unit", None, 1),
        ("threads, 4 units", None, 4),
        ("MPI, 2 ranks", by_mpi, 2),
        ("MPI, 4 ranks", by_mpi, 4),
        ("Dask, 2 workers", by_dask, 2),
    ):
        found = (measure or by_threads)(problem, workers, options.repeats)
        base = base or found
        off = found["objective"] / base["objective"] - 1
        sent = (f"{found['bytes'] / 1e6:.2f}", f"{found['messages']:,}") if measure else ("", "")
        difference = "" if found is base else f"{off:+.1e}"
        shown.add_row(
            name,
            f"{min(found['times']):.3f}",
            f"{found['objective']:.4f}",
            difference,
            *sent,
            f"{found['accuracy']:.2f}",
        )
    console.print(shown)


def repeated(problem: Problem, repeats: int, machine: Callable[[], ms.ParallelKernelSVC], engine: Any = None) -> Any:
    """Train once to warm up, then several times; traffic is that of the last run."""
    times = []
    for _ in range(repeats + 1):
        before = engine.traffic if engine is not None else None
        taken, fitted = seconds(lambda: machine().fit(problem.X, problem.y))
        times.append(taken)
    found = {"times": times[1:], "bytes": 0, "messages": 0}
    if engine is not None:
        after = engine.traffic
        found |= {"bytes": after.total - before.total, "messages": after.messages - before.messages}
    outcome = evaluated(fitted, problem, Outcome())
    return {**found, "objective": outcome.objective, "accuracy": 100 * outcome.accuracy}


def by_threads(problem: Problem, units: int, repeats: int) -> Any:
    return repeated(problem, repeats, lambda: problem.ours(units=units))


def by_dask(problem: Problem, workers: int, repeats: int) -> Any:
    import dask
    import distributed  # noqa: F401 - declares the settings that are changed here

    settings = {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in SETTINGS.items()}
    with dask.config.set(settings), ms.engines.Dask(workers=workers) as engine:
        return repeated(problem, repeats, lambda: problem.ours(engine=engine, n_jobs=None), engine)


def by_mpi(problem: Problem, ranks: int, repeats: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("X", "y", "test", "truth"):
            np.save(Path(folder) / f"{name}.npy", getattr(problem, name))
        mpiexec = Path(sys.executable).parent / "mpiexec"
        command = [mpiexec, "-n", str(ranks), sys.executable, __file__, "--ranks", folder, "--repeats", str(repeats)]
        command += ["--parameters", json.dumps([problem.gamma, problem.C])]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **SETTINGS})
        return json.loads(done.stdout.splitlines()[-1])


def rank(folder: Path, parameters: list[float], repeats: int) -> None:
    """Train on this rank's part of the rows, together with the other ranks."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    loaded = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("X", "y", "test", "truth")}
    mine = slice(len(loaded["y"]) * comm.rank // comm.size, len(loaded["y"]) * (comm.rank + 1) // comm.size)
    X, y = np.array(loaded["X"][mine]), np.array(loaded["y"][mine])
    problem = Problem("", X, y, np.array(loaded["test"]), np.array(loaded["truth"]), *parameters)
    engine = ms.engines.MPI(comm)

    def machine() -> ms.ParallelKernelSVC:
        comm.Barrier()
        return problem.ours(engine=engine, n_jobs=1)

    found = repeated(problem, repeats, machine, engine)
    if comm.rank == 0:
        print(json.dumps(found))


# First, because memory freed by other parts would lower its peak.
PARTS = {"digits": digits, "svc": svc, "cost": cost, "gradient": gradient, "engines": engines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of data sets (default: MERGESVM_DATA, else OpenML)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="few rows, as a smoke test")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=1500.0, help="seconds after which SVC is stopped")
    parser.add_argument("--peer-timeout", type=float, default=300.0, help="seconds after which ThunderSVM is stopped")
    parser.add_argument("--ranks", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--parameters", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ranks:
        rank(options.ranks, options.parameters, options.repeats)
        return
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
