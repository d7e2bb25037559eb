"""From paths, globs, folders and addresses to files."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from mergesvm.errors import FileError, MissingFileError, ParameterError

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

NOTHING = "__HIVE_DEFAULT_PARTITION__"

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


@dataclass(frozen=True)
class File:
    """One file on some file system.

    Attributes
    ----------
    path : str
        On its file system.
    filesystem : pyarrow.fs.FileSystem
    size : int
        In bytes.
    partition : dict
        Columns that the names of its folders give to all its rows: ``year=2024/month=5``.
    home : str
        The folder from which the path leads to the file: a worker elsewhere has another working folder.
    """

    path: str
    filesystem: Any = field(repr=False)
    size: int
    partition: dict[str, str | int | None] = field(default_factory=dict)
    home: str = ""

    @property
    def name(self) -> str:
        """How messages name the file."""
        return self.path

    @property
    def local(self) -> Path | None:
        """The file as a path of this machine, if it is one."""
        return Path(self._place) if self.filesystem.type_name == "local" else None

    @property
    def _place(self) -> str:
        return os.path.join(self.home, self.path) if self.home else self.path  # noqa: PTH118 - names stay as given

    @property
    def packing(self) -> str | None:
        """How the file is compressed, by the ending of its name."""
        return COMPRESSIONS.get(PurePosixPath(self.path).suffix.lower())

    def open(self) -> Any:
        """The file, for reading at any place."""
        return self.filesystem.open_input_file(self._place)

    def sibling(self, path: str) -> File | None:
        """Another file of the same file system, if it is there."""
        other = replace(self, path=path)
        info = self.filesystem.get_file_info(other._place)
        return replace(other, size=info.size) if info.type == fs.FileType.File else None

    def stream(self) -> tuple[Any, Any]:
        """The bytes of the file in order, decompressed by the ending of its name; and the file as it lies there."""
        raw = self.open()
        return (raw if self.packing is None else pa.CompressedInputStream(raw, self.packing)), raw


def find_files(paths: Paths) -> list[File]:
    """All files that the paths mean, in order: names, globs, folders, and addresses such as ``s3://bucket/day*.csv``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for day in (2, 1):
    ...         _ = Path(folder, f"day{day}.csv").write_text("a,y")
    ...     [Path(file.path).name for file in find_files(f"{folder}/day*.csv")]
    ['day1.csv', 'day2.csv']
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    try:
        files = [file for path in paths for file in _expand(_text(path))]
    except (UnicodeError, pa.ArrowInvalid) as error:
        raise FileError(f"A path cannot be read: {error}.") from None
    if not files:
        raise ParameterError("There are no paths to read from. Give at least one.")
    return _typed(files)


def _text(path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise ParameterError(f"A path is a text or a Path, not {path!r}.")
    return os.fspath(path)


def _expand(path: str) -> list[File]:
    if "://" in path:
        try:
            base, pattern = (path, "") if not glob.has_magic(path) else _cut(path)
            filesystem, where = fs.FileSystem.from_uri(base)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise FileError(f"{path} is no address of files that can be read: {error}") from None
        return _listed(filesystem, where, pattern, path)
    local = fs.LocalFileSystem()
    try:
        there = Path(path).exists()
    except (OSError, ValueError) as error:
        raise FileError(f"{path!r} is not the name of a file: {error}.") from None
    if glob.has_magic(path) and not there:
        matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - names stay as they were given
        found = [name for name in matches if Path(name).is_file()]
        if not found:
            raise MissingFileError(f"No file matches {path}.")
        return _once([_file(local, name, Path(name).stat().st_size, name) for name in found])
    return _listed(local, path, "", path)


def _cut(address: str) -> tuple[str, str]:
    """The folder above the first part of an address with a pattern in it, and the pattern."""
    parts = address.split("/")
    at = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:at]), "/".join(parts[at:])


def _listed(filesystem: Any, where: str, pattern: str, given: str) -> list[File]:
    try:
        info = filesystem.get_file_info(where)
        if info.type == fs.FileType.File:
            return [_file(filesystem, where, info.size, where)]
        if info.type == fs.FileType.NotFound:
            raise MissingFileError(f"There is no file or folder {given}.")
        if info.type != fs.FileType.Directory:
            # A pipe has no size and cannot be read twice; standard input is no different.
            raise FileError(f"{given} is neither a file nor a folder. Save it to a file first.")
        infos = filesystem.get_file_info(fs.FileSelector(where, recursive=True))
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{given} cannot be looked at: {error}") from None
    found = []
    for info in sorted((info for info in infos if info.type == fs.FileType.File), key=lambda info: info.path):
        inner = info.path[len(where.rstrip("/")) + 1 :]
        hidden = any(part.startswith((".", "_")) for part in inner.split("/"))
        if fnmatch.fnmatch(inner, pattern) if pattern else not hidden:
            found.append(_file(filesystem, info.path, info.size, inner))
    if not found:
        raise MissingFileError(f"No file matches {given}." if pattern else f"The folder {given} has no files.")
    return _once(found)


def _once(files: list[File]) -> list[File]:
    """Each file once: a link to a folder above leads to the same files again and again."""
    seen: dict[str, File] = {}
    for file in files:
        seen.setdefault(os.path.realpath(file.path) if file.local else file.path, file)
    return list(seen.values())


def _file(filesystem: Any, path: str, size: int, inner: str) -> File:
    folders = [part.partition("=") for part in inner.split("/")[:-1]]
    partition = {key: None if value == NOTHING else unquote(value) for key, equals, value in folders if equals and key}
    relative = filesystem.type_name == "local" and not os.path.isabs(path)  # noqa: PTH117 - names stay as given
    return File(path, filesystem, size, dict(partition), str(Path.cwd()) if relative else "")


def _typed(files: list[File]) -> list[File]:
    """Values of partitions as whole numbers, where all values of the same key are."""
    values: dict[str, set[Any]] = {}
    for file in files:
        for key, value in file.partition.items():
            values.setdefault(key, set()).add(value)
    whole = {key for key, found in values.items() if all(v is None or _is_whole(v) for v in found)}
    return [
        replace(file, partition={k: int(v) if k in whole and v is not None else v for k, v in file.partition.items()})
        for file in files
    ]


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19
