"""How fast the parallel update converges, by step, number of units and beta."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mergesvm.reproduce.parallel_update.problem import Dual

TOL = 1e-6
"""Training stops when no row violates the optimality conditions by more than this."""

MIN_RELATIVE_STEP = 1e-8
"""Steps below this fraction of the first are rounding errors, in which no rate can be seen."""


@dataclass(frozen=True)
class Run:
    """One training run by projected gradients."""

    units: int
    beta: float
    kappa: float
    fraction: float  # of the largest step, 2 / lambda_max
    largest_eigenvalue: float
    smallest_eigenvalue: float
    converged: bool
    n_iter: int
    rate: float  # factor per iteration of the distance from the optimum, over the last tenth of the iterations
    worst: float  # the largest ratio of two successive steps
    bound: float  # of both, by theorem 2
    gap: float  # (F* - F) / F* at the end
    total: float  # y'alpha
    optimum: float
    accuracy: float  # per cent
    bytes_per_iteration: float
    gaps: NDArray[np.float64]  # (F* - F) / F* at each iteration


def run(dual: Dual, kappa: float, max_iter: int) -> Run:
    """Train with a step, and measure the rate from the history of the machine."""
    machine = dual.machine(method="gradient", kappa=kappa, tol=TOL, max_iter=max_iter)
    history = machine.history_
    steps = history.step
    seen = steps[steps > MIN_RELATIVE_STEP * steps.max()]
    gaps = 1 - history.objective / dual.optimum
    eigenvalues = dual.eigenvalues
    return Run(
        dual.units,
        dual.beta,
        kappa,
        kappa / dual.largest_step,
        float(eigenvalues[-1]),
        float(eigenvalues[0]),
        machine.fit_status_ == 0,
        len(history) - 1,
        history.rate(),
        float((seen[1:] / seen[:-1]).max()),
        dual.rate_bound(kappa),
        float(gaps[-1]),
        float(machine.dual_coef_.sum()),
        dual.optimum,
        dual.rows.accuracy(machine.decision_function(dual.rows.test)),
        float(history.bytes.sum()) / len(history),
        gaps,
    )


def same_iterates(dual: Dual, units: int, max_iter: int) -> float:
    """Largest difference of alpha if other units hold the rows and M beta stays the same, relative to alpha_max."""
    other = Dual(dual.rows, units, dual.beta * dual.units / units)
    kappa, found = dual.largest_step / 2, []
    for each in (dual, other):
        machine = each.machine(method="gradient", kappa=kappa, tol=TOL, max_iter=max_iter)
        signed = np.zeros(len(dual.rows.y))
        signed[machine.support_] = machine.dual_coef_[0]
        found.append(signed)
    return float(np.abs(found[0] - found[1]).max() / np.abs(found[0]).max())
