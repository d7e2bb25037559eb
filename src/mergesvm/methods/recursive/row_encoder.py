"""Conversion of input rows into features, class codes and weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label, label_kind
from mergesvm.data.rows.base import spans
from mergesvm.errors import DataError, SignatureError
from mergesvm.features.mapped import MappedRows
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.recursive.options import MAX_WEIGHT, MIN_WEIGHT

BLOCK_BYTES = 2**24
"""Memory of the rows that are mapped at a time."""

MAX_VALUE = 1e100
"""Larger values would overflow when they are squared, multiplied and summed."""


class EncodedRows(NamedTuple):
    """Rows of features, (rows, width), the codes of their classes, (rows,), and their weights, (rows,)."""

    rows: NDArray[np.float64]
    codes: NDArray[np.int64]
    weights: NDArray[np.float64]

    def slice(self, start: int, stop: int) -> EncodedRows:
        """Rows ``start`` to ``stop``."""
        return EncodedRows(self.rows[start:stop], self.codes[start:stop], self.weights[start:stop])


class RowEncoder:
    """Numbers the classes in order of appearance, and converts rows of any kind into :class:`EncodedRows`.

    The index of a class in ``labels`` is its code. ``row_factors`` are class weights that are part of the weights of
    rows: those of knowledge without sums per class. Classes that are not in ``class_weight`` have weight 1.

    >>> from mergesvm.features.maps.identity import Identity
    >>> encoder = RowEncoder(Signature(Identity(), 1), {"b": 2.0})
    >>> [encoder.add(label) for label in ("b", "a")], encoder.codes
    ([2.0, 1.0], {'b': 0, 'a': 1})
    >>> [part.codes.tolist() for part, _ in encoder.parts(Batch.of([[1.0], [2.0]], ["a", "b"]))]
    [[1, 0]]
    """

    def __init__(self, signature: Signature, class_weight: Mapping[Label, float] | None) -> None:
        self.labels: list[Label] = []
        self.codes: dict[Label, int] = {}
        self.kind = signature.labels
        self._signature, self._class_weight = signature, class_weight or {}
        self.row_factors: list[float] = []
        self._types: set[type] = set()
        self._shape, self._mapped = (signature.inputs,), signature.mapped
        self._pick = itemgetter(*signature.names) if signature.names else None  # the fastest way in Python

    def code(self, label: Any) -> int | None:
        """The code of a class, None if it is new; raises an error for a label of another kind."""
        if type(label) not in self._types:
            self._check_kind(label_kind(label))
            self._types.add(type(label))
        return self.codes.get(label)

    def add(self, label: Label) -> float:
        """Give a new class a code; returns its class weight, or 1 if that is part of the weights of its rows."""
        self.kind = label_kind(label)
        self.codes[label] = len(self.labels)
        self.labels.append(label)
        weight = float(self._class_weight.get(label, 1.0))
        self.row_factors.append(1.0 if self._signature.per_class else weight)
        return weight if self._signature.per_class else 1.0

    def _check_kind(self, kind: str | None) -> None:
        if None not in (kind, self.kind) and kind != self.kind:
            raise SignatureError(f"Cannot learn rows of {kind} labels after rows of {self.kind} labels.")

    def check(self, batch: Batch) -> None:
        """Raise an error if the rows cannot be learned."""
        self._check_kind(batch.labels.kind)
        batch.rows.check_finite()
        if self._signature.mapped:
            self._signature.features.check_rows(batch.rows, self._signature.names)

    def codes_and_weights(self, batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Codes and weights of all rows; the weight is 0 for rows that are skipped."""
        class_codes = [self.codes[label] for label in batch.labels.classes]
        codes = np.array([*class_codes, -1], dtype=np.int64)[batch.labels.codes]
        weights = np.array([*self.row_factors, 0.0])[codes]
        if batch.weights is None:
            return codes, weights
        weights = weights * batch.weights
        for weight in (weights.max(initial=0.0), weights.min(initial=1.0, where=weights > 0)):
            if weight > MAX_WEIGHT or 0 < weight < MIN_WEIGHT:
                raise DataError(
                    f"sample_weight is too {'large' if weight > 1 else 'small'} to be summed: {weight:g}. Positive "
                    f"weights must be from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}."
                )
        return codes, weights

    def parts(self, batch: Batch) -> Iterator[tuple[EncodedRows, NDArray[np.intp]]]:
        """Iterate over the rows that have weight, with their indices in the batch. All classes must have a code."""
        codes, weights = self.codes_and_weights(batch)
        features = self._signature.features
        rows = MappedRows(batch.rows, features) if self._signature.mapped else batch.rows
        for start, stop in spans(rows.n_rows, max(256, BLOCK_BYTES // (8 * max(rows.width, batch.rows.width)))):
            block = rows.block(start, stop)
            block = np.ascontiguousarray(block.toarray() if hasattr(block, "toarray") else block, dtype=np.float64)
            if not max(block.max(), -block.min()) < MAX_VALUE:
                raise DataError("Input X has values too large to be squared and summed. Rescale the columns.")
            counted = np.flatnonzero(weights[start:stop] > 0)
            if len(counted) < stop - start:
                block = block[counted]
            yield EncodedRows(block, codes[start + counted], weights[start + counted]), start + counted

    def encode_one(self, row: Any, out: NDArray[np.float64]) -> None:
        """Write the features of one row, a sequence of numbers or a mapping of names to numbers, into ``out``."""
        if type(row) is dict or isinstance(row, Mapping):
            row = self._in_order(row)
        numbers = np.asarray(row)
        if numbers.dtype.kind not in "biuf" or numbers.shape != self._shape or isinstance(row, np.ma.MaskedArray):
            inputs = self._shape[0]
            if numbers.ndim == 1 and numbers.dtype.kind in "biuf" and len(numbers) != inputs:
                raise DataError(f"The row has {len(numbers)} features, but {inputs} are expected.")
            raise DataError(f"A row must be a sequence of {inputs} numbers, not {row!r:.200}.")
        if self._mapped:
            features = self._signature.features
            mapped = np.empty((1, features.width), dtype=features.dtype)
            features.map_block(numbers[None], mapped)
            numbers = mapped[0]
        out[0] = numbers

    def _in_order(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        names = self._signature.names
        if self._pick is None or names is None:
            raise DataError("The row has feature names, but earlier rows did not. Give all rows in the same form.")
        try:
            values = self._pick(row)
        except KeyError as error:
            raise DataError(f"The row lacks feature {error.args[0]!r}. All rows need the same features.") from None
        if len(row) > len(names):
            extra = next(name for name in row if name not in names)
            raise DataError(
                f"The row has feature {extra!r}, which earlier rows did not have. All rows need the same features."
            )
        return values if len(names) > 1 else (values,)
