"""Plot of the speedup and efficiency of the cascade: figures 4 and 5 of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PAPER_BEST = (2, 0.945)
"""Number of processors and efficiency of the best point in the paper, the only one that its text gives."""


@dataclass(frozen=True)
class Point:
    """Speedup of several ranks over one."""

    ranks: int
    measured: float | None  # by wall time; None if there are fewer cores than ranks
    modelled: float  # by the cost model, from the CPU time and the traffic of the ranks

    def efficiency(self, speedup: float) -> float:
        """Speedup per rank."""
        return speedup / self.ranks


def draw_curves(curves: Mapping[str, Sequence[Point]], speedup: Any, efficiency: Any) -> None:
    """Plot speedup and efficiency by the number of ranks."""
    most = max(point.ranks for points in curves.values() for point in points)
    for number, (name, points) in enumerate(curves.items()):
        colour, ranks = f"C{number}", [point.ranks for point in points]
        walls = [(point, point.measured) for point in points if point.measured is not None]
        at = [point.ranks for point, _ in walls]
        speedup.plot(ranks, [point.modelled for point in points], "o-", color=colour, mfc="white", label=name)
        speedup.plot(at, [value for _, value in walls], "s", color=colour)
        efficiencies = [point.efficiency(point.modelled) for point in points]
        efficiency.plot(ranks, efficiencies, "o-", color=colour, mfc="white", label=name)
        efficiency.plot(at, [point.efficiency(value) for point, value in walls], "s", color=colour)
    speedup.plot([1, most], [1, most], color="0.7", linestyle=":", label="linear")
    processors, best = PAPER_BEST
    for axes, value in ((speedup, processors * best), (efficiency, best)):
        axes.plot(processors, value, "*", color="black", markersize=13, label="the paper's best: 0.945 at 2")
        axes.set_xticks(sorted({point.ranks for points in curves.values() for point in points}))
        axes.set_xlabel("ranks (squares: wall time; circles: modelled from CPU time and traffic)")
        axes.legend()
    speedup.set(title="Speedup, as in figure 4 of the paper", ylabel="time of 1 rank / time of p")
    efficiency.set(title="Efficiency, as in figure 5 of the paper", ylabel="speedup / p", ylim=(0, 1.1))
