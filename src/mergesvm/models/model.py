"""What all models have in common: classes to tell apart, features to do it by, and files."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data import Layout, Rows, as_rows, label_array
from mergesvm.data.labels import Label, as_labels
from mergesvm.errors import DataError
from mergesvm.knowledge import Knowledge
from mergesvm.knowledge.provenance import Provenance
from mergesvm.knowledge.signature import Signature


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
    """

    solver_: str

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
        from mergesvm.models.file import save_model

        save_model(self, path)

    def _checked(self, X: Any) -> Rows:
        """Rows with the columns that the model was learned from."""
        rows, inputs = as_rows(X), self.signature.inputs
        if rows.width != inputs:
            raise DataError(f"X has {rows.width} features, but the model was learned from {inputs} features.")
        if rows.names is not None and self.feature_names_ is not None and rows.names != self.feature_names_:
            at = next(
                i for i, pair in enumerate(zip(rows.names, self.feature_names_, strict=True)) if pair[0] != pair[1]
            )
            raise DataError(
                f"Column {at} of X is named {rows.names[at]!r}, but the model was learned with "
                f"{self.feature_names_[at]!r} there. Bring the columns into the order of model.feature_names_."
            )
        return rows


def check_scores(scores: NDArray[np.float64], rows: Rows) -> NDArray[np.float64]:
    """The scores, or an error that names what in the rows is not a number, or too large."""
    if not np.isfinite(scores).all():
        rows.check_finite("before predicting")
        raise DataError("Input X has values too large to be scored. Rescale the columns.")
    return scores
