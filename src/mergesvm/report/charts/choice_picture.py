"""The picture of a choice: the score at each C that was tried."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mergesvm.analysis.validation import Validation
from mergesvm.files.atomic import replacing


def save_choice_picture(path: Path, validation: Validation) -> bool:
    """Draw the mean score of each setting against C, with its deviation over the folds; False without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    grid, scoring, table = validation.grid, validation.scoring[0], validation.table()
    means = np.array([row[scoring] for row in table]).reshape(len(grid.settings), len(grid.Cs))
    deviations = np.array([row[f"{scoring} deviation"] for row in table]).reshape(means.shape)
    for terms, mean, deviation in zip(grid.settings, means, deviations, strict=True):
        weights = terms.class_weight if isinstance(terms.class_weight, str) else "given" if terms.class_weight else "no"
        (line,) = axes.semilogx(grid.Cs, mean, marker="o", label=f"{terms.multiclass}, {weights} class weights")
        axes.fill_between(grid.Cs, mean - deviation, mean + deviation, color=line.get_color(), alpha=0.15, linewidth=0)
    axes.axvline(validation.best.C, color="0.4", linestyle="--", label=f"chosen: C={validation.best.C:g}")
    how = "" if validation.exact(scoring) else ", estimated"
    axes.set(title=f"On rows not seen, in {len(validation.folds)} folds", xlabel="C", ylabel=f"{scoring}{how}")
    axes.legend()
    with replacing(path) as sibling:
        figure.savefig(sibling, format=path.suffix.lstrip("."), dpi=110)
    return True
