"""Kernels: what two rows have in common, for many rows at once by matrix products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.errors import DataError, ParameterError

KERNELS = ("rbf", "linear", "poly")

MAX_FLOAT32_EXPONENT_ERROR, MAX_FLOAT32_VALUE = 2e-4, 1e12
"""Float32 is precise enough while the rounding error of the exponent of "rbf", and values of other kernels, are at most
this."""

MAX_UNCACHED_COLUMNS = 64
"""Up to this many columns, recomputing a kernel value of dense rows is as fast as a cache lookup."""


@dataclass(frozen=True)
class Kernel:
    """A kernel: exp(-gamma |x - z|^2), x.z, (gamma x.z + coef0)^degree, or any function of two sets of rows.

    Parameters
    ----------
    kind : {"rbf", "linear", "poly", "callable"}
    gamma, degree, coef0 : numbers
    function : function of arrays (m, features) and (n, features) that gives an array (m, n), if the kind is "callable"

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[0.0], [1.0]])
    >>> Kernel("rbf", gamma=0.5)(rows, rows).round(3)
    array([[1.   , 0.607],
           [0.607, 1.   ]])
    """

    kind: str
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0
    function: Callable[[Any, Any], Any] | None = None

    def check(self) -> Kernel:
        """The same kernel, in plain numbers, as files have them; or an error that names what cannot be."""
        if not (isinstance(self.gamma, Real) and 0 < self.gamma < np.inf):
            raise ParameterError(f"gamma has to be 'scale', 'auto' or a positive number, not {self.gamma!r}.")
        if not (isinstance(self.degree, Integral) and 1 <= self.degree <= 100):
            raise ParameterError(f"degree has to be a whole number from 1 to 100, not {self.degree!r}.")
        if not (isinstance(self.coef0, Real) and np.isfinite(self.coef0)):
            raise ParameterError(f"coef0 has to be a finite number, not {self.coef0!r}.")
        return replace(self, gamma=float(self.gamma), degree=int(self.degree), coef0=float(self.coef0))

    def bears(self, reach: float, real: np.dtype[Any]) -> bool:
        """Whether what is computed of rows whose squared distance from the origin is up to this is finite.

        >>> Kernel("poly", degree=3).bears(1e20, np.dtype(np.float32)), Kernel("poly").bears(1e20, np.dtype(np.float64))
        (False, True)
        """
        if self.kind == "callable":
            return True
        with np.errstate(over="ignore"):
            value = np.float64(reach) * (4 * self.gamma if self.kind == "rbf" else 1)
            if self.kind == "poly":
                value = (self.gamma * value + abs(self.coef0)) ** self.degree
            return bool(np.isfinite(real.type(value)))

    @property
    def is_function(self) -> bool:
        """Whether it is a Python function, which takes dense float64 rows and is not compiled."""
        return self.kind == "callable"

    def fits_float32(self, squared_norm: float) -> bool:
        """Whether float32 is precise enough for rows of up to this squared norm.

        >>> Kernel("rbf").fits_float32(10.0), Kernel("rbf").fits_float32(1e6)
        (True, False)
        """
        if self.is_function:
            return False
        if self.kind == "rbf":
            return self.gamma * squared_norm * 2**-22 <= MAX_FLOAT32_EXPONENT_ERROR
        with np.errstate(over="ignore"):
            power = np.float64(self.gamma * squared_norm + abs(self.coef0)) ** self.degree
        return bool((power if self.kind == "poly" else squared_norm) <= MAX_FLOAT32_VALUE)

    @property
    def shifts(self) -> bool:
        """Whether it is the same wherever the origin is."""
        return self.kind == "rbf"

    @property
    def numbers(self) -> tuple[int, float, int, float]:
        """Its place in ``KERNELS``, gamma, degree and coef0: as compiled kernels know it, if it is not a function."""
        return KERNELS.index(self.kind), float(self.gamma), int(self.degree), float(self.coef0)

    def lift(self, rows: Any, real: np.dtype[Any], origin: NDArray[np.float64] | None = None) -> Lifted:
        """Rows as one side of the product: in this precision, about an origin, and with what else the product needs.

        For dense rows and the kernel "rbf" that is [sqrt(2 gamma) x, -gamma |x|^2, 1], or with the last two turned for
        the other side, so that the product is the exponent already.
        """
        if self.kind == "callable":
            # Functions are given what they would be given in numpy: numbers that do not overflow, and zeros, too.
            return Lifted(np.array(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64))
        if sparse.issparse(rows):
            matrix = rows.astype(real)
            squares = np.asarray(matrix.multiply(matrix).sum(axis=1), dtype=real).ravel()
            return Lifted(matrix, squares)
        if self.kind != "rbf":
            return Lifted(np.ascontiguousarray(rows, dtype=real))
        matrix = np.empty((len(rows), rows.shape[1] + 2), dtype=real)
        near = rows if origin is None else rows - origin
        np.multiply(near, np.sqrt(2 * self.gamma), out=matrix[:, :-2], casting="unsafe")
        matrix[:, -2] = -0.5 * np.einsum("rd,rd->r", matrix[:, :-2], matrix[:, :-2], dtype=np.float64)
        matrix[:, -1] = 1
        return Lifted(matrix)

    def turn(self, lifted: Lifted) -> Lifted:
        """The same rows as the other side of the product."""
        if self.kind != "rbf" or lifted.squares is not None:
            return lifted
        matrix = lifted.matrix.copy()
        matrix[:, -2], matrix[:, -1] = lifted.matrix[:, -1], lifted.matrix[:, -2]
        return Lifted(matrix)

    def fill(self, left: Lifted, right: Lifted, out: NDArray[Any]) -> None:
        """Kernel values of turned rows with rows, (left, right), into ``out``."""
        if self.kind == "callable":
            assert self.function is not None
            out[:] = _values(self.function, left.matrix, right.matrix)
            return
        if left.squares is None:
            np.matmul(left.matrix, right.matrix.T, out=out)
        else:
            out[:] = (left.matrix @ right.matrix.T).toarray()
            if self.kind == "rbf":
                assert right.squares is not None
                out *= 2 * self.gamma
                out -= (self.gamma * left.squares)[:, None]
                out -= self.gamma * right.squares
        if self.kind == "rbf":
            _exponentials(out)
        elif self.kind == "poly":
            out *= self.gamma
            out += self.coef0
            _raise_to(out, self.degree)

    def __call__(self, left: Any, right: Any) -> NDArray[np.float64]:
        """Kernel values of rows with rows, (left, right), in float64."""
        real = np.dtype(np.float64)
        origin = None if sparse.issparse(right) or not self.shifts else np.asarray(right, dtype=np.float64).mean(axis=0)
        out = np.empty((left.shape[0], right.shape[0]))
        self.fill(self.turn(self.lift(left, real, origin)), self.lift(right, real, origin), out)
        return out


@dataclass
class Lifted:
    """Rows as they are multiplied: an array, or a CSR array and the squares of the lengths of its rows."""

    matrix: Any
    squares: NDArray[Any] | None = None

    def __len__(self) -> int:
        length: int = self.matrix.shape[0]
        return length

    @property
    def narrow(self) -> bool:
        """Whether they are dense, and so narrow that kernel values are as soon computed as looked for."""
        return isinstance(self.matrix, np.ndarray) and self.matrix.shape[1] <= MAX_UNCACHED_COLUMNS

    def take(self, places: Any) -> Lifted:
        """Some of the rows: a slice is no copy of dense ones."""
        return Lifted(self.matrix[places], None if self.squares is None else self.squares[places])

    def reorder(self, order: NDArray[np.int64]) -> None:
        """Put the first rows into another order, in place where they are dense."""
        if isinstance(self.matrix, np.ndarray):
            self.matrix[: len(order)] = self.matrix[order]
        else:
            whole = np.append(order, np.arange(len(order), len(self)))
            self.matrix = self.matrix[whole]
            if self.squares is not None:
                self.squares = self.squares[whole]

    def joined(self, other: Lifted) -> Lifted:
        """These rows and others."""
        matrices = self.matrix, other.matrix
        matrix = np.concatenate(matrices) if isinstance(self.matrix, np.ndarray) else sparse.vstack(matrices, "csr")
        if self.squares is None or other.squares is None:
            return Lifted(matrix)
        return Lifted(matrix, np.concatenate([self.squares, other.squares]))


def _exponentials(out: NDArray[Any]) -> None:
    """Exp of exponents, in place. A distance is not negative, but for rounding."""
    if out.dtype == np.float32:
        from mergesvm.models.kernel_values_jit import exponentials_single

        exponentials_single(out)
    else:
        np.minimum(out, 0, out=out)
        np.exp(out, out=out)


def _values(function: Callable[[Any, Any], Any], left: Any, right: Any) -> NDArray[Any]:
    values = np.asarray(function(left, right))
    shape = left.shape[0], right.shape[0]
    if values.shape != shape or values.dtype.kind not in "biuf":
        raise DataError(
            f"The kernel has to give numbers of shape {shape} for {shape[0]} and {shape[1]} rows, not "
            f"{values.dtype} of shape {values.shape}."
        )
    if not np.isfinite(values).all():
        raise DataError("The kernel gives values that are not finite.")
    return values


def _raise_to(out: NDArray[Any], degree: int) -> None:
    """Raise to a whole power by multiplications, in place."""
    base = out.copy() if degree > 1 else out
    for bit in bin(degree)[3:]:
        out *= out
        if bit == "1":
            out *= base
