"""Learning: one pass over the rows, and the sums are all that is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mergesvm.data import Batch, Layout, Rows, Scan
from mergesvm.data.frame import Columns, Frame
from mergesvm.data.labels import Label
from mergesvm.engines.choosing import placed
from mergesvm.engines.engine import Engine, is_collection, taught
from mergesvm.errors import FeatureMapError, FormError, FrozenHereWarning, ParameterError, warn_caller
from mergesvm.features import FeatureMap, as_map
from mergesvm.knowledge.harvest import Harvest
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.provenance import Origin, now
from mergesvm.knowledge.spread import spread_batch, spread_collection, spread_frame, spread_scan
from mergesvm.knowledge.stream import Progress, learn_batch, learn_scan
from mergesvm.knowledge.terms import LearningTerms, fixed_weights, names_of


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
    engine: Engine | None = None,
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
    engine : Engine, optional
        Where the work runs: see :mod:`mergesvm.engines`. Files and collections are learned where the workers are, and
        only knowledge travels. Under MPI, all ranks call this function, each with the rows that it alone holds, or all
        with the same scan, which is dealt out; all get the knowledge of all. Threads of this machine by default.
    n_jobs : int, optional
        Number of threads, one a core by default; with an engine other than threads those of each worker, one by
        default.
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
    threads, spread = placed(engine, n_jobs)
    weights = fixed_weights(class_weight or {})

    def terms_for(rows: Any, labels: Any = None) -> LearningTerms:
        mapping = agreed_map(features, rows, labels, engine)
        return LearningTerms.of(mapping, per_class, weights, precision, threads, anchor)

    if isinstance(X, (Scan, Frame)):
        if y is not None or sample_weight is not None or feature_names is not None:
            raise ParameterError("A scan has labels, weights and names of its own: leave y and the others out.")
        terms = terms_for(X)
        if isinstance(X, Frame):
            return spread_frame(X, terms, _holder(engine, X.table))
        harvest = learn_scan(X, terms, progress) if spread is None else spread_scan(X, terms, spread, progress)
        return _sourced(harvest)
    if is_collection(X):
        return spread_collection(X, y, sample_weight, feature_names, terms_for(X), _holder(engine, X))

    def opened() -> tuple[Batch, Layout]:
        batch = Batch.of(X, y, sample_weight, empty=spread is not None and spread.collective)
        layout = Layout(batch.rows.width, names_of(batch.rows.names, feature_names, batch.rows.width))
        batch.rows.names = layout.names
        return batch, layout

    # A rank whose rows are wrong must not leave the others waiting.
    batch, layout = opened() if spread is None else spread.together(opened)
    terms = terms_for(batch.rows, y)
    return learn_batch(batch, layout, terms) if spread is None else spread_batch(batch, layout, terms, spread)


@taught
def learn_with(
    engine: Engine,
    rows: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    label: str | None = None,
    features: Any = None,
    feature_map: FeatureMap | str | None = None,
    **terms: Any,
) -> Knowledge:
    """What :meth:`Engine.learn` does: :func:`learn` on an engine; with a label, from the columns of a table there."""
    if label is None:
        mapping = features if feature_map is None else feature_map
        return learn(rows, y, sample_weight, features=mapping, engine=engine, **terms)
    how = {name: terms.pop(name) for name in ON_TABLES & set(terms)}
    frame = Frame(rows, Columns.of(_holder(engine, rows).schema(rows), label, features=features, **terms))
    return learn(frame, features=feature_map, engine=engine, **how)


ON_TABLES = {"per_class", "class_weight", "anchor", "precision", "n_jobs"}
"""Arguments of :func:`learn` that count for tables, too; all others tell how to read them."""


def _holder(engine: Engine | None, rows: Any) -> Engine:
    """The engine, if it is the one on whose workers the rows lie."""
    if engine is None or not engine.holds(rows):
        kind = type(rows)
        raise ParameterError(
            f"Rows of type {kind.__module__}.{kind.__qualname__} do not lie with {engine or 'this process'}: "
            f"collections of Dask are learned with mergesvm.engines.Dask, those of Spark with mergesvm.engines.Spark; "
            f"rows in memory with mergesvm.learn(X, y)."
        )
    return engine


def agreed_map(features: Any, X: Any, y: Any, engine: Engine | None) -> FeatureMap:
    """The map that all workers use."""
    mapping = as_map(features)
    if mapping.frozen:
        return mapping
    if isinstance(X, Frame) or is_collection(X):
        raise FeatureMapError(
            f"{mapping!r} is not frozen, and rows on a cluster are not sampled for it. Freeze it on a sample first: "
            f"map.freeze(sample)."
        )
    return agreed(engine, partial(frozen_map, mapping, X, y), X)


def agreed(engine: Engine | None, freeze: Callable[[], FeatureMap], rows: Any) -> FeatureMap:
    """What freezing gives, which only one of many ranks does, on its own rows."""

    def checked() -> FeatureMap:
        if isinstance(rows, Rows) and not rows.n_rows:
            raise FeatureMapError(
                "The rank that is to freeze the map has no rows. Freeze it on a sample first, and give it to all ranks."
            )
        return freeze()

    return checked() if engine is None else engine.once(checked)


def frozen_map(mapping: FeatureMap, X: Any, y: Any = None) -> FeatureMap:
    """The map, frozen on these rows, which is said."""
    frozen = mapping.freeze(X, y)
    warn_caller(
        f"{mapping!r} was frozen on a sample of these rows. Pieces learned elsewhere add to this one only if they "
        f"use the same map: knowledge.features, which can be saved and loaded.",
        FrozenHereWarning,
    )
    return frozen


def _sourced(harvest: Harvest) -> Knowledge:
    """Knowledge with a note of the files that it came from."""
    if harvest.knowledge is None:
        raise harvest.nothing()
    when = now()
    origins = tuple(Origin(source, rows, when) for source, rows in harvest.counts.items())
    return replace(harvest.knowledge, provenance=origins)
