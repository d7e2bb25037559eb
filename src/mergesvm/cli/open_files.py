"""Open knowledge, feature map and model files named on the command line."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mergesvm as ms
from mergesvm.errors import MissingFileError, ParameterError, SignatureError


def expand(names: list[str]) -> list[Path]:
    """Paths of the files that names and globs match; naming a file twice is an error."""
    paths: list[Path] = []
    for name in names:
        found = [name] if Path(name).exists() or not glob.has_magic(name) else sorted(glob.glob(name))  # noqa: PTH207
        if not found:
            raise MissingFileError(f"No file matches {name}.")
        paths += [Path(path) for path in found]
    seen = set()
    for path in paths:
        if path.resolve() in seen:
            raise ParameterError(f"{path} is named twice, which would count its rows twice.")
        seen.add(path.resolve())
    return paths


def have_folds(paths: list[Path]) -> bool:
    """Whether files hold knowledge by fold; mixing files with and without folds is an error."""
    from mergesvm.files.container import read_kind

    kinds = {path: read_kind(path) for path in paths}
    first = {kind: path for path, kind in reversed(kinds.items())}
    if {"folds", "knowledge"} <= set(first):
        raise SignatureError(
            f"{first['folds']} has folds and {first['knowledge']} has none, so they cannot be combined. "
            f"Learn both with the same --folds, or both without."
        )
    return "folds" in first


def open_pieces(paths: list[Path]) -> Iterator[ms.Knowledge]:
    """Load knowledge files one after another; an error names the file that does not match the first."""
    first = None
    for path in paths:
        piece = ms.Knowledge.load(path)
        first = first or piece.signature
        with mismatch_named(path, paths[0]):
            first = first.joined(piece.signature)
        yield piece


def open_folds(paths: list[Path]) -> Iterator[ms.Folds]:
    """Load files of folds one after another; an error names the file that does not match the first."""
    from mergesvm.knowledge.folds import check_same_assignment

    first = ms.Folds.load(paths[0])
    yield first
    for path in paths[1:]:
        folds = ms.Folds.load(path)
        with mismatch_named(path, paths[0]):
            check_same_assignment(first, folds, "add", "to")
            first.signature.joined(folds.signature)
        yield folds


@contextmanager
def mismatch_named(path: Path, first: Path) -> Iterator[None]:
    """Add the names of two files to the error that they do not match."""
    try:
        yield
    except SignatureError as error:
        raise SignatureError(f"{path} does not match {first}. {error}") from None


def open_learned(path: Path) -> ms.Knowledge | ms.Folds:
    """Load knowledge, with or without folds."""
    return ms.Folds.load(path) if have_folds([path]) else ms.Knowledge.load(path)


def open_any(path: Path) -> Any:
    """Load knowledge, folds, a feature map or a model, whichever the file holds."""
    return ms.load(path)
