"""One workload of the cascade, measured with several numbers of ranks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mergesvm.features.maps.hidden_layer import HiddenLayer
from mergesvm.knowledge.learning.learn import learn
from mergesvm.methods.proximal.solve import solve
from mergesvm.reproduce.cascade.cost import Measured
from mergesvm.reproduce.cascade.launch import measure, put_rows
from mergesvm.reproduce.cascade.picture import Point
from mergesvm.reproduce.tables import ResultTable, Status
from mergesvm.reproduce.weights.draws import Draw

Figures = list[dict[str, Any]]


@dataclass(frozen=True)
class Workload:
    """One workload, measured with several numbers of ranks, the first of which is 1."""

    name: str
    measured: list[Measured]
    off: float  # largest difference of the coefficients from those of all rows at once, relative to the largest one

    def curve(self, cores: int) -> list[Point]:
        """Speedup of each number of ranks: by wall time if there is a core for each rank, and by the cost model."""
        one = self.measured[0]
        return [
            Point(run.ranks, one.wall / run.wall if run.ranks <= cores else None, one.modelled / run.modelled)
            for run in self.measured
        ]

    def figures(self, cores: int) -> Figures:
        """The figures of each number of ranks."""
        figures = []
        for run, point in zip(self.measured, self.curve(cores), strict=True):
            found = asdict(run) | {"expected": run.expected, "joining": run.joining, "modelled": run.modelled}
            found |= {"off": self.off, "speedup_measured": point.measured, "speedup_modelled": point.modelled}
            del found["coefficients"]
            figures.append(found)
        return figures

    def table(self, cores: int) -> ResultTable:
        """Times, speedup and efficiency of each number of ranks."""
        rows = []
        for run, point in zip(self.measured, self.curve(cores), strict=True):
            seconds = (run.modelled, min(run.learning), run.joining, run.solving)
            wall = ("", "", "")
            if point.measured is not None:
                wall = (f"{1e3 * run.wall:,.1f}", *_speedup_cells(point, point.measured))
            rows.append(
                (
                    str(run.ranks),
                    *wall,
                    *(f"{1e3 * part:,.1f}" for part in seconds),
                    *_speedup_cells(point, point.modelled),
                    f"{run.sent:,}",
                )
            )
        exact = all(run.sent == run.expected for run in self.measured)
        columns = ("ranks", "wall", "speedup", "efficiency", "modelled", "learning", "tree", "solving", "speedup")
        return ResultTable(
            f"{self.name}: learned by ranks, added up a tree, and solved; in milliseconds",
            (*columns, "efficiency", "sent"),
            rows,
            note=f"modelled: CPU time of the busiest rank, and the tree from its bytes and rounds and from latency and "
            f"bandwidth\nbetween two ranks. sent: bytes, {'exactly' if exact else 'NOT'} those of the cost model. "
            f"Coefficients off those of all rows at once by {self.off:.0e}.",
        )


def _speedup_cells(point: Point, speedup: float) -> tuple[str, str]:
    return f"{speedup:.2f}", f"{point.efficiency(speedup):.3f}"


def measure_workloads(
    draw: Draw, frequents: Sequence[int], hidden: int, ranks: Sequence[int], repeats: int, status: Status
) -> Iterator[Workload]:
    """Figures 4 and 5: measure each number of rows of the frequent class with each number of ranks, the first being 1.

    One more workload has a hidden layer of width ``hidden``, unless that is 0.
    """
    workloads = [(count, 0) for count in frequents] + ([(frequents[-1], hidden)] if hidden else [])
    for count, width in workloads:
        n_rows = draw.n_rare + count
        X, y = draw.shuffled(n_rows, seed=0)
        features = HiddenLayer(width, seed=0, precision="float64").freeze(X) if width else None
        name = f"{n_rows:,} rows x {width or X.shape[1]:,} {'hidden ' if width else ''}features"
        measured = []
        with tempfile.TemporaryDirectory() as folder:
            put_rows(Path(folder), X, y, features)
            for number in ranks:
                with status(f"{name}, {number} rank{'' if number == 1 else 's'}"):
                    measured.append(measure(Path(folder), n_rows, number, repeats))
        model = solve(learn(X, y, features=features), 1.0, "complement")
        batch = np.append(model.coef_, model.intercept_)
        off = max(float(np.abs(np.array(run.coefficients) - batch).max()) for run in measured)
        yield Workload(name, measured, off / float(np.abs(batch).max()))
