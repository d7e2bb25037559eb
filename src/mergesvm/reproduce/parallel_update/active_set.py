"""Algorithm 1: support vectors, traffic, precision and recall, by the number of units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mergesvm.reproduce.parallel_update.problem import Digits


@dataclass(frozen=True)
class ActiveSetRun:
    """One training run; ``limit`` is the budget of support vectors, None for all that the optimum has."""

    units: int
    limit: int | None
    n_support: int
    n_iter: int
    traffic: int  # bytes of all messages
    fraction_of_rows: float  # traffic, relative to sending all rows once to all units
    accuracy: float  # per cent, as are precision and recall of the digit 8
    precision: float
    recall: float


def run(rows: Digits, units: int, limit: int | None) -> ActiveSetRun:
    """Train with algorithm 1 and a budget, or to the optimum with the working-set method."""
    single = Digits(rows.title, rows.X.astype(np.float32), rows.y, rows.test.astype(np.float32), rows.truth)
    if limit is None:
        machine = single.machine(units=units)
    else:
        machine = single.machine(units=units, method="active-set", max_support_vectors=limit)
    scores = machine.decision_function(single.test)
    found, wanted = scores >= 0, rows.truth > 0
    hits, traffic = float((found & wanted).sum()), machine.traffic_.total
    return ActiveSetRun(
        units,
        limit,
        int(machine.n_support_.sum()),
        machine.n_iter_,
        traffic,
        traffic / (single.X.nbytes * units),
        rows.accuracy(scores),
        100 * hits / max(1, found.sum()),
        100 * hits / wanted.sum(),
    )
