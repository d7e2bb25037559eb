"""The schedule of Pegasos: number, size and averaging of steps."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from mergesvm.checks import check_flag
from mergesvm.errors import ParameterError

MAX_STEPS = 2**53 - 1
"""The largest count that a float64 represents exactly."""

MAX_BATCH_SIZE = 2**24
"""Rows of a step, whose numbers every thread keeps in memory."""

MIN_SCALE, MAX_SCALE = 1e-30, 1e30
"""Limits of lambda and of the intercept scaling."""


@dataclass(frozen=True)
class Schedule:
    """How steps are made, the same for all problems.

    Attributes
    ----------
    lambda_ : float
        Weight of w.w / 2 relative to the mean hinge loss.
    n_iter : int
        Number of steps.
    batch_size : int
        Number of rows per step, whose subgradients are averaged.
    average : float
        Fraction of the steps, the last ones, over which w is averaged; 0 for the w of the last step.
    project : bool
        Whether steps are projected onto the ball that contains the solution: w.w <= 1 / lambda, or the mean weight of a
        row / lambda.
    fit_intercept : bool
        Whether to fit an intercept, as the coefficient of a constant feature.
    intercept_scaling : float, optional
        The value of that feature (default: the root mean square norm of the rows, so that the intercept is learned as
        fast as the coefficients).

    Examples
    --------
    >>> Schedule(lambda_=0).check()
    Traceback (most recent call last):
    ...
    mergesvm.errors.ParameterError: lambda_ must be a number from 1e-30 to 1e+30, not 0.
    """

    lambda_: float = 1e-4
    n_iter: int = 100_000
    batch_size: int = 1
    average: float = 0.5
    project: bool = False
    fit_intercept: bool = True
    intercept_scaling: float | None = None

    def check(self) -> Schedule:
        """The same schedule as plain numbers, or an error that names the invalid parameter."""
        if not _is(self.lambda_, Real) or not MIN_SCALE <= self.lambda_ <= MAX_SCALE:
            raise ParameterError(f"lambda_ must be a number from {MIN_SCALE:g} to {MAX_SCALE:g}, not {self.lambda_!r}.")
        for name, most in (("n_iter", MAX_STEPS), ("batch_size", MAX_BATCH_SIZE)):
            value = getattr(self, name)
            if not _is(value, Integral) or not 1 <= value <= most:
                raise ParameterError(f"{name} must be an integer from 1 to {most:,}, not {value!r}.")
        scaling = self.intercept_scaling
        if scaling is not None and (not _is(scaling, Real) or not MIN_SCALE <= scaling <= MAX_SCALE):
            raise ParameterError(
                f"intercept_scaling must be a number from {MIN_SCALE:g} to {MAX_SCALE:g}, or None, not {scaling!r}."
            )
        if not isinstance(self.average, (Real, np.bool_)) or not 0 <= self.average <= 1:
            raise ParameterError(
                f"average must be a number from 0 to 1, the fraction of the steps to average, not {self.average!r}."
            )
        project, fit_intercept = (check_flag(name, getattr(self, name)) for name in ("project", "fit_intercept"))
        return Schedule(
            float(self.lambda_),
            int(self.n_iter),
            int(self.batch_size),
            float(self.average),
            project,
            fit_intercept,
            None if scaling is None else float(scaling),
        )


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, (bool, np.bool_))
