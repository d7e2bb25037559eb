"""The container of all mergesvm files: safetensors, with a JSON header and a digest.

safetensors holds named arrays and string metadata, and no code. The metadata are ``format`` (the format version),
``kind`` (the kind of content), ``header`` (JSON) and ``sha256`` (of header and arrays).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from mergesvm.errors import (
    DamagedFileError,
    DataError,
    FileError,
    ForeignFileError,
    MissingFileError,
    NewerFormatError,
    WrongKindError,
)
from mergesvm.files.atomic import replacing
from mergesvm.files.content import Content
from mergesvm.files.header import MAX_NUMBER, Header

FORMAT = 6
"""The version of the format that is written; all versions up to it can be read."""

NAME = "mergesvm"

MAX_ARRAYS = 64

TYPES = ("F64", "F32", "I64", "U64", "I32", "U32", "I16", "U16", "I8", "U8")
"""The allowed types of arrays; all but the first three are for support vectors."""

NOT_WRITTEN = (
    f"Nothing was written, because the file could not be read again. Files hold numbers up to {MAX_NUMBER:g} and "
    f"weights down to {1 / MAX_NUMBER:g}: rescale columns, weights or options that are beyond."
)
"""What to do about content that could not be read again."""


def write_container(
    path: str | os.PathLike[str],
    kind: str,
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    check: Callable[[Header, Content], object],
    *,
    overwrite: bool = True,
) -> None:
    """Write arrays and a JSON header to a file, which is replaced atomically.

    ``check`` is the reader of this kind of file: it raises an error for content that it would refuse.
    """
    text = json.dumps(header)
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    try:
        check(Header.of(text, str(path), NOT_WRITTEN, FORMAT), Content(plain, str(path), NOT_WRITTEN))
    except FileError as error:
        raise DataError(str(error)) from None
    labels = {
        "format": str(FORMAT),
        "kind": f"{NAME} {kind}",
        "header": text,
        "sha256": _digest(kind, text, plain),
    }
    with replacing(path, overwrite=overwrite) as temporary:
        try:
            save_file(plain, temporary, labels)
        except SafetensorError as error:
            raise OSError(f"Could not write {path}: {error}") from error


def read_kind(path: str | os.PathLike[str]) -> str:
    """Return the kind of content of a mergesvm file."""
    with _Opened(path) as file:
        return file.kind


def read_format(path: str | os.PathLike[str]) -> int:
    """Return the format version of a mergesvm file."""
    with _Opened(path) as file:
        return file.number


def read_container(path: str | os.PathLike[str], kind: str) -> tuple[Header, dict[str, NDArray[Any]]]:
    """Return header and arrays of a file, after checking format, kind and digest."""
    with _Opened(path) as file:
        if file.kind != kind:
            held = _INSTEAD.get((file.kind, kind)) or _KINDS.get(file.kind, file.kind)
            raise WrongKindError(f"{path} holds {held}.")
        if len(file.names) > MAX_ARRAYS:
            raise DamagedFileError(
                f"{path} is damaged: it holds {len(file.names):,} arrays, at most {MAX_ARRAYS} are valid."
            )
        arrays = {name: file.array(name) for name in file.names}
        if file.strings.get("sha256") != _digest(kind, file.text, arrays, file.number):
            raise DamagedFileError(
                f"{path} is damaged: its content does not match its digest. Copy or create it again."
            )
        return Header.of(file.text, str(path), number=file.number), arrays


_KINDS = {
    "knowledge": "knowledge, not a model. Solve it first: mergesvm solve, or ms.solve",
    "folds": "knowledge of folds. Solve it with mergesvm solve or ms.solve, or load it with ms.Folds.load",
    "model": "a model, not knowledge. Only knowledge can be merged, subtracted and solved",
    "features": "a feature map. Use it to learn: mergesvm learn --features, or ms.learn(..., features=)",
}

_INSTEAD = {
    ("folds", "knowledge"): "knowledge of folds. Load it with ms.Folds.load; its total is the knowledge of all rows",
    ("knowledge", "folds"): "knowledge without folds. Load it with ms.Knowledge.load, or learn again with folds=5",
}
"""More specific messages, by the kind found and the kind expected."""


class _Opened:
    """An open mergesvm file; each way in which it can be invalid has its own error."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            there, proper = self.path.exists(), self.path.is_file()
        except (OSError, ValueError) as error:
            raise MissingFileError(f"There is no such file: {error}.") from None
        if not there:
            raise MissingFileError(f"There is no file {self.path}.")
        if not proper:
            raise ForeignFileError(f"{self.path} is not a file.")
        self._stack: Any = None
        try:
            self._stack = safe_open(self.path, framework="numpy")
            self._file = self._stack.__enter__()
            self.strings: dict[str, str] = self._file.metadata() or {}
            self.names: list[str] = sorted(self._file.keys())
        except SafetensorError as error:
            raise ForeignFileError(
                f"{self.path} is not a mergesvm file, or is truncated or damaged ({error}). Copy or create it again."
            ) from None
        self._check_strings()

    def _check_strings(self) -> None:
        name, _, self.kind = self.strings.get("kind", "").partition(" ")
        number = self.strings.get("format", "")
        if name != NAME or not self.kind or not re.fullmatch("[1-9][0-9]{0,8}", number):
            raise ForeignFileError(f"{self.path} is a safetensors file, but not a mergesvm file.")
        self.number = int(number)
        if self.number > FORMAT:
            raise NewerFormatError(
                f"{self.path} has format {number}, written by a newer mergesvm; this version reads formats up to "
                f"{FORMAT}. Upgrade mergesvm."
            )
        self.text = self.strings.get("header", "")

    def array(self, name: str) -> NDArray[Any]:
        """Return an array, after checking its type."""
        held = self._file.get_slice(name).get_dtype()
        if held not in TYPES:
            raise DamagedFileError(f"{self.path} is damaged: array {name!r} is of type {held}, which is not valid.")
        array: NDArray[Any] = self._file.get_tensor(name)
        return array

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.__exit__(*error)


def library_version() -> str:
    """Return the installed version of mergesvm."""
    from importlib.metadata import version

    return version("mergesvm")


def _digest(kind: str, text: str, arrays: Mapping[str, NDArray[Any]], number: int = FORMAT) -> str:
    digest = hashlib.sha256(json.dumps([number, kind, text]).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()
