"""A stream of slices: at each stage a slice is learned and merged, beside batch retraining on all rows so far."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.threads import Threads
from mergesvm.features.base import FeatureMap
from mergesvm.features.maps.hidden_layer import HiddenLayer
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.learn import learn
from mergesvm.methods.proximal.solve import solve
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.reproduce.paper_data import PaperData, Source
from mergesvm.reproduce.timing import timed

Model = LinearModel | PairwiseModel

MAX_TEST_ROWS = 10_000
MAX_ROWS = 200_000
"""Rows of a stream, all of which are learned again at every stage."""

ACTIVATION = "sigmoid"
OPTIONS: dict[str, Any] = {"C": 1.0, "class_weight": "balanced", "multiclass": "ovr"}
"""The weighted extreme SVM; its weights follow from the counts of the classes so far."""


@dataclass(frozen=True)
class Stream:
    """Slices of rows and their labels, test rows, and the hidden layer."""

    X: NDArray[Any]
    y: NDArray[Any]
    bounds: NDArray[np.intp]  # where slices begin and end
    test: NDArray[Any]
    truth: NDArray[Any]
    features: FeatureMap

    @classmethod
    def of(cls, data: PaperData, source: Source, n_slices: int, hidden: int, seed: int) -> Stream:
        """Shuffle the rows, of which at most ``MAX_ROWS`` are used; the last ones are test rows."""
        X, y = data.rows(source, seed)
        order = np.random.default_rng(seed).permutation(len(y))[:MAX_ROWS]
        n_test = min(len(order) // 5, MAX_TEST_ROWS)
        X, y = X[order].astype(np.float64), y[order]
        bounds = np.linspace(0, len(order) - n_test, n_slices + 1).astype(np.intp)
        _scale(X, X[: bounds[1]])
        features = hidden_layer(hidden, X.shape[1], seed).freeze(X[:1])
        return cls(X[: bounds[-1]], y[: bounds[-1]], bounds, X[bounds[-1] :], y[bounds[-1] :], features)

    @property
    def slices(self) -> list[tuple[int, int]]:
        """Where each slice begins and ends; each is one stage."""
        return list(pairwise(map(int, self.bounds)))

    def learned(self, begin: int, end: int, n_jobs: int = 1) -> Knowledge:
        """The knowledge of some of the rows: as in the paper, sums about the origin, which are added as they are."""
        origin = np.zeros(self.features.width)
        return learn(self.X[begin:end], self.y[begin:end], features=self.features, anchor=origin, n_jobs=n_jobs)


def hidden_layer(units: int, inputs: int, seed: int) -> HiddenLayer:
    """The layer of equation 11, G(W [x; 1]), with the elements of W drawn from -1 to 1; it depends on no rows."""
    W = np.random.default_rng(seed).uniform(-1, 1, (units, inputs + 1))
    return HiddenLayer(weights=W[:, :-1].T, biases=W[:, -1], activation=ACTIVATION, gain=False, precision="float64")


def _scale(X: NDArray[np.float64], first: NDArray[np.float64]) -> None:
    """Scale columns so that those of the first slice are between 0 and 1."""
    low, high = first.min(axis=0), first.max(axis=0)
    X -= low
    X /= np.where(high > low, high - low, 1.0)


@dataclass(frozen=True)
class Stage:
    """One stage of a stream."""

    rows: int  # so far
    increment: float  # CPU seconds: the slice is learned, added to the knowledge so far, and solved
    batch: float  # CPU seconds: all rows so far are learned and solved
    merged_accuracy: float  # per cent of the test rows
    batch_accuracy: float
    coefficients: float  # largest difference, relative to the largest coefficient of the batch
    scores: float  # largest difference of the decision function on the test rows
    disagreements: int  # test rows for which the two models predict different classes


def stages(stream: Stream, repeats: int) -> Iterator[Stage]:
    """Learn slice after slice, and retrain on all rows so far at each stage, both on one core."""
    with Threads.single_threaded_blas():
        yield from _stages(stream, repeats)


def _stages(stream: Stream, repeats: int) -> Iterator[Stage]:
    known: Knowledge | None = None
    _retrain(stream, stream.slices[0][1])  # so that the compilation of functions is not timed
    for begin, end in stream.slices:
        (merged, known), increment = timed(repeats, _increment, stream, known, begin, end, clock=time.process_time)
        batch, seconds = timed(repeats, _retrain, stream, end, clock=time.process_time)
        merged_labels, labels = merged.predict(stream.test), batch.predict(stream.test)
        scores = merged.decision_function(stream.test) - batch.decision_function(stream.test)
        yield Stage(
            end,
            increment,
            seconds,
            100 * float(np.mean(merged_labels == stream.truth)),
            100 * float(np.mean(labels == stream.truth)),
            relative_difference(merged, batch),
            float(np.abs(scores).max()),
            int(np.sum(merged_labels != labels)),
        )


def _increment(stream: Stream, known: Knowledge | None, begin: int, end: int) -> tuple[Model, Knowledge]:
    """The model of all rows so far, and their knowledge, from the knowledge of earlier slices and a new slice."""
    piece = stream.learned(begin, end)
    total = piece if known is None else known + piece
    return solve(total, **OPTIONS), total


def _retrain(stream: Stream, end: int) -> Model:
    """The model of all rows so far, learned at once."""
    return solve(stream.learned(0, end), **OPTIONS)


def relative_difference(model: Model, batch: Model) -> float:
    """The largest difference of coefficients and intercepts, relative to the largest of them."""
    one, other = (np.append(np.ravel(each.coef_), each.intercept_) for each in (model, batch))
    return float(np.abs(one - other).max() / np.abs(other).max())
