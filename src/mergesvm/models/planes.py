"""Planes that score rows: what all linear models have in common."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data import Layout, as_rows, label_array, spans
from mergesvm.data.labels import Label, as_labels
from mergesvm.engines import Threads
from mergesvm.errors import DataError
from mergesvm.features import MappedRows
from mergesvm.knowledge import Knowledge
from mergesvm.knowledge.knowledge import counted
from mergesvm.knowledge.provenance import Provenance
from mergesvm.knowledge.signature import Signature
from mergesvm.solvers import Solution

BLOCK_BYTES = 2**21
"""Rows are scored so many bytes at a time."""

SMALL = 1e7
"""With fewer products than this, threads take longer to start than to save."""


SOLVERS = ("eigh", "ridge", "cholesky", "recursive", "pegasos")
"""All solvers; of several that were used the first here is the one to be named."""


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
        C, class_weight, multiclass, standardize and penalize_intercept; of Pegasos its own.
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


class Planes(ABC):
    """Separating planes of one or more binary problems, and the classes they tell apart.

    Attributes
    ----------
    classes_ : array of shape (classes,)
    coef_ : array of shape (problems, features)
    intercept_ : array of shape (problems,)
        Such that the scores are ``X @ coef_.T + intercept_``. They are computed about :attr:`anchor_` instead, where
        they keep their digits however far the features are from the origin.
    anchor_ : array of shape (features,)
    feature_names_ : tuple of str or None
    solver_ : str
        The solver used: "cholesky", or, if any of the problems needed it, "ridge" or "eigh"; "recursive", "pegasos".
    """

    def __init__(self, domain: Domain, solution: Solution) -> None:
        self.domain = domain
        self.labels = domain.labels
        self.signature = domain.signature
        self.classes_ = label_array(domain.labels)
        self.anchor_ = domain.anchor
        self.feature_names_ = domain.signature.names
        self.coef_ = solution.coefs
        self.solver_ = next(
            name for name in ("eigh", "ridge", "cholesky", "recursive", "pegasos") if name in solution.solvers
        )
        self.intercept_ = solution.offsets - solution.coefs @ domain.anchor
        self._offsets = solution.offsets

    @property
    def layout(self) -> Layout:
        """The columns of the rows that can be predicted."""
        return self.signature.layout

    @abstractmethod
    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""

    @abstractmethod
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes)."""

    @abstractmethod
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, the highest of which decides."""

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the model for ONNX runtimes, which then give the same labels, scores and probabilities.

        Needs ``pip install 'mergesvm[onnx]'``.

        >>> import mergesvm as ms, pathlib, tempfile
        >>> model = ms.solve(ms.learn([[0.0], [1.0]], ["a", "b"]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.to_onnx(pathlib.Path(folder, "model.onnx"))
        """
        from mergesvm.models.linear import LinearModel
        from mergesvm.models.onnx import write_onnx
        from mergesvm.models.pairwise import PairwiseModel

        assert isinstance(self, (LinearModel, PairwiseModel))
        write_onnx(self, path)

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

    def _size(self) -> str:
        return f"{counted(len(self.classes_), 'class', 'classes')} x {counted(self.coef_.shape[1], 'feature')}"

    def score(self, X: Any, y: Any) -> float:
        """The share of rows whose class is predicted rightly."""
        truth, predicted = as_labels(y), self.predict(X)
        if len(truth) != len(predicted):
            raise DataError(f"X and y are of unequal length: {len(predicted)} rows, {len(truth)} labels.")
        return float(np.mean(predicted == truth))

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of all rows in all binary problems, (rows, problems), computed block by block."""
        rows = as_rows(X)
        inputs, width = self.signature.inputs, self.coef_.shape[1]
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
        if self.signature.mapped:
            rows = MappedRows(rows, self.signature.features)
        scores = np.empty((rows.n_rows, len(self.coef_)))
        anchored = bool(self.anchor_.any())
        planes = np.ascontiguousarray(self.coef_.T)

        def run(span: tuple[int, int]) -> None:
            block = rows.block(*span)
            out = scores[slice(*span)]
            with np.errstate(all="ignore"):
                if sparse.issparse(block):
                    out[:] = block @ planes + self.intercept_
                else:
                    near = block - self.anchor_ if anchored else block.astype(np.float64, copy=False)
                    np.matmul(near, planes, out=out)
                    out += self._offsets

        blocks = list(spans(rows.n_rows, max(64, BLOCK_BYTES // (8 * max(width, inputs)))))
        small = rows.n_rows * width * (len(self.coef_) + (inputs if self.signature.mapped else 0)) < SMALL
        (Threads(1) if small else Threads()).map(run, blocks)
        if not np.isfinite(scores).all():
            rows.check_finite("before predicting")
            raise DataError("Input X has values too large to be scored. Rescale the columns.")
        return scores
