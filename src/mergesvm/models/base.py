"""The base class of all models."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import as_labels, label_array
from mergesvm.data.layout import Layout
from mergesvm.data.rows.base import Rows
from mergesvm.data.rows.convert import as_rows
from mergesvm.errors import DataError, FormError
from mergesvm.knowledge.learning.local import Progress
from mergesvm.knowledge.signature import Signature
from mergesvm.models.calibration import Calibration, check_method
from mergesvm.models.domain import Domain
from mergesvm.models.formats.native import ModelContent, write_model
from mergesvm.models.heldout_scores import heldout_scores, read_labelled


class Model(ABC):
    """A trained classifier.

    Attributes
    ----------
    classes_ : array of shape (classes,)
    feature_names_ : tuple of str or None
    solver_ : str
        The algorithm that found it.
    calibration_ : Calibration or None
        Maps scores to probabilities, if the model was calibrated on held-out rows.
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
        """The columns of rows that the model predicts."""
        return self.signature.layout

    @abstractmethod
    def scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of all binary problems, (rows, problems)."""

    @abstractmethod
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row."""

    @abstractmethod
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes)."""

    @abstractmethod
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Score of each class; the highest is predicted."""

    @abstractmethod
    def winners(self, scores: NDArray[np.float64]) -> NDArray[np.intp]:
        """Index of the predicted class, (rows,), from scores (rows, problems)."""

    @abstractmethod
    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes), from scores (rows, problems)."""

    @abstractmethod
    def _content(self) -> ModelContent:
        """The part of the model's file that depends on the kind of model."""

    def calibrated(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        method: str = "isotonic",
        *,
        progress: Progress | None = None,
    ) -> Self:
        """Copy of the model with probabilities calibrated on held-out rows.

        Use it where scores are not normal within a class. Predictions and decisions stay the same. The rows must not be
        training rows, whose scores are better than those of new rows. Only the scores of all rows are kept in memory.

        Parameters
        ----------
        X : array, sparse array, or table of shape (rows, features); or a scan
            A scan is read in slices and provides labels and weights.
        y : sequence of labels
            At least one row of every class. Leave out with a scan.
        sample_weight : sequence of numbers, optional
        method : {"isotonic", "platt"}
            Isotonic regression, for a thousand rows or more, or a sigmoid with two parameters, for fewer.
        progress : function, optional
            Called with the scan after each slice.

        Examples
        --------
        >>> import mergesvm as ms, numpy as np
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), ["no", "no", "yes", "yes"]
        >>> model = ms.solve(ms.learn(X, y)).calibrated(X + 0.4, ["no", "yes", "no", "yes"], method="platt")
        >>> model.predict_proba([[1.5]]).round(1), model.calibration_
        (array([[0.5, 0.5]]), Calibration(method='platt', rows=4))
        """
        check_method(method)
        scores, codes, weights = read_labelled(X, self, lambda: heldout_scores(self, X, y, sample_weight, progress))
        return self.with_calibration(Calibration.fit(scores, codes, weights, method, len(self.labels)))

    def with_calibration(self, calibration: Calibration | None) -> Self:
        """Copy of the model with this calibration, for example one fitted by cross-validation; None removes it."""
        if calibration is not None and calibration.n_classes != len(self.labels):
            raise FormError(
                f"The calibration is for {calibration.n_classes} classes, but the model has {len(self.labels)}."
            )
        calibrated = copy(self)
        calibrated.calibration_ = calibration
        return calibrated

    def score(self, X: Any, y: Any) -> float:
        """Accuracy: the fraction of rows whose class is predicted correctly."""
        truth, predicted = as_labels(y), self.predict(X)
        if len(truth) != len(predicted):
            raise DataError(f"X and y differ in length: {len(predicted)} rows, {len(truth)} labels.")
        return float(np.mean(predicted == truth))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Write the model to a file, which :func:`load_model` reads. The file contains no code.

        An existing file is an error if ``overwrite`` is False.

        >>> import mergesvm as ms, pathlib, tempfile
        >>> model = ms.solve(ms.learn([[0.0], [1.0]], ["a", "b"]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(pathlib.Path(folder, "model.msvm"))
        ...     ms.load_model(pathlib.Path(folder, "model.msvm")).predict([[0.9]])
        array(['b'], dtype='<U1')
        """
        write_model(path, self.domain, self.calibration_, self._content(), overwrite=overwrite)

    def _check_rows(self, X: Any) -> Rows:
        """X as rows with the columns that the model was trained on."""
        rows = as_rows(X)
        check_columns(rows.width, rows.names, self.signature, "the model was trained on", "model.feature_names_")
        return rows


def check_columns(width: int, names: tuple[str, ...] | None, signature: Signature, learned: str, where: str) -> None:
    """Raise an error if rows do not have the columns of a signature.

    ``learned`` says whose columns are expected ("the model was trained on"), and ``where`` lists the expected columns.
    """
    if width != signature.inputs:
        raise DataError(f"X has {width} features, but {learned} {signature.inputs}.")
    if names is not None and signature.names is not None and names != signature.names:
        at = next(i for i, pair in enumerate(zip(names, signature.names, strict=True)) if pair[0] != pair[1])
        raise DataError(
            f"Column {at} of X is named {names[at]!r}, but {signature.names[at]!r} is expected there. "
            f"Reorder the columns to match {where}."
        )


def check_scores(scores: NDArray[np.float64], rows: Rows) -> NDArray[np.float64]:
    """Return finite scores; otherwise raise an error that names the value in the rows that is not finite."""
    if not np.isfinite(scores).all():
        rows.check_finite("before predicting")
        raise DataError("Input X has values too large to be scored. Rescale the columns.")
    return scores
