"""Feature maps that are frozen on the rows being learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mergesvm.data.rows.base import Rows
from mergesvm.engines.base import Engine
from mergesvm.errors import FeatureMapError, FrozenHereWarning, warn_caller
from mergesvm.features.base import FeatureMap
from mergesvm.features.spec import as_map


def frozen_map(features: Any, rows: Any, labels: Any, engine: Engine | None) -> FeatureMap:
    """Return the map that all workers use; one that is not frozen is frozen on a sample of the rows.

    ``rows`` is None if they cannot be sampled because they are on a cluster.
    """
    mapping = as_map(features)
    if mapping.frozen:
        return mapping
    if rows is None:
        raise FeatureMapError(
            f"{mapping!r} is not frozen, and rows on a cluster are not sampled. Freeze it on a sample first: "
            f"map.freeze(sample)."
        )

    def freeze() -> FeatureMap:
        frozen = mapping.freeze(rows, labels)
        warn_caller(
            f"{mapping!r} was frozen on a sample of these rows. Pieces learned elsewhere can be added only if they use "
            f"the same map: knowledge.features, which can be saved and loaded.",
            FrozenHereWarning,
        )
        return frozen

    return freeze_on_root(engine, freeze, rows)


def freeze_on_root(engine: Engine | None, freeze: Callable[[], FeatureMap], rows: Any) -> FeatureMap:
    """Call ``freeze`` on one rank, with its rows, and return the map on all ranks."""

    def checked() -> FeatureMap:
        if isinstance(rows, Rows) and not rows.n_rows:
            raise FeatureMapError(
                "The root rank has no rows to freeze the map on. Freeze it on a sample first, and pass it on all ranks."
            )
        return freeze()

    return checked() if engine is None else engine.ranks.on_root(checked)
