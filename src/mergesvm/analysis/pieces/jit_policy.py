"""When to use the compiled steps for stacks of pieces: not before they pay, and compiling them takes long."""

from __future__ import annotations

import threading
from pathlib import Path

from mergesvm.knowledge.gram.jit_policy import kernels_worth

COMPILE_SECONDS = 15.0
"""What compiling takes, once an installation; after that they are read from numba's cache."""

WORTH_SECONDS = 2e-3
"""Work on which less than this is saved goes without."""

_lock = threading.Lock()
_rent = 0.0


def stack_kernels_pay(seconds_saved: float) -> bool:
    """Whether to use the kernels for work on which they save so much time.

    They are used where they were compiled before, and else once they would have saved what compiling takes.
    """
    global _rent
    if seconds_saved < WORTH_SECONDS:
        return False
    with _lock:
        _rent += seconds_saved
        paid = _rent >= COMPILE_SECONDS
    return (paid or _compiled_before()) and kernels_worth(seconds_saved) is not None


def want_stack_kernels() -> None:
    """Have the kernels compiled when they are next of use, as a server or a benchmark wants it.

    >>> want_stack_kernels()
    """
    global _rent
    with _lock:
        _rent = float("inf")


def _compiled_before() -> bool:
    return any(Path(__file__).with_name("__pycache__").glob("stack_kernels.solve_without*.nbi"))
