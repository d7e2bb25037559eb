"""Find files by path, glob, folder or URL. pyarrow is imported only for URLs and for readers that need it."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from mergesvm.errors import FileError, MissingFileError, ParameterError

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

MISSING_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The name that Hive gives to the folder of rows without a value."""

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


@dataclass(frozen=True)
class File:
    """A file on this machine or on a remote file system.

    Attributes
    ----------
    path : str
        The path within its file system.
    filesystem : pyarrow.fs.FileSystem or None
        None for a file on this machine.
    size : int
        Size in bytes.
    partition : dict
        Columns that the names of its folders give to all its rows: ``year=2024/month=5``.
    home : str
        The folder that a relative path starts from: workers may have another working directory.
    """

    path: str
    filesystem: Any = field(repr=False)
    size: int
    partition: dict[str, str | int | None] = field(default_factory=dict)
    home: str = ""

    @property
    def name(self) -> str:
        """The name of the file in messages."""
        return self.path

    @property
    def _full_path(self) -> str:
        return os.path.join(self.home, self.path) if self.home else self.path  # noqa: PTH118 - keep the given spelling

    @property
    def compression(self) -> str | None:
        """The compression, by file extension."""
        return COMPRESSIONS.get(PurePosixPath(self.path).suffix.lower())

    def open(self) -> Any:
        """Open the file for reading with random access."""
        return Path(self._full_path).open("rb") if self.filesystem is None else self.open_arrow()

    def open_arrow(self) -> Any:
        """Open the file for readers of pyarrow, which read it without the GIL."""
        from pyarrow import fs

        return (self.filesystem or fs.LocalFileSystem()).open_input_file(self._full_path)

    def stream(self) -> tuple[Any, Any]:
        """Open the decompressed content as a stream; returns the stream and the file beneath it."""
        if self.compression is None:
            raw = self.open()
            return raw, raw
        import pyarrow as pa

        raw = self.open_arrow()
        return pa.CompressedInputStream(raw, self.compression), raw

    def sibling(self, path: str) -> File | None:
        """Return another file of the same file system, or None if it does not exist."""
        other = replace(self, path=path)
        if self.filesystem is None:
            there = Path(other._full_path)
            return replace(other, size=there.stat().st_size) if there.is_file() else None
        info = self.filesystem.get_file_info(other._full_path)
        return replace(other, size=info.size) if info.is_file else None


def find_files(paths: Paths) -> list[File]:
    """Return all files that paths, globs, folders and URLs such as ``s3://bucket/day*.csv`` refer to, in order.

    A file that is given twice, by overlapping globs or by a link, raises an error.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for day in (2, 1):
    ...         _ = Path(folder, f"day{day}.csv").write_text("a,y")
    ...     [Path(file.path).name for file in find_files(f"{folder}/day*.csv")]
    ['day1.csv', 'day2.csv']
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    files: list[File] = []
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise ParameterError(f"A path must be a string or a Path, not {path!r}.")
        text = os.fspath(path)
        files += _remote_files(text) if "://" in text else _local_files(text)
    if not files:
        raise ParameterError("No paths to read from. Give at least one.")
    _check_given_once(files)
    return _with_typed_partitions(files)


def _local_files(path: str) -> list[File]:
    try:
        given = Path(path)
        exists = given.exists()
        if glob.has_magic(path) and not exists:
            matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - keep the given spelling
            return _some([_local_file(name, name) for name in matches if Path(name).is_file()], path)
        if given.is_file():
            return [_local_file(path, path)]
        if not exists:
            raise MissingFileError(f"There is no file or folder {path}.")
        if not given.is_dir():
            # A pipe has no size and cannot be read twice; neither can standard input.
            raise FileError(f"{path} is neither a file nor a folder. Save its content to a file first.")
        found = [
            _local_file(f"{path.rstrip('/')}/{inner}", inner)
            for inner in sorted(_files_within(path))
            if not any(part.startswith((".", "_")) for part in inner.split("/"))
        ]
    except FileError:
        raise
    except (OSError, ValueError) as error:
        raise FileError(f"{path!r} cannot be read: {error}.") from None
    # A folder is given once, so that links within it do not give a file twice.
    return list({_identity(file): file for file in reversed(_some(found, path, folder=True))}.values())[::-1]


def _files_within(folder: str) -> Iterable[str]:
    """Yield the paths of all files in a folder, relative to it; links to a folder above are not followed."""

    def fail(error: OSError) -> None:
        raise error

    for place, folders, names in os.walk(folder, onerror=fail, followlinks=True):
        here = os.path.realpath(place)
        folders[:] = [name for name in folders if not f"{here}/".startswith(f"{os.path.realpath(f'{place}/{name}')}/")]
        for name in names:
            file = Path(place, name)
            if file.is_file():
                yield file.relative_to(folder).as_posix()


def _remote_files(url: str) -> list[File]:
    import pyarrow as pa
    from pyarrow import fs

    base, pattern = _split_glob(url) if glob.has_magic(url) else (url, "")
    try:
        filesystem, where = fs.FileSystem.from_uri(base)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise FileError(f"{url} is not a URL of readable files: {error}") from None
    owner = None if filesystem.type_name == "local" else filesystem
    try:
        info = filesystem.get_file_info(where)
        if info.is_file:
            return [File(where, owner, info.size, _partition(where))]
        if info.type == fs.FileType.NotFound:
            raise MissingFileError(f"There is no file or folder {url}.")
        infos = filesystem.get_file_info(fs.FileSelector(where, recursive=True))
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{url} cannot be read: {error}") from None
    found = []
    for info in sorted((info for info in infos if info.is_file), key=lambda info: info.path):
        inner = info.path[len(where.rstrip("/")) + 1 :]
        hidden = any(part.startswith((".", "_")) for part in inner.split("/"))
        if fnmatch.fnmatch(inner, pattern) if pattern else not hidden:
            found.append(File(info.path, owner, info.size, _partition(inner)))
    return _some(found, url, folder=not pattern)


def _split_glob(url: str) -> tuple[str, str]:
    """Split a URL into the folder above its first glob pattern, and the rest."""
    parts = url.split("/")
    at = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:at]), "/".join(parts[at:])


def _some(files: list[File], given: str, *, folder: bool = False) -> list[File]:
    """Return the files; raise an error if there are none."""
    if not files:
        raise MissingFileError(f"The folder {given} has no files." if folder else f"No file matches {given}.")
    return files


def _check_given_once(files: list[File]) -> None:
    """Raise an error that names both spellings of a file that was given twice."""
    seen: dict[object, File] = {}
    for file in files:
        first = seen.setdefault(_identity(file), file)
        if first is not file:
            same = "is given twice" if first.path == file.path else f"and {first.path} are the same file"
            raise ParameterError(f"{file.path} {same}: its rows would count twice. Give each file once.")


def _identity(file: File) -> object:
    """Return what all paths and links to a file have in common."""
    if file.filesystem is not None:
        return file.filesystem.type_name, file.path
    status = Path(file.path).stat()
    return (status.st_dev, status.st_ino) if status.st_ino else os.path.realpath(file.path)


def _local_file(path: str, inner: str) -> File:
    relative = not os.path.isabs(path)  # noqa: PTH117 - keep the given spelling
    return File(path, None, Path(path).stat().st_size, _partition(inner), str(Path.cwd()) if relative else "")


def _partition(path: str) -> dict[str, str | int | None]:
    """Return the columns in the names of folders: ``year=2024/month=5/day.csv``."""
    folders = [part.partition("=") for part in path.split("/")[:-1]]
    return {
        key: None if value == MISSING_PARTITION else unquote(value) for key, equals, value in folders if equals and key
    }


def _with_typed_partitions(files: list[File]) -> list[File]:
    """Convert values of partitions to integers if all values of the same key are integers."""
    values: dict[str, set[Any]] = {}
    for file in files:
        for key, value in file.partition.items():
            values.setdefault(key, set()).add(value)
    integers = {key for key, found in values.items() if all(v is None or _is_integer(v) for v in found)}
    return [
        replace(
            file, partition={k: int(v) if k in integers and v is not None else v for k, v in file.partition.items()}
        )
        for file in files
    ]


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19
