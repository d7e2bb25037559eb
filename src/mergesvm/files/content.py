"""The arrays of a file: plain numbers, each checked against what the header makes one expect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import DataError, InvalidContentError
from mergesvm.files.header import LARGEST

SQUARES = ("grams", "peaks", "scores.variances", "scores.covariance")
"""Arrays of squares, which may be as large as squares are."""


class Content:
    """The arrays of a file, checked one by one."""

    def __init__(self, arrays: dict[str, NDArray[Any]], source: str) -> None:
        self.arrays = arrays
        self.source = source
        self._expected: set[str] = set()

    def refuse(self, what: str) -> NoReturn:
        """Raise the error that the arrays are not valid, because of this."""
        raise InvalidContentError(f"{self.source} holds {what}, which no file of ours does. Make it again.")

    def expect(self, name: str, shape: tuple[int, ...], *dtypes: str) -> NDArray[Any]:
        """An array of this shape and one of these types, float64 if none is given, of finite numbers."""
        dtypes = dtypes or ("<f8",)
        self._expected.add(name)
        if name not in self.arrays:
            self.refuse(f"no array {name!r}")
        array = self.arrays[name]
        if array.shape != shape or array.dtype not in map(np.dtype, dtypes):
            wanted = " or ".join(dtypes)
            self.refuse(f"{name!r} of type {array.dtype} and shape {array.shape} instead of {wanted} and {shape}")
        if not _within(array, _largest(name)):
            self.refuse(f"a number in {name!r} that is not finite, or too large")
        return array

    def done(self) -> None:
        """Raise an error if there are arrays that were not expected."""
        strangers = sorted(set(self.arrays) - self._expected)
        if strangers:
            self.refuse(f"an array {strangers[0]!r}")


def check_sizes(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise an error before writing what could not be read again."""
    for name, array in arrays.items():
        if not _within(array, _largest(name)):
            raise DataError(
                f"Numbers beyond {LARGEST:g} cannot be kept in a file. Rescale the columns, and learn again."
            )


def _within(array: NDArray[Any], largest: np.float64) -> bool:
    # Without a copy: arrays may take half of the memory. What is NaN is within nothing.
    return array.size == 0 or bool(array.max() <= largest and array.min() >= -largest)


def _largest(name: str) -> np.float64:
    # As float64, so that arrays of float32 are compared in float64, too.
    return np.float64(LARGEST**2 if name in SQUARES else LARGEST)
