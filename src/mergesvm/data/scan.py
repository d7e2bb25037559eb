"""Stream rows from files, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, Unpack

from mergesvm.data.labels import Label
from mergesvm.data.layout import Layout, sorted_vocabulary
from mergesvm.data.partitioning import assign_parts
from mergesvm.data.paths import Paths, find_files
from mergesvm.data.prefetch import prefetched
from mergesvm.data.read_options import ReadKeywords, ReadOptions, check_positive, documents_read_options, layout_of
from mergesvm.data.readers.base import Reader
from mergesvm.data.readers.registry import open_readers
from mergesvm.data.slice import Slice
from mergesvm.errors import DataError

BATCH_BYTES = 32 * 2**20
"""Size of a slice in memory, unless ``batch_rows`` is given; at most about four slices are held at a time."""

MIN_PART_BYTES = 2**20
"""Files are not split into smaller parts, because opening them would take as long as reading."""

PARTS_PER_WORKER = 4
"""Files are split into several parts per worker, so that parts can be assigned evenly."""

MIN_SLICE_ROWS, MAX_SLICE_ROWS = 256, 1 << 18


@documents_read_options
def scan(
    paths: Paths,
    label: Any = None,
    features: Iterable[str] | None = None,
    weight: str | None = None,
    batch_rows: int | None = None,
    *,
    like: Any = None,
    format: str | None = None,  # noqa: A002
    **options: Unpack[ReadKeywords],
) -> Scan:
    r"""Stream rows from files, any number of times, without loading them as a whole.

    Parameters
    ----------
    paths : path, or list of paths
        Parquet, Feather and Arrow IPC, CSV and TSV, libsvm text, ``.npy``, ``.npz`` and idx; text and idx also gzipped.
        Files, globs, folders (with ``key=value`` folders as columns), and URLs such as ``s3://bucket/day*.csv``.
    label, features, weight, **options
        The fields of :class:`mergesvm.data.read_options.ReadOptions`.
    batch_rows : int, optional
        Number of rows to read at a time; about 32 MB by default. It does not change the result.
    like : Knowledge, model or feature map, optional
        Use the features and vocabularies of an earlier piece, so that the new one can be added to it.
    format : str, optional
        The format of all files, if extensions do not tell: "parquet", "feather", "csv", "libsvm", "npy", "npz" or
        "idx".

    Examples
    --------
    >>> import mergesvm as ms, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "day1.csv")
    ...     _ = path.write_text("size,colour,sold\n1.5,red,yes\n0.5,blue,no\n1.0,red,yes\n")
    ...     ms.learn(ms.scan(path, label="sold", categories={"colour": ["blue", "red"]}))
    Knowledge of 3 rows x 3 features in 2 classes: no 1, yes 2
    """
    if batch_rows is not None:
        check_positive("batch_rows", batch_rows)
    how = ReadOptions.of(label, features, weight, **options)
    expected = None if like is None else layout_of(like)
    if expected is not None:
        how = how.matching(expected)
    return Scan(open_readers(find_files(paths), how, format), batch_rows, expected)


@dataclass
class Scan:
    """Files that are read slice by slice; see :func:`scan`.

    Iterating yields slices, which a background thread reads ahead. :attr:`rows`, :attr:`dropped` and :attr:`fraction`
    report the progress.

    Attributes
    ----------
    readers : list of Reader
    rows, dropped : int
        Number of rows read and used, and of rows dropped because of missing values.
    fraction : float
        How much of all files has been read, from 0 to 1.
    counts : dict
        Number of rows used from each file.
    source : str
        The name of the file that is being read.
    """

    readers: list[Reader]
    batch_rows: int | None = None
    expected: Layout | None = None

    def __post_init__(self) -> None:
        self._layout: Layout | None = None
        self._restart()

    def _restart(self) -> None:
        self.rows = self.dropped = 0
        self.fraction = 0.0
        self.source = ""
        self.counts: dict[str, int] = {reader.file.name: 0 for reader in self.readers}

    @property
    def layout(self) -> Layout:
        """The features of all rows."""
        if self._layout is None:
            expected = self.expected
            if expected is None or expected.names is None:
                self._layout = self._find_layout()
                if expected is not None:
                    _check_width(self._layout.width, expected, self.readers[0])
            else:
                self._layout = expected
        return self._layout

    def _find_layout(self) -> Layout:
        found: dict[str, set[Label]] = {}
        for reader in self.readers:
            for column, values in reader.vocabulary().items():
                found.setdefault(column, set()).update(values)
        options = self.readers[0].options
        categories = {} if isinstance(options.categories, str) else dict(options.categories)
        for column, values in found.items():
            categories[column] = sorted_vocabulary(values)
        layouts = [self.readers[0].layout(categories)]
        # The widest file of sparse text counts; tables that differ raise an error when they are read.
        if options.width is None and self.readers[0].n_rows() is None and layouts[0].names is None:
            layouts += [reader.layout(categories) for reader in self.readers[1:]]
        return max(layouts, key=lambda layout: layout.width)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the features."""
        return self.layout.names

    @property
    def width(self) -> int:
        """Number of features."""
        return self.layout.width

    def n_rows(self) -> int | None:
        """Return the number of rows, or None if files would have to be read."""
        counts = [reader.n_rows() for reader in self.readers]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def size(self) -> int:
        """Approximate number of bytes to read."""
        return sum(reader.size for reader in self.readers)

    def parts(self, count: int, *, whole: bool = False) -> list[Scan]:
        """Split into at most ``count`` scans of similar size, which together read the same rows.

        Large files are split if their format allows it, unless ``whole``; small files are read together.

        >>> import mergesvm as ms, numpy as np, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for day in range(5):
        ...         np.save(pathlib.Path(folder, f"day{day}.npy"), np.ones((day + 1, 100)))
        ...     [part.n_rows() for part in ms.scan(f"{folder}/*.npy", label=-1).parts(3)]
        [5, 5, 5]
        """
        size = max(MIN_PART_BYTES, self.size // (count * PARTS_PER_WORKER))
        pieces: list[Reader] = []
        for reader in self.readers:
            pieces += reader.split(size) if count > 1 and reader.size > size and not whole else [reader]
        return [self._with_readers(readers) for readers in assign_parts(pieces, count)]

    def _with_readers(self, readers: list[Reader]) -> Scan:
        part = Scan(readers, self.batch_rows, self.expected)
        part._layout = self.layout
        return part

    @property
    def name(self) -> str:
        """The name of the files in messages."""
        more = len(self.readers) - 1
        return self.readers[0].name + (f" and {more:,} more" if more else "")

    def first_slices(self, limit: int) -> Iterator[Slice]:
        """Yield the first slice of each file, or of at most ``limit`` evenly spaced files."""
        for index in range(0, len(self.readers), -(-len(self.readers) // limit)):
            with closing(self.readers[index].slices(self.layout, self._slice_rows(self.readers[index]))) as slices:  # type: ignore[type-var]
                yield from islice(slices, 1)

    def _slice_rows(self, reader: Reader) -> int:
        rows = BATCH_BYTES // max(1, reader.row_bytes(self.layout))
        return self.batch_rows or max(MIN_SLICE_ROWS, min(MAX_SLICE_ROWS, rows))

    def __iter__(self) -> Iterator[Slice]:
        layout = self.layout
        self._restart()
        total = max(1, self.size)
        with closing(prefetched(self._read(layout))) as slices:
            for done, reader, part in slices:
                self.source = reader.file.name
                self.rows += part.rows.n_rows
                self.counts[reader.file.name] += part.rows.n_rows
                self.dropped += part.total - part.rows.n_rows
                self.fraction = (done + part.fraction * reader.size) / total
                yield part
        self.fraction = 1.0

    def _read(self, layout: Layout) -> Iterator[tuple[int, Reader, Slice]]:
        done = 0
        for reader in self.readers:
            with closing(reader.slices(layout, self._slice_rows(reader))) as slices:  # type: ignore[type-var]
                for part in slices:
                    _check_width(part.rows.width, layout, reader)
                    yield done, reader, part
            done += reader.size

    def __repr__(self) -> str:
        return f"Scan of {self.name}"


def _check_width(width: int, layout: Layout, reader: Reader) -> None:
    if width != layout.width:
        raise DataError(f"{reader.file.name} has {width} features, expected {layout.width}.")
