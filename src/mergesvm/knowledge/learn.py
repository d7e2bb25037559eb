"""Learning: one pass over the rows, and the sums are all that is kept."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data import Batch, SparseRows
from mergesvm.data.labels import Label, plain_label
from mergesvm.engines import Threads
from mergesvm.errors import DataError, FormError, ParameterError
from mergesvm.features import Identity
from mergesvm.knowledge.accumulate import NARROW, accumulate
from mergesvm.knowledge.anchor import as_point, choose_anchor
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.signature import Signature


def learn(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    per_class: bool = True,
    class_weight: Mapping[Label, float] | None = None,
    anchor: Any = None,
    precision: str = "float64",
    n_jobs: int | None = None,
) -> Knowledge:
    """Learn from rows: their knowledge, which can be added to, subtracted from, and solved into models.

    Parameters
    ----------
    X : array, sparse array, or table of shape (rows, features)
        numpy of any numeric type, scipy sparse, pandas, polars or Arrow. Converted block by block, never as a whole.
    y : sequence of labels
        Strings, whole numbers or booleans; from one class up.
    sample_weight : sequence of numbers, optional
        A row of weight 2 counts as two rows, a row of weight 0 as none.
    feature_names : sequence of str, optional
        Names of the columns, where X has none. Pieces with different names do not add.
    per_class : bool
        False keeps one pooled Gram matrix instead of one a class: less memory, but class weights are then fixed when
        learning, and one-vs-one is not possible.
    class_weight : mapping of label to weight, optional
        For the pooled form only, where they count like sample weights. Otherwise they are chosen when solving.
    anchor : array of shape (features,), optional
        About which point to keep the sums, except in columns whose first rows lie far from it; zero by default. Pieces
        about one and the same anchor add without being moved.
    precision : {"float64", "float32"}
        In which precision the products of wide rows are formed; sums are float64 always. ``"float32"`` is about twice
        as fast, at relative errors of a few 1e-6 in the coefficients. 8-bit pixels are multiplied in float32 exactly,
        whatever is chosen here.
    n_jobs : int, optional
        Number of threads; one a core by default.

    Examples
    --------
    >>> import mergesvm as ms
    >>> k = ms.learn([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]], ["no", "yes", "yes"])
    >>> k.counts
    array([1., 2.])
    """
    if precision not in ("float64", "float32"):
        raise ParameterError(f"precision has to be 'float64' or 'float32', not {precision!r}.")
    if class_weight is not None and not isinstance(class_weight, Mapping):
        raise ParameterError(f"class_weight has to be a mapping of class to weight here, not {class_weight!r}.")
    if class_weight and per_class:
        raise FormError(
            "class_weight is chosen when solving, unless per_class=False. Leave it out here, or learn the pooled form."
        )
    fixed = _fixed_weights(class_weight or {})
    batch = Batch.of(X, y, sample_weight)
    signature = Signature(
        features=Identity().fingerprint,
        width=batch.rows.width,
        names=_names(batch.rows.names, feature_names, batch.rows.width),
        per_class=per_class,
        class_weights=tuple(sorted(fixed.items(), key=repr)),
        labels=batch.labels.kind,
    )
    if fixed:
        batch = _weighted(batch, fixed)
    _check_memory(len(batch.labels.classes) if per_class else 1, batch.rows.width, per_class)
    point = choose_anchor(batch, None if anchor is None else as_point(anchor, batch.rows.width))
    n_classes = len(batch.labels.classes)
    sums, grams = accumulate(batch, point, per_class, Threads(n_jobs), precision)
    counts: NDArray[Any] = batch.labels.rows.astype(np.float64)
    if batch.weights is not None:
        # Rows that do not count have code -1, and go to a place of their own, which is left out.
        places = batch.labels.codes.astype(np.intp) + 1
        counts = np.bincount(places, batch.weights, minlength=n_classes + 1)[1:]
        if not np.isfinite(counts).all():
            raise DataError("sample_weight is too large to be summed. Scale the weights down.")
    return Knowledge(
        signature,
        point,
        batch.labels.classes,
        batch.labels.rows,
        counts,
        sums,
        tuple(grams),
        np.zeros((len(grams), batch.rows.width)),
        precision if batch.rows.width > NARROW and not isinstance(batch.rows, SparseRows) else "float64",
    )


def _fixed_weights(class_weight: Mapping[Any, Any]) -> dict[Label, float]:
    try:
        return {plain_label(label): float(weight) for label, weight in class_weight.items()}
    except (TypeError, ValueError):
        raise ParameterError(f"class_weight has to give every class a number, not {dict(class_weight)!r}.") from None


def _check_memory(n_grams: int, width: int, per_class: bool) -> None:
    """Say before the work what would not fit after it."""
    needed, machine = 8 * n_grams * width**2, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > machine:
        pooling = ", or with per_class=False" if per_class and needed / n_grams <= machine else ""
        raise ParameterError(
            f"Knowledge of {n_grams} x {width:,} x {width:,} sums takes {needed / 1e9:,.0f} GB, and this machine has "
            f"{machine / 1e9:,.0f} GB. Learn from fewer features{pooling}."
        )


def _names(found: tuple[str, ...] | None, given: Sequence[str] | None, width: int) -> tuple[str, ...] | None:
    if given is None:
        return found
    names = tuple(str(name) for name in given)
    if len(names) != width or len(set(names)) < width:
        raise ParameterError(f"feature_names has to be {width} different names, one a column, not {list(given)!r}.")
    return names


def _weighted(batch: Batch, class_weight: Mapping[Label, float]) -> Batch:
    """A batch in which the weight of its class is part of the weight of each row."""
    unknown = [label for label in batch.labels.classes if label not in class_weight]
    bad = [label for label, weight in class_weight.items() if not 0 < weight < np.inf]
    if unknown or bad:
        raise ParameterError(
            f"class_weight needs a positive weight for every class; look at {(unknown or bad)[0]!r} in "
            f"{dict(class_weight)!r}."
        )
    factors = np.array([class_weight[label] for label in batch.labels.classes])
    weights = factors[batch.labels.codes] * (1.0 if batch.weights is None else batch.weights)
    return replace(batch, weights=np.where(batch.labels.codes >= 0, weights, 0.0))
