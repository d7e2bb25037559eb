"""When to load compiled functions: not before they pay.

Importing numba and the compiled functions takes about half a second from numba's cache, and several seconds if they
have to be compiled: far more than learning from a small data set. Without knowledge of the work to come, the best rule
is that of the ski-rental problem: rent until the rent paid equals the price. The seconds that compiled functions would
have saved are added up, and the functions are loaded once the sum reaches the cost of loading. No program then takes
more than about twice the time of the best choice in hindsight.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

LOAD_SECONDS = 1.5
"""The cost of loading the compiled functions of :mod:`mergesvm.knowledge.gram.jit`."""


class JitPolicy:
    """Loads a module of compiled functions, by calling ``load``, once it has paid for itself.

    >>> import types
    >>> policy = JitPolicy(lambda: types.ModuleType("compiled"), load_seconds=1.0)
    >>> policy.when_worth(0.6) is None
    True
    >>> policy.when_worth(0.6)
    <module 'compiled'>
    """

    def __init__(self, load: Callable[[], ModuleType], load_seconds: float) -> None:
        self.enabled = True
        """False makes all work go without compiled functions."""
        self._import, self._load_seconds = load, load_seconds
        self._seconds_saved = 0.0
        self._module: ModuleType | None = None
        self._lock = threading.Lock()

    def when_worth(self, seconds_saved: float) -> ModuleType | None:
        """Return the compiled functions if loaded, or if the time saved on all work so far pays for it; else None."""
        if not self.enabled:
            return None
        with self._lock:
            self._seconds_saved += seconds_saved
            due = self._module is not None or self._seconds_saved >= self._load_seconds
        return self.load() if due else None

    @property
    def loaded(self) -> ModuleType | None:
        """The compiled functions if they are loaded, else None."""
        return self._module if self.enabled else None

    def load(self) -> ModuleType:
        """Return the compiled functions, and load them if necessary."""
        with self._lock:
            if self._module is None:
                self._module = self._import()
        return self._module


GRAM_JIT = JitPolicy(lambda: import_module("mergesvm.knowledge.gram.jit"), LOAD_SECONDS)
"""The policy for :mod:`mergesvm.knowledge.gram.jit`."""
