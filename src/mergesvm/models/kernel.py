"""Kernel models: one expansion over support vectors per pair of classes."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from mergesvm.errors import DataError, FormError
from mergesvm.models.base import Model, check_scores
from mergesvm.models.domain import Domain
from mergesvm.models.expansion import Expansion
from mergesvm.models.formats.fields import moment_arrays
from mergesvm.models.formats.kernel import expansion_arrays, expansion_fields
from mergesvm.models.formats.native import ModelContent
from mergesvm.models.reduction.candidates import Candidates
from mergesvm.models.reduction.local import reduction_at_rows, reduction_at_support_vectors
from mergesvm.models.reduction.path import ReducedPath, Reduction, check_goal, path_limit
from mergesvm.models.score_moments import SideMoments, moments_of_sums, symmetric_moments
from mergesvm.models.voting import Voting
from mergesvm.multiclass.votes import is_second
from mergesvm.text import counted


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
        y alpha of each vector, against each of the other classes in turn. After :meth:`reduced`, for three or more
        classes, the coefficient of each vector in each pair, (pairs, vectors).
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
        if self.expansion.shared:
            return self._coef_array(self.dual_coef_ @ self.support_vectors_)
        ends, coefs = np.cumsum(self.n_support_), []
        for one, other in combinations(range(len(self.n_support_)), 2):
            first, second = (slice(int(ends[c] - self.n_support_[c]), int(ends[c])) for c in (one, other))
            vectors = self.support_vectors_
            parts = (
                vectors[first].T @ self.dual_coef_[other - 1, first],
                vectors[second].T @ self.dual_coef_[one, second],
            )
            coefs.append(parts[0] + parts[1])
        return self._coef_array(np.array(coefs).reshape(len(coefs), self.signature.inputs))

    def _coef_array(self, coef: NDArray[np.float64]) -> Any:
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

    def reduced(
        self,
        max_support_vectors: int | None = None,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        *,
        loss: float | None = None,
    ) -> KernelModel:
        """Model of fewer vectors that predicts nearly the same, and as much faster.

        Vectors are selected greedily: each reduces the squared error of the scores of all pairs of classes together
        most. All pairs share them. Their coefficients and the intercepts are then fitted to the scores of this model,
        exactly within the margins; beyond a margin any score beyond it will do. A calibration is dropped, because
        scores change: calibrate the smaller model.

        Parameters
        ----------
        max_support_vectors : int, optional
            The number of vectors. A model that has no more is returned as it is.
        X : array, sparse array, or table of shape (rows, features), optional
            Rows at which scores are fitted, such as training rows; they do not need labels. Without them the support
            vectors are used, and only they can be selected; rows give better models, and new score moments.
        y : sequence of labels, optional
        sample_weight : sequence of numbers, optional
        loss : float, optional
            In place of ``max_support_vectors``: the largest loss of accuracy. The smallest model is returned that keeps
            to it: the fraction of the rows X that it predicts correctly is smaller by at most this, where without
            ``y`` a prediction is correct if it is that of this model. If no smaller model does, this one is returned.

        Examples
        --------
        >>> import mergesvm as ms, numpy as np
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> model = ms.ParallelKernelSVC(gamma=1.0).fit(X, (X**2).sum(axis=1) > 1.5).model_
        >>> model
        KernelModel of 2 classes x 2 features, ... support vectors
        >>> small = model.reduced(6, X)
        >>> small, bool(np.mean(small.predict(X) == model.predict(X)) > 0.98)
        (KernelModel of 2 classes x 2 features, 6 support vectors, True)
        """
        check_goal(max_support_vectors, loss)
        n_vectors = int(self.n_support_.sum())
        if len(self.classes_) < 2 or (max_support_vectors or 1) >= n_vectors:
            return self
        reduction = self._reduction(max_support_vectors or 0, X, y, sample_weight)
        if loss is None:
            assert max_support_vectors is not None
            return reduction.built(reduction.fitted(max_support_vectors))
        step = reduction.smallest(loss, n_vectors - 1)
        return self if step is None else reduction.built(step)

    def reduced_path(
        self, X: Any = None, y: Any = None, sample_weight: Any = None, *, max_support_vectors: int | None = None
    ) -> ReducedPath[KernelModel]:
        """Smaller models of several sizes, with their accuracy at the rows, from one selection; see :meth:`reduced`.

        By default the largest has a fifth of the support vectors, at most 1,000.
        """
        size = path_limit(max_support_vectors, self)
        return self._reduction(size, X, y, sample_weight).path(size)

    def _reduction(self, size: int, X: Any, y: Any, sample_weight: Any) -> Reduction[KernelModel]:
        if X is not None:
            return reduction_at_rows(self, self._check_rows(X), y, sample_weight, size, self.with_vectors)
        if y is not None or sample_weight is not None:
            raise DataError("y and sample_weight need the rows X that they belong to.")
        # Scores at support vectors are not those of all rows.
        return reduction_at_support_vectors(self, size, lambda *args: self.with_vectors(*args[:2]))

    def with_vectors(
        self, vectors: Candidates, coefs: NDArray[np.float64], sums: NDArray[np.float64] | None = None
    ) -> KernelModel:
        """Model of the same classes and kernel over these vectors, without a calibration.

        ``coefs`` (1 + vectors, pairs) begins with the intercepts. The moments of scores are computed from ``sums`` of
        weights, scores and squared scores of both sides of each pair, (pairs, 2, 3), if every side has rows.
        """
        order = vectors.by_class()
        counts = np.bincount(vectors.codes, minlength=len(self.labels))
        taken, weights = vectors.take(order).vectors, np.ascontiguousarray(coefs[1:].T[:, order])
        expansion = replace(self.expansion, vectors=taken, counts=counts, coefs=weights, intercepts=coefs[0].copy())
        moments = self.moments
        if sums is not None and (sums[:, :, 0] > 0).all():
            moments = symmetric_moments(moments_of_sums(sums))
        return KernelModel(self.domain, expansion, moments, self.ties, self.solver_)

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
