"""The base class of feature maps."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.layout import Layout
from mergesvm.data.rows.base import Rows, spans
from mergesvm.data.rows.convert import as_rows
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError, FeatureMapError
from mergesvm.files.container import library_version, write_container
from mergesvm.files.content import Content
from mergesvm.files.header import Header

BLOCK_BYTES = 2**22
"""Size of a block of mapped rows in :meth:`FeatureMap.mapped`: large enough for BLAS, small enough for the cache."""

FILE_KIND = "features"
"""The kind of container in which a map is saved."""

FileParts = tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]
"""Header fields, one dict per stage, and arrays."""


class FeatureMap(ABC):
    """An immutable map from rows to features.

    To add a map, add a module with one subclass to :mod:`mergesvm.features.maps`, usually of
    :class:`~mergesvm.features.random_map.RandomMap`. Files, the command line and the tests of all maps discover it.
    """

    kind: ClassVar[str]
    """The name of the map in files and on the command line."""

    @property
    def frozen(self) -> bool:
        """Whether all arrays of the map are fixed, so that it can map rows."""
        return True

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """The columns of the rows that the map accepts."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of output features."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of mapped rows."""
        return np.dtype(np.float64)

    @property
    def needs_sample(self) -> bool:
        """Whether the map depends on the rows on which it is frozen, and not only on their columns."""
        return True

    @property
    def precision_note(self) -> str:
        """A sentence on how exact merging is, after a blank, if mapped rows are float32; otherwise empty."""
        if self.dtype != np.float32:
            return ""
        return (
            " It is computed in float32, which is faster: scores of merged pieces differ from those of all rows at "
            "once by 1e-6 to 1e-3. With precision=float64 they agree to 1e-9 and better."
        )

    @property
    def default_anchor(self) -> NDArray[np.float64]:
        """A point near most mapped rows: the anchor of sums unless another is given."""
        return np.zeros(self.width)

    @property
    def error_amplification(self) -> float:
        """The factor by which the map amplifies rounding errors: 1 unless it divides by small numbers."""
        return 1.0

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A digest of the frozen map. Knowledge can be added only if the fingerprints of its maps are equal."""

    def freeze(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Return the map with all arrays fixed: drawn at random, or computed from a sample of the rows.

        Parameters
        ----------
        X : array, sparse array, table or scan
            Rows from which one pilot sample is drawn. It determines centre, scale and, for some maps, landmarks.
        y : labels, optional
            Needed only by maps that use the classes. A scan brings its own labels.

        Examples
        --------
        >>> from mergesvm.features.maps.hidden_layer import HiddenLayer
        >>> layer = HiddenLayer(100, activation="tanh").freeze([[0.0, 1.0], [1.0, 3.0], [2.0, 2.0]])
        >>> layer.transform([[1.0, 2.0]]).shape
        (1, 100)
        """
        return self

    @abstractmethod
    def map_block(self, rows: Any, out: NDArray[Any]) -> None:
        """Map a block of rows, dense of any dtype or CSR, into ``out``. NaN and infinity are passed on as NaN."""

    def transform(self, X: Any) -> NDArray[Any]:
        """Return all rows mapped, of shape (rows, width). Learning maps block by block and never calls this.

        >>> from mergesvm.features.maps.fourier import Fourier
        >>> X = [[0.0, 1.0], [1.0, 3.0], [2.0, 2.0]]
        >>> Fourier(4).freeze(X).transform(X).shape
        (3, 4)
        """
        rows = as_rows(X)
        self.check_rows(rows)
        out = self.mapped(rows)
        if not np.isfinite(out).all():
            rows.check_finite("before mapping")
            raise DataError("Input X has values too large to be mapped. Rescale the columns.")
        return out

    def mapped(self, rows: Rows) -> NDArray[Any]:
        """Map all rows in parallel. NaN and infinity are passed on as NaN."""
        out = np.empty((rows.n_rows, self.width), dtype=self.dtype)

        def run(span: tuple[int, int]) -> None:
            self.map_block(rows.block(*span), out[slice(*span)])

        Threads().map(run, list(spans(rows.n_rows, self.block_rows())))
        return out

    def block_rows(self) -> int:
        """Return the number of rows per block in :meth:`mapped`."""
        return max(64, BLOCK_BYTES // (self.dtype.itemsize * max(self.width, self.layout.width)))

    def check_rows(self, rows: Rows, names: tuple[str, ...] | None = None) -> None:
        """Raise an error unless the rows have the columns of the map; ``names`` are used if the rows have none."""
        layout, names = self.layout, names if rows.names is None else rows.names
        if rows.width != layout.width:
            raise DataError(f"X has {rows.width} columns, but {self!r} was frozen for rows of {layout.width} features.")
        if names is not None and layout.names is not None and names != layout.names:
            at = next(i for i, pair in enumerate(zip(names, layout.names, strict=True)) if pair[0] != pair[1])
            raise DataError(
                f"Column {at} of X is named {names[at]!r}, but {self!r} was frozen with {layout.names[at]!r} there. "
                f"Reorder the columns as in map.layout.names."
            )

    def file_parts(self, first_stage: int = 0) -> FileParts:  # noqa: ARG002
        """Return the header fields and arrays that a file stores; ``first_stage`` numbers the arrays."""
        raise FeatureMapError(
            f"{self!r} cannot be saved: it is arbitrary code, and files contain none. Use another map of "
            f"mergesvm.features, or keep this one within one process."
        )

    def read_again(self, header: Header, content: Content) -> FeatureMap:  # noqa: ARG002
        """Read a map of the same kind from the header and arrays of its file, and check them."""
        return self

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Write the frozen map to a file, atomically; :func:`mergesvm.features.load` reads it.

        An existing file is an error if ``overwrite`` is False.

        >>> import mergesvm as ms, pathlib, tempfile
        >>> fourier = ms.features.Fourier(8).freeze([[0.0, 1.0], [1.0, 0.0]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fourier.save(pathlib.Path(folder, "fourier.features"))
        ...     ms.features.load(pathlib.Path(folder, "fourier.features")).fingerprint == fourier.fingerprint
        True
        """
        stages, arrays = self.file_parts()
        header = {"features": stages, "library": library_version()}
        write_container(path, FILE_KIND, header, arrays, self.read_again, overwrite=overwrite)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FeatureMap) or self.frozen != other.frozen:
            return False
        return self.fingerprint == other.fingerprint if self.frozen else repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(self.fingerprint if self.frozen else repr(self))

    def __copy__(self) -> Self:
        return self  # immutable

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __str__(self) -> str:
        return f"{self!r} [{self.fingerprint[:8]}]" if self.frozen else f"{self!r}, not frozen"
