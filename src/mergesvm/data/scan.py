"""Stream rows from files, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar, Unpack

from mergesvm.checks import listed
from mergesvm.data.label_encoding import EncodedLabels
from mergesvm.data.labels import Label
from mergesvm.data.layout import Layout, sorted_vocabulary
from mergesvm.data.partitioning import assign_parts
from mergesvm.data.paths import Paths, find_files
from mergesvm.data.prefetch import prefetched
from mergesvm.data.read_options import ReadKeywords, ReadOptions, check_positive, documents_read_options, layout_of
from mergesvm.data.readers.base import Reader
from mergesvm.data.readers.registry import open_readers
from mergesvm.data.slice import Slice
from mergesvm.data.text_parser.label_kinds import CONTINUOUS, KINDS, chosen_kind, fitting_kinds
from mergesvm.errors import DataError, IgnoredColumnsWarning, LabelKindError, warn_caller

Result = TypeVar("Result")

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
    source = Scan(open_readers(find_files(paths), how, format), batch_rows, expected)
    source.expect_labels(getattr(getattr(like, "signature", None), "labels", None))
    return source


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
    progress : callable or None
        Called with the scan after each slice, and at the end, where rows are read in this process.
    """

    readers: list[Reader]
    batch_rows: int | None = None
    expected: Layout | None = None

    def __post_init__(self) -> None:
        self.progress: Callable[[Scan], None] | None = None
        self._layout: Layout | None = None
        self._label_kind: str | None = None
        self._expected_labels: str | None = None
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
        layout = max(layouts, key=lambda layout: layout.width)
        if layout.names is not None and not options.features:
            self._mention_ignored(set(layout.columns))
        return layout

    def _mention_ignored(self, known: set[str]) -> None:
        """Warn if a later file has columns that the first does not have."""
        extra = {reader.file.name: set(reader.feature_columns()) - known for reader in self.readers[1:]}
        files = [name for name, columns in extra.items() if columns]
        if files:
            more = f", and {len(files) - 1:,} other files have such columns" if len(files) > 1 else ""
            warn_caller(
                f"{files[0]}: the columns {listed(sorted(extra[files[0]]))} are not in the first file, "
                f"{self.readers[0].file.name}, and are left out{more}. Name the features to learn (features=).",
                IgnoredColumnsWarning,
            )

    @property
    def label_kind(self) -> str | None:
        """The kind that labels written as text are read as, such as "whole number"; None if all labels have types.

        Until :meth:`settle_labels` has read all of them, it is that of the first ones; a label that does not fit raises
        :class:`LabelKindError`.
        """
        if self._label_kind is not None or all(reader.typed for reader in self.readers):
            return self._label_kind
        kind = chosen_kind(self.fitting_label_kinds(1), self._expected_kind())
        if kind == CONTINUOUS:
            self.settle_labels()
        return self._label_kind or kind

    def expect_labels(self, kind: str | None) -> None:
        """Read labels written as text as this kind, such as that of a model, if they fit."""
        if kind != self._expected_labels:
            self._expected_labels, self._label_kind = kind, None

    def _expected_kind(self) -> str | None:
        """The kind of labels that is expected, or that of a file in which labels have types."""
        typed = [reader for reader in self.readers if reader.typed]
        if self._expected_labels is None and typed:
            with closing(self._slices(typed[0], self.layout, None)) as slices:  # type: ignore[type-var]
                labels = next((part.labels for part in slices if part.labels is not None), ())
            return EncodedLabels.encode(labels).kind
        return self._expected_labels

    def fitting_label_kinds(self, blocks: int | None = None) -> tuple[str, ...]:
        """Return the kinds that all labels written as text fit; ``blocks`` limits the files, and blocks of each."""
        kinds: tuple[str, ...] = KINDS
        for reader in [reader for reader in self.readers if not reader.typed][:blocks]:
            with closing(reader.label_texts()) as texts:  # type: ignore[type-var]
                for found in islice(texts, blocks):
                    kinds = fitting_kinds(found, kinds)
                    if kinds == ("text",):
                        return kinds
        return kinds

    def settle_labels(self, kinds: tuple[str, ...] | None = None) -> None:
        """Read all labels that are written as text, and choose their kind: the first of those that fit all of them.

        Learning and evaluating do so by themselves when labels turn out to be of another kind than the first ones.
        """
        if all(reader.typed for reader in self.readers):
            return
        kind = chosen_kind(kinds or self.fitting_label_kinds(), self._expected_kind())
        if kind == CONTINUOUS:
            raise DataError(
                f"{self.name}: Unknown label type: continuous. The labels in column {self.readers[0].options.label!r} "
                f"are numbers, and not all of them are integers. mergesvm supports classification only. Labels must be "
                f"strings, integers or booleans."
            )
        self._label_kind = kind

    def settled(self, read: Callable[[], Result]) -> Result:
        """Call a function that reads this scan; call it again if labels were of another kind than the first."""
        try:
            return read()
        except LabelKindError:
            self.settle_labels()
            return read()

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
        return [self.with_readers(readers) for readers in assign_parts(pieces, count)]

    def with_readers(self, readers: list[Reader]) -> Scan:
        """Return a scan of these readers, perhaps none, with the features and the kind of labels of this one."""
        part = Scan(readers, self.batch_rows, self.expected)
        part._layout, part._label_kind = self.layout, self.label_kind
        return part

    @property
    def name(self) -> str:
        """The name of the files in messages."""
        more = len(self.readers) - 1
        return self.readers[0].name + (f" and {more:,} more" if more else "")

    def first_slices(self, limit: int) -> Iterator[Slice]:
        """Yield the first slice of each file, or of at most ``limit`` evenly spaced files."""
        for index in range(0, len(self.readers), -(-len(self.readers) // limit)):
            with closing(self._slices(self.readers[index], self.layout, self.label_kind)) as slices:  # type: ignore[type-var]
                yield from islice(slices, 1)

    def _slices(self, reader: Reader, layout: Layout, kind: str | None) -> Iterator[Slice]:
        reader.label_kind = kind
        return reader.slices(layout, self._slice_rows(reader))

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
                self._report()
                yield part
        self.fraction = 1.0
        self._report()

    def _report(self) -> None:
        if self.progress is not None:
            self.progress(self)

    def _read(self, layout: Layout) -> Iterator[tuple[int, Reader, Slice]]:
        done, kind = 0, self.label_kind
        for reader in self.readers:
            with closing(self._slices(reader, layout, kind)) as slices:  # type: ignore[type-var]
                for part in slices:
                    _check_width(part.rows.width, layout, reader)
                    yield done, reader, part
            done += reader.size

    def __repr__(self) -> str:
        return f"Scan of {self.name}"


def _check_width(width: int, layout: Layout, reader: Reader) -> None:
    if width != layout.width:
        raise DataError(f"{reader.file.name} has {width} features, expected {layout.width}.")
