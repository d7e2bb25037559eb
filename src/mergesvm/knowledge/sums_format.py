"""The arrays of sums in files, checked on reading and before writing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.machine import check_memory
from mergesvm.files.content import Content
from mergesvm.files.header import MAX_NUMBER
from mergesvm.knowledge.algebra import Piece
from mergesvm.knowledge.gram.triangles import triangle_size, unpacked
from mergesvm.knowledge.provenance.origin import Provenance
from mergesvm.knowledge.signature import Signature
from mergesvm.knowledge.sums import MAX_ROWS

ROUNDING = 1e-5
"""Relative rounding errors of the squares that are tolerated; solving checks them in detail."""


SumArrays = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""Rows, counts, sums, triangles of the Gram matrices, and peaks."""


@dataclass(frozen=True)
class StoredSums:
    """The content of a file, checked: :class:`~mergesvm.knowledge.sums.Sums` with triangles for Gram matrices."""

    signature: Signature
    anchor: NDArray[np.float64]
    labels: tuple[Any, ...]
    rows: NDArray[np.int64]
    counts: NDArray[np.float64]
    sums: NDArray[np.float64]
    triangles: NDArray[np.float64]
    peaks: NDArray[np.float64]
    precision: str
    provenance: Provenance

    def unpacked(self, kind: type[Piece]) -> Piece:
        """Return the sums with whole matrices."""
        count, width = len(self.triangles), self.signature.width
        what = f"Knowledge of {count:,} x {width:,} x {width:,} sums"
        check_memory(8 * count * width**2, what, "Use a machine with more memory.")
        fields = vars(self) | {"triangles": unpacked(self.triangles, self.signature.width)}
        return kind(*fields.values())


def checked_sums(content: Content, width: int, n_classes: int, n_grams: int, precision: str) -> SumArrays:
    """Return the arrays of sums, or raise an error if no set of rows has them, as far as can be told in linear time.

    They satisfy v_i^2 <= n M_ii and |M_ij| <= sqrt(M_ii M_jj), up to rounding. Beside the arrays this takes the
    memory of one row of each triangle.
    """
    rows = content.expect("rows", (n_classes,), "<i8")
    counts = content.expect("counts", (n_classes,))
    sums = content.expect("sums", (n_classes, width))
    peaks = content.expect("peaks", (n_grams, width))
    triangles = content.expect("grams", (n_grams, triangle_size(width)))
    content.done()
    if (rows < 1).any() or (counts < 1 / MAX_NUMBER).any() or (peaks < 0).any():
        content.refuse("a count that is not positive, or too small")
    if sum(rows.tolist()) > MAX_ROWS:
        content.refuse(f"more than {MAX_ROWS:,} rows")
    squares = triangles[:, _diagonal(width)]
    tiny = float(np.finfo(precision).tiny) * max(1.0, float(counts.sum()))
    rounding = ROUNDING * np.maximum(squares, peaks) + tiny
    if not (squares >= -rounding).all():
        content.refuse("a sum of squares that is negative")
    _check_sums(content, squares, rounding, n_grams == n_classes)
    _check_products(content, triangles, np.sqrt(np.maximum(squares, 0.0) + rounding))
    return rows, counts, sums, triangles, peaks


def _diagonal(width: int) -> NDArray[np.intp]:
    """Return the positions of the diagonal in a triangle."""
    return np.cumsum([0, *range(width, 1, -1)])


def _check_sums(content: Content, squares: NDArray[np.float64], rounding: NDArray[np.float64], by_class: bool) -> None:
    """Check v_i^2 <= n M_ii, up to rounding."""
    with np.errstate(all="ignore"):  # infinity fails the check below
        least = content.arrays["sums"] ** 2 / content.arrays["counts"][:, None]
    least = least if by_class else least.sum(axis=0, keepdims=True)
    # After a subtraction the rounding errors of the sums may be larger than those of the squares.
    exact = ~content.arrays["peaks"].any(axis=1)
    if not (squares[exact] + rounding[exact] >= least[exact] * (1 - ROUNDING)).all():
        content.refuse("sums that are not those of any set of rows")


def _check_products(content: Content, triangles: NDArray[np.float64], roots: NDArray[np.float64]) -> None:
    """Check |M_ij| <= sqrt(M_ii M_jj), one row of all triangles at a time."""
    start, width = 0, roots.shape[1]
    for row in range(width):
        products = np.abs(triangles[:, start : start + width - row])
        if not (products <= roots[:, row, None] * roots[:, row:]).all():
            content.refuse("a sum of products larger than its squares allow")
        start += width - row
