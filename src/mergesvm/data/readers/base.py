"""What every reader of files looks like, and how the right one is found.

A new kind of file is one new module ``read_*.py`` with one :class:`Reader`: it is found by itself, by :func:`scan` and
by the laws of all readers.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.data.paths import File
from mergesvm.data.rows.base import Rows
from mergesvm.data.schema import Categories
from mergesvm.errors import FileError, MalformedFileError, MergeSVMError, ParameterError

LONGEST_MESSAGE = 1000
"""Messages of libraries may quote the file at length."""


@dataclass(frozen=True)
class ReadOptions:
    """What is asked of all files of a scan."""

    label: Any = None
    features: tuple[str, ...] | None = None
    weight: str | None = None
    categories: Mapping[str, tuple[Label, ...]] | str = field(default_factory=dict)
    unknown: str = "error"
    missing: str = "error"
    header: bool = True
    width: int | None = None
    zero_based: bool = False
    keep: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """The features that the rows of a scan have: their number, perhaps names, and the categories among the columns."""

    width: int
    names: tuple[str, ...] | None = None
    categories: Categories = ()


@dataclass(frozen=True)
class Slice:
    """Consecutive rows of one file, as they are learned or predicted at one time.

    Attributes
    ----------
    rows : Rows
    labels : labels of the rows, or None if none were asked for
    weights : array or None
    total : int
        How many rows were read, with those that were dropped.
    kept : array of bool or None
        Which of them were not dropped; None for all.
    share : float
        How much of the file has been read, between 0 and 1.
    table : Arrow record batch or None
        Columns to be kept beside the predictions, of all rows read.
    """

    rows: Rows
    labels: Any
    weights: NDArray[np.float64] | None
    total: int
    share: float
    kept: NDArray[np.bool_] | None = None
    table: Any = None


class Reader(ABC):
    """One file of one kind.

    Attributes
    ----------
    suffixes : tuple of str
        The endings of names by which files of this kind are known, without those of compression.
    compressions : tuple of str
        Endings of compression that may follow.
    size : int
        About how many bytes of the file are read.
    first_row : int
        The number of the first row that is read.
    extent : str
        Which part of the file is read, in words; empty for all of it.
    """

    suffixes: ClassVar[tuple[str, ...]]
    compressions: ClassVar[tuple[str, ...]] = ()
    paired: ClassVar[bool] = False
    """Whether labels lie in a file of their own beside each file of rows."""

    def __init__(self, file: File, terms: ReadOptions) -> None:
        self.file = file
        self.terms = terms
        self.size = file.size
        self.first_row = 0
        self.extent = ""

    @abstractmethod
    def layout(self, categories: Mapping[str, tuple[Label, ...]]) -> Layout:
        """The features of the file, as the terms ask for them, with these categories among its columns."""

    @abstractmethod
    def slices(self, layout: Layout, rows: int) -> Iterator[Slice]:
        """The rows of the file, at most so many at a time. The file is closed when the iterator ends or is closed."""

    def cut(self, size: int) -> list[Reader]:  # noqa: ARG002
        """Readers of consecutive parts of the file, each of about so many bytes; this one where it cannot be cut."""
        return [self]

    @property
    def name(self) -> str:
        """How the part that is read is named."""
        return f"{self.file.name}, {self.extent}" if self.extent else self.file.name

    def part(self, size: int, first_row: int, extent: str) -> Self:
        """A copy that reads a part of the file; the rest of what that takes is for the reader to set."""
        reader = copy(self)
        reader.size, reader.first_row, reader.extent = size, first_row, extent
        return reader

    def n_rows(self) -> int | None:
        """How many rows there are, where the file tells without being read."""
        return None

    def row_bytes(self, layout: Layout) -> int:
        """About how many bytes a row takes when it is read."""
        return 8 * layout.width

    def vocabulary(self) -> dict[str, set[Label]]:
        """The values of those columns that are to be categories but are not declared."""
        return {}

    def malformed(self, what: object, row: int | None = None) -> MalformedFileError:
        """The error for a file that breaks the rules of its format."""
        where = "" if row is None else f", row {row}"
        return MalformedFileError(f"{self.file.name}{where}: {str(what).strip().rstrip('.')}.")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What goes wrong in the libraries that read is the fault of the file, and the message names it."""
        try:
            yield
        except MergeSVMError:
            raise
        except Exception as error:
            raise self.malformed(str(error)[:LONGEST_MESSAGE] or type(error).__name__) from error

    def refuse_columns(self, kind: str) -> None:
        """Raise an error where the terms name columns, and the file has none."""
        for name in ("features", "weight", "keep"):
            if getattr(self.terms, name):
                raise ParameterError(f"{self.file.name}: {kind} has no named columns, so that {name} cannot be chosen.")
        if self.terms.categories:
            raise ParameterError(f"{self.file.name}: {kind} has no named columns, so that there are no categories.")


@cache
def reader_classes() -> tuple[type[Reader], ...]:
    """All kinds of readers, found by the names of their modules.

    >>> [reader.__name__ for reader in reader_classes()]
    ['CSVReader', 'FeatherReader', 'IdxReader', 'LibsvmReader', 'NpyReader', 'NpzReader', 'ParquetReader']
    """
    import mergesvm.data.readers as room

    found = []
    for module in pkgutil.iter_modules(room.__path__):
        content = vars(importlib.import_module(f"{room.__name__}.{module.name}"))
        found += [
            value
            for value in content.values()
            if isinstance(value, type)
            and issubclass(value, Reader)
            and not inspect.isabstract(value)
            and value.__module__ == f"{room.__name__}.{module.name}"
        ]
    return tuple(sorted(found, key=lambda reader: reader.__name__))


def reader_for(file: File, kind: str | None) -> type[Reader]:
    """The reader for a file, by the ending of its name or, if given, by the name of its kind."""
    name = file.path.rsplit("/", 1)[-1].lower()
    for reader in reader_classes():
        endings = [suffix + packed for suffix in reader.suffixes for packed in ("", *reader.compressions)]
        if kind == kind_of(reader) or (kind is None and any(name.endswith(ending) for ending in endings)):
            return reader
    kinds = ", ".join(kind_of(reader) for reader in reader_classes())
    if kind is not None:
        raise ParameterError(f"There is no format {kind!r}. Known are: {kinds}.")
    known = ", ".join(sorted({suffix for reader in reader_classes() for suffix in reader.suffixes if suffix[0] == "."}))
    raise FileError(f"{file.name}: the ending of the name tells of no known format ({known}). Give format=: {kinds}.")


def kind_of(reader: type[Reader]) -> str:
    """The name of a kind of files.

    >>> [kind_of(reader) for reader in reader_classes()]
    ['csv', 'feather', 'idx', 'libsvm', 'npy', 'npz', 'parquet']
    """
    return reader.__name__.removesuffix("Reader").lower()
