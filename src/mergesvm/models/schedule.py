"""How the steps of Pegasos are made."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from mergesvm.errors import ParameterError

MOST_STEPS = 2**53 - 1
"""So many steps a float64 can count."""

MOST_DRAWN = 2**24
"""A step draws at most so many rows: their numbers are kept in memory, on every thread."""

LEAST, MOST = 1e-30, 1e30
"""Between which lambda, and the scale of the intercept, have to be."""


@dataclass(frozen=True)
class Schedule:
    """How steps are made, in all problems alike.

    Attributes
    ----------
    lambda_ : float
        Weight of w.w / 2 against the mean hinge loss of a row.
    n_iter : int
        How many steps are made.
    batch_size : int
        How many rows each step draws; it follows the mean of their subgradients.
    average : float
        Over which share of the steps, the last ones, w is averaged; 0 for w as the last step leaves it.
    project : bool
        Whether every step ends in the ball in which the solution is known to lie: w.w <= 1 / lambda, or where rows are
        weighted the mean weight of a row / lambda.
    fit_intercept : bool
        Whether there is an intercept: that of a feature that is the same in every row.
    intercept_scaling : float, optional
        The value of that feature; the root mean square length of the rows by default. The intercept is then learned as
        fast as the coefficients, whatever the units of the rows.

    Examples
    --------
    >>> Schedule(lambda_=0).check()
    Traceback (most recent call last):
    ...
    mergesvm.errors.ParameterError: lambda_ has to be a number from 1e-30 to 1e+30, not 0.
    """

    lambda_: float = 1e-4
    n_iter: int = 100_000
    batch_size: int = 1
    average: float = 0.5
    project: bool = False
    fit_intercept: bool = True
    intercept_scaling: float | None = None

    def check(self) -> Schedule:
        """The schedule as plain numbers, or an error that names what cannot be."""
        if not _is(self.lambda_, Real) or not LEAST <= self.lambda_ <= MOST:
            raise ParameterError(f"lambda_ has to be a number from {LEAST:g} to {MOST:g}, not {self.lambda_!r}.")
        for name, most in (("n_iter", MOST_STEPS), ("batch_size", MOST_DRAWN)):
            value = getattr(self, name)
            if not _is(value, Integral) or not 1 <= value <= most:
                raise ParameterError(f"{name} has to be a whole number from 1 to {most:,}, not {value!r}.")
        scaling = self.intercept_scaling
        if scaling is not None and (not _is(scaling, Real) or not LEAST <= scaling <= MOST):
            raise ParameterError(
                f"intercept_scaling has to be a number from {LEAST:g} to {MOST:g}, or None, not {scaling!r}."
            )
        if not isinstance(self.average, (Real, np.bool_)) or not 0 <= self.average <= 1:
            raise ParameterError(
                f"average has to be the share of the steps that is averaged, from 0 (none) to 1 (all), not "
                f"{self.average!r}."
            )
        for name in ("project", "fit_intercept"):
            value = getattr(self, name)
            if not isinstance(value, (bool, np.bool_)):
                raise ParameterError(f"{name} has to be True or False, not {value!r}.")
        return Schedule(
            float(self.lambda_),
            int(self.n_iter),
            int(self.batch_size),
            float(self.average),
            bool(self.project),
            bool(self.fit_intercept),
            None if scaling is None else float(scaling),
        )


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, (bool, np.bool_))
