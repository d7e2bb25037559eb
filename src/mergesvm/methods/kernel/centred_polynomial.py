"""CentredPolynomial: the polynomial kernel about a point other than the origin of the feature space."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.models.kernel_function import Kernel, Lifted


@dataclass(frozen=True)
class CentredPolynomial(Kernel):
    """The kernel k(x, z) - k(x, o) - k(o, z) + k(o, o) of the polynomial k = (gamma x.z + coef0)^degree.

    Its feature space is that of k, with the point o as its origin: a dual problem with y'alpha = 0 has the same
    solution. For rows far from zero and close to one another, k is nearly constant and this kernel is not.

    With a = gamma o.o + coef0, p = gamma o.(z - o), q = gamma o.(x - o) and r = gamma (x - o).(z - o), its powers
    follow from one another without a difference of large numbers:

        k_n+1 = a k_n + r A^n + q (A^n - B^n) + p (A^n - D^n),  A = a + p + q + r,  B = a + q,  D = a + p

    >>> kernel = CentredPolynomial("poly", 1.0, 2, 0.0, origin=np.array([3.0]))
    >>> kernel(np.array([[4.0]]), np.array([[5.0]]))  # 20^2 - 12^2 - 15^2 + 9^2
    array([[112.]])
    """

    origin: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0), compare=False)

    @property
    def is_function(self) -> bool:
        """Whether the kernel is evaluated in Python only."""
        return True

    def lift(self, rows: Any, dtype: np.dtype[Any], origin: NDArray[np.float64] | None = None) -> Lifted:  # noqa: ARG002
        """Rows as differences from the origin, and gamma o.(x - o) in the last column."""
        lifted = np.empty((rows.shape[0], rows.shape[1] + 1), dtype=dtype)
        np.subtract(rows, self.origin, out=lifted[:, :-1], casting="unsafe")
        lifted[:, -1] = self.gamma * (lifted[:, :-1] @ self.origin)
        return Lifted(lifted)

    def fill(self, left: Lifted, right: Lifted, out: NDArray[Any]) -> None:
        """Write the kernel values of lifted rows, (left, right), to ``out``."""
        a = self.gamma * float(self.origin @ self.origin) + self.coef0
        p, q = right.matrix[:, -1], left.matrix[:, -1:]
        r = self.gamma * (left.matrix[:, :-1] @ right.matrix[:, :-1].T)
        A, B, D = a + p + q + r, a + q, a + p
        out[:] = r
        A_B, A_D, A_n, B_n, D_n = p + r, q + r, A, B, D  # A^n - B^n, A^n - D^n, A^n, B^n and D^n
        for _ in range(self.degree - 1):
            out[:] = a * out + r * A_n + q * A_B + p * A_D
            A_B, A_D = A * A_B + (p + r) * B_n, A * A_D + (q + r) * D_n
            A_n, B_n, D_n = A_n * A, B_n * B, D_n * D
