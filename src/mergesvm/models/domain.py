"""The classes, features and training rows that a model stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.provenance.origin import Provenance
from mergesvm.knowledge.signature import Signature


@dataclass(frozen=True)
class Domain:
    """The classes, features and training rows of a model, and the options it was trained with.

    Attributes
    ----------
    labels : tuple
        The classes, sorted.
    anchor : array of shape (features,)
    signature : Signature
        Signature of the knowledge that was solved.
    rows : array of int, shape (classes,)
        Number of rows per class.
    provenance : tuple of Origin
        Sources of the rows.
    options : dict
        C, class_weight, multiclass, standardize, penalize_intercept and fit_intercept; Pegasos and kernel machines have
        others.
    """

    labels: tuple[Label, ...]
    anchor: NDArray[np.float64]
    signature: Signature
    rows: NDArray[np.int64]
    provenance: Provenance
    options: dict[str, Any]

    @classmethod
    def of(cls, knowledge: Knowledge, **options: Any) -> Domain:
        """The domain of models solved from this knowledge with these options."""
        return cls(
            knowledge.labels, knowledge.anchor, knowledge.signature, knowledge.rows, knowledge.provenance, options
        )
