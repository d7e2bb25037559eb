"""The decorator of compiled functions. Importing this module imports numba.

numba caches compiled functions on disk. A cache may save time, but must never be the reason for a failure or a wrong
number: without a folder to write to, functions are compiled in each run; what cannot be read is compiled again.
"""

from __future__ import annotations

import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserWideCacheLocator
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps

from mergesvm.errors import CacheWarning, warn_caller


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function with numba when it is called: without the GIL, with numpy's arithmetic, cached on disk.

    Used as ``@compiled``, or with options of ``numba.njit`` as ``@compiled(inline="always")``.
    """
    if function is None:
        return partial(compiled, **options)
    # Without a value for fastmath, a function would inherit that of whichever function calls it first.
    dispatcher = njit(**{"nogil": True, "error_model": "numpy", "fastmath": False} | options)(function)
    if isinstance(dispatcher, Dispatcher):  # with NUMBA_DISABLE_JIT it is the function itself
        try:
            dispatcher._cache = SafeCache(function)  # type: ignore[attr-defined]
        except (RuntimeError, OSError):
            _notice(
                "Compiled functions cannot be cached, so each run compiles them again, which takes seconds to a "
                "minute. Set NUMBA_CACHE_DIR to a folder that can be written to."
            )
    return dispatcher


@cache
def _notice(message: str) -> None:
    """Warn once."""
    warn_caller(message, CacheWarning)


class HomeLocator(UserWideCacheLocator):  # type: ignore[misc]
    """The cache folder of the user."""

    def ensure_cache_path(self) -> None:
        """Raise an error if the folder cannot be written to."""
        if not Path(self.get_cache_path()).is_absolute():
            raise FileNotFoundError("The user has no home folder.")  # numba would create a folder named ~
        super().ensure_cache_path()


class TemporaryLocator(UserWideCacheLocator):  # type: ignore[misc]
    """A folder among the temporary files, which later runs find again."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)
        self._cache_path = str(_temporary_folder() / self.get_suitable_cache_subpath(file))


@cache
def _temporary_folder() -> Path:
    """The temporary folder of compiled functions. It must be the user's alone, because what it holds is run."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir(), f"mergesvm-compiled-{user}")
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
        private = found.st_uid == user and (os.name != "posix" or not found.st_mode & 0o077)
        if not (stat.S_ISDIR(found.st_mode) and private):
            raise PermissionError(f"{folder} belongs to another user.") from None
    else:
        _notice(
            f"Compiled functions are cached in {folder}, because neither the package nor the home folder can be "
            f"written to. Set NUMBA_CACHE_DIR to a folder that lasts."
        )
    return folder


class CheckedContent(CompileResultCacheImpl):  # type: ignore[misc]
    """What is cached of a compiled function, with a digest: damaged machine code would crash or compute nonsense."""

    _locator_classes = [  # noqa: RUF012 - the base class declares it so
        *(HomeLocator if each is UserWideCacheLocator else each for each in CompileResultCacheImpl._locator_classes),
        TemporaryLocator,
    ]

    def reduce(self, result: Any) -> tuple[bytes, bytes]:
        """Return digest and bytes of a compiled function."""
        data = dumps(super().reduce(result))
        return sha256(data).digest(), data

    def rebuild(self, target: Any, content: tuple[bytes, bytes]) -> Any:
        """Return the compiled function."""
        digest, data = content
        if sha256(data).digest() != digest:
            raise ValueError("the digest does not match")
        return super().rebuild(target, pickle.loads(data))


@cache
def source_stamp(module: str) -> str:
    """A digest of the source of a module and of the modules of its package whose functions it uses.

    numba notices that the file of a compiled function has changed, but not that of a function it calls, or this one.
    """
    names, package = vars(sys.modules[module]), module.partition(".")[0]
    used = {str(getattr(value, "__module__", None)) for value in names.values()} - {module}
    stamps = [source_stamp(name) for name in sorted(used) if name.startswith(f"{package}.")]
    own = sha256(Path(names["__file__"]).read_bytes()).hexdigest()
    return sha256(" ".join([own, *stamps]).encode()).hexdigest()


class SafeCache(FunctionCache):  # type: ignore[misc]
    """The cache of one function. Neither reading nor writing it raises an error."""

    _impl_class = CheckedContent

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._stamp = source_stamp(function.__module__)

    def _index_key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(signature, codegen), self._stamp)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the compiled function of this signature; None if it is not cached or damaged."""
        try:
            return super().load_overload(signature, target)
        except Exception:  # noqa: BLE001 - damaged pickles raise any error
            with suppress(OSError):
                self.flush()  # or the damaged index would be read again when the function is saved
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Cache a compiled function, unless the disk is full or read-only."""
        with suppress(OSError):
            super().save_overload(signature, result)
