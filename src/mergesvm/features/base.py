"""What every feature map looks like from outside: frozen, it maps every row alike, wherever it runs."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.readers.base import Layout
from mergesvm.data.rows.base import Rows, spans
from mergesvm.data.rows.convert import as_rows
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError

BLOCK_BYTES = 2**22
"""How large a block of mapped rows is, where rows are only mapped: large enough for BLAS, and within the cache."""


class FeatureMap(ABC):
    """A map of rows to features, immutable.

    A new map is one new module in this folder, with one subclass, usually of
    :class:`~mergesvm.features.random_map.RandomMap`: files, the command line and the laws of
    all maps find it.
    """

    kind: ClassVar[str]
    """The name of the map in files and on the command line."""

    @property
    @abstractmethod
    def frozen(self) -> bool:
        """Whether everything is fixed, so that rows can be mapped."""

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """The columns of the rows that can be mapped."""

    @property
    @abstractmethod
    def width(self) -> int:
        """How many features a row becomes."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The type of mapped rows."""

    @property
    def middle(self) -> NDArray[np.float64]:
        """A point among the features of most rows, about which it is good to sum."""
        return np.zeros(self.width)

    @property
    def roughness(self) -> float:
        """By how much the map makes rounding larger: 1 unless it divides by something small."""
        return 1.0

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """What two pieces of knowledge must share to be added: maps that differ in anything have different ones."""

    @abstractmethod
    def freeze(self, X: Any, y: Any = None) -> Self:
        """The same map with everything fixed that is drawn at random or found from a sample of the rows.

        Parameters
        ----------
        X : array, sparse array, table or scan
            Rows from which a pilot sample is drawn, once: it tells centre, scale and, where needed, landmarks.
        y : labels, optional
            Needed only by maps that look at classes. A scan has its own.

        Examples
        --------
        >>> from mergesvm.features.maps.hidden_layer import HiddenLayer
        >>> layer = HiddenLayer(100, activation="tanh").freeze([[0.0, 1.0], [1.0, 3.0], [2.0, 2.0]])
        >>> layer.transform([[1.0, 2.0]]).shape
        (1, 100)
        """

    @abstractmethod
    def map_block(self, rows: Any, out: NDArray[Any]) -> None:
        """Map a block of rows, dense of any type or CSR, into ``out``. What is not finite passes through."""

    def transform(self, X: Any) -> NDArray[Any]:
        """Rows as features, (rows, width): all at once, for a look. Learning never holds more than a few blocks.

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
        """All rows as features, by all threads; what is not finite passes through."""
        out = np.empty((rows.n_rows, self.width), dtype=self.dtype)

        def run(span: tuple[int, int]) -> None:
            self.map_block(rows.block(*span), out[slice(*span)])

        Threads().map(run, list(spans(rows.n_rows, self.block_rows())))
        return out

    def block_rows(self) -> int:
        """How many rows are mapped at a time, where they are only mapped."""
        return max(64, BLOCK_BYTES // (self.dtype.itemsize * max(self.width, self.layout.width)))

    def check_rows(self, rows: Rows, names: tuple[str, ...] | None = None) -> None:
        """Raise an error if these are not rows of the columns that the map takes; names are given if rows have none."""
        layout, names = self.layout, names if rows.names is None else rows.names
        if rows.width != layout.width:
            raise DataError(f"X has {rows.width} columns, but {self!r} was frozen for rows of {layout.width} features.")
        if names is not None and layout.names is not None and names != layout.names:
            at = next(i for i, pair in enumerate(zip(names, layout.names, strict=True)) if pair[0] != pair[1])
            raise DataError(
                f"Column {at} of X is named {names[at]!r}, but {self!r} was frozen with {layout.names[at]!r} there. "
                f"Bring the columns into the order of map.layout.names."
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the frozen map to a file, for every node that is to learn; :func:`mergesvm.features.load` reads it.

        >>> import mergesvm as ms, pathlib, tempfile
        >>> plan = ms.features.Fourier(8).freeze([[0.0, 1.0], [1.0, 0.0]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plan.save(pathlib.Path(folder, "plan.features"))
        ...     ms.features.load(pathlib.Path(folder, "plan.features")).fingerprint == plan.fingerprint
        True
        """
        from mergesvm.features.format import save_map

        save_map(self, path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FeatureMap) or self.frozen != other.frozen:
            return False
        return self.fingerprint == other.fingerprint if self.frozen else repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(self.fingerprint if self.frozen else repr(self))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # nothing in it changes

    def __str__(self) -> str:
        return f"{self!r} [{self.fingerprint[:8]}]" if self.frozen else f"{self!r}, not frozen"
