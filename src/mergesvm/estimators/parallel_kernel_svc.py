"""ParallelKernelSVC: kernel support vector machines, trained in parallel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Options, StrOptions
from sklearn.utils.validation import check_is_fitted

from mergesvm.data.batch import Batch
from mergesvm.engines.base import Engine
from mergesvm.engines.threads import resolve_engine
from mergesvm.errors import DataError, EngineError, ParameterError
from mergesvm.estimators.base import POSITIVE_INTEGER, POSITIVE_NUMBER, BaseClassifier, Number
from mergesvm.estimators.classes import all_labels
from mergesvm.estimators.inputs import declare_classes, rows_to_learn, rows_to_predict
from mergesvm.methods.kernel.options import STOPPING_RULES, KernelOptions
from mergesvm.methods.kernel.trainer import ProgressPrinter
from mergesvm.methods.kernel.training import KernelTraining, check_rows
from mergesvm.methods.kernel.units import Collection
from mergesvm.models.kernel import KernelModel
from mergesvm.models.kernel_function import KERNELS, Kernel
from mergesvm.models.reduction.path import ReducedPath
from mergesvm.models.solution import KERNEL_SOLVERS


class ParallelKernelSVC(BaseClassifier):
    """Kernel support vector classifier, trained in parallel by units that each hold their own rows.

    It solves problem (2) of Alpcan and Bauckhage: maximise sum(alpha) - alpha' Q alpha / 2 - M beta (y'alpha)^2 / 2
    subject to 0 <= alpha <= C, with M units. With ``beta=None`` it solves the problem of LIBSVM and ``SVC``, where
    y'alpha = 0. In each iteration units propose the rows that violate the optimality conditions most, and a coordinator
    updates their dual variables. Only rows that may become support vectors leave their unit.

    Choose it if the boundary is not linear, there are at most some hundred thousand rows, and accuracy matters most.
    :class:`MergeSVC` with a feature map learns any number of rows in one pass, merges, and forgets at once.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable
        exp(-gamma |x - z|^2), x.z, (gamma x.z + coef0)^degree, tanh(gamma x.z + coef0), or a function of two arrays of
        rows that returns the matrix of their kernel values. With "precomputed", X has the kernel values of each row
        with all training rows.
    gamma : {"scale", "auto"} or float
        "scale" is 1 / (features x variance of X), "auto" 1 / features; computed in the first :meth:`fit` only. As in
        ``SVC``, weights do not change it, but rows of weight 0 do not count.
    C : float
        Upper bound of the dual variables alpha. A larger C fits the data more closely.
    beta : float, optional
        Penalty on y'alpha, per unit; equivalent to an intercept b that costs b^2 / (2 M beta). By default the intercept
        costs nothing.
    units : int, optional
        Number of units (default: one with threads, else one per worker). Under MPI each rank is a unit, with its own
        rows; each partition of a Dask collection is a unit, on its worker.
    engine : Engine, optional
        Runs the units: see :mod:`mergesvm.engines` (default: threads of this process).
    method : {"working-set", "active-set", "gradient"}
        "working-set" is the fastest by far. "active-set" adds support vectors one by one, for few of them and little
        traffic. "gradient" is the projected gradient of the paper, for small problems; it needs ``beta``.
    degree : int
        Degree of the "poly" kernel.
    coef0 : float
        Constant of the kernels "poly" and "sigmoid".
    class_weight : {None, "inverse", "complement", "balanced"} or dict
        Factors of C per class; see :func:`mergesvm.solve`. Schemes count the weights of the rows.
    tol : float
        Training stops when no row violates the optimality (KKT) conditions by more than this.
    stop : {"violation", "gap"}
        With "gap", ``tol`` bounds the duality gap instead, relative to the objective.
    max_iter : int, optional
        Maximum number of iterations, after which training stops with a warning that says how far from the optimum it
        is; -1 for none (default: a number that ordinary problems do not reach).
    max_support_vectors : int, optional
        Train to the end, then fit the best expansion of this number of rows to the result: see :meth:`reduced_path`.
        With method "active-set", stop when a pair of classes has this number of support vectors, as in the paper.
    accelerated : bool
        Whether method "gradient" uses Nesterov momentum, restarted when the objective decreases.
    working_set : int
        Number of rows in the working set.
    cache_size : float
        Megabytes for cached columns of the kernel matrix, over all units.
    precision : {"float32", "float64"}, optional
        Of kernel values (default: float32 in training where it is precise enough, float64 in predictions).
    ties : {"recount", "sequential", "margin", "confidence", "first"}
        How ties between classes with the same number of votes are broken; "first" is the rule of LIBSVM.
    break_ties : bool
        As in ``SVC``: True is the same as ``ties="confidence"``, and needs ``decision_function_shape="ovr"``.
    decision_function_shape : {"ovr", "ovo"}
        Whether :meth:`decision_function` returns one column per class or, for three or more classes, one per pair of
        classes, positive for the first of them, as in ``SVC``.
    verbose : bool
        Whether to report progress on standard error.
    n_jobs : int, optional
        Number of threads (default: one per core).

    Attributes
    ----------
    model_ : KernelModel
        The fitted model, which can be saved.
    classes_, support_vectors_, n_support_, dual_coef_, intercept_, coef_ : arrays
        As in ``SVC``, with the same signs; ``coef_`` exists for kernel="linear" only.
    class_weight_ : array of shape (classes,)
        Factors of C per class. Those of a scheme such as "balanced" depend on the pair of classes: for three or more
        classes the shape is (pairs, 2).
    fit_status_ : int
        0 if training has converged, else 1.
    shape_fit_ : tuple of int
        Number of rows and of features.
    support_ : array of int
        Indices of the support vectors, counted over all rows in the order in which they were given; under MPI, rank by
        rank.
    n_iter_ : int
        Iterations of all training runs since :meth:`fit`.
    dual_gap_, objective_ : float
        The duality gap and the dual objective, summed over all pairs.
    violation_ : float
        The largest remaining violation of the optimality conditions.
    traffic_ : Exchange
        Bytes that each unit sent and received in each communication round of the last training run.
    n_features_in_ : int
    feature_names_in_ : array of str

    Notes
    -----
    A unit holds a copy of its rows in the precision of the kernel. A pickled estimator contains the support vectors but
    no other rows: it predicts, but :meth:`partial_fit` and :meth:`forget` raise an error.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mergesvm import ParallelKernelSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> classifier = ParallelKernelSVC(C=10.0, units=4).fit(X[:1000], y[:1000])
    >>> classifier.score(X[1000:], y[1000:]) > 0.96
    True
    >>> classifier = classifier.partial_fit(X[1000:1500], y[1000:1500]).forget(X[:500], y[:500])
    >>> classifier.score(X[1500:], y[1500:]) > 0.94
    True
    """

    _result_attribute = "_model"
    _training: KernelTraining | None
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseClassifier._parameter_constraints,
        "kernel": [StrOptions({*KERNELS, "precomputed"}), callable],
        "gamma": [StrOptions({"scale", "auto"}), POSITIVE_NUMBER],
        "C": [POSITIVE_NUMBER],
        "beta": [POSITIVE_NUMBER, None],
        "units": [POSITIVE_INTEGER, None],
        "method": [StrOptions(set(KERNEL_SOLVERS))],
        "degree": [Number(Integral, 1, 100, closed="both")],
        "coef0": [Number(Real, None, None, closed="neither")],
        "tol": [POSITIVE_NUMBER],
        "stop": [StrOptions(set(STOPPING_RULES))],
        "max_iter": [POSITIVE_INTEGER, Options(Integral, {-1}), None],
        "max_support_vectors": [Number(Integral, 2, None, closed="left"), None],
        "accelerated": ["boolean"],
        "working_set": [Number(Integral, 4, None, closed="left")],
        "cache_size": [POSITIVE_NUMBER],
        "break_ties": ["boolean"],
        "decision_function_shape": [StrOptions({"ovr", "ovo"})],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: str | float = "scale",
        C: float = 1.0,
        beta: float | None = None,
        units: int | None = None,
        engine: Engine | None = None,
        method: str = "working-set",
        *,
        degree: int = 3,
        coef0: float = 0.0,
        class_weight: Mapping[Any, float] | str | None = None,
        tol: float = 1e-3,
        stop: str = "violation",
        max_iter: int | None = None,
        max_support_vectors: int | None = None,
        accelerated: bool = False,
        working_set: int = 512,
        cache_size: float = 2000.0,
        precision: str | None = None,
        ties: str = "recount",
        break_ties: bool = False,
        decision_function_shape: str = "ovr",
        verbose: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.C, self.beta, self.class_weight = C, beta, class_weight
        self.units, self.engine, self.n_jobs = units, engine, n_jobs
        self.method, self.accelerated = method, accelerated
        self.tol, self.stop, self.max_iter = tol, stop, max_iter
        self.max_support_vectors = max_support_vectors
        self.working_set, self.cache_size = working_set, cache_size
        self.precision = precision
        self.ties, self.break_ties, self.decision_function_shape = ties, break_ties, decision_function_shape
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to these rows; under MPI, to those of all ranks."""
        with self._fitting():
            options = self._options()
            return self._begin(self._rows(X, y, sample_weight), options)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows, and train to the optimum of all rows, starting from the current dual variables.

        ``classes``, if given, declares all classes, as in ``SGDClassifier``: those without rows yet have a column in
        ``decision_function`` and ``predict_proba``, and are never predicted. Without it, new classes are added when
        they occur.
        """
        with self._fitting():
            if not hasattr(self, "_model"):
                options = self._options()
                return self._begin(self._rows(X, y, sample_weight, classes), options)
            batch = self._batch(X, y, sample_weight, False, classes)
            training = self._extensible()
            training.add(batch)
            return self._train(training)

    def forget(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Remove rows, and train to the optimum of the remaining ones."""
        check_is_fitted(self)
        with self._fitting():
            batch = self._batch(X, y, sample_weight, False)
            training = self._extensible()
            training.remove(batch)
            return self._train(training)

    def reduced_path(self, max_support_vectors: int | None = None) -> ReducedPath[KernelModel]:
        """Models of 1 to ``max_support_vectors`` rows, from one selection, with their accuracy at the training rows.

        Units select, fit and evaluate at their own rows: see :meth:`KernelModel.reduced`. By default the largest model
        has a fifth of the support vectors, at most 1,000.
        """
        check_is_fitted(self)
        return self._continued().reduced_path(max_support_vectors)

    def _continued(self) -> KernelTraining:
        """The training of the last fit."""
        training: KernelTraining | None = self.__dict__.get("_training")
        if training is None or training.closed:
            raise EngineError(
                "The units of this estimator, with their rows, no longer exist: it was pickled or copied, or its "
                "training was interrupted. Call fit again."
            )
        return training

    def _extensible(self) -> KernelTraining:
        """The training of the last fit, with the current options, to add or remove rows."""
        training = self._continued()
        if training.precomputed:
            raise ParameterError(
                "With kernel='precomputed', rows cannot be added or removed: the kernel values of the other rows with "
                "them are missing. Call fit with the matrix of all rows."
            )
        training.set_options(self._options())
        return training

    def _begin(self, rows: Batch | Collection, options: KernelOptions) -> Self:
        threads, spread = resolve_engine(self.engine, self.n_jobs)
        engine, precision = spread or threads, self.precision or "float64"
        return self._train(
            KernelTraining(
                rows,
                options,
                self.units,
                engine,
                threads,
                ties="confidence" if self.break_ties else self.ties,
                precision=precision,
            )
        )

    def _train(self, training: KernelTraining) -> Self:
        training.train(ProgressPrinter() if self.verbose else None)
        before = self.__dict__.get("_training")
        if before not in (None, training):
            before.close()  # release the rows of the previous fit
        self._training = training
        self._model, self.support_, self.n_iter_ = training.model, training.support, training.n_iter
        result = training.result
        self.objective_, self.dual_gap_ = float(result.objectives.sum()), float(result.gaps.sum())
        self.violation_, self.traffic_ = result.violation, result.exchange
        self.fit_status_, self.shape_fit_ = int(not result.converged), (training.n_rows, self.n_features_in_)
        self.class_weight_ = training.class_weights
        return self

    def _rows(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Batch | Collection:
        """Rows for :meth:`fit`, in memory or as a collection on the engine's workers."""
        spread = resolve_engine(self.engine)[1]
        if spread is None or spread.partitioned(X) is None:
            return self._batch(X, y, sample_weight, True, classes)
        if y is None:
            raise DataError("Labels are missing: this requires y to be passed, but the target y is None.")
        rows_to_learn(self, X, y, True, spread, own=True)
        declare_classes(self, (), classes)
        names = getattr(self, "feature_names_in_", None)
        content = (X, y) if sample_weight is None else (X, y, sample_weight)
        return Collection(content, self.n_features_in_, None if names is None else tuple(names))

    def _batch(self, X: Any, y: Any, sample_weight: Any, reset: bool, classes: Any = None) -> Batch:
        """Rows in memory; under MPI an error on one rank is raised on all."""
        spread = resolve_engine(self.engine)[1]
        if spread is not None and spread.partitioned(X) is not None:
            raise ParameterError(
                "X is a collection, which only fit accepts. Pass rows in memory, X.compute() and y.compute(), or call "
                "fit with all rows."
            )
        rows, labels = rows_to_learn(self, X, y, reset, self.engine, own=True)
        may_be_empty = spread is not None and spread.ranks.spmd

        def batch() -> Batch:
            made = Batch.of(rows, labels, sample_weight, empty=may_be_empty)
            declare_classes(self, made.labels.classes, classes)
            return made if may_be_empty else check_rows(made)

        return batch() if spread is None else spread.ranks.on_all(batch)

    def _options(self) -> KernelOptions:
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ParameterError(
                "break_ties must be False if decision_function_shape is 'ovo': it needs one score per class."
            )
        if callable(self.kernel):
            kernel = Kernel("callable", function=self.kernel)
        else:
            gamma: Any = 1.0 if self.kernel == "precomputed" else self.gamma
            kernel = Kernel(self.kernel, gamma, self.degree, self.coef0)
        return KernelOptions(
            kernel,
            float(self.C),
            self.class_weight,
            None if self.beta is None else float(self.beta),
            self.method,
            float(self.tol),
            self.stop,
            self.max_iter,
            self.max_support_vectors,
            bool(self.accelerated),
            int(self.working_set),
            int(self.cache_size * 1e6),
            self.precision,
        )

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, (rows, classes), or (rows, pairs) if the shape is "ovo"; for two classes (rows,), as in ``SVC``.

        A class that was declared in ``partial_fit``, and has no rows yet, has the lowest score.
        """
        if self.decision_function_shape == "ovr" or len(self._fitted.classes_) <= 2:
            return super().decision_function(X)
        rows = rows_to_predict(self, X)
        model, classes = self._model, all_labels(self._model.labels, self._declared)
        scores, pairs = model.scores(rows), {pair: p for p, pair in enumerate(model.pairs_)}
        columns = [
            scores[:, pairs[pair]] if pair in pairs else np.zeros(len(scores)) for pair in combinations(classes, 2)
        ]
        return -np.column_stack(columns)

    @property
    def model_(self) -> KernelModel:
        """The fitted model."""
        return self._fitted._model

    @property
    def support_vectors_(self) -> Any:
        """Support vectors, sorted by class."""
        return self.model_.support_vectors_

    @property
    def n_support_(self) -> NDArray[np.int64]:
        """Number of support vectors of each class."""
        return self.model_.n_support_

    @property
    def dual_coef_(self) -> NDArray[np.float64]:
        """Y alpha of each support vector, against each of the other classes, (classes - 1, vectors)."""
        return self.model_.dual_coef_

    @property
    def coef_(self) -> Any:
        """Coefficients of a linear kernel, (pairs, features), as in ``SVC``."""
        return self.model_.coef_

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Intercepts, one per pair of classes."""
        return self.model_.intercept_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_training"}
