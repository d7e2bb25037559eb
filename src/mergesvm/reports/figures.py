"""Plots drawn with matplotlib, for the files that commands save; each function returns False without matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mergesvm.analysis.cross_validation.validation import Validation
from mergesvm.files.atomic import replacing

SUFFIXES = (".png", ".svg", ".pdf")
"""File extensions a figure can be saved with."""


def save_figure(path: Path, size: tuple[float, float], n_axes: int, draw: Callable[..., None]) -> bool:
    """Call ``draw`` with axes side by side and save the figure."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure: Any = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    draw(*figure.subplots(1, n_axes, squeeze=False)[0])
    with replacing(path) as sibling:
        figure.savefig(sibling, format=path.suffix.lstrip("."), dpi=110)
    return True


def save_choice_figure(path: Path, validation: Validation) -> bool:
    """Plot the mean score of each setting against C, with its standard deviation over the folds."""
    grid, scoring, table = validation.grid, validation.scoring[0], validation.table()
    means = np.array([row[scoring] for row in table]).reshape(len(grid.settings), len(grid.Cs))
    deviations = np.array([row[f"{scoring} deviation"] for row in table]).reshape(means.shape)

    def draw(axes: Any) -> None:
        for options, mean, deviation in zip(grid.settings, means, deviations, strict=True):
            given = options.class_weight
            weights = given if isinstance(given, str) else "given" if given else "no"
            (line,) = axes.semilogx(grid.Cs, mean, marker="o", label=f"{options.multiclass}, {weights} class weights")
            band = mean - deviation, mean + deviation
            axes.fill_between(grid.Cs, *band, color=line.get_color(), alpha=0.15, linewidth=0)
        axes.axvline(validation.best.C, color="0.4", linestyle="--", label=f"chosen: C={validation.best.C:g}")
        estimated = "" if validation.exact(scoring) else ", estimated"
        axes.set(title=f"Held-out rows, {len(validation.folds)} folds", xlabel="C", ylabel=f"{scoring}{estimated}")
        axes.legend()

    return save_figure(path, (9, 4.6), 1, draw)


def save_stream_figure(path: Path, points: Sequence[tuple[int, float, float]], accuracy: float) -> bool:
    """Plot the accuracy of a stream over its rows.

    Each point is (rows so far, accuracy since the last point, accuracy of predicting the most frequent class).
    """
    rows, recent, frequent = np.array(points).reshape(-1, 3).T

    def draw(axes: Any) -> None:
        axes.plot(rows, recent, color="tab:blue", label="recent rows")
        axes.axhline(accuracy, color="tab:blue", linestyle="--", label=f"all rows: {accuracy:.1%}")
        axes.plot(rows, frequent, color="0.6", label="most frequent class so far")
        axes.set(title="Each row is predicted, then learned", xlabel="rows so far", ylabel="accuracy")
        axes.legend()

    return save_figure(path, (9, 4.6), 1, draw)


def save_demo_figure(
    path: Path,
    rows: Sequence[int],
    merged: Sequence[float],
    alone: Sequence[Sequence[float]],
    difference: Sequence[float],
    Cs: Sequence[float],
    grid: Mapping[str, Sequence[float]],
) -> bool:
    """Plot accuracies, differences from batch training and scores over C."""

    def draw(learning: Any, exactness: Any, solving: Any) -> None:
        learning.plot(rows, np.array(alone), color="0.7", label=["each node alone"] + ["_"] * (len(alone[0]) - 1))
        learning.plot(rows, merged, "o-", color="tab:blue", label="merged")
        learning.set(title="Learn in parallel, merge", xlabel="rows so far", ylabel="test accuracy")
        learning.legend()

        floor = np.finfo(np.float64).eps
        exactness.semilogy(rows, np.maximum(difference, floor), "o-", color="tab:green")
        exactness.axhline(1e-9, color="tab:red", linestyle="--", label="guaranteed: 1e-9")
        exactness.set(title="Merged and batch training", xlabel="rows so far", ylabel="largest difference of scores")
        exactness.legend()

        for name, scores in grid.items():
            style = "--" if "no weights" in name else "-"
            solving.semilogx(Cs, scores, style, marker="o", label=name)
        solving.set(title="Solved again without data", xlabel="C", ylabel="balanced test accuracy")
        solving.legend()

    return save_figure(path, (15, 4.6), 3, draw)
