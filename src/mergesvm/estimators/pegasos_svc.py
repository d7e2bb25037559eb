"""PegasosSVC: support vector machines of the hinge loss by Pegasos, with scikit-learn's manners."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from mergesvm.data.batch import Batch
from mergesvm.engines.base import Engine
from mergesvm.engines.registry import placed
from mergesvm.errors import FormError
from mergesvm.estimators.base import LinearClassifier
from mergesvm.estimators.constraints import Number
from mergesvm.estimators.inputs import check_classes, frozen_map_of, rows_to_learn
from mergesvm.features.base import FeatureMap
from mergesvm.methods.pegasos.options import PegasosOptions
from mergesvm.methods.pegasos.training import Pegasos, check_same_rows, train_pegasos
from mergesvm.models.hyperplanes import Hyperplanes
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.models.schedule import LEAST, MOST, MOST_DRAWN, MOST_STEPS, Schedule


class PegasosSVC(LinearClassifier):
    """Linear support vector machines of the hinge loss, by Pegasos: one for each pair of classes, decided by vote.

    Each problem minimises lambda/2 w.w + mean of omega max(0, 1 - y w.x) by ``n_iter`` steps, each along the
    subgradient at a row drawn at random; a step costs one product of a row. Features should be of like size: put a
    ``StandardScaler`` or ``MinMaxScaler`` before it, in a pipeline (and a ``PCA(0.95)`` for fewer features).

    :class:`MergeSVC` is exact, needs one pass, adds, forgets, and is solved again without data. Take Pegasos where the
    hinge loss is wanted, which cares about rows near the margin only, and on several classes is often more accurate.

    Parameters
    ----------
    lambda_ : float
        Weight of the coefficients against the mean loss of a row; in terms of the C of other machines 1 / (C rows).
    n_iter : int
        Steps in each problem, for :meth:`fit` and for each :meth:`partial_fit`: several times 1 / ``lambda_``, where
        the optimum is wanted.
    multiclass : {"ovo", "ovr"}
        One-vs-one by vote, or one-vs-rest.
    alpha : float, optional
        Another name for ``lambda_``, as ``SGDClassifier`` has it; where given, it counts.
    batch_size : int
        Rows that a step draws. It follows the mean of their subgradients.
    average : float
        Over which share of the steps, the last ones, coefficients are averaged; 0 for those of the last step.
    project : bool
        Whether every step ends in the ball w.w <= mean of omega / lambda, in which the solution lies.
    fit_intercept : bool
        True for an intercept, as that of a feature that is the same in all rows; False for none, as in the paper.
    intercept_scaling : float, optional
        The value of that feature. The larger, the less the intercept is penalised, and the faster it is learned: by
        default the root mean square length of the rows, so that it keeps pace with the coefficients in any units.
    class_weight : {None, "inverse", "complement", "balanced"} or dict
        Weights against imbalance; see :func:`mergesvm.solve`. They multiply the loss, by the counts of the rows that
        are fitted. ``"inverse"`` is small, and wants a ``lambda_`` as many times smaller.
    ties : {"recount", "sequential", "margin"}
        What decides between classes with as many votes.
    features : {"hidden", "fourier", "nystroem", "patches", "pca"}, FeatureMap or None
        What rows are mapped by first, for a model that is not linear; see :class:`MergeSVC`. Mapped rows lie in memory.
    n_features : int, optional
        Size of a map that is given by name.
    random_state : int, RandomState or None
        Seed of the draws, and of a map that is given by name. With the same seed, results are the same on any number of
        threads. None for another seed every time.
    precision : {"float64", "float32"}, optional
        Of the coefficients while they are learned: by default float32 where rows are float32 or small whole numbers,
        which serves for tens of millions of steps.
    engine : Engine, optional
        Where problems are walked, each by one worker: see :mod:`mergesvm.engines`. All workers get the rows; under MPI
        all ranks have to give the same. Threads by default.
    n_jobs : int, optional
        Number of threads; one a core by default.

    Attributes
    ----------
    model_ : LinearModel or PairwiseModel
        What predicts; it can be saved, and written for ONNX.
    classes_, coef_, intercept_ : arrays
    n_iter_ : int
        Steps made so far, in the problem that made most.
    features_ : FeatureMap
        The frozen map.
    n_features_in_ : int
    feature_names_in_ : array of str

    Notes
    -----
    Rows are drawn at random, and so have to lie in memory: C-ordered arrays of float64, float32 and 8- or 16-bit whole
    numbers and CSR arrays are used where they are, everything else is converted once. 8-bit pixels are the fastest.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearClassifier._parameter_constraints,
        "lambda_": [Number(Real, LEAST, MOST, closed="both")],
        "n_iter": [Number(Integral, 1, MOST_STEPS, closed="both")],
        "alpha": [Number(Real, LEAST, MOST, closed="both"), None],
        "batch_size": [Number(Integral, 1, MOST_DRAWN, closed="both")],
        "average": [Interval(Real, 0, 1, closed="both")],
        "project": ["boolean"],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Number(Real, LEAST, MOST, closed="both"), None],
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
        self.lambda_ = lambda_
        self.n_iter = n_iter
        self.multiclass = multiclass
        self.alpha = alpha
        self.batch_size = batch_size
        self.average = average
        self.project = project
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.ties = ties
        self.features = features
        self.n_features = n_features
        self.random_state = random_state
        self.precision = precision
        self.engine = engine
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, initial: Any = None) -> Self:
        """Learn from these rows alone.

        Parameters
        ----------
        X, y : rows and their labels
        initial : MergeSVC, LinearModel or PairwiseModel, optional
            Fitted on the same classes, features and scheme: steps begin at its planes. One to ten thousand then do what
            takes two or three times as many from zero. The first few hundred make good planes worse, and after many
            it no longer matters where they began.
        """
        with self._fitting():
            options = self._options()
            batch = self._batch(X, y, reset=True)
            mapping = self._feature_map()
            features = frozen_map_of(mapping, batch.rows, y, self.engine)
            self._learned = train_pegasos(
                batch,
                features,
                options,
                seed=self._seed(),
                initial=None if initial is None else _planes(initial),
                engine=self.engine,
                n_jobs=self.n_jobs,
            )
            return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Go on with more rows: ``n_iter`` steps more in every problem that these rows lie on both sides of.

        Classes are discovered as they come; ``classes``, if given, is what they must be among. Problems of new classes
        begin at zero. Steps are drawn from these rows only, and an average is over the last of these steps.
        """
        before: Pegasos | None = getattr(self, "_learned", None)
        if before is None and classes is None:
            return self.fit(X, y)
        with self._fitting():
            options = self._options()
            batch = self._batch(X, y, reset=before is None)
            check_classes(batch.labels.classes, classes)
            if before is None:
                return self.fit(X, y)
            features = before.signature.features
            self._learned = train_pegasos(
                batch, features, options, before=before, engine=self.engine, n_jobs=self.n_jobs
            )
            return self

    def _batch(self, X: Any, y: Any, reset: bool) -> Batch:
        spread = placed(self.engine)[1]
        rows, labels = rows_to_learn(self, X, y, reset, self.engine)
        if spread is None:
            return Batch.of(rows, labels)
        batch = spread.together(lambda: Batch.of(rows, labels))
        if spread.collective:
            check_same_rows(batch, spread)
        return batch

    def forget(self, X: Any, y: Any = None) -> NoReturn:  # noqa: ARG002
        """Raises an error: of the hinge loss no sums are kept from which rows could be taken back."""
        raise FormError(f"A PegasosSVC cannot forget rows: {WHY}")

    def merge(self, other: Any) -> NoReturn:  # noqa: ARG002
        """Raises an error: of the hinge loss no sums are kept that could be added."""
        raise FormError(f"A PegasosSVC cannot be merged with another: {WHY}")

    def __add__(self, other: object) -> NoReturn:
        self.merge(other)

    def __sub__(self, other: object) -> NoReturn:
        self.forget(other)

    @property
    def model_(self) -> LinearModel | PairwiseModel:
        """What predicts."""
        check_is_fitted(self)
        return self._learned.model

    @property
    def n_iter_(self) -> int:
        """Steps made so far, in the problem that made most."""
        check_is_fitted(self)
        return self._learned.steps

    def _options(self) -> PegasosOptions:
        schedule = Schedule(
            self.lambda_ if self.alpha is None else self.alpha,
            self.n_iter,
            self.batch_size,
            self.average,
            self.project,
            self.fit_intercept,
            self.intercept_scaling,
        )
        return PegasosOptions(schedule, self.multiclass, self.class_weight, self.ties, self.precision)

    def _seed(self) -> int:
        seed = self.random_state
        return int(seed) if isinstance(seed, (int, np.integer)) else int(check_random_state(seed).randint(2**31 - 1))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")


WHY = (
    "the hinge loss cares about rows near the margin only, so that no sums are kept from which rows could be taken "
    "back, or to which others could be added. MergeSVC keeps them: it merges, and forgets exactly."
)


def _planes(initial: Any) -> Hyperplanes:
    model = initial if isinstance(initial, Hyperplanes) else getattr(initial, "model_", None)
    if not isinstance(model, Hyperplanes):
        raise TypeError(f"initial has to be a fitted MergeSVC, or a model, not {type(initial).__name__}.")
    return model
