"""Plots drawn with matplotlib, for the files that commands save; each function returns False without matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mergesvm.files.atomic import replacing

if TYPE_CHECKING:
    from mergesvm.analysis.cross_validation.validation import Validation

SUFFIXES = (".png", ".svg", ".pdf")
"""File extensions a figure can be saved with."""


def save_figure(
    path: Path, size: tuple[float, float], n_axes: int, draw: Callable[..., None], *, overwrite: bool = True
) -> bool:
    """Call ``draw`` with axes side by side and save the figure."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure: Any = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    draw(*figure.subplots(1, n_axes, squeeze=False)[0])
    with replacing(path, overwrite=overwrite) as temporary:
        figure.savefig(temporary, format=path.suffix.lstrip("."), dpi=110)
    return True


def save_choice_figure(path: Path, validation: Validation, *, overwrite: bool = True) -> bool:
    """Plot the mean score of each setting against C, with its standard deviation over the folds."""
    import numpy as np

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

    return save_figure(path, (9, 4.6), 1, draw, overwrite=overwrite)


def save_stream_figure(
    path: Path, points: Sequence[tuple[int, float, float]], accuracy: float, *, overwrite: bool = True
) -> bool:
    """Plot the accuracy of a stream over its rows.

    Each point is (rows so far, accuracy since the last point, accuracy of predicting the most frequent class).
    """
    import numpy as np

    rows, recent, frequent = np.array(points).reshape(-1, 3).T

    def draw(axes: Any) -> None:
        axes.plot(rows, recent, color="tab:blue", label="recent rows")
        axes.axhline(accuracy, color="tab:blue", linestyle="--", label=f"all rows: {accuracy:.1%}")
        axes.plot(rows, frequent, color="0.6", label="most frequent class so far")
        axes.set(title="Each row is predicted, then learned", xlabel="rows so far", ylabel="accuracy")
        axes.legend()

    return save_figure(path, (9, 4.6), 1, draw, overwrite=overwrite)
