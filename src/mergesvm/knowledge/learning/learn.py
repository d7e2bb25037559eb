"""Learning: one pass over the rows, and the sums are all that is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypedDict, Unpack, overload

from mergesvm.data.batch import Batch
from mergesvm.data.cluster_table import ClusterTable, Columns
from mergesvm.data.labels import Label
from mergesvm.data.layout import Layout
from mergesvm.data.rows.base import Rows
from mergesvm.data.scan import Scan
from mergesvm.engines.base import Engine, is_collection, taught
from mergesvm.engines.registry import placed
from mergesvm.errors import FeatureMapError, FormError, FrozenHereWarning, ParameterError, warn_caller
from mergesvm.features.base import FeatureMap
from mergesvm.features.spec import as_map
from mergesvm.knowledge.fold_assignment import FoldAssignment, folded
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.distributed import spread_batch, spread_collection, spread_frame, spread_scan
from mergesvm.knowledge.learning.local import Progress, learn_batch, learn_scan
from mergesvm.knowledge.learning.options import SumOptions, fixed_weights, names_of
from mergesvm.knowledge.learning.partial_result import PartialResult
from mergesvm.knowledge.provenance import Origin, now


class LearnOptions(TypedDict, total=False):
    """What can be asked of :func:`learn` beside rows and folds."""

    features: FeatureMap | str | None
    feature_names: Sequence[str] | None
    per_class: bool
    class_weight: Mapping[Label, float] | None
    anchor: Any
    precision: str | None
    groups: Any
    engine: Engine | None
    n_jobs: int | None
    progress: Progress | None


@overload
def learn(
    X: Any, y: Any = None, sample_weight: Any = None, *, folds: None = None, **wishes: Unpack[LearnOptions]
) -> Knowledge: ...


@overload
def learn(
    X: Any, y: Any = None, sample_weight: Any = None, *, folds: object, **wishes: Unpack[LearnOptions]
) -> Folds: ...


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
    folds: Any = None,
    groups: Any = None,
    engine: Engine | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Knowledge | Folds:
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
    folds : int or sequence of int, optional
        Keep the knowledge of each fold, for cross-validation without another pass: gives :class:`Folds`. A number of
        folds, into which rows fall by a hash of their values, the same wherever they are learned, so that pieces add,
        and equal rows are held out together; or the fold of each row, from 0 up, -1 for a row never held out.
    groups : sequence of labels, or str, optional
        With a number of folds: rows of the same group are held out together. Of files the name of a column, which the
        scan has to ``keep``.
    engine : Engine, optional
        Where the work runs: see :mod:`mergesvm.engines`. Files and collections are learned where the workers are, and
        only knowledge travels. Under MPI, all ranks call this function, each with the rows that it alone holds, or all
        with the same scan, which is dealt out; all get the knowledge of all. Threads of this machine by default.
    n_jobs : int, optional
        Number of threads, one a core by default; with an engine other than threads those of each worker, one by
        default.
    progress : function, optional
        Called with the scan after each of its slices; ``scan.rows`` and ``scan.fraction`` then tell how far it is.

    Examples
    --------
    >>> import mergesvm as ms
    >>> k = ms.learn([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]], ["no", "yes", "yes"])
    >>> k.counts
    array([1., 2.])
    >>> ms.learn([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]], ["no", "yes", "yes"], folds=[0, 0, 1])
    Folds of 2, 1 rows: Knowledge of 3 rows x 2 features in 2 classes: no 1, yes 2
    """
    if precision not in (None, "float64", "float32"):
        raise ParameterError(f"precision has to be 'float64', 'float32' or None, not {precision!r}.")
    if class_weight is not None and not isinstance(class_weight, Mapping):
        raise ParameterError(f"class_weight has to be a mapping of class to weight here, not {class_weight!r}.")
    if class_weight and per_class:
        raise FormError(
            "class_weight is chosen when solving, unless per_class=False. Leave it out here, or learn the pooled form."
        )
    if groups is not None and folds is None:
        raise ParameterError("groups tell which rows are held out together: say in how many folds, folds=5.")
    if folds is not None and not per_class:
        raise FormError("Folds need the sums of every class, which the pooled form has not. Learn with per_class=True.")
    threads, spread = placed(engine, n_jobs)
    weights = fixed_weights(class_weight or {})
    # A rank whose folds are wrong must not leave the others waiting; nor one whose rows are.
    apart: Callable[[Callable[[], Any]], Any] = _here if spread is None else spread.together
    folding, numbers = (None, None) if folds is None else apart(lambda: FoldAssignment.of(folds, groups))

    def terms_for(rows: Any, labels: Any = None) -> SumOptions:
        mapping = agreed_map(features, rows, labels, engine)
        return SumOptions.of(mapping, per_class, weights, precision, threads, anchor, folding)

    def learned() -> Knowledge:
        if isinstance(X, (Scan, ClusterTable)):
            if y is not None or sample_weight is not None or feature_names is not None or numbers is not None:
                raise ParameterError(
                    "A scan has labels, weights and names of its own: leave y and the others out. Its rows fall into "
                    "folds by themselves, folds=5, or by a column of groups."
                )
            if folding is not None and folding.by == "groups" and folding.column is None:
                raise ParameterError("Of files and tables, groups is the name of a column.")
            terms = terms_for(X)
            if isinstance(X, ClusterTable):
                return spread_frame(X, terms, _holder(engine, X.table))
            harvest = learn_scan(X, terms, progress) if spread is None else spread_scan(X, terms, spread, progress)
            return _sourced(harvest)
        if is_collection(X):
            if numbers is not None:
                raise ParameterError("Of rows on a cluster, folds is a number: rows fall into them by themselves.")
            if isinstance(groups, str):
                raise ParameterError(
                    f"groups={groups!r} names a column, and only tables have columns: give a collection of groups, or "
                    f"the name of a column with label=, engine.learn(table, label=..., groups=...)."
                )
            return spread_collection(X, y, sample_weight, groups, feature_names, terms_for(X), _holder(engine, X))

        def opened() -> tuple[Batch, Layout]:
            batch = Batch.of(X, y, sample_weight, empty=spread is not None and spread.collective)
            layout = Layout(batch.rows.width, names_of(batch.rows.names, feature_names, batch.rows.width))
            batch.rows.names = layout.names
            if folding is not None:
                own = folding.numbers(batch.rows, groups, threads) if numbers is None else numbers
                batch = folded(batch, own)
            return batch, layout

        batch, layout = apart(opened)
        terms = terms_for(batch.rows, y)
        return learn_batch(batch, layout, terms) if spread is None else spread_batch(batch, layout, terms, spread)

    return learned() if folding is None else Folds.of_cells(learned(), folding)


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
) -> Knowledge | Folds:
    """What :meth:`Engine.learn` does: :func:`learn` on an engine; with a label, from the columns of a table there."""
    if label is None:
        mapping = features if feature_map is None else feature_map
        piece: Knowledge | Folds = learn(rows, y, sample_weight, features=mapping, engine=engine, **terms)
        return piece
    how = {name: terms.pop(name) for name in ON_TABLES & set(terms)}
    if isinstance(how.get("groups"), str):
        terms["keep"] = list(dict.fromkeys([*terms.get("keep", ()), how["groups"]]))
    frame = ClusterTable(rows, Columns.of(_holder(engine, rows).schema(rows), label, features=features, **terms))
    whole: Knowledge | Folds = learn(frame, features=feature_map, engine=engine, **how)
    return whole


ON_TABLES = {"per_class", "class_weight", "anchor", "precision", "folds", "groups", "n_jobs"}
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
    if isinstance(X, ClusterTable) or is_collection(X):
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


def _here(function: Callable[[], Any]) -> Any:
    return function()


def _sourced(harvest: PartialResult) -> Knowledge:
    """Knowledge with a note of the files that it came from."""
    if harvest.knowledge is None:
        raise harvest.nothing()
    when = now()
    origins = tuple(Origin(source, rows, when) for source, rows in harvest.counts.items())
    return replace(harvest.knowledge, provenance=origins)
