"""Plot of the accuracy along a stream."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mergesvm.reports.figures.base import save_figure


def save_stream_figure(path: Path, points: Sequence[tuple[int, float, float]], accuracy: float) -> bool:
    """Plot the accuracy of a stream over its rows; return False if matplotlib is not installed.

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
