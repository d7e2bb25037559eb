"""Save a matplotlib figure atomically, if matplotlib is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mergesvm.files.atomic import replacing

SUFFIXES = (".png", ".svg", ".pdf")
"""File extensions a figure can be saved with."""


def save_figure(path: Path, size: tuple[float, float], n_axes: int, draw: Callable[..., None]) -> bool:
    """Call ``draw`` with axes side by side and save the figure; return False if matplotlib is not installed."""
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
