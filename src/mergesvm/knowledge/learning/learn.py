"""Learning: one pass over the rows, of which only sums are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, Unpack, overload

from mergesvm.data.labels import Label
from mergesvm.data.scan import Scan
from mergesvm.engines.base import Engine
from mergesvm.engines.registry import collection_spec
from mergesvm.errors import ParameterError
from mergesvm.features.base import FeatureMap
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.learner import Learner
from mergesvm.knowledge.learning.local import Progress


class LearnKeywords(TypedDict, total=False):
    """Types of the keyword arguments of :func:`learn`, except ``folds``, which decides the type of the result."""

    label: str | None
    columns: str | Iterable[str] | None
    weight: str | None
    categories: Mapping[str, Iterable[Label]] | str | None
    unknown: str
    missing: str
    keep: Iterable[str]
    like: Any
    batch_rows: int | None
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
    X: Any, y: Any = None, sample_weight: Any = None, *, folds: None = None, **options: Unpack[LearnKeywords]
) -> Knowledge: ...


@overload
def learn(
    X: Any, y: Any = None, sample_weight: Any = None, *, folds: object, **options: Unpack[LearnKeywords]
) -> Folds: ...


def learn(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    label: str | None = None,
    columns: str | Iterable[str] | None = None,
    weight: str | None = None,
    categories: Mapping[str, Iterable[Label]] | str | None = None,
    unknown: str = "error",
    missing: str = "error",
    keep: Iterable[str] = (),
    like: Any = None,
    batch_rows: int | None = None,
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
    X : array, sparse array or table of shape (rows, features), or a scan
        numpy arrays of any numeric type, scipy sparse arrays, pandas, polars or Arrow tables; Dask arrays and
        DataFrames, Spark DataFrames. Converted block by block, never as a whole. Or the result of :func:`scan`: files,
        read in slices, with labels and weights of their own.
    y : sequence of labels
        Strings, integers or booleans, or bytes, which become text; one class is enough. Not with a scan or ``label``.
    sample_weight : sequence of numbers, optional
        A row of weight 2 counts as two rows, a row of weight 0 as none.
    label : str, optional
        Learn from the columns of a table: the name of the label column. The table may be in memory, or lie on the
        workers of ``engine``. A Spark DataFrame needs it.
    columns : list of str, optional
        With ``label``: the columns to learn from; all but label, weight and ``keep`` by default.
    weight : str, optional
        With ``label``: the column of sample weights.
    categories, unknown, missing, keep, like, batch_rows
        With ``label``: how to read the table, as for :func:`scan`. On a cluster, ``categories`` must be a mapping.
    features : FeatureMap or str, optional
        The feature map applied to the rows, block by block, before they are summed: a frozen map of
        :mod:`mergesvm.features`, such as ``Fourier(4000).freeze(X)``. A map that is not frozen, or the name of one,
        such as ``"fourier:4000"``, is frozen on a sample of these rows, with a warning. None for a linear model.
    feature_names : sequence of str, optional
        Names of the columns, if X has none. Pieces with different names cannot be added.
    per_class : bool
        False keeps one pooled Gram matrix instead of one per class: less memory, but class weights are then fixed when
        learning, and one-vs-one is not possible.
    class_weight : mapping of label to weight, optional
        For the pooled form only, as factors of the sample weights. Otherwise they are chosen when solving.
    anchor : array of shape (features,), optional
        The point about which sums are kept, except in columns whose first rows lie far from it; zero by default. Pieces
        about the same anchor are added without being moved.
    precision : {"float64", "float32"}, optional
        Precision of the products of wide rows; sums are always float64. ``"float32"`` is about twice as fast, at
        relative errors of a few 1e-6 in the coefficients. The default is the precision of the map, and float64 without
        a map. 8-bit pixels are multiplied exactly, in float32, in both cases.
    folds : int or sequence of int, optional
        Keep the knowledge of each fold, for cross-validation without another pass; returns :class:`Folds`. An integer
        assigns rows to that many folds by a hash of their values: the same wherever they are learned, so that pieces
        can be added, and equal rows are held out together. A sequence gives the fold of each row, from 0 up, or -1 for
        a row that is never held out.
    groups : sequence of labels, or str, optional
        With a number of folds: rows of the same group are held out together. For tables the name of a column; for
        files as well, which the scan has to ``keep``.
    engine : Engine, optional
        Where the work runs, see :mod:`mergesvm.engines`; threads of this machine by default. Files and collections are
        read by the workers, and only knowledge is sent. Under MPI, all ranks call this function, each with rows of its
        own, or all with the same scan, which is divided among them; all get the knowledge of all rows.
    n_jobs : int, optional
        Number of threads (default: one per core; one per worker on other engines).
    progress : callable, optional
        Called with the scan after each slice; see ``scan.rows`` and ``scan.fraction``.

    Examples
    --------
    >>> import mergesvm as ms
    >>> k = ms.learn([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]], ["no", "yes", "yes"])
    >>> k.counts
    array([1., 2.])
    >>> ms.learn([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]], ["no", "yes", "yes"], folds=[0, 0, 1])
    Folds of 2, 1 rows: Knowledge of 3 rows x 2 features in 2 classes: no 1, yes 2

    A table by its columns:

    >>> import pandas as pd
    >>> table = pd.DataFrame({"size": [1.0, 2.0], "colour": ["red", "blue"], "sold": ["no", "yes"]})
    >>> ms.learn(table, label="sold", categories={"colour": ["blue", "red"]})
    Knowledge of 2 rows x 3 features in 2 classes: no 1, yes 1
    """
    learner = Learner(
        features=features,
        per_class=per_class,
        class_weight=class_weight,
        anchor=anchor,
        precision=precision,
        folds=folds,
        groups=groups,
        engine=engine,
        n_jobs=n_jobs,
        progress=progress,
    )
    table = {
        "columns": columns,
        "weight": weight,
        "categories": categories,
        "unknown": unknown,
        "missing": missing,
        "keep": keep,
        "like": like,
        "batch_rows": batch_rows,
    }
    arrays = {"y": y, "sample_weight": sample_weight, "feature_names": feature_names}
    knowledge = _learn(learner, X, label, table, arrays)
    return knowledge if learner.folding is None else Folds.of_cells(knowledge, learner.folding)


def _learn(learner: Learner, X: Any, label: str | None, table: dict[str, Any], arrays: dict[str, Any]) -> Knowledge:
    """Learn from X in the way that its type calls for."""
    if label is not None:
        if isinstance(X, Scan):
            raise ParameterError("A scan has labels of its own: pass label= to mergesvm.scan.")
        _refuse(arrays, "{} cannot be combined with label=: name columns of the table with label=, weight=, columns=.")
        return learner.learn_table(X, label, **table)
    _refuse(table, "{} is for tables: name the label column of the table with label=.")
    if isinstance(X, Scan):
        _refuse(arrays, "A scan has labels, weights and names of its own: leave out {}.")
        return learner.learn_scan(X)
    rows = (X, arrays["y"], arrays["sample_weight"], arrays["feature_names"])
    return learner.learn_arrays(*rows) if collection_spec(X) is None else learner.learn_collection(*rows)


def _refuse(options: dict[str, Any], message: str) -> None:
    """Raise an error if any option differs from its default."""
    for name, value in options.items():
        if value is not None and not (isinstance(value, (str, tuple)) and value in ("error", ())):
            raise ParameterError(message.format(f"{name}="))
