"""How commands open files of ours: knowledge, folds of it, maps and models."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mergesvm.errors import MissingFileError, ParameterError, SignatureError
from mergesvm.features.format import load
from mergesvm.files.container import read_kind
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.models.formats.native import load_model


def expand(names: list[str]) -> list[Path]:
    """Files from names and globs, none of them twice."""
    paths: list[Path] = []
    for name in names:
        found = [name] if Path(name).exists() or not glob.has_magic(name) else sorted(glob.glob(name))  # noqa: PTH207
        if not found:
            raise MissingFileError(f"No file matches {name}.")
        paths += [Path(path) for path in found]
    for index, path in enumerate(paths):
        if path.resolve() in [other.resolve() for other in paths[:index]]:
            raise ParameterError(f"{path} is named twice: its rows would count twice.")
    return paths


def keep_folds(paths: list[Path]) -> bool:
    """Whether files keep the knowledge of each fold, which all of them have to, or none."""
    kinds = {path: read_kind(path) for path in paths}
    first = {kind: path for path, kind in reversed(kinds.items())}
    if {"folds", "knowledge"} <= set(first):
        raise SignatureError(
            f"{first['folds']} keeps the knowledge of each fold, but {first['knowledge']} does not, and they do not go "
            f"together. Learn both with the same --folds, or both without."
        )
    return "folds" in first


def loaded(paths: list[Path]) -> Iterator[Knowledge]:
    """One piece after another; an error tells which does not go with the first."""
    first = None
    for path in paths:
        piece = Knowledge.load(path)
        first = first or piece.signature
        with named(path, paths[0]):
            first = first.joined(piece.signature)
        yield piece


@contextmanager
def named(path: Path, first: Path) -> Iterator[None]:
    """An error of pieces that do not go together tells which files they are."""
    try:
        yield
    except SignatureError as error:
        raise SignatureError(f"{path} does not go with {first}. {error}") from None


def open_learned(path: Path) -> Knowledge | Folds:
    """Knowledge, or folds of it, and nothing else."""
    return Folds.load(path) if keep_folds([path]) else Knowledge.load(path)


def open_any(path: Path) -> Any:
    """Knowledge, folds of it, a feature map or a model, whichever the file holds."""
    readers: dict[str, Any] = {"knowledge": Knowledge.load, "folds": Folds.load, "features": load}
    return readers.get(read_kind(path), load_model)(path)
