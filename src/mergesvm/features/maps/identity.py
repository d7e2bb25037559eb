"""The map of a linear model: a row stays what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.readers.base import Layout
from mergesvm.errors import FeatureMapError
from mergesvm.features.base import FeatureMap
from mergesvm.features.ops.projection import dense


@dataclass(frozen=True, eq=False)
class Identity(FeatureMap):
    """Rows as they are, of any width, for a linear model.

    >>> from mergesvm.features.maps.identity import Identity
    >>> Identity().fingerprint
    'identity'
    """

    kind: ClassVar[str] = "identity"

    @property
    def frozen(self) -> bool:
        """Always: there is nothing to fix."""
        return True

    @property
    def layout(self) -> Layout:
        """None: rows of any width stay what they are."""
        raise FeatureMapError("The identity has no columns of its own: it takes rows of any width.")

    @property
    def width(self) -> int:
        """None: that of the rows."""
        return self.layout.width

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of mapped rows."""
        return np.dtype(np.float64)

    @property
    def fingerprint(self) -> str:
        """A word that says it all."""
        return "identity"

    def freeze(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """The identity itself."""
        return self

    def map_block(self, rows: Any, out: NDArray[Any]) -> None:
        """Copy a block of rows."""
        out[:] = dense(rows)

    def transform(self, X: Any) -> NDArray[Any]:
        """Rows as a dense array of float64."""
        from mergesvm.data.rows.convert import as_rows

        rows = as_rows(X)
        return np.concatenate([dense(rows.block(*span)).astype(np.float64, copy=False) for span in rows.blocks()])

    def __str__(self) -> str:
        return "as they are"
