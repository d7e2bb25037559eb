"""Plot of a cross-validation: the score at each C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mergesvm.analysis.cross_validation.validation import Validation
from mergesvm.reports.figures.base import save_figure


def save_choice_figure(path: Path, validation: Validation) -> bool:
    """Plot the mean score of each setting against C, with its standard deviation over the folds.

    Returns False if matplotlib is not installed.
    """
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
