"""Questions answered from the sums alone: time beside scikit-learn, and errors of the estimates.

Run by ``make bench-answers``.
"""

from __future__ import annotations

import argparse
import math
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
from machine import best, describe, time_in_turn, warm_memory
from mergesvm.analysis.evaluation import Evaluation

THREADS = 2
CS = np.logspace(-6, 6, 25)
FOLDS = 5
PIECES = 200
CONSECUTIVE_SOLUTIONS = 50
PICTURES = Path(__file__).parent.parent / "docs" / "pictures"

console = Console(width=118)

SETS = {
    "spambase": datasets.spambase,
    "pendigits": datasets.pendigits,
    "letter": datasets.letter,
    "a9a": datasets.a9a,
    "covtype": datasets.covtype,
    "mnist": datasets.mnist,
    "fashion": datasets.fashion_mnist,
}


def load(name: str, where: Path | None) -> tuple:
    """Training rows and labels, test rows and labels; pixels are scaled to [0, 1]."""
    X, y, test, truth = SETS[name](where)
    return (X / 255, y, test / 255, truth) if name in ("mnist", "fashion") else (X, y, test, truth)


def weightings(y) -> list:
    """No weights, balanced class weights, and their square roots, as dicts that scikit-learn takes, too."""
    labels, counts = np.unique(y, return_counts=True)
    balanced = len(y) / (len(labels) * counts)
    weights = [dict(zip(labels.tolist(), each.tolist(), strict=True)) for each in (balanced, np.sqrt(balanced))]
    return [None, *weights]


def loss(where: Path | None, repeats: int) -> None:
    """Time of a whole grid by held-out squared loss, learning included, relative to one fit."""
    X, y, more, others = datasets.covtype(where)
    X, y = np.concatenate([X, more]).astype(np.float64), np.concatenate([y, others])
    schemes = [None, "balanced", "complement"]
    contenders = {
        "one fit": lambda: ms.MergeSVC().fit(X, y),
        "learning with folds": lambda: ms.learn(X, y, folds=FOLDS),
        "learning with folds, 375 solutions, losses": lambda: ms.validate(
            ms.learn(X, y, folds=FOLDS), Cs=CS, class_weights=schemes
        ),
    }
    times = time_in_turn(contenders, repeats)
    table = Table("covtype, 581,012 x 54, 7 classes", "best", "x one fit")
    plain = min(times["one fit"])
    for name, all_times in times.items():
        table.add_row(name, f"{min(all_times):.3f} s", f"{min(all_times) / plain:.2f}")
    console.print(table)


def search(name: str, where: Path | None, fraction: float) -> None:
    """Time of a whole grid by held-out accuracy, beside ``GridSearchCV(RidgeClassifier())``.

    ``GridSearchCV`` runs a random fraction of the grid, and the best candidate with its two neighbours. Its time for
    the whole grid is extrapolated.
    """
    X, y, test, truth = load(name, where)
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
    sample = np.random.default_rng(0).permutation(len(candidates))[: math.ceil(fraction * len(candidates))].tolist()
    tried = list(dict.fromkeys([max(best - 1, 0), best, min(best + 1, len(candidates) - 1), *sample]))
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
    console.print(f"Held-out accuracies of the same candidates differ by at most {gap:.1e}.\n", highlight=False)


def estimates(where: Path | None) -> None:
    """Scores of held-out rows estimated from the sums alone, beside measured ones."""
    names = ["accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc"]
    table = Table(
        "data set",
        "scheme",
        *(title for name in names for title in (name.removeprefix("neg_").removesuffix("_accuracy"), "error")),
        "same C",
    )
    for column in table.columns[2:]:
        column.justify = "right"
    for name in SETS:
        X, y, _, _ = load(name, where)
        for scheme in ("ovr", "ovo"):
            if name == "letter" and scheme == "ovo":
                continue  # 325 scores are too many for sampling
            folds = ms.learn(X, y, folds=FOLDS)
            options = {"Cs": CS[8:-8:4], "multiclass": scheme, "scoring": names}
            estimated = ms.validate(folds, **options)
            measured = ms.validate(folds, X, y, **options)
            best = measured.best_index
            cells = []
            for score in names:
                sign = -1 if score.startswith("neg_") else 1
                truth, estimate = sign * measured.mean(score)[best], sign * estimated.mean(score)[best]
                cells += [f"{truth:.4f}", f"{estimate - truth:+.4f}"]
            steps = abs(estimated.best_index - best)
            table.add_row(name, scheme, *cells, "yes" if not steps else f"{steps} off")
    console.print(table)


def influence(where: Path | None, repeats: int) -> None:
    """Time of leaving out each of 200 pieces in turn, relative to one solution."""
    titles = ("one solution", "consecutive", "influence", "x one", "x consecutive", "accuracy error", "drift")
    table = Table(f"influence of {PIECES} pieces", *titles)
    for name in ("covtype", "a9a", "spambase"):
        X, y, _, _ = SETS[name](where)
        X = X if name == "a9a" else X.astype(np.float64)
        numbers = np.random.default_rng(0).integers(0, PIECES, len(y))
        pieces = [ms.learn(X[numbers == piece], y[numbers == piece]) for piece in range(PIECES)]
        total = ms.merge(pieces)
        contenders = {"one": lambda total=total: ms.solve(total), "all": lambda pieces=pieces: ms.influence(pieces)}
        times = time_in_turn(contenders, max(5, repeats))
        one, everything = min(times["one"]), min(times["all"])
        warm = best(lambda total=total: [ms.solve(total) for _ in range(CONSECUTIVE_SOLUTIONS)]) / CONSECUTIVE_SOLUTIONS
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
    console.print(table)


def points(where: Path | None) -> None:
    """Rates on test rows at operating points that were chosen from the sums alone."""
    goals = [{"recall": 0.9}, {"recall": 0.99}, {"false_positive_rate": 0.01}, {"false_positive_rate": 0.05}]
    titles = [
        f"{'recall' if 'recall' in goal else 'false positives'} {next(iter(goal.values())):.0%}" for goal in goals
    ]
    table = Table("data set", "class", "proportion", *titles)
    for column in table.columns[2:]:
        column.justify = "right"
    for name in SETS:
        X, y, test, truth = load(name, where)
        labels, counts = np.unique(y, return_counts=True)
        rarest = labels[counts.argmin()]
        is_rarest, truly_rarest = y == rarest, truth == rarest
        folds = ms.learn(X, is_rarest, folds=FOLDS)
        pairs, model = ms.validate(folds, Cs=[1.0]).held_out(), ms.solve(folds)
        cells = []
        for goal in goals:
            above = model.with_threshold(ms.operating_point(pairs, **goal).threshold).predict(test)
            rate = above[truly_rarest].mean() if "recall" in goal else above[~truly_rarest].mean()
            cells.append(f"{rate:.1%}")
        table.add_row(name, str(rarest), f"{is_rarest.mean():.1%}", *cells)
    console.print(table)


def probabilities(where: Path | None) -> None:
    """Brier score, log-loss and calibration error on test rows, beside scikit-learn's calibrated ridge classifier."""
    table = Table("data set", "probabilities", "Brier", "log-loss", "calibration error")
    curves: dict[str, dict[str, tuple]] = {}
    for column in table.columns[2:]:
        column.justify = "right"
    for name in SETS:
        X, y, test, truth = load(name, where)
        order = np.random.default_rng(0).permutation(len(y))
        train, held_out = order[: int(0.8 * len(y))], order[int(0.8 * len(y)) :]

        def ours(method=None, X=X, y=y, train=train, held_out=held_out):
            if method is None:
                return ms.solve(ms.learn(X, y))
            return ms.solve(ms.learn(X[train], y[train])).calibrated(X[held_out], y[held_out], method=method)

        makers = {
            "from the sums": ours,
            "isotonic": lambda ours=ours: ours("isotonic"),
            "Platt": lambda ours=ours: ours("platt"),
            "CalibratedClassifierCV(RidgeClassifier())": lambda X=X, y=y: CalibratedClassifierCV(RidgeClassifier()).fit(
                X, y
            ),
        }
        for title, make in makers.items():
            model = make()
            proba = model.predict_proba(test)
            classes = list(model.classes_)
            evaluation = Evaluation(tuple(np.asarray(classes).tolist()))
            evaluation.add(truth, np.asarray(classes)[proba.argmax(axis=1)], proba)
            focus = len(classes) - 1 if len(classes) == 2 else None
            error = evaluation.calibration_error(focus)
            curves.setdefault(name, {})[title] = evaluation.calibration(focus)
            check = log_loss(truth, proba, labels=classes)
            assert abs(check - evaluation.log_loss) < 1e-6
            if len(classes) == 2:
                assert abs(brier_score_loss(truth == classes[1], proba[:, 1]) - evaluation.brier) < 1e-9
            table.add_row(name, title, f"{evaluation.brier:.4f}", f"{evaluation.log_loss:.4f}", f"{error:.1%}")
        table.add_section()
    console.print(table)
    draw(curves)


def draw(curves: dict[str, dict[str, tuple]]) -> None:
    """Observed frequency over predicted probability; the area of a dot is the number of rows of its bin."""
    figure = Figure(figsize=(13, 7), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 4).ravel()
    for axis, (name, methods) in zip(axes, curves.items(), strict=False):
        axis.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        for title, (predicted, observed, weight) in methods.items():
            (line,) = axis.plot(predicted, observed, linewidth=1, label=title)
            axis.scatter(predicted, observed, 60 * weight / weight.max(), color=line.get_color())
        axis.set(title=name, xlim=(0, 1), ylim=(0, 1), xlabel="probability", ylabel="observed")
    handles, titles = axes[0].get_legend_handles_labels()
    axes[-1].axis("off")
    axes[-1].legend(handles, titles, loc="center", frameon=False)
    figure.savefig(PICTURES / "calibration.png", dpi=90)


def arguments() -> argparse.Namespace:
    parts = ("loss", "search", "estimates", "influence", "points", "probabilities")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--data", help="folder of data sets (default: MERGESVM_DATA, else OpenML)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--fraction", type=float, default=0.1, help="fraction of the grid that GridSearchCV runs")
    return parser.parse_args()


if __name__ == "__main__":
    ARGUMENTS = arguments()
    folder = datasets.folder(ARGUMENTS.data)
    console.print(describe(THREADS) + "\n", highlight=False)
    warm_memory()
    ms.precompile()
    if "loss" in ARGUMENTS.only:
        loss(folder, ARGUMENTS.repeats)
    if "search" in ARGUMENTS.only:
        search("covtype", folder, ARGUMENTS.fraction)
        search("mnist", folder, ARGUMENTS.fraction)
    if "influence" in ARGUMENTS.only:
        influence(folder, ARGUMENTS.repeats)
    if "estimates" in ARGUMENTS.only:
        estimates(folder)
    if "points" in ARGUMENTS.only:
        points(folder)
    if "probabilities" in ARGUMENTS.only:
        probabilities(folder)
