"""The identity map, for linear models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.layout import Layout
from mergesvm.data.rows.convert import as_rows
from mergesvm.errors import FeatureMapError
from mergesvm.features.base import FeatureMap, FileParts
from mergesvm.features.ops.projection import dense


@dataclass(frozen=True, eq=False)
class Identity(FeatureMap):
    """Rows of any width, unchanged, for a linear model.

    >>> from mergesvm.features.maps.identity import Identity
    >>> Identity().fingerprint
    'identity'
    """

    kind: ClassVar[str] = "identity"

    @property
    def layout(self) -> Layout:
        """Raises an error: the identity accepts rows of any width."""
        raise FeatureMapError("The identity map has no layout: it accepts rows of any width.")

    @property
    def width(self) -> int:
        """Raises an error: the width is that of the rows."""
        return self.layout.width

    @property
    def fingerprint(self) -> str:
        """The word "identity"."""
        return "identity"

    def map_block(self, rows: Any, out: NDArray[Any]) -> None:
        """Copy a block of rows."""
        out[:] = dense(rows)

    def transform(self, X: Any) -> NDArray[Any]:
        """Return the rows as a dense array of float64."""
        rows = as_rows(X)
        return np.concatenate([dense(rows.block(*span)).astype(np.float64, copy=False) for span in rows.blocks()])

    def file_parts(self, first_stage: int = 0) -> FileParts:  # noqa: ARG002
        """Return no stages and no arrays."""
        return [], {}

    def __str__(self) -> str:
        return "as they are"
