"""The arrays of a file, each checked for its shape, type and range."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import InvalidContentError
from mergesvm.files.header import CREATE_AGAIN, MAX_NUMBER

SQUARES = ("grams", "peaks", "scores.variances", "scores.covariance")
"""Arrays of squares, whose limit is the square of :data:`MAX_NUMBER`."""


class Content:
    """The arrays of a file, checked as they are taken; ``cure`` is the advice that ends the error messages."""

    def __init__(self, arrays: dict[str, NDArray[Any]], source: str, cure: str = CREATE_AGAIN) -> None:
        self.arrays = arrays
        self.source = source
        self.cure = cure
        self._expected: set[str] = set()

    def refuse(self, what: str) -> NoReturn:
        """Raise an error for invalid arrays."""
        raise InvalidContentError(f"{self.source} is not valid: it holds {what}. {self.cure}")

    def expect(self, name: str, shape: tuple[int, ...], *dtypes: str) -> NDArray[Any]:
        """Return an array of finite numbers of this shape and one of these types, float64 by default."""
        dtypes = dtypes or ("<f8",)
        self._expected.add(name)
        if name not in self.arrays:
            self.refuse(f"no array {name!r}")
        array = self.arrays[name]
        if array.shape != shape or array.dtype not in map(np.dtype, dtypes):
            wanted = " or ".join(dtypes)
            self.refuse(f"{name!r} of type {array.dtype} and shape {array.shape} instead of {wanted} and {shape}")
        if not _within(array, _limit(name)):
            self.refuse(f"a number in {name!r} that is not finite, or too large")
        return array

    def done(self) -> None:
        """Raise an error if there are unexpected arrays."""
        unexpected = sorted(set(self.arrays) - self._expected)
        if unexpected:
            self.refuse(f"an unexpected array {unexpected[0]!r}")


def _within(array: NDArray[Any], limit: np.float64) -> bool:
    # Without a copy, because arrays may take half of the memory. Comparisons with NaN are false.
    return array.size == 0 or bool(array.max() <= limit and array.min() >= -limit)


def _limit(name: str) -> np.float64:
    # As float64, so that arrays of float32 are compared in float64.
    return np.float64(MAX_NUMBER**2 if name in SQUARES else MAX_NUMBER)
