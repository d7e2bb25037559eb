"""The pilot sample: rows sampled once, from which a map computes its centre, scale and landmarks."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.label_encoding import EncodedLabels
from mergesvm.data.labels import Label
from mergesvm.data.layout import Layout
from mergesvm.data.rows.base import Rows
from mergesvm.data.rows.convert import as_rows
from mergesvm.data.rows.sparse import SparseRows
from mergesvm.data.scan import Scan
from mergesvm.data.slice import Slice
from mergesvm.errors import DataError, MergeSVMError, OneClassWarning, warn_caller
from mergesvm.features.ops.projection import dense

PILOT_ROWS = 4096
"""Rows of a pilot sample, unless the map needs more."""

MAX_PILOT_BYTES, MIN_PILOT_ROWS = 2**28, 64
"""Very wide rows make the sample smaller: down to this memory, or this number of rows."""

MAX_PILOT_FILES = 16
"""The sample is taken from the first slices of at most this many files of a scan, evenly spread."""


SCALINGS = ("auto", "whole", "columns", "range", "none")

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Pilot:
    """A random sample of rows, with their classes as integers if labels were given.

    The centre of ``sparse`` rows must stay zero; ``mapped`` rows, the output of another map, carry its rounding errors.
    ``generator`` is the source of all randomness.
    """

    rows: NDArray[np.float64]
    codes: NDArray[np.intp] | None
    layout: Layout
    sparse: bool
    generator: np.random.Generator
    mapped: bool = False

    @classmethod
    def of(cls, X: Any, y: Any = None, seed: int = 0, min_rows: int = 0) -> Pilot:
        """Draw a random sample: from all rows in memory, or from the first slices of files.

        >>> Pilot.of([[float(i)] for i in range(10)], list("ababababab")).rows.shape
        (10, 1)
        """
        generator = np.random.default_rng(seed)
        if isinstance(X, Scan):
            layout = X.layout
            size = _sample_size(layout, min_rows)
            samples = X.settled(lambda: _draw_slices(X.first_slices(MAX_PILOT_FILES), size, generator))
            if sum(len(sample) for sample in samples) < min(min_rows, size):
                samples = X.settled(lambda: _draw_scan(X, size, generator, min_rows))
        else:
            rows = as_rows(X)
            layout = Layout(rows.width, rows.names)
            samples = [_draw(rows, y, _sample_size(layout, min_rows), generator)]
        if not samples:
            raise DataError(f"The first slices of {X!r} contain no rows.")
        # Shuffled, so that the first rows are a random sample as well.
        order = generator.permutation(sum(len(sample) for sample in samples))
        labels = [sample.labels for sample in samples if sample.labels is not None]
        encoded = EncodedLabels.encode(np.concatenate(labels)) if len(labels) == len(samples) else None
        if isinstance(X, Scan) and encoded is not None and len(encoded.classes) == 1:
            _warn_of_other_classes(X, encoded.classes[0], len(order))
        return cls(
            np.concatenate([sample.block for sample in samples])[order],
            None if encoded is None else encoded.codes.astype(np.intp)[order],
            layout,
            any(sample.sparse for sample in samples),
            generator,
        )

    @property
    def rounding(self) -> Vector:
        """The spread of each column that rounding alone may cause, of shape (columns,)."""
        return np.asarray((1e-5 if self.mapped else 1e-12) * np.abs(self.rows).max(axis=0))

    def centre_and_scale(self, scaling: str) -> tuple[Vector, Vector]:
        """Compute the centre and the scale of the columns, by which rows become (x - centre) / scale.

        - "whole" divides all columns by one number, the root of their mean variance.
        - "columns" divides each column by its standard deviation.
        - "range" divides each column by its range, which keeps rare values small.
        - "none" leaves rows unchanged.
        - "auto" is "whole" if the columns seem to share a unit or are the output of a map, else "columns".

        Sparse rows are not centred.

        >>> Pilot.of([[0.0, 10.0], [2.0, 30.0]]).centre_and_scale("columns")
        (array([ 1., 20.]), array([ 1., 10.]))
        """
        width = self.rows.shape[1]
        if scaling == "none":
            return np.zeros(width), np.ones(width)
        centre = np.zeros(width) if self.sparse else self.rows.mean(axis=0)
        deviation, ranges = self.rows.std(axis=0), np.ptp(self.rows, axis=0)
        if scaling == "whole" or (scaling == "auto" and (self.mapped or _share_a_unit(ranges))):
            scale = np.full(width, np.sqrt(np.mean(deviation**2)))
        else:
            scale = ranges if scaling == "range" else deviation
        constant = scale <= self.rounding
        return centre, np.where(constant | (scale == 0), 1.0, scale)


def _share_a_unit(ranges: Vector) -> bool:
    """Return whether columns seem to share a unit, as pixels do: most ranges are at least half of the widest."""
    varying = ranges[ranges > 0]
    return len(varying) > 0 and bool(np.median(varying) >= ranges.max() / 2)


@dataclass(frozen=True)
class _Sample:
    """Shuffled rows, their labels if there are any, and whether they were sparse."""

    block: NDArray[np.float64]
    labels: NDArray[Any] | None
    sparse: bool

    def __len__(self) -> int:
        return len(self.block)

    def first(self, count: int) -> _Sample:
        return _Sample(self.block[:count], None if self.labels is None else self.labels[:count], self.sparse)


def _sample_size(layout: Layout, min_rows: int) -> int:
    return min(max(PILOT_ROWS, min_rows), max(MIN_PILOT_ROWS, MAX_PILOT_BYTES // (8 * layout.width)))


def _draw_slices(
    slices: Iterable[Slice], size: int, generator: np.random.Generator, enough: int | None = None
) -> list[_Sample]:
    """Draw ``size`` rows from slices, spread evenly; stop reading slices once there are ``enough`` rows."""
    samples: list[_Sample] = []
    for part in slices:
        if part.rows.n_rows:
            samples.append(_draw(part.rows, part.labels, size, generator))
            lengths = np.array([len(sample) for sample in samples])
            while lengths.sum() > size:
                lengths = np.minimum(lengths, lengths.max() - max(1, (lengths.sum() - size) // len(lengths)))
            samples = [sample.first(int(length)) for sample, length in zip(samples, lengths, strict=True)]
            if enough is not None and lengths.sum() >= enough:
                break
    return samples


def _warn_of_other_classes(scan: Scan, label: Label, rows: int) -> None:
    """Warn if files contain other classes than the one of all rows of the sample; stop reading at the first."""
    with suppress(MergeSVMError), closing(iter(scan)) as slices:  # type: ignore[type-var]
        if any((part.label_array() != label).any() for part in slices if part.rows.n_rows):
            warn_caller(
                f"The feature map was frozen on {rows:,} rows that are all of class {label!r}, but {scan.name} has "
                f"other classes further on. Shuffle the rows, or freeze the map on rows of all classes and save it: "
                f"map.freeze(X, y).save(path).",
                OneClassWarning,
            )


def _draw_scan(scan: Scan, size: int, generator: np.random.Generator, enough: int) -> list[_Sample]:
    with closing(iter(scan)) as slices:  # type: ignore[type-var]
        return _draw_slices(slices, size, generator, enough)


def _draw(rows: Rows, y: Any, size: int, generator: np.random.Generator) -> _Sample:
    chosen = np.sort(generator.choice(rows.n_rows, min(size, rows.n_rows), replace=False))
    # Read neighbouring rows together: a sample of nearly all rows would be slow to read one by one.
    runs = np.split(chosen, np.flatnonzero(np.diff(chosen) != 1) + 1)
    blocks = [rows.block(int(run[0]), int(run[-1]) + 1) for run in runs]
    block = np.concatenate([dense(part).astype(np.float64, copy=False) for part in blocks])
    if not np.isfinite(block).all():
        rows.check_finite()
    order = generator.permutation(len(block))
    if y is None:
        return _Sample(block[order], None, isinstance(rows, SparseRows))
    labels = y.to_array() if hasattr(y, "to_array") else np.asarray(y)
    if len(labels) != rows.n_rows:
        raise DataError(f"X and y have different lengths: {rows.n_rows} rows, {len(labels)} labels.")
    return _Sample(block[order], labels[chosen][order], isinstance(rows, SparseRows))
