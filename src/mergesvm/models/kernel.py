"""Kernel models: one expansion over support vectors per pair of classes."""

from __future__ import annotations

import os
from functools import cached_property
from itertools import combinations
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from mergesvm.errors import FormError
from mergesvm.knowledge.knowledge import counted
from mergesvm.models.base import Model, check_scores
from mergesvm.models.domain import Domain
from mergesvm.models.expansion import Expansion
from mergesvm.models.formats.fields import moment_arrays
from mergesvm.models.formats.kernel import expansion_arrays, expansion_fields
from mergesvm.models.formats.native import ModelContent
from mergesvm.models.score_moments import SideMoments
from mergesvm.models.voting import Voting
from mergesvm.multiclass.votes import is_second


class KernelModel(Model):
    """One-vs-one by kernel expansions; for two classes, the sign of the single score, positive for the second.

    Attributes
    ----------
    pairs_ : list of pairs of classes
        Column p of the scores is positive for the second class of ``pairs_[p]``.
    support_vectors_ : array or CSR array of shape (vectors, features)
        Sorted by class; empty if the kernel is precomputed.
    n_support_ : array of int, shape (classes,)
    dual_coef_ : array of shape (classes - 1, vectors)
        y alpha of each vector, against each of the other classes in turn.
    intercept_ : array of shape (pairs,)
        Signs are those of ``SVC``: for two classes y = +1 for the second, for more for the first of a pair.

    Examples
    --------
    >>> import mergesvm as ms
    >>> machine = ms.ParallelKernelSVC(C=10.0, gamma=1.0).fit([[0.0], [1.0], [2.0], [3.0]], list("abba"))
    >>> machine.model_
    KernelModel of 2 classes x 1 feature, 4 support vectors
    >>> machine.model_.predict([[0.1], [1.5], [2.9]])
    array(['a', 'b', 'a'], dtype='<U1')
    """

    def __init__(
        self, domain: Domain, expansion: Expansion, moments: SideMoments, ties: str, solver: str = "working-set"
    ) -> None:
        super().__init__(domain)
        self.expansion, self.ties, self.solver_ = expansion, ties, solver
        self.moments = moments
        self._voting = Voting(len(domain.labels), ties, moments)
        self.pairs_ = list(combinations(domain.labels, 2))
        precomputed = expansion.kernel.kind == "precomputed"
        self.support_vectors_ = np.zeros((0, 0)) if precomputed else expansion.vectors
        self.n_support_ = expansion.counts
        sign = 1.0 if len(domain.labels) <= 2 else -1.0
        self.dual_coef_, self.intercept_ = sign * expansion.coefs, sign * expansion.intercepts
        for array in (self.dual_coef_, self.intercept_):
            array.flags.writeable = False

    @cached_property
    def coef_(self) -> Any:
        """Coefficients of a linear kernel, (pairs, features), read-only; sparse if the support vectors are.

        Signs are those of ``SVC``, as in ``dual_coef_``.
        """
        if self.expansion.kernel.kind != "linear":
            raise AttributeError(
                f"coef_ exists only for kernel='linear', not {self.expansion.kernel.kind!r}. The scores of other "
                f"kernels are not linear in the features."
            )
        ends, coefs = np.cumsum(self.n_support_), []
        for one, other in combinations(range(len(self.n_support_)), 2):
            first, second = (slice(int(ends[c] - self.n_support_[c]), int(ends[c])) for c in (one, other))
            vectors = self.support_vectors_
            parts = (
                vectors[first].T @ self.dual_coef_[other - 1, first],
                vectors[second].T @ self.dual_coef_[one, second],
            )
            coefs.append(parts[0] + parts[1])
        coef = np.array(coefs).reshape(len(coefs), self.signature.inputs)
        if sparse.issparse(self.support_vectors_):
            return sparse.csr_array(coef)
        coef.flags.writeable = False
        return coef

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of all pairs, (rows, pairs), computed block by block."""
        rows = self._check_rows(X)
        if self.expansion.kernel.kind in ("sigmoid", "precomputed"):  # their scores may be finite for rows that are not
            rows.check_finite("before predicting")
        return check_scores(self.expansion.scores(rows), rows)

    def votes(self, X: Any) -> NDArray[np.float64]:
        """Number of votes per class, (rows, classes)."""
        return self._voting.votes(self.scores(X))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Votes plus a fraction from the summed margins, (rows, classes); for two classes the score, (rows,)."""
        scores = self.scores(X)
        if len(self.classes_) > 2:
            return self._voting.decide(scores)
        return scores[:, 0] if len(self.classes_) == 2 else np.zeros(len(scores))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row."""
        predicted: NDArray[Any] = self.classes_[self.winners(self.scores(X))]
        return predicted

    def winners(self, scores: NDArray[np.float64]) -> NDArray[np.intp]:
        """Index of the predicted class, (rows,), from scores (rows, pairs)."""
        if len(self.classes_) > 2:
            return self._voting.winners(scores)
        # A single class is always predicted.
        return is_second(scores[:, 0]).astype(np.intp) if len(self.classes_) == 2 else np.zeros(len(scores), np.intp)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes), assuming training scores that are normal within each class.

        At a score of zero both classes of a pair are equally likely. Training rows score better than new rows, more so
        with a large C: for reliable probabilities, calibrate on held-out rows (:meth:`calibrated`).
        """
        return self.probabilities(self.scores(X))

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes), from scores (rows, pairs)."""
        if self.calibration_ is not None:
            return self.calibration_.probabilities(scores if len(self.classes_) == 2 else self._voting.decide(scores))
        if len(self.classes_) > 2:
            return self._voting.couple(scores)
        if len(self.classes_) < 2:
            return np.ones((len(scores), 1))
        positive = expit(self.moments.log_odds(scores))
        return np.hstack([1 - positive, positive])

    def to_onnx(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> NoReturn:  # noqa: ARG002
        """Raise an error: kernel models cannot be exported to ONNX."""
        raise FormError(
            f"{self!r} cannot be written to {path}: only the linear models of MergeSVC, RecursiveSVC and PegasosSVC "
            f"can be exported to ONNX. MergeSVC with features='nystroem' or 'fourier' approximates the kernel 'rbf'."
        )

    def _content(self) -> ModelContent:
        fields = expansion_fields(self.expansion, self.domain.options)
        arrays = expansion_arrays(self.expansion) | moment_arrays(self.moments)
        return ModelContent("kernel", self.solver_, self.ties, arrays, fields)

    def __repr__(self) -> str:
        size = f"{counted(len(self.classes_), 'class', 'classes')} x {counted(self.signature.inputs, 'feature')}"
        return f"KernelModel of {size}, {counted(int(self.n_support_.sum()), 'support vector')}"
