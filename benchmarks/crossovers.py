"""Widths and densities at which one way to compute Gram matrices overtakes another.

Measures MAX_NARROW_WIDTH, MAX_SPARSE_DENSITY and SECONDS_SAVED_PER_*.
"""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse

from machine import best, describe, warm_memory
from mergesvm.data.batch import Batch
from mergesvm.data.rows.sparse import DensifiedRows, SparseRows
from mergesvm.engines import Threads
from mergesvm.knowledge.gram.jit_policy import GRAM_JIT
from mergesvm.knowledge.gram.narrow import narrow_sums
from mergesvm.knowledge.gram.running_sums import RunningSums
from mergesvm.knowledge.gram.sparse import multiplied_sums, scattered_sums
from mergesvm.knowledge.gram.wide import wide_sums

ENGINE = Threads(2)
console = Console(width=110)


def blas_sums(batch, anchor, jit) -> None:
    sums = RunningSums(len(anchor)).for_classes(batch.labels.classes)
    wide_sums(batch, sums, anchor, ENGINE, "float64", jit)


def dense() -> None:
    jit = GRAM_JIT.load()
    generator = np.random.default_rng(0)
    table = Table("width", "classes", "compiled ns/row", "BLAS ns/row", "BLAS / compiled", title="Dense rows")
    for width in (8, 16, 28, 48, 64, 96, 128, 160):
        for n_classes in (2, 10):
            rows = 20_000_000 // width
            X, y = generator.normal(size=(rows, width)), generator.integers(0, n_classes, rows)
            batch, anchor = Batch.of(X, y), np.zeros(width)
            arguments = batch, batch.labels.codes, n_classes, anchor, ENGINE
            compiled = best(lambda arguments=arguments: narrow_sums(*arguments, jit)) / rows * 1e9
            blas = best(lambda b=batch, a=anchor: blas_sums(b, a, jit)) / rows * 1e9
            table.add_row(str(width), str(n_classes), f"{compiled:.0f}", f"{blas:.0f}", f"{blas / compiled:.2f}")
    console.print(table)


def sparse_rows() -> None:
    jit = GRAM_JIT.load()
    generator = np.random.default_rng(0)
    table = Table("width", "stored", "compiled ns/product", "scipy ns/product", "dense / compiled", title="Sparse rows")
    for width in (100, 300, 1000):
        for density in (0.01, 0.05, 0.1, 0.15, 0.2, 0.3):
            rows = int(min(40_000, 2e8 / (width * density) ** 2))
            X = sparse.random_array((rows, width), density=density, random_state=generator, format="csr")
            batch = Batch.of(X, generator.integers(0, 2, rows))
            batch = Batch(SparseRows(X), batch.labels, None)
            as_dense = Batch(DensifiedRows(SparseRows(X)), batch.labels, None)
            products = float((np.diff(X.indptr).astype(float) ** 2).sum())
            arguments = batch.labels.codes, 2
            compiled = best(lambda b=batch, a=arguments: scattered_sums(b, *a, ENGINE, jit), 3)
            scipy = best(lambda b=batch, a=arguments: multiplied_sums(b, *a), 3)
            blas = best(lambda b=as_dense, w=width: blas_sums(b, np.zeros(w), jit), 3)
            per = 1e9 / products
            table.add_row(
                str(width), f"{density:.0%}", f"{compiled * per:.2f}", f"{scipy * per:.2f}", f"{blas / compiled:.2f}"
            )
    console.print(table)


if __name__ == "__main__":
    console.print(describe(ENGINE.workers), highlight=False)
    warm_memory()
    dense()
    sparse_rows()
