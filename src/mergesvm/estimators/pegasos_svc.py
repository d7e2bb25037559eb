"""PegasosSVC: linear support vector machines trained by Pegasos, with the scikit-learn API."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, NoReturn, Self

from sklearn.utils._param_validation import Interval

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label
from mergesvm.data.loading import load
from mergesvm.data.scan import Scan
from mergesvm.engines.base import Engine
from mergesvm.engines.threads import resolve_engine
from mergesvm.errors import FormError, ParameterError
from mergesvm.estimators.base import LinearClassifier, Number
from mergesvm.estimators.classes import weights_of_seen
from mergesvm.estimators.inputs import (
    declare_classes,
    frozen_map_of,
    input_of,
    keep_columns_of_scan,
    rows_to_learn,
    seed_of,
    set_input,
)
from mergesvm.features.base import FeatureMap
from mergesvm.methods.pegasos.options import PegasosOptions
from mergesvm.methods.pegasos.shared_rows import share_rows
from mergesvm.methods.pegasos.training import Pegasos, train_pegasos
from mergesvm.models.hyperplanes import Hyperplanes
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.models.schedule import MAX_BATCH_SIZE, MAX_SCALE, MAX_STEPS, MIN_SCALE, Schedule


class PegasosSVC(LinearClassifier):
    """Linear support vector classifier with hinge loss, trained by Pegasos (stochastic subgradient descent).

    Each binary problem minimises lambda/2 w.w + mean of omega max(0, 1 - y w.x) in ``n_iter`` steps. A step follows the
    subgradient at a random row, and costs one product with it. Features should have similar scales: put a
    ``StandardScaler`` or ``MinMaxScaler`` before it in a pipeline, and a ``PCA(0.95)`` for fewer features.

    :class:`MergeSVC` is exact, needs one pass, merges, forgets, and is re-solved without data. Use Pegasos for the
    hinge loss, which depends on rows near the margin only, and is often more accurate with several classes.

    Parameters
    ----------
    lambda_ : float
        Weight of the penalty relative to the mean loss; equivalent to 1 / (C n_rows) for the C of other estimators.
    n_iter : int
        Steps per binary problem, in :meth:`fit` and in each :meth:`partial_fit`. To reach the optimum, use several
        times 1 / ``lambda_``.
    multiclass : {"ovo", "ovr"}
        One-vs-one by vote, or one-vs-rest.
    alpha : float, optional
        Alias of ``lambda_``, as in ``SGDClassifier``; overrides it if given.
    batch_size : int
        Number of random rows per step, which follows the mean of their subgradients.
    average : float
        Fraction of the steps, counted from the last, over which coefficients are averaged; 0 for no averaging.
    project : bool
        Whether every step is projected onto the ball w.w <= mean of omega / lambda, which contains the solution.
    fit_intercept : bool
        Whether to add a constant feature, whose coefficient is the intercept; False as in the paper.
    intercept_scaling : float, optional
        Value of the constant feature. The larger it is, the less the intercept is penalised, and the faster it is
        learned (default: the root mean square norm of the rows, which suits features of any scale).
    class_weight : {None, "inverse", "complement", "balanced"} or dict
        Weights of the classes, which multiply the loss; see :func:`mergesvm.solve`. Weights by ``"inverse"`` are
        small, and need a ``lambda_`` that is smaller by the same factor.
    ties : {"recount", "sequential", "margin"}
        How ties between classes with the same number of votes are broken.
    features : {"hidden", "fourier", "nystroem", "patches", "pca"}, FeatureMap or None
        Feature map for a model that is not linear; see :class:`MergeSVC`. Mapped rows are kept in memory.
    n_features : int, optional
        Size of a map given by name.
    random_state : int, RandomState or None
        Seed of the random rows, and of a map given by name. Results do not depend on the number of threads. None for a
        different seed every time.
    precision : {"float64", "float32"}, optional
        Precision of the coefficients during training (default: float32 if rows are float32 or small integers, which is
        enough for tens of millions of steps).
    engine : Engine, optional
        Where binary problems are trained, each by one worker (default: threads); see :mod:`mergesvm.engines`. All
        workers get all rows. Under MPI those of the root are sent to the ranks that pass None; others must pass the
        same rows.
    n_jobs : int, optional
        Number of threads (default: one per core).

    Attributes
    ----------
    model_ : LinearModel or PairwiseModel
        The fitted model, which can be saved, and exported to ONNX.
    classes_, coef_, intercept_ : arrays
    n_iter_ : int
        Largest number of steps of any binary problem so far.
    features_ : FeatureMap
        The frozen feature map.
    n_features_in_ : int
    feature_names_in_ : array of str

    Notes
    -----
    Rows are accessed at random, and must fit into memory, also those of files. C-ordered arrays of float64, float32 and
    8- or 16-bit integers and CSR arrays are used without a copy, everything else is converted once. 8-bit pixels are
    the fastest.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from mergesvm import PegasosSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> make_pipeline(StandardScaler(), PegasosSVC(lambda_=1e-3)).fit(X, y).score(X, y) > 0.95
    True
    """

    _result_attribute = "_learned"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearClassifier._parameter_constraints,
        "lambda_": [Number(Real, MIN_SCALE, MAX_SCALE, closed="both")],
        "n_iter": [Number(Integral, 1, MAX_STEPS, closed="both")],
        "alpha": [Number(Real, MIN_SCALE, MAX_SCALE, closed="both"), None],
        "batch_size": [Number(Integral, 1, MAX_BATCH_SIZE, closed="both")],
        "average": [Interval(Real, 0, 1, closed="both")],
        "project": ["boolean"],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Number(Real, MIN_SCALE, MAX_SCALE, closed="both"), None],
    }

    def __init__(
        self,
        lambda_: float = 1e-4,
        n_iter: int = 100_000,
        multiclass: str = "ovo",
        *,
        alpha: float | None = None,
        batch_size: int = 1,
        average: float = 0.5,
        project: bool = False,
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        ties: str = "recount",
        features: FeatureMap | str | None = None,
        n_features: int | None = None,
        random_state: Any = 0,
        precision: str | None = None,
        engine: Engine | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.lambda_, self.alpha = lambda_, alpha
        self.n_iter, self.batch_size = n_iter, batch_size
        self.average, self.project = average, project
        self.fit_intercept, self.intercept_scaling = fit_intercept, intercept_scaling
        self.multiclass, self.class_weight, self.ties = multiclass, class_weight, ties
        self.features, self.n_features, self.random_state = features, n_features, random_state
        self.precision = precision
        self.engine, self.n_jobs = engine, n_jobs

    def fit(self, X: Any, y: Any = None, initial: Any = None, sample_weight: Any = None) -> Self:
        """Learn from these rows, discarding earlier ones.

        Parameters
        ----------
        X, y : rows and their labels
            Or a scan of files (:func:`mergesvm.scan`), which has labels and weights of its own, and is read into
            memory. Under MPI, ranks other than the root may pass None, and get the rows of the root.
        initial : MergeSVC, LinearModel or PairwiseModel, optional
            Model of the same classes, features and multi-class scheme, whose coefficients are the starting point. It
            saves about half to two thirds of the first thousands of steps. The first few hundred steps make a good
            start worse, and after many steps it no longer matters.
        sample_weight : sequence of numbers, optional
            Rows are drawn in proportion to their weights: a row of weight 2 counts as two rows, one of weight 0 as
            none.
        """
        with self._fitting():
            self._options().check()
            return self._begin(self._batch(X, y, sample_weight, reset=True), X, y, initial)

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Continue with more rows: ``n_iter`` further steps in every binary problem with rows of both classes.

        ``classes``, if given, declares all classes, as in ``SGDClassifier``: those without rows yet have a column in
        ``decision_function`` and ``predict_proba``, and are never predicted. Without it, new classes are added when
        they occur. Their coefficients start at zero. Steps and averages are over these rows only.
        """
        with self._fitting():
            before: Pegasos | None = getattr(self, "_learned", None)
            self._options().check()
            batch = self._batch(X, y, sample_weight, reset=before is None)
            declare_classes(self, batch.labels.classes, classes)
            if before is None:
                return self._begin(batch, X, y)
            features, options = before.signature.features, self._options((*before.rows, *batch.labels.classes))
            self._learned = train_pegasos(
                batch, features, options, before=before, engine=self.engine, n_jobs=self.n_jobs
            )
            return self

    def _begin(self, batch: Batch, X: Any, y: Any, initial: Any = None) -> Self:
        rows, labels = (X, None) if isinstance(X, Scan) else (batch.rows, y)
        self._learned = train_pegasos(
            batch,
            frozen_map_of(self._feature_map(), rows, labels, self.engine),
            self._options(batch.labels.classes),
            seed=seed_of(self.random_state),
            initial=None if initial is None else _initial_model(initial),
            engine=self.engine,
            n_jobs=self.n_jobs,
        )
        return self

    def _batch(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> Batch:
        """The rows to learn from; under MPI those of the root, on all ranks."""
        spread = resolve_engine(self.engine)[1]
        if spread is None or not spread.ranks.spmd:
            return self._own_batch(X, y, sample_weight, reset)
        ranks = spread.ranks
        if isinstance(X, Scan) and ranks.own_files:
            raise ParameterError(
                "With MPI(local=True) each rank has files of its own, but Pegasos needs the same rows on all ranks, "
                "which the root reads. Leave out local=True, or use MergeSVC."
            )
        # Files are read by the root alone.
        given = X is not None or y is not None
        read = given and (ranks.is_root or not isinstance(X, Scan))

        def own() -> tuple[Batch, dict[str, Any]] | None:
            return (self._own_batch(X, y, sample_weight, reset), input_of(self)) if read else None

        batch, kept = share_rows(ranks.on_all(own), spread)
        set_input(self, kept)
        return batch

    def _own_batch(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> Batch:
        """The rows that are given in this process."""
        if isinstance(X, Scan):
            keep_columns_of_scan(self, X, y, sample_weight, reset)
            return load(X)
        rows, labels = rows_to_learn(self, X, y, reset)
        return Batch.of(rows, labels, sample_weight)

    def forget(self, X: Any, y: Any = None) -> NoReturn:  # noqa: ARG002
        """Raise an error: with the hinge loss there are no sums from which rows could be subtracted."""
        raise FormError(f"A PegasosSVC cannot forget rows: {NO_SUMS}")

    def merge(self, other: Any) -> NoReturn:  # noqa: ARG002
        """Raise an error: with the hinge loss there are no sums that could be added."""
        raise FormError(f"A PegasosSVC cannot be merged: {NO_SUMS}")

    def __add__(self, other: object) -> NoReturn:
        self.merge(other)

    def __sub__(self, other: object) -> NoReturn:
        self.forget(other)

    @property
    def model_(self) -> LinearModel | PairwiseModel:
        """The fitted model."""
        return self._fitted._learned.model

    @property
    def n_iter_(self) -> int:
        """Largest number of steps of any binary problem so far."""
        return self._fitted._learned.steps

    def _options(self, seen: tuple[Label, ...] = ()) -> PegasosOptions:
        lambda_ = self.lambda_ if self.alpha is None else self.alpha
        intercept = self.fit_intercept, self.intercept_scaling
        schedule = Schedule(lambda_, self.n_iter, self.batch_size, self.average, self.project, *intercept)
        weights = weights_of_seen(self.class_weight, seen, self._declared)
        return PegasosOptions(schedule, self.multiclass, weights, self.ties, self.precision)


NO_SUMS = (
    "the hinge loss depends on the rows near the margin, so there are no sums that rows could be added to or "
    "subtracted from. Use MergeSVC, which can be merged and can forget rows exactly."
)


def _initial_model(initial: Any) -> Hyperplanes:
    model = initial if isinstance(initial, Hyperplanes) else getattr(initial, "model_", None)
    if not isinstance(model, Hyperplanes):
        raise TypeError(f"initial must be a fitted MergeSVC or a linear model, not {type(initial).__name__}.")
    return model
