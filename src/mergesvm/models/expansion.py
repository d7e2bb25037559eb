"""Kernel expansions: scores as weighted sums of kernel values with support vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.rows.base import Rows, spans
from mergesvm.engines.threads import Threads
from mergesvm.models.kernel_function import Kernel, Lifted

BLOCK_VALUES = 1 << 20
"""Kernel values computed at a time."""

MIN_PRODUCTS_FOR_THREADS = 1 << 20
"""With fewer products, starting threads takes longer than it saves."""


@dataclass(frozen=True)
class Expansion:
    """Scores f_p(x) = sum_l y_l alpha_l k(x, x_l) + b_p for every pair p of classes.

    Attributes
    ----------
    kernel : Kernel
    vectors : array or CSR array of shape (vectors, features)
        Support vectors, sorted by class.
    counts : array of int, shape (classes,)
        Number of support vectors per class.
    coefs : array of shape (classes - 1, vectors), or (pairs, vectors)
        y alpha of each vector, against each of the other classes in turn; or, for three or more classes, the
        coefficient of each vector in each pair.
    intercepts : array of shape (pairs,)
    precision : {"float64", "float32"}

    Examples
    --------
    >>> vectors = np.array([[0.0], [2.0]])
    >>> expansion = Expansion(Kernel("linear"), vectors, np.array([1, 1]), np.array([[-0.5, 0.5]]), np.array([-1.0]))
    >>> from mergesvm.data.rows.convert import as_rows
    >>> expansion.scores(as_rows([[0.0], [1.0], [2.0]])).ravel()
    array([-1.,  0.,  1.])
    """

    kernel: Kernel
    vectors: Any
    counts: NDArray[np.int64]
    coefs: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    precision: str = "float64"

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        """Scores of all pairs, (rows, pairs), computed block by block."""
        scores = np.tile(self.intercepts, (rows.n_rows, 1))
        if not self.vectors.shape[0]:
            return scores

        def run(span: tuple[int, int]) -> None:
            with np.errstate(all="ignore"):
                self._add(rows.block(*span), scores[slice(*span)])

        count = self.vectors.shape[0]
        blocks = list(spans(rows.n_rows, min(max(16, BLOCK_VALUES // count), 1024)))
        products = rows.n_rows * count * rows.width
        (Threads(1) if products < MIN_PRODUCTS_FOR_THREADS else Threads()).map(run, blocks)
        return scores

    @property
    def shared(self) -> bool:
        """Whether every vector has a coefficient in every pair of three or more classes."""
        return len(self.coefs) > max(len(self.counts) - 1, 1)

    def over(self, vectors: Any) -> Expansion:
        """The same kernel over other vectors, with coefficients of zero."""
        counts, coefs = np.array([vectors.shape[0], 0]), np.zeros((1, vectors.shape[0]))
        return replace(self, vectors=vectors, counts=counts, coefs=coefs, intercepts=np.zeros(1))

    def kernel_values(self, block: Any) -> NDArray[Any]:
        """Kernel values of an array or CSR array of rows with all vectors, (rows, vectors)."""
        real, lifted = np.dtype(self.precision), self._lifted
        if not isinstance(block, np.ndarray) and lifted.squares is None:
            block = block.toarray()
        elif isinstance(block, np.ndarray) and lifted.squares is not None:
            block = sparse.csr_array(block)
        K = np.empty((block.shape[0], len(lifted)), dtype=real)
        self.kernel.fill(self.kernel.turn(self.kernel.lift(block, real, self._origin)), lifted, K)
        return K

    def _add(self, block: Any, out: NDArray[np.float64]) -> None:
        K = self.kernel_values(block)
        if self.shared:
            out += K @ self._factors.T
            return
        classes, ends = len(self.counts), np.cumsum(self.counts)
        pairs = {pair: p for p, pair in enumerate(combinations(range(classes), 2))}
        for one in range(classes):
            span = slice(int(ends[one] - self.counts[one]), int(ends[one]))
            part = K[:, span] @ self._factors[:, span].T
            for line, other in enumerate(c for c in range(classes) if c != one):
                out[:, pairs[min(one, other), max(one, other)]] += part[:, line]

    @cached_property
    def _factors(self) -> NDArray[Any]:
        return self.coefs.astype(self.precision)

    @cached_property
    def _origin(self) -> NDArray[np.float64] | None:
        if not self.kernel.of_distance or sparse.issparse(self.vectors):
            return None
        return np.asarray(self.vectors.mean(axis=0, dtype=np.float64))

    @cached_property
    def _lifted(self) -> Lifted:
        return self.kernel.lift(self.vectors, np.dtype(self.precision), self._origin)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}
