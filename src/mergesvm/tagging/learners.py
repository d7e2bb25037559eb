"""Learners of one tag: tagged pictures are pieces that are added, replaced and forgotten."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.estimators.parallel_kernel_svc import ParallelKernelSVC
from mergesvm.features.maps.correlogram import Correlogram
from mergesvm.knowledge.algebra import merge
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.learn import learn
from mergesvm.methods.proximal.solve import solve
from mergesvm.models.kernel import KernelModel
from mergesvm.models.linear import LinearModel
from mergesvm.models.score_moments import SideMoments


@dataclass(frozen=True)
class PatchRows:
    """The patches sampled from one tagged picture, as rows of pixels, with labels True and False, and weights.

    ``borrowed`` says whether some are from another picture.
    """

    pixels: NDArray[np.uint8]
    shows_tag: NDArray[np.bool_]
    weights: NDArray[np.float64]
    borrowed: bool = False


class WindowScorer(Protocol):
    """A trained model that scores windows; it never changes, so that it can be used while others learn."""

    @property
    def model(self) -> LinearModel | KernelModel:
        """The model, which can be saved."""

    def scores(self, features: Any) -> NDArray[np.float32]:
        """Return the scores of mapped windows, a CSR matrix: positive where the model sees the tag."""

    def facts(self) -> dict[str, int]:
        """Return the size of the model in the terms of the method."""


class TagLearner(ABC):
    """Learns to recognise one tag from tagged pictures.

    The model depends only on the present pieces, neither on those that were forgotten nor on the order in which they
    came.
    """

    def __init__(self, correlogram: Correlogram) -> None:
        self.correlogram = correlogram
        self._pieces: dict[str, Any] = {}
        self._scorer: WindowScorer | None = None

    @property
    def pictures(self) -> list[str]:
        """The names of the tagged pictures, sorted."""
        return sorted(self._pieces)

    def learn(self, picture: str, rows: PatchRows) -> None:
        """Add the piece of a picture, or replace it."""
        self._pieces[picture], self._scorer = self.piece(rows), None

    def forget(self, picture: str) -> None:
        """Drop the piece of a picture, if there is one."""
        self._pieces.pop(picture, None)
        self._scorer = None

    def scorer(self) -> WindowScorer | None:
        """Return the model of all pieces; None as long as there is nothing to tell the tag from."""
        if self._scorer is None and self._pieces:
            self._scorer = self.train([self._pieces[name] for name in self.pictures])
        return self._scorer

    @abstractmethod
    def piece(self, rows: PatchRows) -> Any:
        """Return what is kept of the rows of one picture."""

    @abstractmethod
    def train(self, pieces: list[Any]) -> WindowScorer | None:
        """Return the model of pieces; None if they have rows of one class only."""


@dataclass(frozen=True)
class LinearScorer:
    """Scores windows by a linear model of their features."""

    model: LinearModel
    knowledge_bytes: int

    def scores(self, features: Any) -> NDArray[np.float32]:
        """Return the scores of mapped windows, scaled so that the mean scores of the two classes differ by 2."""
        moments = self.model.moments
        assert isinstance(moments, SideMoments)
        spread = float(moments.means[0, 1] - moments.means[0, 0])
        factor = 2 / spread if spread > 0 else 1.0
        scores = features @ (factor * self.model.coef_[0]).astype(np.float32)
        return np.asarray(scores + np.float32(factor * self.model.intercept_[0]), dtype=np.float32)

    def facts(self) -> dict[str, int]:
        """Return the size of the sums."""
        return {"bytes": self.knowledge_bytes}


class MergeLearner(TagLearner):
    """Each tagged picture is a piece of knowledge; the model is solved from their sum.

    With patches from few pictures, C must be small: the colours of other pictures differ from those that were learned.
    """

    def __init__(self, correlogram: Correlogram, C: float = 1e-5) -> None:
        super().__init__(correlogram)
        self.C = C

    def piece(self, rows: PatchRows) -> Knowledge:
        """Return the knowledge of the rows."""
        return learn(rows.pixels, rows.shows_tag, rows.weights, features=self.correlogram, precision="float64")

    def train(self, pieces: list[Knowledge]) -> LinearScorer | None:
        """Merge the pieces and solve."""
        total = merge(pieces)
        if len(total.classes) < 2:
            return None
        model = solve(total, self.C, "balanced", penalize_intercept=False)
        assert isinstance(model, LinearModel)
        return LinearScorer(model, sum(array.nbytes for array in total.arrays()))


@dataclass(frozen=True)
class KernelScorer:
    """Scores windows by a kernel model of their features."""

    model: KernelModel

    def scores(self, features: Any) -> NDArray[np.float32]:
        """Return the scores of mapped windows.

        Few colours occur in a window, so products of the sparse rows take less time than those of dense ones.
        """
        if features.shape[0] == 0:
            return np.empty(0, dtype=np.float32)
        expansion, norms = self.model.expansion, _squared_norms(features)
        kernel = expansion.kernel
        if kernel.kind != "rbf" or not kernel.fits_float32(max(self._norms.max(), norms.max(initial=0.0))):
            return np.asarray(self.model.decision_function(features.toarray()), dtype=np.float32)
        exponents = features.astype(np.float32, copy=False) @ self._factors
        exponents -= (kernel.gamma * self._norms).astype(np.float32)
        exponents -= (kernel.gamma * norms).astype(np.float32)[:, None]
        np.exp(exponents, out=exponents)
        return np.asarray(exponents @ expansion.coefs[0].astype(np.float32) + np.float32(expansion.intercepts[0]))

    @cached_property
    def _factors(self) -> NDArray[np.float32]:
        """2 gamma times the support vectors, (features, vectors)."""
        vectors = sparse.csr_array(self.model.support_vectors_).toarray()
        return np.ascontiguousarray(2 * self.model.expansion.kernel.gamma * vectors.T, dtype=np.float32)

    @cached_property
    def _norms(self) -> NDArray[np.float64]:
        """The squared norms of the support vectors."""
        return _squared_norms(sparse.csr_array(self.model.support_vectors_))

    def facts(self) -> dict[str, int]:
        """Return the number of support vectors."""
        return {"support_vectors": self.model.support_vectors_.shape[0]}


def _squared_norms(features: Any) -> NDArray[np.float64]:
    """The squared norm of each row of a CSR matrix."""
    ends = np.concatenate([[0.0], np.square(features.data, dtype=np.float64).cumsum()])[features.indptr]
    return np.diff(ends)


class KernelLearner(TagLearner):
    """Each tagged picture is a unit of a kernel machine."""

    def __init__(self, correlogram: Correlogram, C: float = 1.0) -> None:
        super().__init__(correlogram)
        self.C = C

    def piece(self, rows: PatchRows) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.float64]]:
        """Keep the mapped rows, their labels and their weights."""
        return self.correlogram.transform(rows.pixels), rows.shows_tag, rows.weights

    def train(self, pieces: list[Any]) -> KernelScorer | None:
        """Train on the rows of all pieces, one unit per picture."""
        X, y, weights = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        if y.all() or not y.any():
            return None
        classifier = ParallelKernelSVC(C=self.C, class_weight="balanced", units=len(pieces))
        return KernelScorer(classifier.fit(X, y, weights).model_)


LEARNERS: dict[str, type[TagLearner]] = {"merge": MergeLearner, "kernel": KernelLearner}
"""The learners by the name that users choose."""
