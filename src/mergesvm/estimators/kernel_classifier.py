"""KernelClassifier: the attributes and predictions of a classifier whose model is a KernelModel."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.estimators.base import BaseClassifier
from mergesvm.estimators.classes import all_labels
from mergesvm.estimators.inputs import rows_to_predict
from mergesvm.models.kernel import KernelModel


class KernelClassifier(BaseClassifier):
    """A classifier whose model has support vectors, with the attributes of ``SVC``."""

    kernel: str | Callable[[Any, Any], Any]
    decision_function_shape: str
    _model: KernelModel

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
