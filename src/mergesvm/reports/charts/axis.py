"""An axis of a chart: its range, the positions of numbers on it, and its ticks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROUND_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
"""The distance between ticks is one of these times a power of ten."""

MAX_STEPS = 6
"""The most steps between ticks."""


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic axis from low to high; by default the unit interval.

    >>> Axis().place([0.5]), Axis(1.0, 100.0, log=True).place([10.0])
    (array([0.5]), array([0.5]))
    """

    low: float = 0.0
    high: float = 1.0
    log: bool = False

    @classmethod
    def over(cls, values: Any, log: bool = False) -> Axis:
        """The axis that spans all finite values, with limits rounded to ticks.

        >>> Axis.over([0.31, 0.46]), Axis.over([1e-6, 1e6], log=True).high
        (Axis(low=0.3, high=0.475, log=False), 1000000.0)
        """
        known = np.asarray(values, dtype=np.float64).ravel()
        known = known[np.isfinite(known) & ((known > 0) | (not log))]
        if not len(known):
            return cls(1.0, 10.0, True) if log else cls()
        low, high = float(known.min()), float(known.max())
        if log:
            return cls(low, high, True) if high > low else cls(low / 10, high * 10, True)
        if high - low <= 1e-9 * max(abs(low), abs(high)):
            # The values differ by rounding errors only.
            reach = abs(low) / 10 or 1.0
            low, high = low - reach, high + reach
        step = _step(low, high)
        # Round, because 3 * 0.1 is not 0.3.
        ends = np.floor(low / step + 1e-9) * step, np.ceil(high / step - 1e-9) * step
        low, high = (float(f"{end:.12g}") for end in ends)
        return cls(low, high)

    def place(self, values: Any) -> NDArray[np.float64]:
        """Positions of numbers, from 0 at the low end to 1 at the high end, clipped; NaN if not finite."""
        numbers = np.asarray(values, dtype=np.float64)
        if self.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                fractions = np.log(numbers / self.low) / np.log(self.high / self.low)
        else:
            fractions = (numbers - self.low) / (self.high - self.low)
        return np.where(np.isfinite(numbers), np.clip(fractions, 0.0, 1.0), np.nan)

    def ticks(self) -> list[tuple[float, str]]:
        """Position and text of each tick.

        >>> Axis(0.0, 0.5).ticks()[:2], Axis(1e-6, 1e6, log=True).ticks()[0]
        ([(0.0, '0.0'), (0.2, '0.1')], (0.0, '1e-6'))
        """
        return self._powers() if self.log and self.high >= 9 * self.low else self._even()

    def _even(self) -> list[tuple[float, str]]:
        step = 0.2 if (self.low, self.high) == (0.0, 1.0) else _step(self.low, self.high)
        first, last = int(np.ceil(self.low / step - 1e-9)), int(np.floor(self.high / step + 1e-9))
        values = [number * step for number in range(first, last + 1)]
        return list(zip(self.place(values).tolist(), [_written(value, step) for value in values], strict=True))

    def _powers(self) -> list[tuple[float, str]]:
        first, last = int(np.ceil(np.log10(self.low) - 1e-9)), int(np.floor(np.log10(self.high) + 1e-9))
        step = -(-(last - first) // MAX_STEPS) or 1
        # Multiples of the step, so that 1 is among them if it is in range.
        powers = [power for power in range(first, last + 1) if power % step == 0]
        if len(powers) > 2:
            return [(float(self.place(10.0**power)), _power(power)) for power in powers]
        between = [times * 10.0**power for power in range(first - 1, last + 1) for times in (1, 2, 5)]
        values = [value for value in between if self.low <= value * (1 + 1e-9) and value <= self.high * (1 + 1e-9)]
        return [(float(self.place(value)), f"{value:.1g}") for value in values]


def _step(low: float, high: float) -> float:
    """The smallest round step with at most MAX_STEPS steps between two numbers."""
    rough = (high - low) / MAX_STEPS
    size = float(10.0 ** np.floor(np.log10(rough)))
    return next(size * step for step in ROUND_STEPS if size * step >= rough * (1 - 1e-9))


def _written(value: float, step: float) -> str:
    if max(abs(value), step) >= 1e5 or 0 < step < 1e-4:
        return f"{value:.3g}"
    digits = max(0, -int(np.floor(np.log10(step) + 1e-9)))
    digits += round(step * 10**digits, 6) % 1 > 0  # a step of 0.25 has one digit more than one of 0.2
    return f"{value:.{digits}f}"


def _power(power: int) -> str:
    return f"{10.0**power:g}" if -2 <= power <= 3 else f"1e{power}"
