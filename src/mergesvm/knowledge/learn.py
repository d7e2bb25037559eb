"""Learning: one pass over the rows, and the sums are all that is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data import Batch, Layout, Scan, Slice, SparseRows
from mergesvm.data.labels import Label, plain_label
from mergesvm.engines import Threads
from mergesvm.errors import DataError, FormError, ParameterError
from mergesvm.features import Identity
from mergesvm.knowledge.accumulate import NARROW, accumulate
from mergesvm.knowledge.algebra import merge_stream
from mergesvm.knowledge.anchor import as_point, choose_anchor
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.provenance import Origin, now
from mergesvm.knowledge.signature import Signature

Progress = Callable[[Scan], None]


def learn(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    per_class: bool = True,
    class_weight: Mapping[Label, float] | None = None,
    anchor: Any = None,
    precision: str = "float64",
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Knowledge:
    """Learn from rows: their knowledge, which can be added to, subtracted from, and solved into models.

    Parameters
    ----------
    X : array, sparse array, or table of shape (rows, features); or a scan
        numpy of any numeric type, scipy sparse, pandas, polars or Arrow. Converted block by block, never as a whole.
        Or what :func:`scan` gives: files, read in slices, with labels and weights of their own.
    y : sequence of labels
        Strings, whole numbers or booleans; from one class up. Not with a scan.
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
    progress : function, optional
        Called with the scan after each of its slices; ``scan.rows`` and ``scan.share`` then tell how far it is.

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
    terms = _Terms(per_class, _fixed_weights(class_weight or {}), precision, Threads(n_jobs))
    if isinstance(X, Scan):
        if y is not None or sample_weight is not None or feature_names is not None:
            raise ParameterError("A scan has labels, weights and names of its own: leave y and the others out.")
        return _learn_stream(X, terms, anchor, progress)
    batch = Batch.of(X, y, sample_weight)
    names = _names(batch.rows.names, feature_names, batch.rows.width)
    return _learn_batch(batch, Layout(batch.rows.width, names), terms, anchor)


@dataclass(frozen=True)
class _Terms:
    """How sums are to be kept, whatever the rows."""

    per_class: bool
    class_weights: dict[Label, float]
    precision: str
    engine: Threads


def _learn_stream(scan: Scan, terms: _Terms, anchor: Any, progress: Progress | None) -> Knowledge:
    """Knowledge of all slices; those after the first are summed about its anchor, so that they add without a move."""

    def pieces() -> Iterator[Knowledge]:
        point = anchor
        with closing(iter(scan)) as slices:  # type: ignore[type-var]
            for part in slices:
                if part.rows.n_rows:
                    piece = _learn_slice(part, scan, terms, point)
                    point = piece.anchor
                    yield piece
                if progress is not None:
                    progress(scan)

    _check_memory(1, scan.width, terms.per_class)
    whole = merge_stream(pieces())
    if whole is None:
        what = "all rows have missing values" if scan.dropped else "there are no rows"
        raise DataError(f"There is nothing to learn in {scan.readers[0].file.name}: {what}.")
    when = now()
    return replace(whole, provenance=tuple(Origin(source, rows, when) for source, rows in scan.counts.items()))


def _learn_slice(part: Slice, scan: Scan, terms: _Terms, anchor: Any) -> Knowledge:
    if part.labels is None:
        raise DataError(f"{part.rows.source} has no labels. Say with label= where they are.")
    # How much more there is to come decides whether compiling the kernels pays.
    foresight = 1.0 if scan.share == 0 or scan.rows > part.rows.n_rows else 1 / scan.share
    try:
        return _learn_batch(Batch.of(part.rows, part.labels, part.weights), scan.layout, terms, anchor, foresight)
    except DataError as error:
        if part.rows.source in str(error):
            raise
        raise DataError(f"{part.rows.source}, from row {part.rows.first} on: {error}") from None


def _learn_batch(batch: Batch, layout: Layout, terms: _Terms, anchor: Any, foresight: float = 1.0) -> Knowledge:
    signature = Signature(
        features=Identity().fingerprint,
        width=layout.width,
        names=layout.names,
        categories=layout.categories,
        per_class=terms.per_class,
        class_weights=tuple(sorted(terms.class_weights.items(), key=repr)),
        labels=batch.labels.kind,
    )
    if terms.class_weights:
        batch = _weighted(batch, terms.class_weights)
    _check_memory(len(batch.labels.classes) if terms.per_class else 1, batch.rows.width, terms.per_class)
    point = choose_anchor(batch, None if anchor is None else as_point(anchor, batch.rows.width))
    n_classes = len(batch.labels.classes)
    sums, grams = accumulate(batch, point, terms.per_class, terms.engine, terms.precision, foresight)
    counts: NDArray[Any] = batch.labels.rows.astype(np.float64)
    if batch.weights is not None:
        # Rows that do not count have code -1, and go to a place of their own, which is left out.
        places = batch.labels.codes.astype(np.intp) + 1
        counts = np.bincount(places, batch.weights, minlength=n_classes + 1)[1:]
        if not np.isfinite(counts).all():
            raise DataError("sample_weight is too large to be summed. Scale the weights down.")
    wide = batch.rows.width > NARROW and not isinstance(batch.rows, SparseRows)
    return Knowledge(
        signature,
        point,
        batch.labels.classes,
        batch.labels.rows,
        counts,
        sums,
        tuple(grams),
        np.zeros((len(grams), batch.rows.width)),
        terms.precision if wide else "float64",
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
