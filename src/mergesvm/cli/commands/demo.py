"""The demonstration: slices of real data at four nodes, merged, compared with batch training, and one forgotten."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split

from mergesvm.engines.threads import Threads
from mergesvm.errors import ParameterError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.learn import learn
from mergesvm.knowledge.merging import merge
from mergesvm.methods.proximal.solve import solve
from mergesvm.report.charts.pictures import KINDS, save_picture

NODES = 4
SLICES = 10
RARE = (1, 8)
"""Digits of which the nodes get to see only one row in six."""

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
TERMS: dict[str, Any] = {"C": 1e-2, "class_weight": "balanced"}


@dataclass
class Story:
    """What happened, for the tables and the picture."""

    rows: list[int] = field(default_factory=list)
    merged: list[float] = field(default_factory=list)
    alone: list[list[float]] = field(default_factory=list)
    difference: list[float] = field(default_factory=list)
    grid: dict[str, list[float]] = field(default_factory=dict)


def run_demo(console: Console, picture: Path, seed: int = 0) -> Story:
    """Run the demonstration, print its tables and save its picture."""
    if not picture.parent.is_dir():
        raise ParameterError(f"There is no folder {str(picture.parent)!r} to save the picture in. Create it first.")
    if picture.suffix not in KINDS:
        raise ParameterError(f"A picture is one of {', '.join(KINDS)}, not {picture.name!r}. Choose another name.")
    X, y, test, truth = _data(seed)
    nodes = np.array_split(np.random.default_rng(seed).permutation(len(X)), NODES)
    console.print(
        f"\n[bold]Handwritten digits[/]: {len(X):,} rows x {X.shape[1]} pixels arrive at {NODES} nodes in {SLICES} "
        f"slices;\n{len(test):,} rows are kept for the test. Digits {RARE[0]} and {RARE[1]} are rare.\n"
    )
    story = Story()
    pieces = _arrive(console, story, nodes, X, y, test, truth)
    _forget(console, pieces, nodes, X, y, test, truth)
    _resolve(console, story, merge(pieces), test, truth)
    saved = save_picture(picture, story.rows, story.merged, story.alone, story.difference, STRENGTHS, story.grid)
    message = f"\nThe picture is in [bold]{escape(str(picture))}[/].\n" if saved else f"\nNo picture: {_NO_PLOTS}\n"
    console.print(message, soft_wrap=True)
    return story


_NO_PLOTS = "matplotlib is not installed. Install it with: pip install 'mergesvm\\[plots]'"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    for column in columns:
        table.add_column(column, justify="left" if column in ("scheme", "weights") else "right")
    return table


def _data(seed: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    X, y = load_digits(return_X_y=True)
    X = np.sqrt(X)  # pixels are counts; their roots are of more even spread, and no longer whole numbers
    X, test, y, truth = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
    kept = ~np.isin(y, RARE) | (np.arange(len(y)) % 6 == 0)
    return X[kept], y[kept], test, truth


def _arrive(
    console: Console,
    story: Story,
    nodes: list[NDArray[np.intp]],
    X: NDArray[Any],
    y: NDArray[Any],
    test: NDArray[Any],
    truth: NDArray[Any],
) -> list[Knowledge]:
    """Slices arrive; each node adds what it learns to what it knows, and the nodes are merged."""
    columns = ("slice", "rows so far", "nodes alone, mean", "merged", "off batch training by")
    table = _table("Learn in parallel, merge", *columns)
    pieces: list[Knowledge] = []
    engine = Threads(NODES)
    for number in track(range(1, SLICES + 1), "learning", console=console, transient=True):

        def slice_of(node: NDArray[np.intp], number: int = number) -> NDArray[np.intp]:
            return np.array_split(node, SLICES)[number - 1]

        news = engine.map(lambda node: learn(X[slice_of(node)], y[slice_of(node)], n_jobs=1), nodes)
        pieces = [old + new for old, new in zip(pieces, news, strict=True)] if pieces else news
        merged = solve(merge(pieces), **TERMS)
        seen = np.concatenate([np.concatenate(np.array_split(node, SLICES)[:number]) for node in nodes])
        batch = solve(learn(X[seen], y[seen]), **TERMS)
        story.rows.append(len(seen))
        story.merged.append(float((merged.predict(test) == truth).mean()))
        story.alone.append([float((solve(k, **TERMS).predict(test) == truth).mean()) for k in pieces])
        story.difference.append(float(np.abs(merged.scores(test) - batch.scores(test)).max()))
        table.add_row(
            str(number),
            f"{len(seen):,}",
            f"{np.mean(story.alone[-1]):.1%}",
            f"{story.merged[-1]:.1%}",
            f"{story.difference[-1]:.0e}",
        )
    console.print(table)
    console.print("off by: the largest difference of any score of a test row")
    return pieces


def _forget(
    console: Console,
    pieces: list[Knowledge],
    nodes: list[NDArray[np.intp]],
    X: NDArray[Any],
    y: NDArray[Any],
    test: NDArray[Any],
    truth: NDArray[Any],
) -> None:
    """Each node in turn is taken back out of the whole, and compared with never having been there."""
    whole = merge(pieces)
    table = _table("\nForget", "node forgotten", "rows", "accuracy without it", "off never having seen it by")
    for number, piece in enumerate(pieces):
        rest = solve(whole - piece, **TERMS)
        others = np.concatenate([node for index, node in enumerate(nodes) if index != number])
        never = solve(learn(X[others], y[others]), **TERMS)
        difference = np.abs(rest.scores(test) - never.scores(test)).max()
        accuracy = (rest.predict(test) == truth).mean()
        table.add_row(str(number + 1), f"{int(piece.rows.sum()):,}", f"{accuracy:.1%}", f"{difference:.0e}")
    console.print(table)


def _resolve(console: Console, story: Story, whole: Knowledge, test: NDArray[Any], truth: NDArray[Any]) -> None:
    """Other values of C, other class weights and schemes, all from the same sums."""
    strengths = [f"C={C:g}" for C in STRENGTHS]
    table = _table("\nSolve again for other C, with no data", "scheme", "weights", *strengths)
    start = time.perf_counter()
    for scheme, name in (("ovr", "one-vs-rest"), ("ovo", "one-vs-one")):
        for weights in (None, "balanced"):
            models = [solve(whole, C, weights, scheme) for C in STRENGTHS]
            scores = [float(balanced_accuracy_score(truth, model.predict(test))) for model in models]
            story.grid[f"{name}, {weights or 'no'} weights"] = scores
            best = max(scores)
            cells = [f"[bold]{score:.1%}[/]" if score == best else f"{score:.1%}" for score in scores]
            table.add_row(name, weights or "none", *cells)
    elapsed = time.perf_counter() - start
    console.print(table)
    models_solved = len(story.grid) * len(STRENGTHS)
    console.print(f"Balanced accuracy on the test rows; {models_solved} models solved and tested in {elapsed:.2f} s.")
