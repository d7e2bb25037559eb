"""Kernel functions, evaluated for many rows at once by matrix products.

To add a kernel function, add an entry to ``KERNELS``: checks, error messages, files and estimators follow. It is
evaluated with numpy until :mod:`mergesvm.models.kernel_values_jit` has a compiled form of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.errors import DataError, ParameterError

MAX_FLOAT32_ARGUMENT_ERROR, MIN_FLOAT32_ARGUMENT, MAX_FLOAT32_VALUE = 2e-4, 0.05, 1e12
"""Float32 is precise enough if the rounding error of the argument of a bounded kernel, or the values of another kernel,
are at most this; and if arguments of "rbf" reach this number, without which all its values are nearly 1."""

MAX_UNCACHED_COLUMNS = 64
"""Up to this many columns, recomputing a kernel value of dense rows is as fast as a cache lookup."""


@dataclass(frozen=True)
class Kernel:
    """A kernel function with its parameters.

    Parameters
    ----------
    kind : str
        A name in ``KERNELS``, "callable", or "precomputed".
    gamma, degree, coef0 : numbers
    function : function, optional
        If the kind is "callable": takes arrays (m, features) and (n, features) and returns an array (m, n).

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
        """The same kernel with plain Python numbers, or an error that names the invalid parameter."""
        if not (isinstance(self.gamma, Real) and 0 < self.gamma < np.inf):
            raise ParameterError(f"gamma must be 'scale', 'auto' or a positive number, not {self.gamma!r}.")
        if not (isinstance(self.degree, Integral) and 1 <= self.degree <= 100):
            raise ParameterError(f"degree must be an integer from 1 to 100, not {self.degree!r}.")
        if not (isinstance(self.coef0, Real) and np.isfinite(self.coef0)):
            raise ParameterError(f"coef0 must be a finite number, not {self.coef0!r}.")
        return replace(self, gamma=float(self.gamma), degree=int(self.degree), coef0=float(self.coef0))

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters that the kernel uses, by name.

        >>> Kernel("rbf", gamma=0.5).parameters
        {'gamma': 0.5}
        """
        names = KERNELS[self.kind].parameters if self.kind in KERNELS else ()
        return {name: getattr(self, name) for name in names}

    @property
    def is_function(self) -> bool:
        """Whether the kernel is evaluated in Python only: not an entry of ``KERNELS``, or one without a jit code."""
        return self.kind not in KERNELS or KERNELS[self.kind].jit_code is None

    @property
    def of_distance(self) -> bool:
        """Whether the kernel depends on x - z only, so that the origin can be chosen freely."""
        return self.kind in KERNELS and KERNELS[self.kind].of_distance

    @property
    def is_bounded(self) -> bool:
        """Whether no value of the kernel is larger than 1."""
        return self.kind in KERNELS and KERNELS[self.kind].bounded

    @property
    def jit_parameters(self) -> tuple[int, float, int, float]:
        """The kernel as compiled functions take it: its jit code, gamma, degree and coef0."""
        code = KERNELS[self.kind].jit_code
        assert code is not None
        return code, float(self.gamma), int(self.degree), float(self.coef0)

    def is_finite(self, squared_norm: float, dtype: np.dtype[Any]) -> bool:
        """Whether kernel values do not overflow for rows of up to this squared norm.

        >>> poly = Kernel("poly", degree=3)
        >>> poly.is_finite(1e20, np.dtype(np.float32)), poly.is_finite(1e20, np.dtype(np.float64))
        (False, True)
        """
        if self.kind not in KERNELS:
            return True
        with np.errstate(over="ignore"):
            return bool(np.isfinite(dtype.type(KERNELS[self.kind].bound(self, np.float64(squared_norm)))))

    def largest(self, squared_norm: float) -> float:
        """A bound of the size of kernel values for rows of up to this squared norm.

        >>> Kernel("rbf").largest(10.0), Kernel("linear").largest(10.0)
        (1.0, 10.0)
        """
        if self.is_bounded or self.kind not in KERNELS:
            return 1.0
        with np.errstate(over="ignore"):
            return float(KERNELS[self.kind].bound(self, np.float64(squared_norm)))

    def fits_float32(self, squared_norm: float) -> bool:
        """Whether float32 is precise enough for rows of up to this squared norm.

        >>> Kernel("rbf").fits_float32(10.0), Kernel("rbf").fits_float32(1e6)
        (True, False)
        """
        if self.kind not in KERNELS:
            return False
        with np.errstate(over="ignore"):
            bound = KERNELS[self.kind].bound(self, np.float64(squared_norm))
        if self.is_bounded:
            resolved = not self.of_distance or bound >= MIN_FLOAT32_ARGUMENT
            return bool(resolved and bound * 2**-24 <= MAX_FLOAT32_ARGUMENT_ERROR)
        return bool(bound <= MAX_FLOAT32_VALUE)

    def lift(self, rows: Any, dtype: np.dtype[Any], origin: NDArray[np.float64] | None = None) -> Lifted:
        """Rows as the right factor of a matrix product, from whose result kernel values follow element by element.

        If the kernel depends on the distance, dense rows become [sqrt(2 gamma) x, -gamma |x|^2, 1], with the last two
        swapped in the left factor: the product is then -gamma |x - z|^2. Distances are taken about ``origin``, which
        should be near the rows.
        """
        if self.kind not in KERNELS:
            return Lifted(np.array(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64))
        if sparse.issparse(rows):
            matrix = rows.astype(dtype)
            squares = np.asarray(matrix.multiply(matrix).sum(axis=1), dtype=dtype).ravel()
            return Lifted(matrix, squares)
        if not self.of_distance:
            return Lifted(np.ascontiguousarray(rows if origin is None else rows - origin, dtype=dtype))
        matrix = np.empty((len(rows), rows.shape[1] + 2), dtype=dtype)
        centred = rows if origin is None else rows - origin
        np.multiply(centred, np.sqrt(2 * self.gamma), out=matrix[:, :-2], casting="unsafe")
        matrix[:, -2] = -0.5 * np.einsum("rd,rd->r", matrix[:, :-2], matrix[:, :-2], dtype=np.float64)
        matrix[:, -1] = 1
        return Lifted(matrix)

    def turn(self, lifted: Lifted) -> Lifted:
        """Lifted rows as the left factor of the product."""
        if not self.of_distance or lifted.squares is not None:
            return lifted
        matrix = lifted.matrix.copy()
        matrix[:, -2], matrix[:, -1] = lifted.matrix[:, -1], lifted.matrix[:, -2]
        return Lifted(matrix)

    def fill(self, left: Lifted, right: Lifted, out: NDArray[Any]) -> None:
        """Write the kernel values of turned and lifted rows, (left, right), to ``out``."""
        if self.kind == "callable":
            assert self.function is not None
            out[:] = _checked_values(self.function, left.matrix, right.matrix)
            return
        if self.kind == "precomputed":  # lifted rows are kernel values with all rows, then the number of the row
            out[:] = left.matrix[:, right.matrix[:, -1].astype(np.int64)]
            return
        if left.squares is None:
            np.matmul(left.matrix, right.matrix.T, out=out)
        else:
            out[:] = (left.matrix @ right.matrix.T).toarray()
            if self.of_distance:
                assert right.squares is not None
                out *= 2 * self.gamma
                out -= (self.gamma * left.squares)[:, None]
                out -= self.gamma * right.squares
        KERNELS[self.kind].apply(self, out)

    def __call__(self, left: Any, right: Any) -> NDArray[np.float64]:
        """Kernel values of rows with rows, (left, right), in float64."""
        dtype = np.dtype(np.float64)
        centred = self.of_distance and not sparse.issparse(right)
        origin = np.asarray(right, dtype=np.float64).mean(axis=0) if centred else None
        out = np.empty((left.shape[0], right.shape[0]))
        self.fill(self.turn(self.lift(left, dtype, origin)), self.lift(right, dtype, origin), out)
        return out


@dataclass
class Lifted:
    """Rows as factors of a product: an array, or a CSR array and the squared norms of its rows."""

    matrix: Any
    squares: NDArray[Any] | None = None

    def __len__(self) -> int:
        length: int = self.matrix.shape[0]
        return length

    @property
    def narrow(self) -> bool:
        """Whether the rows are dense with few columns: recomputing kernel values is as fast as a cache lookup."""
        return isinstance(self.matrix, np.ndarray) and self.matrix.shape[1] <= MAX_UNCACHED_COLUMNS

    def take(self, indices: Any) -> Lifted:
        """Some of the rows; a slice of dense rows is a view."""
        return Lifted(self.matrix[indices], None if self.squares is None else self.squares[indices])

    def reorder(self, order: NDArray[np.int64]) -> None:
        """Permute the first rows, in place if they are dense."""
        if isinstance(self.matrix, np.ndarray):
            self.matrix[: len(order)] = self.matrix[order]
        else:
            whole = np.append(order, np.arange(len(order), len(self)))
            self.matrix = self.matrix[whole]
            if self.squares is not None:
                self.squares = self.squares[whole]

    def joined(self, other: Lifted) -> Lifted:
        """These rows followed by others."""
        matrices = self.matrix, other.matrix
        matrix = np.concatenate(matrices) if isinstance(self.matrix, np.ndarray) else sparse.vstack(matrices, "csr")
        if self.squares is None or other.squares is None:
            return Lifted(matrix)
        return Lifted(matrix, np.concatenate([self.squares, other.squares]))


def _exponential(kernel: Kernel, out: NDArray[Any]) -> None:  # noqa: ARG001
    """Exp of minus gamma times squared distances, which only rounding makes negative, in place."""
    if out.dtype == np.float32:
        from mergesvm.models.kernel_values_jit import exponentials_single

        exponentials_single(out)
    else:
        np.minimum(out, 0, out=out)
        np.exp(out, out=out)


def _checked_values(function: Callable[[Any, Any], Any], left: Any, right: Any) -> NDArray[Any]:
    values = np.asarray(function(left, right))
    shape = left.shape[0], right.shape[0]
    if values.shape != shape or values.dtype.kind not in "biuf":
        raise DataError(
            f"The kernel must return numbers of shape {shape} for {shape[0]} and {shape[1]} rows, not "
            f"{values.dtype} of shape {values.shape}."
        )
    if not np.isfinite(values).all():
        raise DataError("The kernel returns values that are not finite.")
    return values


def _power(kernel: Kernel, out: NDArray[Any]) -> None:
    """(gamma x + coef0)^degree of products, in place, by repeated multiplication."""
    out *= kernel.gamma
    out += kernel.coef0
    base = out.copy() if kernel.degree > 1 else out
    for bit in bin(kernel.degree)[3:]:
        out *= out
        if bit == "1":
            out *= base


def _tanh(kernel: Kernel, out: NDArray[Any]) -> None:
    """Tanh(gamma x + coef0) of products, in place."""
    out *= kernel.gamma
    out += kernel.coef0
    np.tanh(out, out=out)


@dataclass(frozen=True)
class KernelFunction:
    """A kernel function: its formula, and how it follows from products of rows.

    Attributes
    ----------
    formula : str
    parameters : tuple of str
        Those of gamma, degree and coef0 that the formula has.
    of_distance : bool
        Whether it is a function of -gamma |x - z|^2; otherwise of x.z.
    apply : function
        Turns an array of -gamma |x - z|^2 or x.z into kernel values, in place.
    bound : function
        The largest size of numbers on the way, from the largest squared norm of a row.
    bounded : bool
        Whether no value is larger than 1.
    jit_code : int or None
        The number of its compiled form in :mod:`mergesvm.models.kernel_values_jit`, if there is one.
    """

    formula: str
    parameters: tuple[str, ...]
    of_distance: bool
    apply: Callable[[Kernel, NDArray[Any]], None]
    bound: Callable[[Kernel, np.float64], np.float64]
    bounded: bool = False
    jit_code: int | None = None


KERNELS = {
    "rbf": KernelFunction(
        "exp(-gamma |x - z|^2)",
        ("gamma",),
        True,
        _exponential,
        lambda kernel, square: square * (4 * kernel.gamma),
        bounded=True,
        jit_code=0,
    ),
    "linear": KernelFunction("x.z", (), False, lambda *_: None, lambda _, square: square, jit_code=1),
    "poly": KernelFunction(
        "(gamma x.z + coef0)^degree",
        ("gamma", "degree", "coef0"),
        False,
        _power,
        lambda kernel, square: (kernel.gamma * square + abs(kernel.coef0)) ** kernel.degree,
        jit_code=2,
    ),
    "sigmoid": KernelFunction(
        "tanh(gamma x.z + coef0)",
        ("gamma", "coef0"),
        False,
        _tanh,
        lambda kernel, square: kernel.gamma * square + abs(kernel.coef0),
        bounded=True,
        jit_code=3,
    ),
}
"""All kernel functions by name."""
