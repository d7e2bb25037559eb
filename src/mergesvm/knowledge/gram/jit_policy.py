"""When to load the compiled kernels: not before they pay.

Loading takes about half a second where they were compiled before, and two where not: far more than learning from a
small set. Without knowing what is still to come, the best rule is that of the skier who rents until the rent paid would
have bought the skis. Work that the kernels would have made faster adds to the rent; once it amounts to the price of
loading them, they are loaded. So no program ever takes more than about twice what it had to.
"""

from __future__ import annotations

import threading
from types import ModuleType

LOAD_SECONDS = 1.5

_lock = threading.Lock()
_rent = 0.0
_kernels: ModuleType | None = None


def kernels_worth(seconds_saved: float) -> ModuleType | None:
    """The compiled kernels, if they are loaded or have paid for themselves; None if the work is to go without."""
    global _rent
    with _lock:
        _rent += seconds_saved
        due = _kernels is not None or _rent >= LOAD_SECONDS
    return _import_kernels() if due else None


def numba_is_loaded() -> None:
    """Say that others have paid most of the price, so that these kernels cost little more."""
    kernels_worth(LOAD_SECONDS)


def loaded_kernels() -> ModuleType | None:
    """The compiled kernels, if they are loaded already."""
    return _kernels


def precompile() -> ModuleType:
    """Load and compile the kernels now, as a server or a benchmark does before the first request.

    >>> precompile().__name__
    'mergesvm.knowledge.gram.jit'
    """
    from mergesvm.data.text_parser.warmup import load_text_kernels

    kernels = _import_kernels()
    kernels.compile_all()
    load_text_kernels()
    return kernels


def _import_kernels() -> ModuleType:
    global _kernels
    with _lock:
        if _kernels is None:
            from mergesvm.knowledge.gram import jit as compiled

            _kernels = compiled
    return _kernels
