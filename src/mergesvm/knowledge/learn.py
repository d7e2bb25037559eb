"""Learning: one pass over the rows, and the sums are all that is kept."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mergesvm.data import Batch, Layout, Rows, Scan, Slice
from mergesvm.data.labels import Label, plain_label
from mergesvm.engines import Threads
from mergesvm.errors import DataError, FormError, FrozenHereWarning, ParameterError
from mergesvm.features import FeatureMap, Identity, MappedRows, as_map
from mergesvm.knowledge.algebra import merge_stream
from mergesvm.knowledge.anchor import as_point, choose_anchor
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.ledger import Ledger, check_memory
from mergesvm.knowledge.provenance import Origin, now
from mergesvm.knowledge.signature import Signature

Progress = Callable[[Scan], None]


def learn(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    features: FeatureMap | str | None = None,
    feature_names: Sequence[str] | None = None,
    per_class: bool = True,
    class_weight: Mapping[Label, float] | None = None,
    anchor: Any = None,
    precision: str | None = None,
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
    features : FeatureMap or str, optional
        What rows are mapped by, block by block, before they are summed: a frozen map of :mod:`mergesvm.features`, such
        as ``Fourier(4000).freeze(X)``. A map that is not frozen, or the name of one, such as ``"fourier:4000"``, is
        frozen on a sample of these rows, with a warning. None for a linear model.
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
    precision : {"float64", "float32"}, optional
        In which precision the products of wide rows are formed; sums are float64 always. ``"float32"`` is about twice
        as fast, at relative errors of a few 1e-6 in the coefficients. By default that of the map, and float64 where
        there is none. 8-bit pixels are multiplied in float32 exactly,
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
    if precision not in (None, "float64", "float32"):
        raise ParameterError(f"precision has to be 'float64', 'float32' or None, not {precision!r}.")
    if class_weight is not None and not isinstance(class_weight, Mapping):
        raise ParameterError(f"class_weight has to be a mapping of class to weight here, not {class_weight!r}.")
    if class_weight and per_class:
        raise FormError(
            "class_weight is chosen when solving, unless per_class=False. Leave it out here, or learn the pooled form."
        )
    engine, weights = Threads(n_jobs), _fixed_weights(class_weight or {})
    if isinstance(X, Scan):
        if y is not None or sample_weight is not None or feature_names is not None:
            raise ParameterError("A scan has labels, weights and names of its own: leave y and the others out.")
        terms = _Terms.of(frozen_map(features, X), per_class, weights, precision, engine, anchor)
        return _learn_stream(X, terms, progress)
    batch = Batch.of(X, y, sample_weight)
    layout = Layout(batch.rows.width, _names(batch.rows.names, feature_names, batch.rows.width))
    batch.rows.names = layout.names
    terms = _Terms.of(frozen_map(features, batch.rows, y), per_class, weights, precision, engine, anchor)
    whole = merge_stream(_pieces([(batch, 1.0)], layout, terms))
    assert whole is not None
    return whole


def frozen_map(features: Any, X: Any, y: Any = None) -> FeatureMap:
    """The map that is asked for; one that is not frozen yet is frozen on these rows, which is said."""
    mapping = as_map(features)
    if mapping.frozen:
        return mapping
    frozen = mapping.freeze(X, y)
    warnings.warn(
        f"{mapping!r} was frozen on a sample of these rows. Pieces learned elsewhere add to this one only if they "
        f"use the same map: knowledge.features, which can be saved and loaded.",
        FrozenHereWarning,
        stacklevel=3,
    )
    return frozen


@dataclass(frozen=True)
class _Terms:
    """How sums are to be kept, whatever the rows."""

    features: FeatureMap
    per_class: bool
    class_weights: dict[Label, float]
    precision: str
    engine: Threads
    anchor: Any

    @classmethod
    def of(
        cls,
        features: FeatureMap,
        per_class: bool,
        weights: dict[Label, float],
        precision: str | None,
        engine: Threads,
        anchor: Any,
    ) -> _Terms:
        """Terms on which products are of the precision of the map, if none is given."""
        usual = "float64" if isinstance(features, Identity) else features.dtype.name
        return cls(features, per_class, weights, precision or usual, engine, anchor)

    def signature(self, layout: Layout, kind: str | None = None) -> Signature:
        weights = tuple(sorted(self.class_weights.items(), key=repr))
        return Signature(self.features, layout.width, layout.names, layout.categories, self.per_class, weights, kind)


def _learn_stream(scan: Scan, terms: _Terms, progress: Progress | None) -> Knowledge:
    """Knowledge of all slices."""

    def batches() -> Iterator[tuple[Batch, float]]:
        with closing(iter(scan)) as slices:  # type: ignore[type-var]
            for part in slices:
                if part.rows.n_rows:
                    yield batch_of(part), _foresight(part, scan)
                if progress is not None:
                    progress(scan)

    check_memory(1, terms.signature(scan.layout))
    whole = merge_stream(_pieces(batches(), scan.layout, terms))
    if whole is None:
        what = "all rows have missing values" if scan.dropped else "there are no rows"
        raise DataError(f"There is nothing to learn in {scan.readers[0].file.name}: {what}.")
    when = now()
    return replace(whole, provenance=tuple(Origin(source, rows, when) for source, rows in scan.counts.items()))


def _foresight(part: Slice, scan: Scan) -> float:
    """How much more there is to come, which decides whether compiling the kernels pays."""
    return 1.0 if scan.share == 0 or scan.rows > part.rows.n_rows else 1 / scan.share


def batch_of(part: Slice) -> Batch:
    """A slice of files as a batch; errors name the file."""
    if part.labels is None:
        raise DataError(f"{part.rows.source} has no labels. Say with label= where they are.")
    with _named(part.rows):
        return Batch.of(part.rows, part.labels, part.weights)


@contextmanager
def _named(rows: Rows) -> Iterator[None]:
    """Errors of rows from a file name it."""
    try:
        yield
    except DataError as error:
        if rows.source == Rows.source or rows.source in str(error):
            raise
        raise DataError(f"{rows.source}, from row {rows.first} on: {error}") from None


def _pieces(batches: Iterable[tuple[Batch, float]], layout: Layout, terms: _Terms) -> Iterator[Knowledge]:
    """Knowledge of all batches that can be summed about one anchor, and of the next ones about another."""
    ledger = None
    for batch, foresight in batches:
        with _named(batch.rows):
            if terms.class_weights:
                batch = _weighted(batch, terms.class_weights)
            signature = terms.signature(layout, batch.labels.kind)
            check_memory(len(batch.labels.classes), signature)
            if signature.mapped:
                terms.features.check_rows(batch.rows, layout.names)
            preferred = terms.anchor if ledger is None else ledger.anchor
            if preferred is None and signature.mapped:
                preferred = terms.features.middle
            point = choose_anchor(
                replace(batch, rows=MappedRows(batch.rows, terms.features)) if signature.mapped else batch,
                None if preferred is None else as_point(preferred, signature.width),
            )
            if signature.mapped and terms.precision == "float32":
                point = point.astype(np.float32).astype(np.float64)  # so that what is subtracted is what is recorded
            if ledger is None or (point != ledger.anchor).any():
                if ledger is not None:
                    yield ledger.knowledge()
                ledger = Ledger(signature, point, terms.engine, terms.precision)
            ledger.add(batch, signature, foresight)
    if ledger is not None:
        yield ledger.knowledge()


def _fixed_weights(class_weight: Mapping[Any, Any]) -> dict[Label, float]:
    try:
        return {plain_label(label): float(weight) for label, weight in class_weight.items()}
    except (TypeError, ValueError):
        raise ParameterError(f"class_weight has to give every class a number, not {dict(class_weight)!r}.") from None


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
