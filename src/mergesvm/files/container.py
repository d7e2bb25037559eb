"""The container of all our files: safetensors, with one JSON header and a digest of everything.

safetensors holds named arrays and a few strings, and nothing that could run. Of the strings we use ``format`` (the
number of this format), ``kind`` (what the file holds), ``header`` (JSON) and ``sha256`` (of header and arrays).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from mergesvm.errors import DamagedFileError, ForeignFileError, MissingFileError, NewerFormatError, WrongKindError
from mergesvm.files.atomic import replacing
from mergesvm.files.header import Header

FORMAT = 5
"""The number of the format that is written; files of all numbers up to it are read."""

NAME = "mergesvm"

MOST_ARRAYS = 64

TYPES = ("F64", "F32", "I64", "U64", "I32", "U32", "I16", "U16", "I8", "U8")
"""The types of arrays that our files hold; all but the first three are for support vectors."""


def write_container(
    path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write arrays and a header of plain values to a file, which is replaced as a whole or not at all."""
    text = json.dumps(header, allow_nan=False)
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    labels = {
        "format": str(FORMAT),
        "kind": f"{NAME} {kind}",
        "header": text,
        "sha256": _digest(kind, text, plain),
    }
    with replacing(path) as sibling:
        try:
            save_file(plain, sibling, labels)
        except SafetensorError as error:
            raise OSError(f"{path} could not be written: {error}") from error


def read_kind(path: str | os.PathLike[str]) -> str:
    """What kind of thing a file of ours holds."""
    with _Opened(path) as file:
        return file.kind


def read_format(path: str | os.PathLike[str]) -> int:
    """The number of the format of a file of ours."""
    with _Opened(path) as file:
        return file.number


def read_container(path: str | os.PathLike[str], kind: str) -> tuple[Header, dict[str, NDArray[Any]]]:
    """The header and the arrays of a file, once its format, its kind and its digest are found to be right."""
    with _Opened(path) as file:
        if file.kind != kind:
            held = _INSTEAD.get((file.kind, kind)) or _KINDS.get(file.kind, file.kind)
            raise WrongKindError(f"{path} holds {held}.")
        if len(file.names) > MOST_ARRAYS:
            raise DamagedFileError(f"{path} holds {len(file.names):,} arrays, more than any file of ours does.")
        arrays = {name: file.array(name) for name in file.names}
        if file.strings.get("sha256") != _digest(kind, file.text, arrays, file.number):
            raise DamagedFileError(f"{path} is damaged: its content does not match its digest. Copy or make it again.")
        return Header.of(file.text, str(path)), arrays


_KINDS = {
    "knowledge": "knowledge, not a model. Solve it first: mergesvm solve, or ms.solve",
    "folds": "the knowledge of folds. Solve it with mergesvm solve or ms.solve; ms.Folds.load opens it",
    "model": "a model, not knowledge. A model cannot be merged, subtracted or solved; its knowledge can",
    "features": "a feature map. Learn with it: mergesvm learn --features, or ms.learn(..., features=)",
}

_INSTEAD = {
    ("folds", "knowledge"): "the knowledge of folds. Read it with ms.Folds.load; their total is that of all rows",
    ("knowledge", "folds"): "knowledge without folds. Read it with ms.Knowledge.load, or learn again with folds=5",
}
"""What is said of a file of one kind where another is asked for, if it is not what is always said."""


class _Opened:
    """A file of ours, opened; every way in which it can fail to be one has its error."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            there, proper = self.path.exists(), self.path.is_file()
        except (OSError, ValueError) as error:
            raise MissingFileError(f"There is no file of such a name: {error}.") from None
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
                f"{self.path} is not a mergesvm file, or is cut short or damaged ({error}). Copy or make it again."
            ) from None
        self._check_strings()

    def _check_strings(self) -> None:
        name, _, self.kind = self.strings.get("kind", "").partition(" ")
        number = self.strings.get("format", "")
        if name != NAME or not self.kind or not re.fullmatch("[1-9][0-9]{0,8}", number):
            raise ForeignFileError(f"{self.path} is a safetensors file, but none of mergesvm's.")
        self.number = int(number)
        if self.number > FORMAT:
            raise NewerFormatError(
                f"{self.path} is of format {number}, written by a newer mergesvm; this one reads formats up to "
                f"{FORMAT}. Upgrade mergesvm."
            )
        self.text = self.strings.get("header", "")

    def array(self, name: str) -> NDArray[Any]:
        """One array, of a type that our files hold."""
        held = self._file.get_slice(name).get_dtype()
        if held not in TYPES:
            raise DamagedFileError(f"{self.path} holds an array {name!r} of type {held}, which no mergesvm file does.")
        array: NDArray[Any] = self._file.get_tensor(name)
        return array

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.__exit__(*error)


def library_version() -> str:
    """The version of the library that writes."""
    from importlib.metadata import version

    return version("mergesvm")


def _digest(kind: str, text: str, arrays: Mapping[str, NDArray[Any]], number: int = FORMAT) -> str:
    digest = hashlib.sha256(json.dumps([number, kind, text]).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()
