"""Weights and biases that users give as arrays or files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from mergesvm.errors import DataError, MissingFileError, ParameterError


def finite_array(name: str, values: Any, dimensions: int, shape: str) -> NDArray[np.float64]:
    """Return a read-only copy in float64, or raise an error unless it has these dimensions and is finite.

    >>> finite_array("weights", [[1, 2, 3]], 2, "(columns, units)")
    array([[1., 2., 3.]])
    """
    try:
        array = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"{name} must be an array of numbers of shape {shape}, not {type(values).__name__}."
        ) from error
    if array.ndim != dimensions or array.size == 0:
        raise ParameterError(f"{name} must be an array of shape {shape}, not of shape {array.shape}.")
    if not np.isfinite(array).all():
        at = tuple(int(index) for index in np.argwhere(~np.isfinite(array))[0])
        raise ParameterError(f"{name} must be finite, but the entry at {at} is {array[at]}.")
    array.flags.writeable = False
    return array


def brief(*arrays: NDArray[np.float64]) -> str:
    """Return the shape of the first array and the beginning of a digest of all.

    >>> brief(np.zeros((3, 2)), np.ones(2))
    '3 x 2, ...'
    """
    digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
    return f"{' x '.join(map(str, arrays[0].shape))}, {digest[:16]}"


def read_arrays(path: str) -> dict[str, NDArray[Any]]:
    """Return the weights, and the biases if there are any, of an .npz file."""
    try:
        with Path(path).open("rb") as stream:
            file = np.load(stream, allow_pickle=False)
            arrays = {name: file[name] for name in sorted(file)} if isinstance(file, NpzFile) else {}
    except FileNotFoundError:
        raise MissingFileError(f"There is no file {path}.") from None
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise DataError(
            f"{path} is not an .npz file of arrays. Write it with numpy.savez(path, weights=..., biases=...)."
        ) from error
    if "weights" not in arrays or not set(arrays) <= {"weights", "biases"}:
        found = ", ".join(arrays) or "none"
        raise DataError(f"{path} must contain the arrays weights and biases, and no others, not {found}.")
    return arrays
