"""Nodes that share the slices of a stream: each learns its part, and the parts are merged."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from mergesvm.engines.machine import cores
from mergesvm.engines.threads import Threads
from mergesvm.knowledge.combine import merge
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.solve import solve
from mergesvm.reproduce.merging.stream import OPTIONS, Model, Stream, relative_difference
from mergesvm.reproduce.timing import timed


@dataclass(frozen=True)
class Nodes:
    """Seconds that a number of nodes take for all stages of a stream, and how far their last model is off."""

    nodes: int
    learning: float  # CPU time of the slowest node of each stage
    merging: float  # CPU time for adding the parts of all nodes to the knowledge so far
    solving: float  # CPU time
    threads: float | None  # wall time for learning with as many threads; None with fewer cores
    coefficients: float  # largest difference from the batch model of all rows, relative to the largest coefficient

    @property
    def total(self) -> float:
        """Seconds on nodes that have a core each: learning, merging and solving."""
        return self.learning + self.merging + self.solving


def measure_nodes(stream: Stream, numbers: tuple[int, ...], repeats: int) -> list[Nodes]:
    """Run the stream with each number of nodes.

    The nodes run one after another on one core, so that their times do not depend on the cores of this machine.
    """
    with Threads.single_threaded_blas():
        batch = solve(stream.learned(0, stream.slices[-1][1]), **OPTIONS)
        return [_measure(stream, nodes, batch, repeats) for nodes in numbers]


def _measure(stream: Stream, nodes: int, batch: Model, repeats: int) -> Nodes:
    known: Knowledge | None = None
    learning = merging = solving = 0.0
    for begin, end in stream.slices:
        bounds = np.linspace(begin, end, nodes + 1).astype(int)
        parts = [
            timed(repeats, stream.learned, first, last, clock=time.process_time) for first, last in pairwise(bounds)
        ]
        learning += max(seconds for _, seconds in parts)
        pieces = [part for part, _ in parts]
        pieces = pieces if known is None else [known, *pieces]
        known, seconds = timed(repeats, merge, pieces, clock=time.process_time)
        merging += seconds
        model, seconds = timed(repeats, partial(solve, **OPTIONS), known, clock=time.process_time)
        solving += seconds
    wall = None
    if nodes <= cores():
        wall = sum(timed(repeats, stream.learned, begin, end, nodes)[1] for begin, end in stream.slices)
    return Nodes(nodes, learning, merging, solving, wall, relative_difference(model, batch))
