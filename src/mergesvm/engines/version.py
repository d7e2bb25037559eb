"""The version of this package: all workers need the same, because they exchange pickled objects."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata

from mergesvm.errors import EngineError

PACKAGE = "mergesvm"


def installed_version() -> str:
    """Return the version that is installed; "unknown" if the package is not installed."""
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return "unknown"


def check_versions(found: Mapping[str, object]) -> None:
    """Raise an error if a worker, by name, has another version than this process; an exception means that it has none.

    >>> check_versions({"worker 1": "0.0.1"})
    Traceback (most recent call last):
    ...
    mergesvm.errors.EngineError: worker 1 has mergesvm 0.0.1, ... Install the same version everywhere.
    """
    mine = installed_version()
    for name, version in found.items():
        if version != mine:
            has = f"no {PACKAGE}" if isinstance(version, BaseException) else f"{PACKAGE} {version}"
            raise EngineError(f"{name} has {has}, but this process has {mine}. Install the same version everywhere.")
