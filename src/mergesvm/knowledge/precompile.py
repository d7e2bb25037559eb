"""Compilation of all functions that learning uses, ahead of time."""

from __future__ import annotations

from mergesvm.knowledge.gram.jit_policy import GRAM_JIT


def precompile() -> None:
    """Compile and load the functions that ``ms.learn`` uses: sums of rows, hashes for folds, and text parsers.

    Otherwise they are loaded once they pay, see :mod:`mergesvm.knowledge.gram.jit_policy`. Call this in a server or
    before a measurement, so that no request waits. The first call on a machine takes many seconds; numba caches the
    result on disk, and later calls take less than one.

    >>> import mergesvm as ms
    >>> ms.precompile()
    """
    from mergesvm.data.text_parser.warmup import load_text_kernels  # imports numba and pyarrow

    GRAM_JIT.load().compile_all()
    load_text_kernels()
