"""Names of features, and those that are constant."""

from __future__ import annotations

import numpy as np

from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.proximal.rounding import scatter


def constant_features(knowledge: Knowledge) -> list[str]:
    """Names of features that have the same value in all rows, so that they do not tell classes apart.

    >>> import mergesvm as ms
    >>> constant_features(ms.learn([[0.0, 5.0], [1.0, 5.0]], ["a", "b"], feature_names=["x", "unit"]))
    ['unit']
    """
    if not knowledge.labels:
        return []
    names = feature_names(knowledge.signature)
    return [names[at] for at in np.flatnonzero(scatter(knowledge) == 0).tolist()]


def feature_names(signature: Signature) -> tuple[str, ...]:
    """Names of the features: those of the columns, or "column 0" without names, or "feature 0" after a feature map.

    >>> from mergesvm.features.maps.identity import Identity
    >>> feature_names(Signature(Identity(), 2)), feature_names(Signature(Identity(), 2, ("x", "y")))
    (('column 0', 'column 1'), ('x', 'y'))
    """
    if signature.mapped:
        return tuple(f"feature {at}" for at in range(signature.width))
    return signature.names or tuple(f"column {at}" for at in range(signature.width))
