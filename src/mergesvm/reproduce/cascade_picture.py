"""The picture of the cascade: figures 4 and 5 of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mergesvm.files.atomic import replacing

BEST = (2, 0.945)
"""The paper's best efficiency and its number of processors: all that its text tells of the curves."""


@dataclass(frozen=True)
class Point:
    """How many times as fast as one rank some ranks are.

    Attributes
    ----------
    ranks : int
    measured : float or None
        By wall time; None where there are fewer cores than ranks.
    reckoned : float
        By the CPU time of the ranks, and what they sent.

    Examples
    --------
    >>> Point(4, None, 3.6).efficiency(3.6)
    0.9
    """

    ranks: int
    measured: float | None
    reckoned: float

    def efficiency(self, speedup: float) -> float:
        """The share of what so many ranks could do."""
        return speedup / self.ranks


def save_cascade_picture(path: Path, curves: Mapping[str, Sequence[Point]]) -> bool:
    """Draw speedup and efficiency side by side; False if matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(13, 5), layout="constrained")
    FigureCanvasAgg(figure)
    speedup, efficiency = figure.subplots(1, 2)
    most = max(point.ranks for points in curves.values() for point in points)
    for number, (name, points) in enumerate(curves.items()):
        colour, ranks = f"C{number}", [point.ranks for point in points]
        walls = [(point, point.measured) for point in points if point.measured is not None]
        at = [point.ranks for point, _ in walls]
        speedup.plot(ranks, [point.reckoned for point in points], "o-", color=colour, mfc="white", label=name)
        speedup.plot(at, [value for _, value in walls], "s", color=colour)
        shares = [point.efficiency(point.reckoned) for point in points]
        efficiency.plot(ranks, shares, "o-", color=colour, mfc="white", label=name)
        efficiency.plot(at, [point.efficiency(value) for point, value in walls], "s", color=colour)
    speedup.plot([1, most], [1, most], color="0.7", linestyle=":", label="linear")
    processors, best = BEST
    for axes, value in ((speedup, processors * best), (efficiency, best)):
        axes.plot(processors, value, "*", color="black", markersize=13, label="the paper's best: 0.945 at 2")
        axes.set_xticks(sorted({point.ranks for points in curves.values() for point in points}))
        axes.set_xlabel("ranks (squares: wall time; circles: reckoned from CPU time and traffic)")
        axes.legend()
    speedup.set(title="Speedup, as in figure 4 of the paper", ylabel="time of 1 rank / time of p")
    efficiency.set(title="Efficiency, as in figure 5 of the paper", ylabel="speedup / p", ylim=(0, 1.1))
    with replacing(path) as sibling:
        figure.savefig(sibling, format=path.suffix.lstrip("."), dpi=110)
    return True
