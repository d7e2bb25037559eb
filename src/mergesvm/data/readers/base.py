"""The base class of file readers.

To add a file format, add a module with one :class:`Reader` to this package: :mod:`mergesvm.data.readers.registry` finds
it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import ClassVar, Self

from mergesvm.data.labels import Label
from mergesvm.data.layout import Layout
from mergesvm.data.paths import File
from mergesvm.data.read_options import ReadOptions
from mergesvm.data.slice import Slice
from mergesvm.errors import MalformedFileError, MergeSVMError, ParameterError

MAX_MESSAGE_LENGTH = 1000
"""Longer messages of libraries are cut: they may quote the file at length."""


class Reader(ABC):
    """Reads one file, or a part of it.

    Attributes
    ----------
    suffixes : tuple of str
        File extensions of the format, without those of compression.
    compressions : tuple of str
        Extensions of compression that may follow.
    size : int
        Approximate number of bytes to read.
    first_row : int
        The number of the first row that is read.
    extent : str
        A description of the part of the file that is read; empty for all of it.
    """

    suffixes: ClassVar[tuple[str, ...]]
    compressions: ClassVar[tuple[str, ...]] = ()
    paired: ClassVar[bool] = False
    """Whether each file of rows has a separate file of labels."""
    typed: ClassVar[bool] = True
    """Whether values have types; if not, they are text."""
    label_kind: str | None = None
    """If values are text: the kind of labels that they are read as; see :attr:`Scan.label_kind`."""

    def __init__(self, file: File, options: ReadOptions) -> None:
        self.file = file
        self.options = options
        self.size = file.size
        self.first_row = 0
        self.extent = ""

    @abstractmethod
    def layout(self, categories: Mapping[str, tuple[Label, ...]]) -> Layout:
        """Return the features of the file, given the categories among its columns."""

    @abstractmethod
    def slices(self, layout: Layout, rows: int) -> Iterator[Slice]:
        """Yield slices of at most ``rows`` rows. The file is closed when the iterator ends or is closed."""

    def split(self, size: int) -> list[Reader]:  # noqa: ARG002
        """Return readers of consecutive parts of about ``size`` bytes, or only this reader if it cannot be split."""
        return [self]

    @property
    def name(self) -> str:
        """The name of the file or part in messages."""
        return f"{self.file.name}, {self.extent}" if self.extent else self.file.name

    def part(self, size: int, first_row: int, extent: str) -> Self:
        """Return a copy for a part of the file; the subclass sets which."""
        reader = copy(self)
        reader.size, reader.first_row, reader.extent = size, first_row, extent
        return reader

    def n_rows(self) -> int | None:
        """Return the number of rows, or None if the file would have to be read."""
        return None

    def row_bytes(self, layout: Layout) -> int:
        """Return the approximate size of a row in memory."""
        return 8 * layout.width

    def feature_columns(self) -> list[str]:
        """Return the names of the columns that are features, for formats with named columns."""
        return []

    def vocabulary(self) -> dict[str, set[Label]]:
        """Return the values of the columns that are categories without a declared vocabulary."""
        return {}

    def label_texts(self) -> Iterator[set[str]]:
        """Yield the distinct labels as written, block by block; nothing if values have types."""
        return iter(())

    def malformed(self, what: object, row: int | None = None) -> MalformedFileError:
        """Return the error for a file that violates its format."""
        where = "" if row is None else f", row {row}"
        return MalformedFileError(f"{self.file.name}{where}: {str(what).strip().rstrip('.')}.")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Convert errors of libraries in a ``with`` block to errors that name the file."""
        try:
            yield
        except (MergeSVMError, ImportError):  # the file is not to blame
            raise
        except Exception as error:
            # Of absurd sizes in a damaged file Arrow says that memory is lacking; from others that is the truth.
            if isinstance(error, MemoryError) and not type(error).__module__.startswith("pyarrow"):
                raise
            raise self.malformed(str(error)[:MAX_MESSAGE_LENGTH] or type(error).__name__) from error

    def refuse_columns(self, kind: str) -> None:
        """Raise an error if options name columns, for a format without named columns."""
        for name in ("features", "weight", "keep", "categories"):
            if getattr(self.options, name):
                raise ParameterError(f"{self.file.name}: {kind} has no named columns. Omit {name}.")
