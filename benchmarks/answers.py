"""Answers without data, beside what they cost elsewhere, and how far estimates are off: ``make bench-answers``."""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GridSearchCV, PredefinedSplit

import datasets
import mergesvm as ms
from machine import best, describe, gemm_rate, read_rate, rounds, warm_memory
from mergesvm.analysis.evaluation import Evaluation
from targets import Targets

THREADS = 2
CS = np.logspace(-6, 6, 25)
FOLDS = 5
PIECES = 200
MANY = 50
PICTURES = Path(__file__).parent.parent / "docs" / "pictures"

console = Console(width=118)
targets = Targets()


SETS = {
    "spambase": datasets.spambase,
    "pendigits": datasets.pendigits,
    "letter": datasets.letter,
    "a9a": datasets.a9a,
    "covtype": datasets.covtype,
    "mnist": datasets.mnist,
    "fashion": datasets.fashion_mnist,
}


def rows_of(name: str, where: Path | None) -> tuple:
    """Rows and labels to learn from and to test on; pixels as shares of 255."""
    X, y, test, truth = SETS[name](where)
    return (X / 255, y, test / 255, truth) if name in ("mnist", "fashion") else (X, y, test, truth)


def weightings(y) -> list:
    """None, and weights of each class that scikit-learn and we take as given: balanced, and half way to it."""
    labels, counts = np.unique(y, return_counts=True)
    balanced = len(y) / (len(labels) * counts)
    weights = [dict(zip(labels.tolist(), each.tolist(), strict=True)) for each in (balanced, np.sqrt(balanced))]
    return [None, *weights]


def loss(where: Path | None, repeats: int) -> None:
    """The whole grid by held-out squared loss, learning included, beside one plain fit."""
    X, y, more, others = datasets.covtype(where)
    X, y = np.concatenate([X, more]).astype(np.float64), np.concatenate([y, others])
    schemes = [None, "balanced", "complement"]
    contenders = {
        "one plain fit": lambda: ms.MergeSVC().fit(X, y),
        "learning with folds": lambda: ms.learn(X, y, folds=FOLDS),
        "learning, 375 solutions, losses": lambda: ms.validate(
            ms.learn(X, y, folds=FOLDS), Cs=CS, class_weights=schemes
        ),
    }
    times = rounds(contenders, repeats)
    table = Table("covtype, 581,012 x 54, 7 classes", "best", "times one fit")
    plain = min(times["one plain fit"])
    for name, all_times in times.items():
        table.add_row(name, f"{min(all_times):.3f} s", f"{min(all_times) / plain:.2f}")
    console.print(table)
    ratio = min(times["learning, 375 solutions, losses"]) / plain
    targets.at_most("25 C x 5 folds x 3 weightings by loss, learning included, over one fit", ratio, 3.0)


def search(name: str, where: Path | None, share: int) -> None:
    """The whole grid by held-out accuracy, beside scikit-learn's grid search over its ridge classifier.

    The peer is given a tenth of the grid, drawn at random, and our choice with its two neighbours; its time for all is
    reckoned from these.
    """
    X, y, test, truth = rows_of(name, where)
    X, test = X.astype(np.float64), test.astype(np.float64)
    weights = weightings(y) if name == "covtype" else [None]
    splitter = PredefinedSplit(np.random.default_rng(0).integers(0, FOLDS, len(y)))
    times = []
    for _ in range(3):
        start = time.perf_counter()
        machine = ms.MergeSVCCV(CS, weights, cv=splitter, penalize_intercept=False).fit(X, y)
        times.append(time.perf_counter() - start)
    own, results = min(times), machine.cv_results_
    candidates, best = results["params"], machine.best_index_
    drawn = np.random.default_rng(0).permutation(len(candidates))[: -(-len(candidates) // share)].tolist()
    tried = list(dict.fromkeys([max(best - 1, 0), best, min(best + 1, len(candidates) - 1), *drawn]))
    grid = [{"alpha": [1 / candidates[at]["C"]], "class_weight": [candidates[at]["class_weight"]]} for at in tried]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ill-conditioned systems
        start = time.perf_counter()
        peer = GridSearchCV(RidgeClassifier(), grid, cv=splitter, refit=False).fit(X, y)
        theirs = (time.perf_counter() - start) * len(candidates) / len(tried)
        chosen = RidgeClassifier(**peer.best_params_).fit(X, y)
    table = Table(f"{name}: {len(CS)} C x {FOLDS} folds x {len(weights)} weightings", "time", "C", "held out", "test")
    accuracies = machine.score(test, truth), chosen.score(test, truth)
    table.add_row("MergeSVCCV", f"{own:.2f} s", f"{machine.C_:g}", f"{machine.best_score_:.6f}", f"{accuracies[0]:.4f}")
    table.add_row(
        f"GridSearchCV(RidgeClassifier), {len(tried)} of {len(candidates)} candidates run",
        f"{theirs:.0f} s for all",
        f"{1 / peer.best_params_['alpha']:g}",
        f"{peer.best_score_:.6f}",
        f"{accuracies[1]:.4f}",
    )
    console.print(table)
    gap = np.abs(peer.cv_results_["mean_test_score"] - results["mean_test_score"][tried]).max()
    steps = abs(tried[int(peer.best_index_)] - best)
    console.print(f"Held-out accuracies of the same candidates differ by at most {gap:.1e}.\n", highlight=False)
    targets.at_least(f"{name}: grid search", theirs / own, 50.0 if name == "covtype" else 40.0, "{:.0f}x")
    targets.at_most(f"{name}: choice beside the peer's among the same candidates", steps, 1, "{:.0f} steps")
    difference = 100 * (accuracies[0] - accuracies[1])
    targets.at_least(f"{name}: test accuracy beside the peer's choice", difference, 0.0, "{:+.3f} points")


def estimates(where: Path | None) -> None:
    """What is estimated with no data, beside what is measured, on rows held out."""
    names = ["accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc"]
    table = Table(
        "set", "scheme", *(title for name in names for title in (name.removeprefix("neg_"), "estimate")), "same C"
    )
    for column in table.columns[2:]:
        column.justify = "right"
    for name in SETS:
        X, y, _, _ = rows_of(name, where)
        for scheme in ("ovr", "ovo"):
            if name == "letter" and scheme == "ovo":
                continue  # 325 scores are more than are drawn together
            folds = ms.learn(X, y, folds=FOLDS)
            wishes = {"Cs": CS[8:-8:4], "multiclass": scheme, "scoring": names}
            guessed = ms.validate(folds, **wishes)
            measured = ms.validate(folds, X, y, **wishes)
            best = measured.best_index
            cells = []
            for score in names:
                sign = -1 if score.startswith("neg_") else 1
                truth, guess = sign * measured.mean(score)[best], sign * guessed.mean(score)[best]
                cells += [f"{truth:.4f}", f"{guess - truth:+.4f}"]
            steps = abs(guessed.best_index - best)
            table.add_row(name, scheme, *cells, "yes" if not steps else f"{steps} off")
    console.print(table)


def influence(where: Path | None, repeats: int) -> None:
    """200 pieces, each left out in turn, beside one solution."""
    titles = (
        "one solution",
        "of many in a row",
        "influence",
        "times one",
        "times one of many",
        "accuracies off by",
        "drift",
    )
    table = Table(f"influence of {PIECES} pieces", *titles)
    for name in ("covtype", "a9a", "spambase"):
        X, y, _, _ = SETS[name](where)
        X = X if name == "a9a" else X.astype(np.float64)
        numbers = np.random.default_rng(0).integers(0, PIECES, len(y))
        pieces = [ms.learn(X[numbers == piece], y[numbers == piece]) for piece in range(PIECES)]
        total = ms.merge(pieces)
        contenders = {"one": lambda total=total: ms.solve(total), "all": lambda pieces=pieces: ms.influence(pieces)}
        times = rounds(contenders, max(5, repeats))
        one, everything = min(times["one"]), min(times["all"])
        warm = best(lambda total=total: [ms.solve(total) for _ in range(MANY)]) / MANY
        model, found = ms.solve(total), ms.influence(pieces)
        own = np.array([model.score(X[numbers == piece], y[numbers == piece]) for piece in range(PIECES)])
        off = np.abs(found.accuracy_on_piece - own).mean()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.perf_counter()
            ms.drift(pieces)
            drift = time.perf_counter() - start
        table.add_row(
            name,
            f"{1e3 * one:.2f} ms",
            f"{1e3 * warm:.2f} ms",
            f"{1e3 * everything:.1f} ms",
            f"{everything / one:.1f}",
            f"{everything / warm:.1f}",
            f"{100 * off:.1f} points",
            f"{drift:.2f} s",
        )
        targets.at_most(f"{name}: influence of {PIECES} pieces over one solution", everything / one, 20.0, "{:.1f}x")
    console.print(table)


def points(where: Path | None) -> None:
    """What was asked of an operating point, from the sums alone, and what came of it on test rows."""
    wishes = [{"recall": 0.9}, {"recall": 0.99}, {"false_positive_rate": 0.01}, {"false_positive_rate": 0.05}]
    titles = [
        f"{'recall' if 'recall' in wish else 'false positives'} {next(iter(wish.values())):.0%}" for wish in wishes
    ]
    table = Table("set", "class", "its share", *titles)
    for column in table.columns[2:]:
        column.justify = "right"
    for name in SETS:
        X, y, test, truth = rows_of(name, where)
        labels, counts = np.unique(y, return_counts=True)
        rarest = labels[counts.argmin()]
        mine, wanted = y == rarest, truth == rarest
        folds = ms.learn(X, mine, folds=FOLDS)
        pairs, model = ms.validate(folds, Cs=[1.0]).held_out(), ms.solve(folds)
        cells = []
        for wish in wishes:
            above = model.with_threshold(ms.operating_point(pairs, **wish).threshold).predict(test)
            rate = above[wanted].mean() if "recall" in wish else above[~wanted].mean()
            cells.append(f"{rate:.1%}")
        table.add_row(name, str(rarest), f"{mine.mean():.1%}", *cells)
    console.print(table)


def probabilities(where: Path | None) -> None:
    """Brier score, log-loss and calibration error on test rows, beside scikit-learn's calibrated ridge classifier."""
    table = Table("set", "probabilities of", "Brier", "log-loss", "off by")
    curves: dict[str, dict[str, tuple]] = {}
    for column in table.columns[2:]:
        column.justify = "right"
    for name in SETS:
        X, y, test, truth = rows_of(name, where)
        some = np.random.default_rng(0).permutation(len(y))
        learn, kept = some[: int(0.8 * len(y))], some[int(0.8 * len(y)) :]

        def ours(method=None, X=X, y=y, learn=learn, kept=kept):
            if method is None:
                return ms.solve(ms.learn(X, y))
            return ms.solve(ms.learn(X[learn], y[learn])).calibrated(X[kept], y[kept], method=method)

        makers = {
            "sums alone": ours,
            "with isotonic": lambda ours=ours: ours("isotonic"),
            "with Platt": lambda ours=ours: ours("platt"),
            "CalibratedClassifierCV(RidgeClassifier())": lambda X=X, y=y: CalibratedClassifierCV(RidgeClassifier()).fit(
                X, y
            ),
        }
        for title, make in makers.items():
            model = make()
            shares = model.predict_proba(test)
            classes = list(model.classes_)
            evaluation = Evaluation(tuple(np.asarray(classes).tolist()))
            evaluation.add(truth, np.asarray(classes)[shares.argmax(axis=1)], shares)
            focus = len(classes) - 1 if len(classes) == 2 else None
            off = evaluation.calibration_error(focus)
            curves.setdefault(name, {})[title] = evaluation.calibration(focus)
            check = log_loss(truth, shares, labels=classes)
            assert abs(check - evaluation.log_loss) < 1e-6
            if len(classes) == 2:
                assert abs(brier_score_loss(truth == classes[1], shares[:, 1]) - evaluation.brier) < 1e-9
            table.add_row(name, title, f"{evaluation.brier:.4f}", f"{evaluation.log_loss:.4f}", f"{off:.1%}")
        table.add_section()
    console.print(table)
    draw(curves)


def draw(curves: dict[str, dict[str, tuple]]) -> None:
    """How often predictions come true, over how likely they were said to be; dots are as large as parts have rows."""
    figure = Figure(figsize=(13, 7), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 4).ravel()
    for axis, (name, methods) in zip(axes, curves.items(), strict=False):
        axis.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        for title, (said, seen, weight) in methods.items():
            (line,) = axis.plot(said, seen, linewidth=1, label=title)
            axis.scatter(said, seen, 60 * weight / weight.max(), color=line.get_color())
        axis.set(title=name, xlim=(0, 1), ylim=(0, 1), xlabel="probability", ylabel="observed")
    handles, titles = axes[0].get_legend_handles_labels()
    axes[-1].axis("off")
    axes[-1].legend(handles, titles, loc="center", frameon=False)
    figure.savefig(PICTURES / "calibration.png", dpi=90)


def arguments() -> argparse.Namespace:
    parts = ("loss", "search", "estimates", "influence", "points", "probabilities")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--data", help="folder of data sets; default MERGESVM_DATA, else OpenML")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--share", type=int, default=10, help="one in so many of the peer's candidates is timed")
    return parser.parse_args()


if __name__ == "__main__":
    ARGUMENTS = arguments()
    folder = datasets.folder(ARGUMENTS.data)
    console.print(describe(THREADS) + "\n", highlight=False)
    warm_memory()
    ms.precompile()
    console.print(
        f"Limits: {gemm_rate(np.float64, THREADS, 54, 525) / 1e9:.0f} GFLOP/s of products of 54 x 525, "
        f"{read_rate(THREADS) / 1e9:.0f} GB/s of memory\n",
        highlight=False,
    )
    if "loss" in ARGUMENTS.only:
        loss(folder, ARGUMENTS.repeats)
    if "search" in ARGUMENTS.only:
        search("covtype", folder, ARGUMENTS.share)
        search("mnist", folder, ARGUMENTS.share)
    if "influence" in ARGUMENTS.only:
        influence(folder, ARGUMENTS.repeats)
    if "estimates" in ARGUMENTS.only:
        estimates(folder)
    if "points" in ARGUMENTS.only:
        points(folder)
    if "probabilities" in ARGUMENTS.only:
        probabilities(folder)
    targets.show(console)
