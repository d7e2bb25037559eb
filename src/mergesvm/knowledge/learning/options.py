"""Options for summing rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label, plain_label
from mergesvm.data.layout import Layout
from mergesvm.data.rows.base import Rows
from mergesvm.engines.threads import Threads
from mergesvm.errors import ParameterError
from mergesvm.features.base import FeatureMap
from mergesvm.knowledge.fold_assignment import FoldAssignment, folded
from mergesvm.knowledge.signature import Signature


@dataclass(frozen=True)
class SumOptions:
    """Options for summing rows, the same on all workers; ``engine`` is used within each worker."""

    features: FeatureMap
    per_class: bool
    class_weights: dict[Label, float]
    precision: str
    engine: Threads
    anchor: Any = None
    folding: FoldAssignment | None = None

    def fold(self, batch: Batch, groups: Any = None) -> Batch:
        """Label rows by class and fold, if there are folds."""
        if self.folding is None:
            return batch
        return folded(batch, self.folding.numbers(batch.rows, groups, self.engine))

    def signature(self, layout: Layout, kind: str | None = None) -> Signature:
        """The signature of the resulting knowledge."""
        weights = tuple(sorted(self.class_weights.items(), key=repr))
        return Signature(self.features, layout.width, layout.names, layout.categories, self.per_class, weights, kind)


def fixed_weights(class_weight: Mapping[Any, Any]) -> dict[Label, float]:
    """Check the class weights of the pooled form."""
    try:
        return {plain_label(label): float(weight) for label, weight in class_weight.items()}
    except (TypeError, ValueError):
        raise ParameterError(f"class_weight must map classes to numbers, not {dict(class_weight)!r}.") from None


def weighted(batch: Batch, class_weight: Mapping[Label, float]) -> Batch:
    """Multiply the weight of each row by the weight of its class."""
    unknown = [label for label in batch.labels.classes if label not in class_weight]
    bad = [label for label, weight in class_weight.items() if not 0 < weight < np.inf]
    if unknown or bad:
        raise ParameterError(
            f"class_weight needs a positive weight for every class, but class {(unknown or bad)[0]!r} has none in "
            f"{dict(class_weight)!r}."
        )
    factors = np.array([*(class_weight[label] for label in batch.labels.classes), 0.0])  # the last one for code -1
    weights = factors[batch.labels.codes] * (1.0 if batch.weights is None else batch.weights)
    return replace(batch, weights=np.where(batch.labels.codes >= 0, weights, 0.0))


def named_layout(rows: Rows, names: Sequence[str] | None) -> Layout:
    """Return the columns of rows, which take the given names, if any, after a check."""
    if names is not None:
        rows.names, width = tuple(str(name) for name in names), rows.width
        if len(rows.names) != width or len(set(rows.names)) < width:
            raise ParameterError(f"feature_names must be {width} different names, one per column, not {list(names)!r}.")
    return rows.layout
