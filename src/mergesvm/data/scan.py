"""A stream of rows from files, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from mergesvm.data.labels import Label
from mergesvm.data.partitioning import dealt_out
from mergesvm.data.paths import File, Paths, find_files
from mergesvm.data.prefetch import prefetched
from mergesvm.data.readers.base import Layout, Reader, ReadOptions, Slice, reader_for
from mergesvm.data.schema import ordered_words
from mergesvm.errors import DataError, ParameterError

BATCH_BYTES = 32 * 2**20
"""How much is read at one time, unless the number of rows is given; about four times as much is held at most."""

LEAST_BYTES = 2**20
"""Files are not cut into smaller pieces than this: opening them would take as long as reading."""

GRAINS = 4
"""Files are cut into pieces of this share of what a worker reads, so that loads differ little."""

MOST_ROWS, LEAST_ROWS = 1 << 18, 256


def scan(
    paths: Paths,
    label: Any = None,
    features: Iterable[str] | None = None,
    weight: str | None = None,
    batch_rows: int | None = None,
    *,
    categories: Mapping[str, Iterable[Label]] | str | None = None,
    unknown: str = "error",
    missing: str = "error",
    header: bool = True,
    width: int | None = None,
    zero_based: bool = False,
    keep: Iterable[str] = (),
    like: Any = None,
    format: str | None = None,  # noqa: A002
) -> Scan:
    r"""Rows from files, as a stream that can be read any number of times and is never in memory as a whole.

    Parameters
    ----------
    paths : path, or list of paths
        Parquet, Feather and Arrow IPC, CSV and TSV, libsvm text, ``.npy``, ``.npz`` and idx; text and idx gzipped, too.
        Names, globs, folders (with ``key=value`` folders as columns), and addresses such as ``s3://bucket/day*.csv``.
    label : str, int or path, optional
        The column of labels; for ``.npz`` the name of an array, for ``.npy`` the number of a column or another file,
        for idx another file, found by itself if named as MNIST's are. libsvm text has its labels in itself.
    features : list of str, optional
        The columns to learn from; all but label, weight and ``keep`` by default.
    weight : str, optional
        The column of sample weights.
    batch_rows : int, optional
        How many rows to read at a time; by default what takes about 32 MB. The result is the same.
    categories : mapping of column to values, or "auto"
        Columns to be one-hot encoded, and their vocabularies: pieces learned apart with the same vocabularies add.
        "auto" finds the values of all columns of text, by reading those once more. Arrow dictionaries need no mention.
    unknown : {"error", "zero"}
        What to make of a value outside of the vocabulary: an error, or an all-zero block.
    missing : {"error", "drop"}
        What to make of missing values: an error, or rows left out and counted in :attr:`Scan.dropped`.
    header : bool
        Whether the first line of CSV names the columns; if not, they are f0, f1, ...
    width : int, optional
        Number of features of libsvm text. If not given, the files are read once to find it.
    zero_based : bool
        Whether indices of libsvm text begin with 0.
    keep : list of str
        Columns to carry along beside predictions, such as an identifier.
    like : Knowledge, model or feature map, optional
        Use the features and vocabularies of an earlier piece, so that the new one can be added to it.
    format : str, optional
        The kind of all files, where names do not tell: "parquet", "feather", "csv", "libsvm", "npy", "npz" or "idx".

    Examples
    --------
    >>> import mergesvm as ms, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "day1.csv")
    ...     _ = path.write_text("size,colour,sold\n1.5,red,yes\n0.5,blue,no\n1.0,red,yes\n")
    ...     ms.learn(ms.scan(path, label="sold", categories={"colour": ["blue", "red"]}))
    Knowledge of 3 rows x 3 features in 2 classes: no 1, yes 2
    """
    if batch_rows is not None and (not isinstance(batch_rows, int) or batch_rows < 1):
        raise ParameterError(f"batch_rows has to be a positive whole number, not {batch_rows!r}.")
    terms, expected = terms_of(
        label,
        features=features,
        weight=weight,
        categories=categories,
        unknown=unknown,
        missing=missing,
        header=header,
        width=width,
        zero_based=zero_based,
        keep=keep,
        like=like,
    )
    return Scan(_open(find_files(paths), terms, format), batch_rows, expected)


def terms_of(
    label: Any = None,
    *,
    features: Iterable[str] | None = None,
    weight: str | None = None,
    categories: Mapping[str, Iterable[Label]] | str | None = None,
    unknown: str = "error",
    missing: str = "error",
    header: bool = True,
    width: int | None = None,
    zero_based: bool = False,
    keep: Iterable[str] = (),
    like: Any = None,
) -> tuple[ReadOptions, Layout | None]:
    """What is asked of rows, checked; and the features of an earlier piece that they are to have. See :func:`scan`."""
    _check("unknown", unknown, ("error", "zero"))
    _check("missing", missing, ("error", "drop"))
    if width is not None and (not isinstance(width, int) or width < 1):
        raise ParameterError(f"width has to be a positive whole number, not {width!r}.")
    if isinstance(categories, str) and categories != "auto":
        raise ParameterError(f"categories has to be a mapping of column to values, or 'auto', not {categories!r}.")
    if features is not None and isinstance(features, str):
        features = [features]
    expected = None if like is None else _layout_of(like)
    declared = categories if isinstance(categories, str) else _declared(categories or {})
    if expected is not None and expected.names is not None:
        _check_alike(expected, features, declared)
    terms = ReadOptions(
        label,
        None if features is None else tuple(features),
        weight,
        declared,
        unknown,
        missing,
        header,
        width if expected is None else expected.width,
        zero_based,
        tuple(keep),
    )
    return terms, expected


def _check(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ParameterError(f"{name} has to be one of {', '.join(map(repr, choices))}, not {value!r}.")


def _declared(categories: Mapping[str, Iterable[Label]]) -> dict[str, tuple[Label, ...]]:
    if not isinstance(categories, Mapping):
        raise ParameterError(f"categories has to be a mapping of column to values, or 'auto', not {categories!r}.")
    # A text would be taken for the list of its letters.
    return {column: (values,) if isinstance(values, str) else tuple(values) for column, values in categories.items()}


def _layout_of(like: Any) -> Layout:
    layout = getattr(like, "layout", None)
    if not isinstance(layout, Layout):
        raise ParameterError(f"like has to be knowledge, a model or a frozen feature map, not {type(like).__name__}.")
    return layout


def _check_alike(layout: Layout, features: Iterable[str] | None, declared: Mapping[str, Any] | str) -> None:
    """Raise an error if other columns or categories are asked for than an earlier piece has."""
    categories = dict(layout.categories)
    encoded = {f"{column}={value}" for column, values in layout.categories for value in values}
    columns = {*categories, *(name for name in layout.names or () if name not in encoded)}
    if features is not None and set(features) != columns:
        raise ParameterError(
            f"features are {', '.join(features)}, but like has {', '.join(sorted(columns))}. Leave features out."
        )
    if not isinstance(declared, str) and any(categories.get(name) != values for name, values in declared.items()):
        raise ParameterError("categories are other than those that like has. Leave categories out.")


def _open(files: list[File], terms: ReadOptions, kind: str | None) -> list[Reader]:
    kinds = [reader_for(file, kind) for file in files]
    labels: list[Any] = [terms.label] * len(files)
    if all(reader.paired for reader in kinds):
        if isinstance(terms.label, (str, os.PathLike)) or (isinstance(terms.label, Iterable) and terms.label):
            labels = list(find_files(terms.label))
            if len(labels) != len(files):
                raise ParameterError(f"{len(files)} files of rows, but {len(labels)} of labels: one each is needed.")
        else:
            # What holds labels itself is no file of rows.
            beside = [file for file in files if "labels-idx1" not in file.path]
            pairs = [(f, k) for f, k in zip(files, kinds, strict=True) if f in beside]
            files, kinds, labels = [f for f, _ in pairs], [k for _, k in pairs], [terms.label] * len(pairs)
            if not files:
                raise ParameterError("All files hold labels, and none holds rows. Name the files of rows.")
            if terms.label is not None and not isinstance(terms.label, int):
                raise ParameterError(f"label has to be a file, or the number of a column, not {terms.label!r}.")
    elif terms.label is not None and not isinstance(terms.label, str):
        raise ParameterError(f"label has to be the name of a column, not {terms.label!r}.")
    return [reader(file, replace(terms, label=label)) for reader, file, label in zip(kinds, files, labels, strict=True)]


@dataclass
class Scan:
    """Files that are read slice by slice; see :func:`scan`.

    Iterating yields one slice after another, read ahead by a thread of its own. While it lasts, :attr:`rows`,
    :attr:`dropped` and :attr:`share` tell how far it is.

    Attributes
    ----------
    readers : list of Reader
    rows, dropped : int
        How many rows have been read and used, and how many left out for missing values.
    share : float
        How much of all files has been read, between 0 and 1.
    counts : dict
        How many rows of each file have been used.
    """

    readers: list[Reader]
    batch_rows: int | None = None
    expected: Layout | None = None

    def __post_init__(self) -> None:
        self._layout: Layout | None = None
        self._restart()

    def _restart(self) -> None:
        self.rows = self.dropped = 0
        self.share = 0.0
        self.counts: dict[str, int] = {reader.file.name: 0 for reader in self.readers}

    @property
    def layout(self) -> Layout:
        """The features that all rows have."""
        if self._layout is None:
            expected = self.expected
            if expected is None or expected.names is None:
                self._layout = self._find_layout()
                if expected is not None and self._layout.width != expected.width:
                    raise DataError(
                        f"{self.readers[0].file.name} has {self._layout.width} features, but {expected.width} are "
                        f"expected."
                    )
            else:
                self._layout = expected
        return self._layout

    def _find_layout(self) -> Layout:
        found: dict[str, set[Label]] = {}
        for reader in self.readers:
            for column, values in reader.vocabulary().items():
                found.setdefault(column, set()).update(values)
        declared = self.readers[0].terms.categories
        categories = {} if isinstance(declared, str) else dict(declared)
        for column, values in found.items():
            categories[column] = ordered_words(values)
        if isinstance(self.readers[0].terms.width, int) or self.readers[0].n_rows() is not None:
            return self.readers[0].layout(categories)
        # Of sparse text the widest file counts; tables are alike, or it is said when they are read.
        layouts = [self.readers[0].layout(categories)]
        if layouts[0].names is None:
            layouts += [reader.layout(categories) for reader in self.readers[1:]]
        return max(layouts, key=lambda layout: layout.width)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the features."""
        return self.layout.names

    @property
    def width(self) -> int:
        """The number of features."""
        return self.layout.width

    def n_rows(self) -> int | None:
        """How many rows there are, where all files tell without being read."""
        counts = [reader.n_rows() for reader in self.readers]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def size(self) -> int:
        """About how many bytes of files are read."""
        return sum(reader.size for reader in self.readers)

    def parts(self, count: int, *, whole: bool = False) -> list[Scan]:
        """At most so many scans of about the same size, which together read what this one reads.

        Large files are cut, where their format allows it, unless they are to stay whole; small ones are read together.

        >>> import mergesvm as ms, numpy as np, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for day in range(5):
        ...         np.save(pathlib.Path(folder, f"day{day}.npy"), np.ones((day + 1, 100)))
        ...     [part.n_rows() for part in ms.scan(f"{folder}/*.npy", label=-1).parts(3)]
        [5, 5, 5]
        """
        most = max(LEAST_BYTES, self.size // (count * GRAINS))
        pieces: list[Reader] = []
        for reader in self.readers:
            pieces += reader.cut(most) if count > 1 and reader.size > most and not whole else [reader]
        return [self._of(readers) for readers in dealt_out(pieces, count)]

    def _of(self, readers: list[Reader]) -> Scan:
        part = Scan(readers, self.batch_rows, self.expected)
        part._layout = self.layout
        return part

    @property
    def name(self) -> str:
        """How messages name all that is read."""
        more = len(self.readers) - 1
        return self.readers[0].name + (f" and {more:,} more" if more else "")

    def first_slices(self, most: int) -> Iterator[Slice]:
        """The first slice of each file, or of so many of them, evenly spread."""
        for index in range(0, len(self.readers), -(-len(self.readers) // most)):
            with closing(self.readers[index].slices(self.layout, self._step(self.readers[index]))) as slices:  # type: ignore[type-var]
                yield from islice(slices, 1)

    def _step(self, reader: Reader) -> int:
        step = BATCH_BYTES // max(1, reader.row_bytes(self.layout))
        return self.batch_rows or max(LEAST_ROWS, min(MOST_ROWS, step))

    def __iter__(self) -> Iterator[Slice]:
        layout = self.layout
        self._restart()
        total = max(1, self.size)
        with closing(prefetched(self._read(layout))) as slices:
            for done, reader, part in slices:
                self.rows += part.rows.n_rows
                self.counts[reader.file.name] += part.rows.n_rows
                self.dropped += part.total - part.rows.n_rows
                self.share = (done + part.share * reader.size) / total
                yield part
        self.share = 1.0

    def _read(self, layout: Layout) -> Iterator[tuple[int, Reader, Slice]]:
        done = 0
        for reader in self.readers:
            with closing(reader.slices(layout, self._step(reader))) as slices:  # type: ignore[type-var]
                for part in slices:
                    if part.rows.width != layout.width:
                        raise DataError(
                            f"{reader.file.name} has {part.rows.width} features, but {layout.width} are expected."
                        )
                    yield done, reader, part
            done += reader.size

    def __repr__(self) -> str:
        return f"Scan of {self.name}"
