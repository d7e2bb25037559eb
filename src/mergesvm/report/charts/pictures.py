"""The pictures of the demonstration and of a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mergesvm.files.atomic import replacing

KINDS = (".png", ".svg", ".pdf")


def save_picture(
    path: Path,
    rows: Sequence[int],
    merged: Sequence[float],
    alone: Sequence[Sequence[float]],
    difference: Sequence[float],
    strengths: Sequence[float],
    grid: Mapping[str, Sequence[float]],
) -> bool:
    """Draw what happened and save it as a whole or not at all; False if matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(15, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    learning, exactness, solving = figure.subplots(1, 3)

    learning.plot(rows, np.array(alone), color="0.7", label=["each node alone"] + ["_"] * (len(alone[0]) - 1))
    learning.plot(rows, merged, "o-", color="tab:blue", label="merged")
    learning.set(title="Learn in parallel, merge", xlabel="rows so far", ylabel="test accuracy")
    learning.legend()

    floor = np.finfo(np.float64).eps
    exactness.semilogy(rows, np.maximum(difference, floor), "o-", color="tab:green")
    exactness.axhline(1e-9, color="tab:red", linestyle="--", label="promised: 1e-9")
    exactness.set(title="Merged against batch training", xlabel="rows so far", ylabel="largest difference of scores")
    exactness.legend()

    for name, scores in grid.items():
        style = "--" if "no weights" in name else "-"
        solving.semilogx(strengths, scores, style, marker="o", label=name)
    solving.set(title="Solved again with no data", xlabel="C", ylabel="balanced test accuracy")
    solving.legend()

    with replacing(path) as sibling:
        figure.savefig(sibling, format=path.suffix.lstrip("."), dpi=110)
    return True


def save_stream_picture(path: Path, points: Sequence[tuple[int, float, float]], accuracy: float) -> bool:
    """Draw the accuracy of a stream as it went; False if matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    rows, lately, frequent = np.array(points).reshape(-1, 3).T
    axes.plot(rows, lately, color="tab:blue", label="of each stretch of rows")
    axes.axhline(accuracy, color="tab:blue", linestyle="--", label=f"of all rows: {accuracy:.1%}")
    axes.plot(rows, frequent, color="0.6", label="of the most frequent class so far")
    axes.set(title="Each row is predicted, then learned", xlabel="rows so far", ylabel="accuracy")
    axes.legend()
    with replacing(path) as sibling:
        figure.savefig(sibling, format=path.suffix.lstrip("."), dpi=110)
    return True
