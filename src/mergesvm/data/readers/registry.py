"""Find the reader for a file by its extension or by format name."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import PurePosixPath

import mergesvm.data.readers as package
from mergesvm.data.paths import File, find_files
from mergesvm.data.read_options import ReadOptions
from mergesvm.data.readers.base import Reader
from mergesvm.errors import FileError, ParameterError


def open_readers(files: list[File], options: ReadOptions, format_: str | None) -> list[Reader]:
    """Return a reader for each file of rows."""
    kinds = [reader_for(file, format_) for file in files]
    label, paired = options.label, all(kind.paired for kind in kinds)
    if paired and (isinstance(label, (str, os.PathLike)) or (isinstance(label, Iterable) and label)):
        return _with_label_files(files, kinds, options)
    if paired:
        # Files of labels next to those of rows are not rows themselves.
        chosen = [(file, kind) for file, kind in zip(files, kinds, strict=True) if "labels-idx1" not in file.path]
        if not chosen:
            raise ParameterError("All files hold labels, none holds rows. Name the files of rows.")
        if label is not None and not isinstance(label, int):
            raise ParameterError(f"label must be a file or a column number, not {label!r}.")
        return [kind(file, options) for file, kind in chosen]
    if label is not None and not isinstance(label, str):
        raise ParameterError(f"label must be the name of a column, not {label!r}.")
    return [kind(file, options) for file, kind in zip(files, kinds, strict=True)]


def _with_label_files(files: list[File], kinds: list[type[Reader]], options: ReadOptions) -> list[Reader]:
    labels = find_files(options.label)
    if len(labels) != len(files):
        raise ParameterError(f"Got {len(files)} files of rows but {len(labels)} of labels: one for each is needed.")
    return [kind(file, replace(options, label=label)) for kind, file, label in zip(kinds, files, labels, strict=True)]


def reader_for(file: File, format_: str | None) -> type[Reader]:
    """Return the reader of a file, by the name of the format if given, else by file extension."""
    # The module named like the format or the extension first, because others import more packages.
    path = PurePosixPath(file.path.lower())
    for suffix in (f".{format_}",) if format_ else path.suffixes:
        for reader in _readers_in(suffix[1:]):
            if _reads(reader, path.name, format_):
                return reader
    for reader in reader_classes():
        if _reads(reader, path.name, format_):
            return reader
    formats = ", ".join(format_name(reader) for reader in reader_classes())
    if format_ is not None:
        raise ParameterError(f"Unknown format {format_!r}. Choose one of {formats}.")
    known = sorted({suffix for reader in reader_classes() for suffix in reader.suffixes if suffix[0] == "."})
    raise FileError(
        f"{file.name}: unrecognised file extension. Known are {', '.join(known)}; for other names set format= to one "
        f"of {formats}."
    )


def _reads(reader: type[Reader], name: str, format_: str | None) -> bool:
    if format_ is not None:
        return format_name(reader) == format_
    endings = [suffix + packed for suffix in reader.suffixes for packed in ("", *reader.compressions)]
    return any(name.endswith(ending) for ending in endings)


def format_name(reader: type[Reader]) -> str:
    """Return the name of the format that a reader reads.

    >>> [format_name(reader) for reader in reader_classes()]
    ['csv', 'feather', 'idx', 'libsvm', 'npy', 'npz', 'parquet']
    """
    return reader.__name__.removesuffix("Reader").lower()


@cache
def reader_classes() -> tuple[type[Reader], ...]:
    """Return all readers of the package.

    >>> [reader.__name__ for reader in reader_classes()]
    ['CSVReader', 'FeatherReader', 'IdxReader', 'LibsvmReader', 'NpyReader', 'NpzReader', 'ParquetReader']
    """
    found = [reader for name in _module_names() for reader in _readers_in(name)]
    return tuple(sorted(found, key=lambda reader: reader.__name__))


@cache
def _module_names() -> frozenset[str]:
    return frozenset(module.name for module in pkgutil.iter_modules(package.__path__))


@cache
def _readers_in(module: str) -> tuple[type[Reader], ...]:
    """Return the readers that a module of this package defines; none if there is no such module."""
    if module not in _module_names():
        return ()
    name = f"{package.__name__}.{module}"
    return tuple(
        value
        for value in vars(importlib.import_module(name)).values()
        if isinstance(value, type)
        and issubclass(value, Reader)
        and not inspect.isabstract(value)
        and value.__module__ == name
    )
