"""A fitted scikit-learn transformer as a map, within one process."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.layout import Layout
from mergesvm.data.rows.base import Rows
from mergesvm.errors import FeatureMapError, ParameterError
from mergesvm.features.base import FeatureMap
from mergesvm.features.ops.projection import dense


@dataclass(frozen=True, eq=False)
class Wrapped(FeatureMap):
    """A fitted transformer used as a feature map. It is arbitrary code, so it cannot be saved to a file.

    The transformer must map each row independently of the others, as most do. Do not refit it afterwards.

    Parameters
    ----------
    transformer : object with ``transform`` and ``n_features_in_``
        Already fitted.

    Examples
    --------
    >>> import mergesvm as ms
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> X, y = load_iris(return_X_y=True)
    >>> square = ms.features.Wrapped(PolynomialFeatures(2, include_bias=False).fit(X))
    >>> ms.learn(X, y, features=square)
    Knowledge of 150 rows x 14 features in 3 classes: 0 50, 1 50, 2 50
    """

    kind: ClassVar[str] = "wrapped"

    transformer: Any
    fingerprint: str = field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        if not hasattr(self.transformer, "transform") or not hasattr(self.transformer, "n_features_in_"):
            raise ParameterError(
                f"Only a fitted transformer can be wrapped, and {self.transformer!r} has no transform or no "
                f"n_features_in_. Call its fit first."
            )
        object.__setattr__(self, "fingerprint", _digest(self.transformer))

    @cached_property
    def layout(self) -> Layout:
        """The columns with which the transformer was fitted."""
        names = getattr(self.transformer, "feature_names_in_", None)
        return Layout(int(self.transformer.n_features_in_), None if names is None else tuple(map(str, names)))

    def _transformed(self, rows: Any) -> Any:
        if rows.dtype.kind != "f":
            rows = rows.astype(np.float64)  # squares of integers may overflow
        if self.layout.names is not None and not sparse.issparse(rows):
            import pandas as pd

            rows = pd.DataFrame(rows, columns=list(self.layout.names), copy=False)
        mapped = self.transformer.transform(rows)
        return mapped if sparse.issparse(mapped) else np.asarray(mapped)

    @cached_property
    def width(self) -> int:
        """The number of output features."""
        try:
            return len(self.transformer.get_feature_names_out())
        except (AttributeError, ValueError, NotImplementedError):
            return int(self._transformed(np.zeros((1, self.layout.width))).shape[1])

    def check_rows(self, rows: Rows, names: tuple[str, ...] | None = None) -> None:
        """Raise an error unless the rows fit the transformer and it was not refitted since it was wrapped."""
        super().check_rows(rows, names)
        if _digest(self.transformer) != self.fingerprint:
            raise FeatureMapError(f"{self.transformer!r} was refitted after it was wrapped. Wrap it again.")

    def map_block(self, rows: Any, out: NDArray[Any]) -> None:
        """Transform a block of rows."""
        try:
            out[:] = dense(self._transformed(rows))
        except ValueError:
            # Most transformers reject NaN without saying where it is: the caller finds and names it.
            if np.isfinite(rows.data if sparse.issparse(rows) else rows).all():
                raise
            out[:] = np.nan


def _digest(transformer: Any) -> str:
    import joblib

    return str(joblib.hash(transformer))
