"""The demonstration of ``mergesvm demo`` on handwritten digits."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import mergesvm as ms
from mergesvm.cli.console import NO_MATPLOTLIB, Console
from mergesvm.cli.outputs import check_output
from mergesvm.multiclass.schemes import MULTICLASS_SCHEMES
from mergesvm.reports.figures import SUFFIXES, save_figure

if TYPE_CHECKING:
    from rich.table import Table

N_NODES = 4
N_SLICES = 10
RARE_DIGITS = (1, 8)
"""Digits of which only one training row in six is kept."""

CS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
OPTIONS: dict[str, Any] = {"C": 1e-2, "class_weight": "balanced"}


@dataclass(frozen=True)
class Digits:
    """Training and test rows, and the indices of the training rows of each node."""

    X: NDArray[Any]
    y: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]
    nodes: list[NDArray[np.intp]]

    def learn(self, rows: NDArray[np.intp], n_jobs: int | None = None) -> ms.Knowledge:
        """Learn from these training rows."""
        knowledge: ms.Knowledge = ms.learn(self.X[rows], self.y[rows], n_jobs=n_jobs)
        return knowledge

    def accuracy(self, model: Any) -> float:
        """The accuracy of a model on the test rows."""
        return float((model.predict(self.X_test) == self.y_test).mean())

    def difference(self, one: Any, other: Any) -> float:
        """The largest difference between the scores of two models on the test rows."""
        return float(np.abs(one.scores(self.X_test) - other.scores(self.X_test)).max())


@dataclass
class DemoResults:
    """The numbers shown in the tables and the figure."""

    rows: list[int] = field(default_factory=list)
    merged: list[float] = field(default_factory=list)
    alone: list[list[float]] = field(default_factory=list)
    difference: list[float] = field(default_factory=list)
    grid: dict[str, list[float]] = field(default_factory=dict)


def run_demo(console: Console, picture: Path, seed: int = 0) -> DemoResults:
    """Run the demonstration, print its tables and save its figure."""
    check_output(picture, True, *SUFFIXES)
    digits = _load_digits(seed)
    console.text(
        "",
        f"Handwritten digits: {len(digits.X):,} rows x {digits.X.shape[1]} pixels arrive at {N_NODES} nodes in "
        f"{N_SLICES} slices;",
        f"{len(digits.X_test):,} rows are held out for testing. Digits {RARE_DIGITS[0]} and {RARE_DIGITS[1]} are rare.",
        "",
    )
    results = DemoResults()
    pieces = _learn_and_merge(console, results, digits)
    _forget(console, pieces, digits)
    _solve_again(console, results, ms.merge(pieces), digits)
    saved = _save_figure(picture, results)
    console.text("", f"Plots saved to {picture}." if saved else NO_MATPLOTLIB, "")
    return results


def _table(title: str, *columns: str) -> Table:
    from rich.table import Table

    table = Table(title=title)
    for column in columns:
        table.add_column(column, justify="left" if column in ("scheme", "weights") else "right")
    return table


def _load_digits(seed: int) -> Digits:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    X = np.sqrt(X)  # pixels are counts: square roots have a more even variance, and are not whole numbers
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
    kept = ~np.isin(y, RARE_DIGITS) | (np.arange(len(y)) % 6 == 0)
    nodes = np.array_split(np.random.default_rng(seed).permutation(int(kept.sum())), N_NODES)
    return Digits(X[kept], y[kept], X_test, y_test, nodes)


def _learn_and_merge(console: Console, results: DemoResults, digits: Digits) -> list[ms.Knowledge]:
    """Each node adds each slice to its knowledge; after each slice the nodes are merged."""
    from rich.progress import track

    columns = ("slice", "rows so far", "nodes alone, mean", "merged", "difference from batch training")
    table = _table("Learn in parallel, merge", *columns)
    pieces: list[ms.Knowledge] = []
    engine = ms.engines.Threads(N_NODES)
    slices = [np.array_split(node, N_SLICES) for node in digits.nodes]
    for number in track(range(N_SLICES), "learning", console=console.out, transient=True):
        new = engine.map(lambda rows: digits.learn(rows, n_jobs=1), [each[number] for each in slices])
        pieces = [old + added for old, added in zip(pieces, new, strict=True)] if pieces else new
        merged = ms.solve(ms.merge(pieces), **OPTIONS)
        seen = np.concatenate([np.concatenate(each[: number + 1]) for each in slices])
        results.rows.append(len(seen))
        results.merged.append(digits.accuracy(merged))
        results.alone.append([digits.accuracy(ms.solve(piece, **OPTIONS)) for piece in pieces])
        results.difference.append(digits.difference(merged, ms.solve(digits.learn(seen), **OPTIONS)))
        table.add_row(
            str(number + 1),
            f"{len(seen):,}",
            f"{np.mean(results.alone[-1]):.1%}",
            f"{results.merged[-1]:.1%}",
            f"{results.difference[-1]:.0e}",
        )
    console.out.print(table)
    console.text("difference: the largest of any score of a test row")
    return pieces


def _forget(console: Console, pieces: list[ms.Knowledge], digits: Digits) -> None:
    """Subtract each node in turn, and compare with learning from all others."""
    whole = ms.merge(pieces)
    columns = ("node forgotten", "rows", "accuracy without it", "difference from never having seen it")
    table = _table("\nForget", *columns)
    for number, piece in enumerate(pieces):
        rest = ms.solve(whole - piece, **OPTIONS)
        others = np.concatenate([node for index, node in enumerate(digits.nodes) if index != number])
        difference = digits.difference(rest, ms.solve(digits.learn(others), **OPTIONS))
        accuracy = digits.accuracy(rest)
        table.add_row(str(number + 1), f"{int(piece.rows.sum()):,}", f"{accuracy:.1%}", f"{difference:.0e}")
    console.out.print(table)


def _solve_again(console: Console, results: DemoResults, whole: ms.Knowledge, digits: Digits) -> None:
    """Solve the same knowledge for other C, class weights and multi-class schemes."""
    from sklearn.metrics import balanced_accuracy_score

    table = _table("\nSolve again for other C, without data", "scheme", "weights", *(f"C={C:g}" for C in CS))
    start = time.perf_counter()
    for scheme, name in MULTICLASS_SCHEMES.items():
        for weights in (None, "balanced"):
            models = [ms.solve(whole, C, weights, scheme) for C in CS]
            scores = [float(balanced_accuracy_score(digits.y_test, model.predict(digits.X_test))) for model in models]
            results.grid[f"{name}, {weights or 'no'} weights"] = scores
            cells = [f"[bold]{score:.1%}[/]" if score == max(scores) else f"{score:.1%}" for score in scores]
            table.add_row(name, weights or "none", *cells)
    elapsed = time.perf_counter() - start
    console.out.print(table)
    n_models = len(results.grid) * len(CS)
    console.text(f"Balanced accuracy on the test rows; {n_models} models solved and tested in {elapsed:.2f} s.")


def _save_figure(path: Path, results: DemoResults) -> bool:
    """Plot accuracies, differences from batch training and scores over C."""

    def draw(learning: Any, exactness: Any, solving: Any) -> None:
        learning.plot(
            results.rows,
            np.array(results.alone),
            color="0.7",
            label=["each node alone"] + ["_"] * (len(results.alone[0]) - 1),
        )
        learning.plot(results.rows, results.merged, "o-", color="tab:blue", label="merged")
        learning.set(title="Learn in parallel, merge", xlabel="rows so far", ylabel="test accuracy")
        learning.legend()

        floor = np.finfo(np.float64).eps
        exactness.semilogy(results.rows, np.maximum(results.difference, floor), "o-", color="tab:green")
        exactness.axhline(1e-9, color="tab:red", linestyle="--", label="guaranteed: 1e-9")
        exactness.set(title="Merged and batch training", xlabel="rows so far", ylabel="largest difference of scores")
        exactness.legend()

        for name, scores in results.grid.items():
            style = "--" if "no weights" in name else "-"
            solving.semilogx(CS, scores, style, marker="o", label=name)
        solving.set(title="Solved again without data", xlabel="C", ylabel="balanced test accuracy")
        solving.legend()

    return save_figure(path, (15, 4.6), 3, draw)
