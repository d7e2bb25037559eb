"""ParallelKernelSVC: kernel support vector machines trained by units, with scikit-learn's manners."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mergesvm.data.batch import Batch
from mergesvm.engines.base import Engine
from mergesvm.engines.registry import placed
from mergesvm.errors import DataError, EngineError, ParameterError
from mergesvm.estimators.inputs import restore_input_on_failure, rows_to_learn, rows_to_predict
from mergesvm.methods.kernel.exchange import Exchange
from mergesvm.methods.kernel.options import KernelOptions
from mergesvm.methods.kernel.training import Collection, KernelTraining, check_rows
from mergesvm.models.kernel import KERNEL_SOLVERS, KernelModel
from mergesvm.models.kernel_function import KERNELS, Kernel
from mergesvm.multiclass.class_weights import check_class_weight
from mergesvm.multiclass.votes import check_ties

EVERY = 2.0
"""Seconds between two lines about how far training is."""


class ParallelKernelSVC(ClassifierMixin, BaseEstimator):
    """A kernel support vector machine, trained by units each of which holds rows of its own.

    It solves problem (2) of Alpcan and Bauckhage: maximise sum(alpha) - alpha' Q alpha / 2 - M beta (y'alpha)^2 / 2
    within 0 <= alpha <= C, over M units; or, with ``beta=None``, that of LIBSVM and ``SVC``, where y'alpha = 0. In each
    round units say how far they are and which of their rows should move. Only rows that come into use, as support
    vectors, leave their unit.

    Choose it where the boundary is not linear, rows are no more than some hundred thousand, and accuracy counts.
    :class:`MergeSVC` with a feature map takes one pass over any number of rows, merges, and forgets in no time.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly"} or callable
        exp(-gamma |x - z|^2), x.z, (gamma x.z + coef0)^degree, or a function of two arrays of rows that gives all
        values between them.
    gamma : {"scale", "auto"} or float
        "scale" is 1 / (features x variance of all values), "auto" 1 / features; it is settled when first fitted.
    C : float
        The bound on alpha. Larger follows the data more closely.
    beta : float, optional
        Penalty on y'alpha, times the number of units; that of an intercept that costs b^2 / (2 M beta). None for an
        intercept that costs nothing.
    units : int, optional
        How many units rows are dealt out to: one on threads by default, else one a worker. Under MPI each rank is one,
        with the rows that it has; of a collection of Dask each partition is one, where it lies.
    engine : Engine, optional
        Where units are: see :mod:`mergesvm.engines`. In this process by default.
    method : {"working-set", "active-set", "gradient"}
        "working-set" is by far the fastest. "active-set" brings rows into use one by one, for few support vectors and
        little traffic. "gradient" is the plain projected gradient of the paper, for small problems; it needs a beta.
    degree : int
        Of the kernel "poly".
    coef0 : float
        Of the kernel "poly".
    class_weight : {None, "inverse", "complement", "balanced"} or dict
        What C is multiplied with, by class; see :func:`mergesvm.solve`.
    tol : float
        Training stops where no row violates the conditions of the optimum by more than this.
    stop : {"violation", "gap"}
        Whether instead tol is for the duality gap, as a share of the objective.
    max_iter : int, optional
        Rounds after which training is broken off, with a warning.
    max_support_vectors : int, optional
        How many rows may be in use for each pair of classes; for the method "active-set".
    accelerated : bool
        Whether the method "gradient" takes momentum, which begins anew where the objective falls.
    working_set : int
        How many rows move at a time.
    cache_size : float
        Megabytes for columns of the kernel matrix, at all units together.
    precision : {"float32", "float64"}, optional
        Of kernel values. By default float32 in training, where it is precise enough, and float64 in predictions.
    ties : {"recount", "sequential", "margin"}
        What decides between classes with as many votes.
    verbose : bool
        Whether to say on standard error how far training is.
    n_jobs : int, optional
        Number of threads; one a core by default.

    Attributes
    ----------
    model_ : KernelModel
        What predicts; it can be saved.
    classes_, support_vectors_, n_support_, dual_coef_, intercept_ : arrays
        As those of ``SVC``; scores of a pair are positive for the second of its classes.
    support_ : array of int
        Numbers of the support vectors, counted over all rows in the order in which they were given; under MPI those of
        the first rank first.
    n_iter_ : int
        Rounds, of all trainings since :meth:`fit`.
    dual_gap_, objective_ : float
        By how much the primal objective exceeds the dual one, and the latter, of all pairs together.
    violation_ : float
        The largest violation left.
    traffic_ : Exchange
        Bytes sent and received by each unit in each round of the last training.
    n_features_in_ : int
    feature_names_in_ : array of str

    Notes
    -----
    A unit holds a copy of its rows in the precision of the kernel. A pickled machine has its support vectors, but none
    of the other rows: it predicts, but neither :meth:`partial_fit` nor :meth:`forget` can go on from it.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mergesvm import ParallelKernelSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> machine = ParallelKernelSVC(C=10.0, units=4).fit(X[:1000], y[:1000])
    >>> machine.score(X[1000:], y[1000:]) > 0.96
    True
    >>> machine = machine.partial_fit(X[1000:1500], y[1000:1500]).forget(X[:500], y[:500])
    >>> machine.score(X[1500:], y[1500:]) > 0.94
    True
    """

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
        verbose: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.C = C
        self.beta = beta
        self.units = units
        self.engine = engine
        self.method = method
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.tol = tol
        self.stop = stop
        self.max_iter = max_iter
        self.max_support_vectors = max_support_vectors
        self.accelerated = accelerated
        self.working_set = working_set
        self.cache_size = cache_size
        self.precision = precision
        self.ties = ties
        self.verbose = verbose
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from these rows alone; under MPI from those of all ranks."""
        with restore_input_on_failure(self):
            terms = self._terms()
            rows = self._rows(X, y, sample_weight, reset=True)
            threads, spread = placed(self.engine, self.n_jobs)
            training = KernelTraining.start(
                rows,
                terms,
                self.units,
                spread or threads,
                threads,
                ties=self.ties,
                precision=self.precision or "float64",
            )
            training.train(self._progress())
            self._keep(training)
            return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Give more rows to the units; training goes on from the multipliers there are, to the optimum of all rows.

        Classes are discovered as they come; ``classes``, if given, is what they must be among.
        """
        if not hasattr(self, "_model") and classes is None:
            return self.fit(X, y, sample_weight)
        with restore_input_on_failure(self):
            batch = self._batch(X, y, sample_weight, not hasattr(self, "_model"), classes)
            if not hasattr(self, "_model"):
                return self.fit(X, y, sample_weight)
            return self._go_on(lambda training: training.add(batch))

    def forget(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take rows away, wherever they are; training goes on to the optimum of those that are left."""
        check_is_fitted(self)
        with restore_input_on_failure(self):
            batch = self._batch(X, y, sample_weight, False)
            return self._go_on(lambda training: training.remove(batch))

    def _go_on(self, change: Callable[[KernelTraining], None]) -> Self:
        training: KernelTraining | None = self.__dict__.get("_training")
        if training is None or training.closed:
            raise EngineError(
                "The units of this machine are gone, and their rows with them: it was pickled or copied, or its "
                "training was broken off. Fit it anew."
            )
        training.go_by(self._terms())
        change(training)
        training.train(self._progress())
        self._keep(training)
        return self

    _training: KernelTraining | None

    def _keep(self, training: KernelTraining) -> None:
        before = self.__dict__.get("_training")
        if before not in (None, training):
            before.close()  # or the rows of the last fit would be held twice
        self._training = training
        self._model, self._trained = training.model, training.trained
        self.support_, self.n_iter_ = training.support, training.rounds

    def _rows(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> Batch | Collection:
        """Rows to begin with, which may be a collection."""
        spread = placed(self.engine)[1]
        if spread is None or not spread.holds(X):
            return self._batch(X, y, sample_weight, reset)
        if y is None:
            raise DataError("Labels are missing: this requires y to be passed, but the target y is None.")
        rows_to_learn(self, X, y, reset, spread, own=True)
        names = getattr(self, "feature_names_in_", None)
        content = (X, y) if sample_weight is None else (X, y, sample_weight)
        return Collection(content, self.n_features_in_, None if names is None else tuple(names))

    def _batch(self, X: Any, y: Any, sample_weight: Any, reset: bool, classes: Any = None) -> Batch:
        """Rows in memory; where many ranks run the same program, what is wrong at one of them is said by all."""
        spread = placed(self.engine)[1]
        if spread is not None and spread.holds(X):
            raise ParameterError(
                "A collection can be fitted, but rows that come or go later have to be in memory: X.compute(), "
                "y.compute(). Or fit all rows anew."
            )
        rows, labels = rows_to_learn(self, X, y, reset, self.engine, own=True)
        empty = spread is not None and spread.collective

        def batch() -> Batch:
            made = Batch.of(rows, labels, sample_weight, empty=empty)
            allowed = list(made.labels.classes if classes is None else classes)
            strangers = [label for label in made.labels.classes if label not in allowed]
            if strangers:
                raise ParameterError(f"Class {strangers[0]!r} in y is not among the classes given: {allowed!r}.")
            return made if empty else check_rows(made)

        return batch() if spread is None else spread.together(batch)

    @property
    def model_(self) -> KernelModel:
        """What predicts."""
        check_is_fitted(self)
        return self._model

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        return self.model_.predict(rows_to_predict(self, X))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, (rows, classes): votes, and in their fraction margins; for two classes (rows,)."""
        return self.model_.decision_function(rows_to_predict(self, X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes), from the normal distribution of the scores in each class."""
        return self.model_.predict_proba(rows_to_predict(self, X))

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes known, sorted."""
        return self.model_.classes_

    @property
    def support_vectors_(self) -> Any:
        """The rows in use, those of the first class first."""
        return self.model_.support_vectors_

    @property
    def n_support_(self) -> NDArray[np.int64]:
        """How many support vectors each class has."""
        return self.model_.n_support_

    @property
    def dual_coef_(self) -> NDArray[np.float64]:
        """Y alpha of each support vector, against each of the other classes in turn."""
        return self.model_.dual_coef_

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Intercepts, one a pair of classes."""
        return self.model_.intercept_

    @property
    def objective_(self) -> float:
        """The dual objective F, of all pairs together."""
        check_is_fitted(self)
        return float(self._trained.objectives.sum())

    @property
    def dual_gap_(self) -> float:
        """By how much the primal objective exceeds the dual one, of all pairs together."""
        check_is_fitted(self)
        return float(self._trained.gaps.sum())

    @property
    def violation_(self) -> float:
        """By how much the conditions of the optimum are violated, at most."""
        check_is_fitted(self)
        return self._trained.violation

    @property
    def traffic_(self) -> Exchange:
        """Bytes sent and received by each unit in each round of the last training."""
        check_is_fitted(self)
        return self._trained.exchange

    def _terms(self) -> KernelOptions:
        if callable(self.kernel):
            kernel = Kernel("callable", function=self.kernel)
        else:
            _choice("kernel", self.kernel, KERNELS, " or a function")
            gamma: Any = self.gamma
            if isinstance(gamma, str):
                _choice("gamma", gamma, ("scale", "auto"), " or a positive number")
            kernel = Kernel(self.kernel, gamma, self.degree, self.coef0)
            if not isinstance(gamma, str):
                kernel.check()
        _positive("C", self.C)
        _positive("tol", self.tol)
        _positive("cache_size", self.cache_size)
        if self.beta is not None:
            _positive("beta", self.beta)
        for name, value, least in (
            ("units", self.units, 1),
            ("max_iter", self.max_iter, 1),
            ("max_support_vectors", self.max_support_vectors, 2),
            ("working_set", self.working_set, 4),
        ):
            whole = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least
            if not (whole or (value is None and name != "working_set")):
                raise ParameterError(f"{name} has to be a whole number of at least {least}, not {value!r}.")
        _choice("method", self.method, KERNEL_SOLVERS)
        _choice("stop", self.stop, ("violation", "gap"))
        check_ties(self.ties)
        if self.precision is not None:
            _choice("precision", self.precision, ("float32", "float64"))
        check_class_weight(self.class_weight)
        if self.method == "gradient" and self.beta is None:
            raise ParameterError(
                "The method 'gradient' climbs problem (2), which has a penalty in place of y'alpha = 0: give it a "
                "beta, such as 1.0, or take the method 'working-set'."
            )
        if self.max_support_vectors is not None and self.method != "active-set":
            raise ParameterError(
                f"max_support_vectors is for the method 'active-set', and not for {self.method!r}, which solves the "
                f"problem to its end."
            )
        return KernelOptions(
            kernel,
            float(self.C),
            self.class_weight,
            None if self.beta is None else float(self.beta),
            self.method,
            float(self.tol),
            self.stop == "gap",
            self.max_iter,
            self.max_support_vectors,
            bool(self.accelerated),
            int(self.working_set),
            int(self.cache_size * 1e6),
            self.precision,
        )

    def _progress(self) -> Any:
        if not self.verbose:
            return None
        last = [time.monotonic()]

        def tell(rounds: int, live: int, violation: float, used: int) -> None:
            if time.monotonic() - last[0] >= EVERY or not live:
                last[0] = time.monotonic()
                problems = f"{live} problem{'' if live == 1 else 's'} to go"
                sys.stderr.write(f"round {rounds}: {problems}, violation {violation:.1e}, {used:,} rows in use\n")

        return tell

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_training"}


def _choice(name: str, value: Any, choices: tuple[str, ...], more: str = "") -> None:
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(f"{name} has to be one of {', '.join(map(repr, choices))}{more}, not {value!r}.")


def _positive(name: str, value: Any) -> None:
    if not (isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < np.inf):
        raise ParameterError(f"{name} has to be a positive number, not {value!r}.")
