"""Policy and ProblemStatus: when the coordinator stops, and the state of each binary problem."""

from __future__ import annotations

from dataclasses import dataclass

from mergesvm.methods.kernel.options import KernelOptions

RELATIVE_SUBPROBLEM_TOL = 0.05
"""Subproblems of the working-set method are solved to this fraction of the largest violation."""


@dataclass(frozen=True)
class Policy:
    """How the coordinator selects the working set, and when it stops.

    Attributes
    ----------
    penalty : float
        On (y'alpha)^2 / 2; negative for the constraint y'alpha = 0.
    tolerance : float
        Of the largest violation; with ``stops_on_gap``, of the duality gap relative to the objective.
    stops_on_gap : bool
    max_iter : int or None
    relative_subproblem_tol : float
        Subproblems are solved to this fraction of the largest violation.
    max_kept : int
        Number of rows that stay in the working set: free support vectors, the newest first.
    keeps_support : bool
        Whether all support vectors stay instead, as in the active-set method.
    max_support_vectors : int or None
        Of each problem; only with ``keeps_support``.
    shrinks : bool
        Whether rows that stay at a bound may be shrunk: left out until the other rows have converged.
    """

    penalty: float
    tolerance: float
    stops_on_gap: bool
    max_iter: int | None
    relative_subproblem_tol: float
    max_kept: int
    keeps_support: bool
    max_support_vectors: int | None
    shrinks: bool

    @classmethod
    def of(cls, options: KernelOptions, penalty: float, tolerance: float) -> Policy:
        """The policy of a method."""
        active_set = options.method == "active-set"
        return cls(
            penalty,
            tolerance,
            options.stops_on_gap,
            options.max_iter,
            relative_subproblem_tol=0.0 if active_set else RELATIVE_SUBPROBLEM_TOL,
            max_kept=options.working_set,
            keeps_support=active_set,
            max_support_vectors=options.max_support_vectors,
            shrinks=options.method == "working-set",
        )


@dataclass
class ProblemStatus:
    """The state of one binary problem.

    Attributes
    ----------
    objective : float
        The dual objective.
    total : float
        y'alpha.
    stopped : {"", "converged", "max_iter", "stalled", "max_support_vectors"}
        Why the problem is no longer worked on, if it is not.
    """

    objective: float = 0.0
    total: float = 0.0
    stopped: str = ""
