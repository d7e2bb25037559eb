"""An axis of a chart: which numbers it spans, where each lies on it, and which are written beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
"""Numbers beside an axis are these times a power of ten apart."""

MOST = 6
"""So many steps at most."""


@dataclass(frozen=True)
class Axis:
    """Numbers from low to high, evenly or by their logarithm; by default those of the unit interval.

    >>> Axis().place([0.5]), Axis(1.0, 100.0, log=True).place([10.0])
    (array([0.5]), array([0.5]))
    """

    low: float = 0.0
    high: float = 1.0
    log: bool = False

    @classmethod
    def over(cls, values: Any, log: bool = False) -> Axis:
        """The axis on which all of these numbers lie, with a little room; those that are not finite do not count.

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
            # Differences of rounding are none.
            reach = abs(low) / 10 or 1.0
            low, high = low - reach, high + reach
        step = _step(low, high)
        # Rounded, because 3 * 0.1 is not 0.3.
        ends = np.floor(low / step + 1e-9) * step, np.ceil(high / step - 1e-9) * step
        low, high = (float(f"{end:.12g}") for end in ends)
        return cls(low, high)

    def place(self, values: Any) -> NDArray[np.float64]:
        """Where numbers lie, from 0 at the low end to 1 at the high one; those beyond an end lie at it."""
        numbers = np.asarray(values, dtype=np.float64)
        if self.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                shares = np.log(numbers / self.low) / np.log(self.high / self.low)
        else:
            shares = (numbers - self.low) / (self.high - self.low)
        return np.where(np.isfinite(numbers), np.clip(shares, 0.0, 1.0), np.nan)

    def ticks(self) -> list[tuple[float, str]]:
        """Numbers to write beside the axis: where, and how.

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
        step = -(-(last - first) // MOST) or 1
        # From zero outwards, so that 1 is among them where it can be.
        powers = [power for power in range(first, last + 1) if power % step == 0]
        if len(powers) > 2:
            return [(float(self.place(10.0**power)), _power(power)) for power in powers]
        between = [times * 10.0**power for power in range(first - 1, last + 1) for times in (1, 2, 5)]
        values = [value for value in between if self.low <= value * (1 + 1e-9) and value <= self.high * (1 + 1e-9)]
        return [(float(self.place(value)), f"{value:.1g}") for value in values]


def _step(low: float, high: float) -> float:
    """The least of the round steps of which no more than enough fit between two numbers."""
    rough = (high - low) / MOST
    size = float(10.0 ** np.floor(np.log10(rough)))
    return next(size * step for step in STEPS if size * step >= rough * (1 - 1e-9))


def _written(value: float, step: float) -> str:
    if max(abs(value), step) >= 1e5 or 0 < step < 1e-4:
        return f"{value:.3g}"
    digits = max(0, -int(np.floor(np.log10(step) + 1e-9)))
    digits += round(step * 10**digits, 6) % 1 > 0  # a step of 0.25 has one digit more than one of 0.2
    return f"{value:.{digits}f}"


def _power(power: int) -> str:
    return f"{10.0**power:g}" if -2 <= power <= 3 else f"1e{power}"
