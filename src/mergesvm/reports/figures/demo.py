"""Plots of the demonstration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mergesvm.reports.figures.base import save_figure


def save_demo_figure(
    path: Path,
    rows: Sequence[int],
    merged: Sequence[float],
    alone: Sequence[Sequence[float]],
    difference: Sequence[float],
    Cs: Sequence[float],
    grid: Mapping[str, Sequence[float]],
) -> bool:
    """Plot accuracies, differences from batch training and scores over C; return False without matplotlib."""

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
