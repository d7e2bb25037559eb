"""Compilation of the functions that learning uses, ahead of time."""

from __future__ import annotations

from mergesvm.knowledge.gram.jit_policy import GRAM_JIT


def precompile_learning() -> None:
    """Compile and load the functions for sums of rows, for hashes of rows, and for parsing text."""
    from mergesvm.data.text_parser.warmup import compile_text_parsers  # imports numba and pyarrow

    GRAM_JIT.load().compile_all()
    compile_text_parsers()
