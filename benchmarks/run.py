"""MergeSVC beside other linear classifiers and the limit of the machine: ``make bench``.

Contenders run in turn, several times; each run learns and solves.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse
from sklearn.linear_model import RidgeClassifier, SGDClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

import mergesvm as ms
from datasets import a9a, five_million, folder, mnist
from machine import PeakMemory, describe, read_rate, syrk_rate, time_in_turn, warm_memory, within

warnings.simplefilter("ignore")
THREADS = 2
console = Console(width=118)


class IncrementalRidge:
    """IncrementalRidge of scikit-learn-intelex as a classifier: targets -1 and +1, one column per class."""

    def __init__(self, y, kind=np.float64):
        self.classes = np.unique(y)
        one_column = len(self.classes) == 2
        targets = np.where(y == self.classes[1], 1, -1) if one_column else np.where(y[:, None] == self.classes, 1, -1)
        self.targets = targets.astype(kind)  # not part of the time

    def fit(self, X, _):
        from sklearnex.linear_model import IncrementalRidge as Peer

        self.ridge = Peer(alpha=1.0).fit(X, self.targets)
        self.ridge.coef_  # noqa: B018 solved on first access
        return self

    def predict(self, X):
        scores = self.ridge.predict(X.toarray() if sparse.issparse(X) else X)
        return self.classes[(scores > 0).astype(int)] if len(self.classes) == 2 else self.classes[scores.argmax(axis=1)]


def compare(title, mine, closed_form, others, X, y, test, truth, limit, repeats, timeout, dense=None):
    """Print a table of all contenders on the same rows; ``limit`` is the time that the machine needs at least."""
    fitted = {}

    def runner(name, machine, rows):
        def run():
            fitted[name] = machine.fit(rows, y)

        return run

    rows = {name: (dense if dense is not None and name == "IncrementalRidge" else X) for name in closed_form | others}
    contenders = {name: runner(name, machine, data) for name, (machine, data) in mine.items()}
    contenders |= {name: runner(name, machine, rows[name]) for name, machine in (closed_form | others).items()}
    times = time_in_turn(contenders, repeats)
    svc = within(timeout, lambda: (LinearSVC(dual=False).fit(X, y).predict(test) == truth).mean())

    peers = {name: min(times[name]) for name in closed_form | others}
    fastest_closed = min(min(times[name]) for name in closed_form)
    table = Table(
        "", "best s", "median s", "accuracy", "x fastest peer", "x closed form", "fraction of limit", title=title
    )
    for name in contenders:
        best = min(times[name])
        data = mine[name][1] if name in mine else None
        rows_to_test = test if data is None else test_like(data, test)
        accuracy = (fitted[name].predict(rows_to_test) == truth).mean()
        ours = name in mine
        table.add_row(
            f"[bold]{name}[/]" if ours else name,
            f"{best:.4f}",
            f"{statistics.median(times[name]):.4f}",
            f"{accuracy:.2%}",
            f"{min(peers.values()) / best:.1f}" if ours else "",
            f"{fastest_closed / best:.1f}" if ours else "",
            f"{limit[name] / best:.0%}" if ours and name in limit else "",
        )
    table.add_row(
        "LinearSVC(dual=False)",
        f"> {timeout:.0f}" if svc is None else f"{svc[0]:.2f}",
        "",
        "" if svc is None else f"{svc[1]:.2%}",
    )
    console.print(table)


def test_like(data, test):
    """Test rows scaled as the training rows: pixels from 0 to 255, or from 0 to 1."""
    return np.round(test * 255).astype(np.uint8) if data.dtype == np.uint8 else test.astype(data.dtype)


def narrow(repeats, timeout):
    X, y, test, truth = five_million()
    compare(
        "5,000,000 x 28 float64, 2 classes",
        {"MergeSVC": (ms.MergeSVC(n_jobs=THREADS), X)},
        {"IncrementalRidge": IncrementalRidge(y), "RidgeClassifier": RidgeClassifier(solver="cholesky")},
        {"SGD, one epoch": SGDClassifier(max_iter=1, tol=None)},
        X,
        y,
        test,
        truth,
        {"MergeSVC": X.nbytes / read_rate(THREADS)},
        repeats,
        timeout,
    )
    console.print("limit: reading the rows from memory once\n")


def pixels(where, repeats, timeout):
    X8, y, test8, truth = mnist(where)
    work = len(X8) * X8.shape[1] ** 2
    for kind in (np.float64, np.float32):
        X, test = (X8 / 255).astype(kind), (test8 / 255).astype(kind)
        seconds = work / syrk_rate(kind, THREADS)
        mine = {"MergeSVC": (ms.MergeSVC(n_jobs=THREADS), X)}
        if kind is np.float32:
            mine = {"MergeSVC float32": (ms.MergeSVC(precision="float32", n_jobs=THREADS), X)}
            mine["MergeSVC uint8"] = (ms.MergeSVC(n_jobs=THREADS), X8)
        compare(
            f"MNIST 60,000 x 784 {kind.__name__}, 10 classes, one-vs-rest",
            mine,
            {"IncrementalRidge": IncrementalRidge(y, kind), "RidgeClassifier": RidgeClassifier(solver="cholesky")},
            {"SGD, one epoch": SGDClassifier(max_iter=1, tol=None)},
            X,
            y,
            test,
            truth,
            dict.fromkeys(mine, seconds),
            repeats,
            timeout,
        )
        console.print(f"limit: X'X at the measured syrk rate, {work / seconds / 1e9:.0f} Gflop/s {kind.__name__}\n")
    one_vs_one(X8, y, test8, truth, repeats)


def one_vs_one(X8, y, test8, truth, repeats):
    X, test = X8 / 255, test8 / 255
    k = ms.learn(X, y, n_jobs=THREADS)
    steps = {
        "learn": lambda: ms.learn(X, y, n_jobs=THREADS),
        "solve one-vs-one": lambda: ms.solve(k, C=0.1, multiclass="ovo", n_jobs=THREADS),
        "solve one-vs-rest": lambda: ms.solve(k, C=0.1, n_jobs=THREADS),
        "solve one-vs-rest, balanced": lambda: ms.solve(k, C=0.1, class_weight="balanced", n_jobs=THREADS),
    }
    times = time_in_turn(steps, repeats)
    accuracy = {
        "solve one-vs-one": steps["solve one-vs-one"](),
        "solve one-vs-rest": steps["solve one-vs-rest"](),
        "solve one-vs-rest, balanced": steps["solve one-vs-rest, balanced"](),
    }
    table = Table("", "best s", "x learning", "accuracy", title="MNIST float64, from the same knowledge")
    for name, values in times.items():
        shown = f"{(accuracy[name].predict(test) == truth).mean():.2%}" if name in accuracy else ""
        table.add_row(name, f"{min(values):.3f}", f"{min(values) / min(times['learn']):.2f}", shown)
    console.print(table)
    exact, single = ms.solve(k), ms.solve(ms.learn(X.astype(np.float32), y, precision="float32"))
    rounded = ms.solve(ms.learn(X.astype(np.float32), y))
    change = [np.abs(m.coef_ - exact.coef_).max() / np.abs(exact.coef_).max() for m in (rounded, single)]
    console.print(
        f"largest relative change of the coefficients: {change[0]:.0e} by float32 input alone, "
        f"{change[1]:.0e} with float32 products\n"
    )


def sparse_rows(where, repeats, timeout):
    X, y, test, truth = a9a(where)
    compare(
        f"a9a {X.shape[0]:,} x {X.shape[1]} sparse, 2 classes",
        {"MergeSVC": (ms.MergeSVC(n_jobs=THREADS), X)},
        {"IncrementalRidge": IncrementalRidge(y), "RidgeClassifier": RidgeClassifier(solver="sparse_cg")},
        {"SGD, one epoch": SGDClassifier(max_iter=1, tol=None)},
        X,
        y,
        test,
        truth,
        {},
        max(20, repeats),
        timeout,
        dense=X.toarray(),
    )
    console.print("IncrementalRidge gets dense rows; RidgeClassifier uses sparse_cg.\n")


def slices(repeats):
    """Time of the thousandth call of partial_fit relative to the second."""
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(2_000, 100)), generator.integers(0, 5, 2_000)
    early, late = [], []
    for _ in range(repeats):
        machine = ms.MergeSVC(n_jobs=THREADS)
        for number in range(1, 1_041):
            start = time.perf_counter()
            machine.partial_fit(X, y)
            took = time.perf_counter() - start
            if 1 < number <= 41:
                early.append(took)
            elif number > 1_000:
                late.append(took)
    ratio = statistics.median(late) / statistics.median(early)
    console.print(
        f"partial_fit of 2,000 x 100 rows: {1e3 * statistics.median(early):.2f} ms at the start, "
        f"{1e3 * statistics.median(late):.2f} ms after 1,000 calls: ratio {ratio:.2f}\n"
    )


MEMORY_CASES = ("5,000,000 x 28 float64", "MNIST uint8", "MNIST float64", "MNIST float64, pooled")


def memory(where):
    """Peak memory of each case, in its own process, which has no freed memory to reuse."""
    table = Table("", "input MB", "knowledge MB", "peak above input MB", title="Resident memory of learning")
    for case in MEMORY_CASES:
        command = [sys.executable, __file__, "--memory-of", case] + (["--data", str(where)] if where else [])
        table.add_row(case, *subprocess.check_output(command, text=True).split())
    console.print(table)
    console.print("The peak includes the knowledge.\n")


def memory_of(case, where):
    if case.startswith("MNIST"):
        X, y, _, _ = mnist(where)
        X = X / 255 if "float64" in case else X
    else:
        X, y, _, _ = five_million()
    arguments = {"n_jobs": THREADS, "per_class": "pooled" not in case}
    ms.learn(X[:2_000], y[:2_000], **arguments)
    with PeakMemory() as peak:
        k = ms.learn(X, y, **arguments)
    print(f"{X.nbytes / 1e6:.0f} {k.nbytes / 1e6:.0f} {peak.bytes / 1e6:.0f}")


def start_up(repeats):
    """Time of the import, of the first fit in a new process, and of loading compiled functions."""

    def seconds(script):
        return min(float(subprocess.check_output([sys.executable, "-c", script])) for _ in range(repeats))

    clock = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
    peer = seconds(clock.format("import sklearn.linear_model"))
    mine = seconds(clock.format("import mergesvm"))
    iris = "from sklearn.datasets import load_iris; X, y = load_iris(return_X_y=True); import mergesvm as ms; "
    fit = seconds(iris + clock.format("ms.MergeSVC().fit(X, y)"))
    load = seconds(iris + clock.format("ms.precompile(); ms.learn(X, y)"))
    console.print(
        f"import mergesvm {mine:.2f} s, {mine / peer:.2f} x import sklearn.linear_model; "
        f"first fit of iris {fit:.3f} s; loading compiled functions {load:.2f} s\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of data sets (default: MERGESVM_DATA, else OpenML)")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--timeout", type=float, default=90, help="seconds after which LinearSVC is stopped")
    parser.add_argument("--only", nargs="*", help="narrow pixels sparse slices memory start", default=None)
    parser.add_argument("--memory-of", choices=MEMORY_CASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    where = folder(arguments.data)
    if arguments.memory_of:
        ms.precompile()
        memory_of(arguments.memory_of, where)
        return
    parts = {
        "narrow": lambda: narrow(arguments.repeats, arguments.timeout),
        "pixels": lambda: pixels(where, arguments.repeats, arguments.timeout),
        "sparse": lambda: sparse_rows(where, arguments.repeats, arguments.timeout),
        "slices": lambda: slices(3),
        "memory": lambda: memory(where),
        "start": lambda: start_up(5),
    }
    console.print(describe(THREADS), highlight=False)
    warm_memory()
    ms.precompile()
    generator = np.random.default_rng(0)
    ms.learn(generator.normal(size=(1000, 3)), np.arange(1000) % 2)  # compile, or load from the cache
    ms.learn(sparse.random_array((1000, 30), density=0.05, random_state=generator), np.arange(1000) % 2)
    with threadpool_limits(THREADS):
        for name, run in parts.items():
            if not arguments.only or name in arguments.only:
                run()


if __name__ == "__main__":
    main()
