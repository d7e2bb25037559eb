"""What all models have in common: classes to tell apart, features to do it by, and files."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label, as_labels, label_array
from mergesvm.data.readers.base import Layout
from mergesvm.data.rows.base import Rows
from mergesvm.data.rows.convert import as_rows
from mergesvm.errors import DataError, FormError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.local import Progress
from mergesvm.knowledge.provenance import Provenance
from mergesvm.knowledge.signature import Signature
from mergesvm.models.calibration import Calibration, check_method
from mergesvm.models.heldout_scores import heldout_scores


@dataclass(frozen=True)
class Domain:
    """What a model is about: the classes, the features, and the rows from which it was solved.

    Attributes
    ----------
    labels : tuple
        The classes, sorted.
    anchor : array of shape (features,)
    signature : Signature
        Of the knowledge that was solved.
    rows : array of int, shape (classes,)
        How many rows each class had.
    provenance : tuple of Origin
        Where they came from.
    terms : dict
        C, class_weight, multiclass, standardize and penalize_intercept; of Pegasos and kernel machines their own.
    """

    labels: tuple[Label, ...]
    anchor: NDArray[np.float64]
    signature: Signature
    rows: NDArray[np.int64]
    provenance: Provenance
    terms: dict[str, Any]

    @classmethod
    def of(cls, knowledge: Knowledge, **terms: Any) -> Domain:
        """The domain of models solved from this knowledge on these terms."""
        return cls(knowledge.labels, knowledge.anchor, knowledge.signature, knowledge.rows, knowledge.provenance, terms)


class Model(ABC):
    """What predicts.

    Attributes
    ----------
    classes_ : array of shape (classes,)
    feature_names_ : tuple of str or None
    solver_ : str
        How it was found.
    calibration_ : Calibration or None
        What makes probabilities of scores, where rows were kept back for it.
    """

    solver_: str
    calibration_: Calibration | None = None

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.labels = domain.labels
        self.signature = domain.signature
        self.classes_ = label_array(domain.labels)
        self.feature_names_ = domain.signature.names

    @property
    def layout(self) -> Layout:
        """The columns of the rows that can be predicted."""
        return self.signature.layout

    @abstractmethod
    def scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of all rows in all binary problems, (rows, problems)."""

    @abstractmethod
    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""

    @abstractmethod
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes)."""

    @abstractmethod
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, the highest of which decides."""

    @abstractmethod
    def winners(self, scores: NDArray[np.float64]) -> NDArray[np.intp]:
        """The place of the class that scores, (rows, problems), speak for."""

    @abstractmethod
    def shares(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probabilities, (rows, classes), that follow from scores, (rows, problems)."""

    def calibrated(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        method: str = "isotonic",
        *,
        progress: Progress | None = None,
    ) -> Self:
        """The same model with probabilities fitted on rows kept back, for scores that are not normal within a class.

        Predictions and decisions stay as they are. The rows must be others than those that were learned: of these,
        scores are better than of any others. Of all rows the decisions are kept in memory, and nothing else.

        Parameters
        ----------
        X : array, sparse array, or table of shape (rows, features); or a scan
            A scan is read in slices, and has labels and weights of its own.
        y : sequence of labels
            Of every class there has to be a row. Not with a scan.
        sample_weight : sequence of numbers, optional
        method : {"isotonic", "platt"}
            Rising steps, for a thousand rows and more; or a sigmoid of two parameters, for few.
        progress : function, optional
            Called with the scan after each of its slices.

        Examples
        --------
        >>> import mergesvm as ms, numpy as np
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), ["no", "no", "yes", "yes"]
        >>> model = ms.solve(ms.learn(X, y)).calibrated(X + 0.4, ["no", "yes", "no", "yes"], method="platt")
        >>> model.predict_proba([[1.5]]).round(1), model.calibration_
        (array([[0.5, 0.5]]), Calibration(method='platt', rows=4))
        """
        check_method(method)
        scores, codes, weights = heldout_scores(self, X, y, sample_weight, progress)
        return self.with_calibration(Calibration.fit(scores, codes, weights, method, len(self.labels)))

    def with_calibration(self, calibration: Calibration | None) -> Self:
        """The same model with this calibration, such as one of the scores of cross-validation; with None, without."""
        if calibration is not None and calibration.n_classes != len(self.labels):
            raise FormError(
                f"A calibration of {calibration.n_classes} classes does not go with a model of {len(self.labels)}."
            )
        calibrated = copy(self)
        calibrated.calibration_ = calibration
        return calibrated

    def score(self, X: Any, y: Any) -> float:
        """The share of rows whose class is predicted rightly."""
        truth, predicted = as_labels(y), self.predict(X)
        if len(truth) != len(predicted):
            raise DataError(f"X and y are of unequal length: {len(predicted)} rows, {len(truth)} labels.")
        return float(np.mean(predicted == truth))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file that holds no code and can be trusted; :func:`load_model` reads it.

        >>> import mergesvm as ms, pathlib, tempfile
        >>> model = ms.solve(ms.learn([[0.0], [1.0]], ["a", "b"]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(pathlib.Path(folder, "model.msvm"))
        ...     ms.load_model(pathlib.Path(folder, "model.msvm")).predict([[0.9]])
        array(['b'], dtype='<U1')
        """
        from mergesvm.models.formats.native import save_model

        save_model(self, path)

    def _checked(self, X: Any) -> Rows:
        """Rows with the columns that the model was learned from."""
        rows = as_rows(X)
        check_columns(rows.width, rows.names, self.signature, "the model was", "model.feature_names_")
        return rows


def check_columns(width: int, names: tuple[str, ...] | None, signature: Signature, learned: str, where: str) -> None:
    """Raise an error if rows have not the columns that something was learned from; ``where`` these are told."""
    if width != signature.inputs:
        raise DataError(f"X has {width} features, but {learned} learned from {signature.inputs} features.")
    if names is not None and signature.names is not None and names != signature.names:
        at = next(i for i, pair in enumerate(zip(names, signature.names, strict=True)) if pair[0] != pair[1])
        raise DataError(
            f"Column {at} of X is named {names[at]!r}, but {learned} learned with {signature.names[at]!r} there. "
            f"Bring the columns into the order of {where}."
        )


def check_scores(scores: NDArray[np.float64], rows: Rows) -> NDArray[np.float64]:
    """The scores, or an error that names what in the rows is not a number, or too large."""
    if not np.isfinite(scores).all():
        rows.check_finite("before predicting")
        raise DataError("Input X has values too large to be scored. Rescale the columns.")
    return scores
