"""Whether sums from which something was subtracted are still those of a set of rows."""

from __future__ import annotations

import numpy as np

from mergesvm.errors import IndefiniteError
from mergesvm.knowledge.algebra import CANCELLATION_FACTOR
from mergesvm.knowledge.knowledge import Knowledge

LOOSEST = 0.02
"""However much a map makes rounding larger, a variance that is negative by this share is no rounding."""

FAINT = 1e-4
"""Features of a map are measured as if their sums of squares were at least this share of what is usual."""


def check_sound(knowledge: Knowledge) -> None:
    """Raise an error if a Gram matrix is no longer positive semi-definite beyond rounding.

    Only matrices from which something was subtracted are looked at. Each is scaled by the largest diagonal it ever had,
    because that is what its rounding errors are measured by.

    >>> import mergesvm as ms
    >>> wrong = ms.learn([[1.0], [2.0], [3.0]], list("aaa")) - ms.learn([[-7.0], [9.0]], list("aa"))
    >>> check_sound(wrong)
    Traceback (most recent call last):
    ...
    mergesvm.errors.IndefiniteError: The sums of class 'a' are not those of any set of rows: ...
    """
    unit = np.finfo(np.float32 if knowledge.precision == "float32" else np.float64).eps
    # Sums that a move of the anchor has made smaller, though not so much that it is remembered, are as much rougher.
    growth = 64.0 if knowledge.precision == "float32" else CANCELLATION_FACTOR
    tolerance = float(unit) * (growth + 64 * knowledge.width)
    if knowledge.signature.mapped:
        tolerance = max(tolerance, min(tolerance * knowledge.features.error_amplification, LOOSEST))
    for index, (gram, peak) in enumerate(zip(knowledge.grams, knowledge.peaks, strict=True)):
        if not peak.any():
            continue
        largest = np.maximum(peak, gram.diagonal())
        if knowledge.signature.mapped:
            # Features are rounded, too, and all of one size: in one that hardly varies there is little but rounding.
            largest = np.maximum(largest, FAINT * largest.mean())
        scale = np.sqrt(np.where(largest > 0, largest, 1.0))
        scatter = gram
        if knowledge.per_class:
            total = knowledge.sums[index]
            scatter = gram - np.outer(total, total / knowledge.counts[index])
        try:
            np.linalg.cholesky(scatter / np.outer(scale, scale) + tolerance * np.eye(len(gram)))
        except np.linalg.LinAlgError:
            whose = f"class {knowledge.labels[index]!r}" if knowledge.per_class else "all classes"
            raise IndefiniteError(
                f"The sums of {whose} are not those of any set of rows: a variance has become negative. Rows were "
                f"subtracted that had never been added. Learn the remaining rows again."
            ) from None
