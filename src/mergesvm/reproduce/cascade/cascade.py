"""Figures 4 and 5 of Zhang and Zhu: speedup and efficiency of ranks that add their sums up a cascade."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mergesvm.engines.machine import cores
from mergesvm.reproduce.cascade.launch import find_mpiexec
from mergesvm.reproduce.cascade.picture import draw_curves
from mergesvm.reproduce.cascade.workload import Workload, measure_workloads
from mergesvm.reproduce.paper_data import ADULT, Source
from mergesvm.reproduce.reproduction import Reproduction
from mergesvm.reproduce.tables import ResultTable, Status
from mergesvm.reproduce.weights.draws import Draw


@dataclass(frozen=True)
class Sizes:
    """Numbers of rows and ranks, and how often each is timed."""

    rare: int  # rows of the rare class
    frequent: tuple[int, ...]  # numbers of rows of the frequent class
    hidden: int  # width of the hidden layer of one more workload, or 0
    ranks: tuple[int, ...]
    repeat: int


FULL = Sizes(20_000, (80_000, 120_000), 1_000, (1, 2, 4, 8), 5)
QUICK = Sizes(1_000, (4_000,), 0, (1, 2), 2)


@dataclass
class Cascade(Reproduction):
    """Learning by MPI ranks, with a table for each workload."""

    name: ClassVar[str] = "cascade"

    source: Source
    seed: int
    sizes: Sizes
    workloads: list[Workload] = field(init=False, default_factory=list)

    def tables(self, status: Status) -> Iterator[ResultTable]:
        """Times, speedup and efficiency of each workload."""
        find_mpiexec()  # raises an error before the work if there is none
        sizes = self.sizes
        frequent, ranks = sorted(set(sizes.frequent)), sorted({1, *sizes.ranks})
        X, y = ADULT.rows(self.source, self.seed)
        draw = Draw.of(X.astype(np.float64), y, sizes.rare, frequent[-1], 0, self.seed)
        for workload in measure_workloads(draw, frequent, sizes.hidden, ranks, sizes.repeat, status):
            self.workloads.append(workload)
            yield workload.table(cores())

    def figures(self) -> dict[str, Any]:
        """Cores of this machine, and the measurements of each workload and number of ranks."""
        return {"cores": cores(), "runs": {each.name: each.figures(cores()) for each in self.workloads}}

    def remarks(self) -> list[str]:
        """What differs from the paper."""
        return [
            "The paper has eight computers of 2004 in a network; here ranks share one computer. With more ranks than "
            "cores no wall time is shown, and the time is modelled.",
            "The text of the paper gives one number: the best efficiency is 0.945, with two processors.",
        ]

    def draw(self, *axes: Any) -> None:
        """Figures 4 and 5."""
        draw_curves({each.name: each.curve(cores()) for each in self.workloads}, *axes)
