"""Feature maps on real data, beside those of scikit-learn and the limit of the machine: ``make bench-maps``.

Accuracies are those of the usual test rows. Times are of one run each, on all threads; learning includes freezing.
"""

from __future__ import annotations

import argparse
import gc
import time
import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

import datasets
import mergesvm as ms
from machine import describe, gemm_rate, syrk_rate, warm_memory, within
from mergesvm.features import Chain, Components, Fourier, HiddenLayer, Patches
from mergesvm.features import Nystroem as Landmarks

THREADS = 2
SUBSET = 10_000

console = Console(width=118)


@dataclass(frozen=True)
class Ours:
    """A map, and the options of solving."""

    title: str
    features: object
    C: float = 1.0
    multiclass: str = "ovo"


def patches_then_landmarks(filters: int, landmarks: int, detail: float) -> Chain:
    return Chain([Patches(filters), Landmarks(landmarks, detail=detail)])


SETS = {
    "mnist": (
        "MNIST, 60,000 rows x 784 pixels, 10 classes",
        datasets.mnist,
        [
            Ours("ReLU layer", HiddenLayer(1000, activation="relu")),
            Ours("sigmoid layer", HiddenLayer(1000, activation="sigmoid")),
            Ours("Gaussian layer", HiddenLayer(1000)),
            Ours("Gaussian layer, one-vs-rest", HiddenLayer(1000), multiclass="ovr"),
            Ours("Fourier", Fourier(1000)),
            Ours("Nystroem", Landmarks(1000)),
            Ours("constrained, rectangles", HiddenLayer(1000, weights="constrained", fields="rectangles")),
            Ours("patches", Patches(62)),
            Ours("patches, Nystroem", patches_then_landmarks(60, 1000, 0.25)),
            Ours("patches, Nystroem", patches_then_landmarks(150, 3000, 0.25), 0.3),
            Ours("patches, Nystroem", patches_then_landmarks(200, 6000, 0.25), 0.3),
        ],
    ),
    "fashion": (
        "Fashion-MNIST, 60,000 rows x 784 pixels, 10 classes",
        datasets.fashion_mnist,
        [
            Ours("Gaussian layer", HiddenLayer(1000)),
            Ours("patches", Patches(62), 0.1),
            Ours("patches, Nystroem", patches_then_landmarks(150, 3000, 0.5), 0.1),
        ],
    ),
    "emnist": (
        "EMNIST stand-in, 49,082 rows x 784 pixels, 47 classes",
        datasets.emnist,
        [
            Ours("Gaussian layer", HiddenLayer(1000)),
            Ours("patches, one-vs-rest", Patches(62), 0.1, "ovr"),
            Ours("patches", Patches(62), 0.1),
            Ours("patches, Nystroem", patches_then_landmarks(100, 1500, 0.25), 0.3),
        ],
    ),
    "covtype": (
        "covtype, 464,809 rows x 54 columns, 7 classes",
        datasets.covtype,
        [
            Ours("Fourier", Fourier(1000, detail=4.0), 10.0),
            Ours("Fourier, columns", Fourier(1000, detail=20.0, fields="columns", scaling="range"), 10.0),
            Ours("Fourier, columns", Fourier(4000, detail=20.0, fields="columns", scaling="range"), 10.0),
        ],
    ),
}

WIDER = {
    "covtype": [Ours("Fourier, columns", Fourier(8000, detail=20.0, fields="columns", scaling="range"), 10.0)],
    "mnist": [Ours("patches, Nystroem", patches_then_landmarks(250, 8000, 0.25), 0.3)],
}
"""Maps that take many minutes; only with --wide."""


def peers(X, tabular: bool):
    """Pipelines of scikit-learn, by name, each with the rows that it is fitted on."""
    first = [StandardScaler()] if tabular else []
    subset = np.random.default_rng(0).permutation(len(X))[:SUBSET]
    gamma = 1 / (2 * X[subset].astype(float).var(axis=0).sum()) if not tabular else 1 / (2 * X.shape[1])
    return {
        "Nystroem(1000) + LinearSVC": (
            make_pipeline(*first, Nystroem(n_components=1000, gamma=gamma, random_state=0), LinearSVC()),
            slice(None),
        ),
        "RBFSampler(1000) + SGDClassifier": (
            make_pipeline(*first, RBFSampler(n_components=1000, gamma=gamma, random_state=0), SGDClassifier(n_jobs=-1)),
            slice(None),
        ),
        f"SVC(rbf) on {SUBSET:,} rows": (make_pipeline(*first, SVC(C=10)), subset),
    }


def measure(name: str, timeout: float, wide: bool) -> None:
    """Print a table of all maps and pipelines on one data set."""
    title, load, ours = SETS[name]
    data = load(datasets.folder(ARGUMENTS.data))
    if data is None:
        console.print(f"{title}: not available without --data.\n")
        return
    X, y, test, truth = data
    table = Table("", "features", "C", "learn s", "solve s", "predict s", "accuracy %", "x fastest peer", title=title)
    for column in table.columns[1:]:
        column.justify = "right"
    others = {}
    if not ARGUMENTS.no_peers:
        for peer, (machine, rows) in peers(X, name == "covtype").items():
            others[peer] = within(timeout, partial(fit_and_test, machine, X[rows], y[rows], test, truth))
    whole = [answer[1][0] for peer, answer in others.items() if answer is not None and "SVC(rbf)" not in peer]
    for each in ours + (WIDER.get(name, []) if wide else []):
        answer = within(3600.0, partial(learn_and_solve, each, X, y, test, truth))
        if answer is None:
            table.add_row(each.title, "", "", "failed")
            continue
        width, learning, solving, predicting, accuracy = answer[1]
        ratio = f"{min(whole) / (learning + solving):.1f}" if whole else "-"
        scheme = "" if "one-vs" in each.title else f", one-vs-{'one' if each.multiclass == 'ovo' else 'rest'}"
        table.add_row(
            each.title + scheme,
            f"{width:,}",
            f"{each.C:g}",
            *(f"{seconds:.2f}" for seconds in (learning, solving, predicting)),
            f"{100 * accuracy:.2f}",
            ratio,
        )
    for peer, answer in others.items():
        if answer is None:
            table.add_row(peer, "", "", f"> {timeout:.0f}")
            continue
        learning, predicting, accuracy = answer[1]
        table.add_row(peer, "", "", f"{learning:.2f}", "", f"{predicting:.2f}", f"{100 * accuracy:.2f}", "")
    console.print(table)
    console.print()


def learn_and_solve(ours: Ours, X, y, test, truth):
    warnings.simplefilter("ignore")
    ms.precompile()
    began = time.perf_counter()
    knowledge = ms.learn(X, y, features=ours.features.freeze(X, y))
    learned = time.perf_counter()
    model = ms.solve(knowledge, ours.C, multiclass=ours.multiclass)
    solved = time.perf_counter()
    accuracy = model.score(test, truth)
    predicted = time.perf_counter()
    return knowledge.width, learned - began, solved - learned, predicted - solved, accuracy


def fit_and_test(machine, X, y, test, truth):
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    machine.fit(X, y)
    fitted = time.perf_counter()
    accuracy = (machine.predict(test) == truth).mean()
    return fitted - began, time.perf_counter() - fitted, accuracy


def rate(repeats: int = 3) -> None:
    """Speed of learning relative to two BLAS products, one to map rows (gemm) and one to sum them (syrk)."""
    X, y, *_ = datasets.mnist(datasets.folder(ARGUMENTS.data))
    ms.precompile()
    table = Table("features", "precision", "best s", "gemm and syrk s", "fraction", title="Learning, 60,000 x 784")
    for width in (1000, 4000):
        for precision in ("float32", "float64"):
            layer = HiddenLayer(width, activation="relu", precision=precision).freeze(X)
            seconds, limits = [], []
            for _ in range(repeats):
                gemm, syrk = gemm_rate(precision, THREADS, X.shape[1], width), syrk_rate(precision, THREADS, width)
                limits.append(len(X) * width * (2 * X.shape[1] / gemm + width / syrk))
                began = time.perf_counter()
                knowledge = ms.learn(X, y, features=layer)
                seconds.append(time.perf_counter() - began)
                del knowledge
                gc.collect()
            fraction = min(limits) / min(seconds)
            table.add_row(f"{width:,}", precision, f"{min(seconds):.2f}", f"{min(limits):.2f}", f"{fraction:.0%}")
    console.print(table)
    console.print()


PRECISION_MAPS = {
    "HiddenLayer, gaussian": partial(HiddenLayer, activation="gaussian"),
    "HiddenLayer, relu": partial(HiddenLayer, activation="relu"),
    "Fourier": Fourier,
    "Nystroem": Landmarks,
    "Components": Components,
    "Patches": lambda width, precision: Patches(width // 16, precision=precision),
    "Patches, Nystroem": lambda width, precision: Chain(
        [Patches(max(1, width // 16), precision=precision), Landmarks(width, precision=precision)]
    ),
}
PRECISION_INPUTS, PRECISION_WIDTHS = (10, 100, 784), (16, 64, 128, 256, 512, 1024)


def precision(repeats: int = 4) -> None:
    """CPU time of learning in float64, as a multiple of that in float32: least of several runs, taking turns."""
    ms.precompile()
    title = "Learning, float64 / float32, one thread"
    table = Table("map", "columns", *(f"{width:,}" for width in PRECISION_WIDTHS), title=title)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, make in PRECISION_MAPS.items():
        for inputs in PRECISION_INPUTS:
            cells = [_precision_ratio(make, inputs, width, repeats) for width in PRECISION_WIDTHS]
            console.log(name, inputs, *cells, highlight=False)
            if any(cells):
                table.add_row(name, str(inputs), *cells)
    console.print(table)
    console.print()


def _precision_ratio(make, inputs: int, width: int, repeats: int) -> str:
    if "Patches" in repr(make(max(width, 16), precision="float32")) and inputs != 784:
        return ""
    if make is Components and width > inputs:
        return ""
    # Some hundredths of a second.
    n_rows = int(np.clip(1.5e8 / (width * (inputs + width / 2 + 60)), 2 * width, 40_000))
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n_rows, inputs))
    y, maps, best = (X[:, 0] > 0).astype(int), {}, {}
    for each in ("float32", "float64"):
        maps[each], best[each] = make(width, precision=each).freeze(X, y), np.inf
    with threadpool_limits(1):
        for _ in range(repeats):
            for each, features in maps.items():
                began = time.process_time()
                ms.learn(X, y, features=features, n_jobs=1)
                best[each] = min(best[each], time.process_time() - began)
    return f"{best['float64'] / best['float32']:.2f}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=("rate", "precision", *SETS), default=("rate", "precision", *SETS))
    parser.add_argument("--data", help="folder of data sets (default: MERGESVM_DATA, else OpenML)")
    parser.add_argument("--wide", action="store_true", help="also maps that take many minutes")
    parser.add_argument("--no-peers", action="store_true", help="leave out scikit-learn")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds after which a pipeline is stopped")
    return parser.parse_args()


if __name__ == "__main__":
    ARGUMENTS = arguments()
    console.print(describe(THREADS) + "\n", highlight=False)
    warm_memory()
    if "rate" in ARGUMENTS.only:
        rate()
    if "precision" in ARGUMENTS.only:
        precision()
    for chosen in SETS:
        if chosen in ARGUMENTS.only:
            measure(chosen, ARGUMENTS.timeout, ARGUMENTS.wide)
