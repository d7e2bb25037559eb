"""Check that sums after subtraction are still those of some set of rows."""

from __future__ import annotations

import numpy as np

from mergesvm.errors import IndefiniteError
from mergesvm.knowledge.algebra import CANCELLATION_FACTOR
from mergesvm.knowledge.knowledge import Knowledge

MAX_MAP_TOLERANCE = 0.02
"""A variance that is negative by a larger fraction is not due to rounding, whatever the feature map."""

MIN_RELATIVE_SQUARE = 1e-4
"""Sums of squares of mapped features are taken as at least this fraction of their mean."""


def check_sound(knowledge: Knowledge) -> None:
    """Raise an error if a Gram matrix is no longer positive semi-definite beyond rounding.

    Only matrices with subtractions are checked. Each is scaled by the largest diagonal it ever had, which bounds its
    rounding errors.

    >>> import mergesvm as ms
    >>> whole, other = ms.learn([[1.0], [2.0], [3.0]], list("aaa")), ms.learn([[-7.0], [9.0]], list("aa"))
    >>> wrong = ms.subtract(whole, other, force=True)
    >>> check_sound(wrong)
    Traceback (most recent call last):
    ...
    mergesvm.errors.IndefiniteError: The sums of class 'a' are not those of any set of rows: ...
    """
    unit = np.finfo(np.float32 if knowledge.precision == "float32" else np.float64).eps
    # A move of the anchor can shrink sums by up to this factor without a record of it.
    growth = 64.0 if knowledge.precision == "float32" else CANCELLATION_FACTOR
    tolerance = float(unit) * (growth + 64 * knowledge.width)
    if knowledge.signature.mapped:
        tolerance = max(tolerance, min(tolerance * knowledge.features.error_amplification, MAX_MAP_TOLERANCE))
    for index, (gram, peak) in enumerate(zip(knowledge.grams, knowledge.peaks, strict=True)):
        if not peak.any():
            continue
        largest = np.maximum(peak, gram.diagonal())
        if knowledge.signature.mapped:
            # Mapped features are rounded, too, and of similar size: one that hardly varies is mostly rounding.
            largest = np.maximum(largest, MIN_RELATIVE_SQUARE * largest.mean())
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
                f"The sums of {whose} are not those of any set of rows: a variance is negative, because rows were "
                f"subtracted that had never been added. Learn the remaining rows again."
            ) from None
