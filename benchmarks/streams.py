"""RecursiveSVC: accuracy of the coefficients, and speed beside river and BLAS: ``make bench-streams``.

Also draws the picture of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from scipy.linalg import blas

import datasets
import mergesvm as ms
from machine import describe, warm_memory
from mergesvm.data.batch import Batch
from mergesvm.engines import Threads
from mergesvm.methods.recursive.options import RecursiveOptions
from mergesvm.methods.recursive.rls import RecursiveLeastSquares
from tables import table

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
NO_PREDICTIONS = np.empty(0, dtype=np.int64)

console = Console(width=118)


def normal_classes(n_rows, width, n_classes, seed=0):
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(n_classes, width))
    y = generator.integers(0, n_classes, n_rows)
    return centres[y] + 2 * generator.normal(size=(n_rows, width)), y


def relative_error(coefs, expected):
    return float(np.abs(coefs - expected).max() / np.abs(expected).max())


def exactness():
    X, y = normal_classes(100_000, 54, 7)
    live = ms.RecursiveSVC(C=10.0).partial_fit(X[:5], y[:5])
    live.live_.predict_then_learn(Batch.of(X[5:], y[5:]))
    forwards = relative_error(live.coef_, ms.solve(ms.learn(X, y), C=10.0).coef_)
    live.forget(X[:40_000], y[:40_000])
    for index in range(40_000, 40_100):
        live.forget(X[index : index + 1], y[index : index + 1])
    forgotten = relative_error(live.coef_, ms.solve(ms.learn(X[40_100:], y[40_100:]), C=10.0).coef_)
    windowed = ms.RecursiveSVC(C=10.0, window=1000).partial_fit(X[:5], y[:5])
    windowed.live_.predict_then_learn(Batch.of(X[5:], y[5:]))
    window = relative_error(windowed.coef_, ms.solve(ms.learn(X[-1000:], y[-1000:]), C=10.0).coef_)
    shown = table("Coefficients against the closed form, 100,000 rows x 54, 7 classes", "updates", "relative error")
    for name, value in (
        ("one by one", forwards),
        ("40,000 at once and 100 one by one removed", forgotten),
        ("a window of 1,000 rows", window),
    ):
        shown.add_row(name, f"{value:.0e}")
    console.print(shown)


def drift(n_rows=1_000_000, width=54):
    """Error of the recursion over many rows, with and without checks against the sums."""
    X, y = normal_classes(n_rows, width, 3)
    curves = {}
    for name, check_every, window in (
        ("never checked", 10**12, None),
        ("checked every 10,000 rows", 10_000, None),
        ("window of 1,000, never checked", 10**12, 1000),
        ("window of 1,000, checked every 10,000 rows", 10_000, 1000),
    ):
        live = ms.RecursiveSVC(check_every=check_every, window=window).partial_fit(X[:3], y[:3]).live_
        knowledge, points, done = ms.learn(X[:3], y[:3]), [], 3
        for stop in np.unique(np.geomspace(100, n_rows, 60).astype(int)):
            if check_every > n_rows:
                live._state._checks.due = 10**12
            live.predict_then_learn(Batch.of(X[done:stop], y[done:stop]))
            knowledge = knowledge + ms.learn(X[done:stop], y[done:stop])
            truth = (
                knowledge
                if window is None
                else ms.learn(X[max(0, stop - window) : stop], y[max(0, stop - window) : stop])
            )
            coefs = live._state._rls.coefficients()[0][[live.labels.index(label) for label in truth.labels]]
            points.append((stop, relative_error(coefs, ms.solve(truth).coef_)))
            done = stop
        curves[name] = np.array(points)
    figure, axes = canvas()
    for name, points in curves.items():
        axes.loglog(points[:, 0], np.maximum(points[:, 1], 1e-17), label=name)
    axes.axhline(1e-8, color="tab:red", linestyle="--", label="1e-8")
    axes.set(
        title="Recursive coefficients against the closed form", xlabel="rows", ylabel="largest relative difference"
    )
    axes.legend()
    figure.savefig(PICTURES / "drift.png", dpi=90)
    shown = table(f"Drift over {n_rows:,} rows x {width}, measured before repairs", "checks", "largest", "last")
    for name, points in curves.items():
        shown.add_row(name, f"{points[:, 1].max():.0e}", f"{points[-1, 1]:.0e}")
    console.print(shown)


def canvas():
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def plain_rows(X, targets_, C=1.0):
    """Equations 7 to 9 of the paper in numpy."""
    inverse, w = C * np.eye(X.shape[1]), np.zeros(X.shape[1])
    for x, target in zip(X, targets_, strict=True):
        s = inverse @ x
        inverse -= np.outer(s, s) / (1 + x @ s)
        w += inverse @ x * (target - x @ w)
    return w


def per_second(contenders, repeats=5):
    """Rows per second, the best of several runs in turn. A contender is a number of rows and a function."""
    best = dict.fromkeys(contenders, 0.0)
    for _ in range(repeats):
        for name, (n_rows, prepare) in contenders.items():
            run = prepare()
            start = time.perf_counter()
            run()
            best[name] = max(best[name], n_rows / (time.perf_counter() - start))
    return best


def recursion_of(width, n_classes, X, y):
    recursion = RecursiveLeastSquares(width, RecursiveOptions())
    for _ in range(n_classes):
        recursion.add_class(1.0)
    recursion.learn_rows(X[:3], y[:3], np.ones(3), NO_PREDICTIONS)
    return recursion


def learned(X, y):
    machine = ms.RecursiveSVC().fit(X, y)
    machine.coef_  # noqa: B018
    machine.learn_one(X[0], y[0])
    return machine


def narrow_speed(where):
    from river import compose, linear_model, preprocessing
    from river.multiclass import OneVsRestClassifier

    X, y, _, _ = datasets.covtype(where)
    X = np.ascontiguousarray(X[:100_000], dtype=np.float64)
    X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1)
    binary = (y[: len(X)] == 2).astype(np.int64)
    codes = (y[: len(X)] - 1).astype(np.int64)
    names = [f"f{index}" for index in range(X.shape[1])]
    n_few = 3000
    dicts = [dict(zip(names, row, strict=True)) for row in X[:n_few].tolist()]
    labels, classes = (binary[:n_few] == 1).tolist(), codes[:n_few].tolist()

    def compiled(labels_, n_classes):
        def prepare():
            recursion = recursion_of(X.shape[1], n_classes, X, labels_)
            return lambda: recursion.learn_rows(X, labels_, np.ones(len(X)), NO_PREDICTIONS)

        return len(X), prepare

    def whole(labels_):
        def prepare():
            live = learned(X[:1000], labels_[:1000]).live_
            batch = Batch.of(X, labels_)
            return lambda: live.predict_then_learn(batch)

        return len(X), prepare

    def ours(rows, labels_):
        def prepare():
            machine = ms.RecursiveSVC().learn_one(rows[0], labels_[0])

            def run():
                for x, label in zip(rows, labels_, strict=True):
                    machine.learn_one(x, label)

            return run

        return len(rows), prepare

    def theirs(model, labels_):
        def prepare():
            pipeline = compose.Pipeline(preprocessing.StandardScaler(), model())

            def run():
                for x, label in zip(dicts, labels_, strict=True):
                    pipeline.learn_one(x, label)

            return run

        return len(dicts), prepare

    def plain():
        return lambda: plain_rows(X[:n_few], 2.0 * binary[:n_few] - 1)

    rates = per_second(
        {
            "compiled loop, 2 classes": compiled(binary, 2),
            "compiled loop, 7 classes": compiled(codes, 7),
            "predict_then_learn, 7 classes": whole(codes),
            "numpy, formulas of the paper, one target": (n_few, plain),
            "learn_one(dict), 2 classes": ours(dicts, labels),
            "learn_one(array), 2 classes": ours(list(X[:n_few]), labels),
            "learn_one(dict), 7 classes": ours(dicts, classes),
            "river, StandardScaler | LogisticRegression": theirs(linear_model.LogisticRegression, labels),
            "river, the same, one-vs-rest, 7 classes": theirs(
                lambda: OneVsRestClassifier(linear_model.LogisticRegression()), classes
            ),
        }
    )
    base = rates["numpy, formulas of the paper, one target"]
    shown = table("covtype, width 54: rows per second", "", "rows/s", "x numpy")
    for name, rate in rates.items():
        shown.add_row(name, f"{rate:,.0f}", f"{rate / base:.1f}")
    console.print(shown)


def wide_speed(where):
    X, y, _, _ = datasets.mnist(where)
    X, y = np.ascontiguousarray(X[:12_000] / 255.0), y[:12_000].astype(np.int64)
    n_rows, width = 2000, X.shape[1]

    def loop():
        recursion = recursion_of(width, 10, X, y)
        recursion.learn_rows(X[:2000], y[:2000], np.ones(2000), NO_PREDICTIONS)
        return lambda: recursion.learn_rows(
            X[2000 : 2000 + n_rows], y[2000 : 2000 + n_rows], np.ones(n_rows), NO_PREDICTIONS
        )

    def products():
        matrix, x = np.asfortranarray(np.eye(width)), X[0].copy()

        def run():
            for _ in range(n_rows):
                s = blas.dsymv(1.0, matrix, x)
                blas.dsyr(-1e-9, s, a=matrix, overwrite_a=1)

        return run

    def products_of_one_thread():
        run = products()

        def limited():
            with Threads.single_threaded_blas():
                run()

        return limited

    def one_by_one():
        machine = learned(X[:3000], y[:3000])

        def run():
            for index in range(3000, 3000 + n_rows):
                machine.partial_fit(X[index : index + 1], y[index : index + 1])

        return run

    def blocks(size, solve_each):
        def prepare():
            machine = ms.RecursiveSVC().fit(X[:3000], y[:3000])
            machine.coef_  # noqa: B018

            def run():
                for start in range(3000, 3000 + 20 * size, size):
                    machine.partial_fit(X[start : start + size], y[start : start + size])
                    if solve_each:
                        machine.coef_  # noqa: B018
                machine.coef_  # noqa: B018

            return run

        return 20 * size, prepare

    def plain():
        return lambda: plain_rows(X[:200], np.where(y[:200] == 0, 1.0, -1.0))

    rates = per_second(
        {
            "one by one, compiled loop": (n_rows, loop),
            "dsymv + dsyr, all threads": (n_rows, products),
            "dsymv + dsyr, one thread": (n_rows, products_of_one_thread),
            "one by one, partial_fit": (n_rows, one_by_one),
            "numpy, formulas of the paper, one target": (200, plain),
            "blocks of 64, coefficients after each": blocks(64, True),
            "blocks of 256, coefficients after each": blocks(256, True),
            "blocks of 256, coefficients at the end": blocks(256, False),
        },
        repeats=3,
    )
    shown = table("MNIST, width 784, 10 classes: rows per second", "", "rows/s", "x compiled loop")
    base = rates["one by one, compiled loop"]
    for name, rate in rates.items():
        shown.add_row(name, f"{rate:,.0f}", f"{rate / base:.2f}")
    console.print(shown)


def growth():
    shown = table("Time per row by problem size, compiled loop", "rows", "width", "classes", "µs per row", "growth")
    last = None
    for n_rows, width, n_classes in (
        (50_000, 64, 4),
        (200_000, 64, 4),
        (20_000, 128, 4),
        (5000, 256, 4),
        (1500, 512, 4),
        (1500, 512, 32),
    ):
        X, y = normal_classes(n_rows, width, n_classes)

        def prepare(X=X, y=y, width=width, n_classes=n_classes):
            recursion = recursion_of(width, n_classes, X, y)
            return lambda: recursion.learn_rows(X, y, np.ones(len(X)), NO_PREDICTIONS)

        rate = per_second({"": (n_rows, prepare)}, repeats=4)[""]
        shown.add_row(
            f"{n_rows:,}", str(width), str(n_classes), f"{1e6 / rate:.2f}", f"{last / rate:.2f}x" if last else ""
        )
        last = rate
    console.print(shown)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of data sets (default: MERGESVM_DATA, else OpenML)")
    parser.add_argument("--only", nargs="*", help="exactness, drift, narrow, wide, growth")
    options = parser.parse_args()
    where = datasets.folder(options.data)
    PICTURES.mkdir(exist_ok=True)
    console.print(describe(2), highlight=False)
    warm_memory()
    ms.precompile()
    for name, run in {
        "exactness": exactness,
        "drift": drift,
        "narrow": lambda: narrow_speed(where),
        "wide": lambda: wide_speed(where),
        "growth": growth,
    }.items():
        if not options.only or name in options.only:
            run()


if __name__ == "__main__":
    main()
