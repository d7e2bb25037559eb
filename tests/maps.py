"""Examples of all feature maps, and rows that all of them accept."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import MaxAbsScaler

import mergesvm as ms
from mergesvm.features import (
    Chain,
    Components,
    Correlogram,
    FeatureMap,
    Fourier,
    HiddenLayer,
    Identity,
    Nystroem,
    Patches,
    Wrapped,
)
from mergesvm.features.random_map import RandomMap

PRECISIONS = ("float64", "float32")

ROUNDING = {"float64": 1e-12, "float32": 1e-5}
"""Tolerance for a row mapped among other rows. Features have a mean square of 1."""


def rows(n_rows=240, seed=0):
    """Images of 6 x 6 grey or 4 x 3 coloured pixels, many of them zero, rounded so that text stores them exactly."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 3, n_rows)
    shapes = np.random.default_rng(1).normal(scale=0.7, size=(3, 36))
    X = np.round(np.maximum(shapes[y] + generator.normal(size=(n_rows, 36)), 0), 3)
    return X, np.array(["cat", "dog", "fox"])[y]


X, Y = rows()
WEIGHTS = np.random.default_rng(2).choice([0.0, 0.5, 1.0, 3.0], len(X))
NAMES = [f"pixel {index}" for index in range(36)]

COLOURED = (4, 3, 3)

DRAWN = np.random.default_rng(7)
PRINTED, BIASES = DRAWN.normal(size=(36, 8)) / 6, DRAWN.normal(size=8)

EXAMPLES: dict[str, tuple[FeatureMap, ...]] = {
    "identity": (Identity(),),
    "hidden": (
        HiddenLayer(12),
        HiddenLayer(9, activation="tanh", weights="uniform", fields="columns", scaling="columns"),
        HiddenLayer(10, activation="relu", weights="constrained", fields="rectangles", image=COLOURED, seed=5),
        HiddenLayer(40, activation="sigmoid", spread=0.7, scaling="none"),
        HiddenLayer(7, activation="sine", fields="rectangles", scaling="range"),
        HiddenLayer(6, activation="absolute", weights="constrained", scaling="whole"),
        HiddenLayer(5, activation="square"),
        HiddenLayer(11, activation="softplus", gain=False),
        HiddenLayer(weights=PRINTED, biases=BIASES, activation="sigmoid", gain=False),
        HiddenLayer(weights=PRINTED, activation="triangular", scaling="columns", gain=False),
        HiddenLayer(weights=PRINTED, biases=BIASES, activation="sign"),
    ),
    "fourier": (
        Fourier(12),
        Fourier(50, gamma=0.05, orthogonal=False, scaling="none"),
        Fourier(9, detail=4.0, fields="rectangles", image=COLOURED, seed=3),
        Fourier(8, fields="columns", scaling="columns"),
        Fourier(1, scaling="range"),
    ),
    "nystroem": (
        Nystroem(12),
        Nystroem(10, kernel="polynomial", degree=2, scaling="columns"),
        Nystroem(8, gamma=0.2, scaling="none", seed=2),
        Nystroem(1, kernel="polynomial", detail=0.5, scaling="range"),
    ),
    "patches": (
        Patches(5, size=3, pooling=2),
        Patches(3, size=2, padding=0, pooling=1, filters="random", rectify="split", whitening=None, image=COLOURED),
        Patches(4, size=3, padding=1, pooling=3, rectify="absolute", scaling="columns", seed=4),
        Patches(2, size=1, padding=3, pooling=2, image=(2, 6, 3), scaling="none"),
    ),
    "pca": (
        Components(5),
        Components(0.9),
        Components(0.6, whiten=True, scaling="columns"),
        Components(36, scaling="whole", seed=3),
        Components(1, whiten=True, scaling="range"),
    ),
    "correlogram": (
        Correlogram(8, distance=1, image=None),
        Correlogram(5, distance=(1, 2), palette="sample", values="count", image=COLOURED),
        Correlogram(12, distance=(2, 1), image=(3, 4, 3), scaling="none", seed=2),
        Correlogram(4, distance=1, palette="sample", image=(9, 4), scaling="whole"),
    ),
    "chain": (
        Chain([Patches(4, size=3, pooling=2), Fourier(12, seed=1)]),
        Chain([Patches(3, size=2, pooling=2, image=COLOURED), Nystroem(9, detail=0.25)]),
        Chain([Components(0.9), Fourier(9)]),
        Chain([Fourier(30), Components(0.99)]),
        Chain([HiddenLayer(16, weights="constrained"), HiddenLayer(9, fields="rectangles"), Fourier(4), Nystroem(5)]),
    ),
    "wrapped": (Wrapped(PCA(5, random_state=0).fit(X)), Wrapped(MaxAbsScaler().fit(X))),
}
"""Several examples of every kind of map."""

VARIED: dict[str, tuple[RandomMap, dict[str, Any]]] = {
    "hidden": (
        HiddenLayer(6, fields="rectangles"),
        {
            "n_features": 7,
            "activation": "tanh",
            "weights": "constrained",
            "spread": 0.9,
            "fields": "columns",
            "image": (4, 9),
            "gain": False,
        },
    ),
    "fourier": (
        Fourier(6, fields="rectangles", precision="float64"),
        {
            "n_features": 7,
            "gamma": 0.3,
            "detail": 2.0,
            "orthogonal": False,
            "fields": None,
            "image": (4, 9),
        },
    ),
    "nystroem": (
        Nystroem(6),
        {"landmarks": 7, "kernel": "polynomial", "gamma": 0.3, "detail": 2.0, "degree": 2},
    ),
    "patches": (
        Patches(4, size=3, pooling=2),
        {
            "n_filters": 5,
            "size": 2,
            "padding": 1,
            "pooling": 1,
            "filters": "random",
            "rectify": "absolute",
            "whitening": None,
            "image": COLOURED,
        },
    ),
    "correlogram": (
        Correlogram(6, distance=2, image=None),
        {"n_colours": 7, "distance": (1, 2), "palette": "sample", "values": "root", "image": COLOURED},
    ),
    "pca": (Components(6), {"n_components": 7, "whiten": True}),
}
"""One example of every random map, and another value for each of its parameters."""

SHARED = {"seed": 1, "scaling": "columns", "precision": "float32"}
"""Another value for each parameter that all random maps have."""


def stages(features):
    """The maps of a chain, or the map alone."""
    return features.stages if isinstance(features, Chain) else (features,)


def changed(features, **parameters):
    """The map, or chain of maps, with other parameters; maps without parameters unchanged."""
    if isinstance(features, Chain):
        return Chain([replace(stage, **parameters) for stage in features.stages])
    return replace(features, **parameters) if isinstance(features, RandomMap) else features


@cache
def frozen(features, precision="float64"):
    """The map with this precision, frozen on the rows above."""
    return changed(features, precision=precision).freeze(X, Y)


ALL = tuple(features for maps in EXAMPLES.values() for features in maps)
RANDOM = tuple(features for features in ALL if isinstance(features, (RandomMap, Chain)))
ONE_PER_KIND = [examples[0] for examples in EXAMPLES.values()]

each_map = pytest.mark.parametrize("features", ALL, ids=repr)
each_random = pytest.mark.parametrize("features", RANDOM, ids=repr)
each_mapped = pytest.mark.parametrize("features", [each for each in ALL if not isinstance(each, Identity)], ids=repr)
each_saved = pytest.mark.parametrize("features", [Identity(), *RANDOM], ids=repr)
each_precision = pytest.mark.parametrize("precision", PRECISIONS)


def learn(features, at=slice(None), weighted=False, **options):
    """The knowledge of some of the rows above, mapped."""
    return ms.learn(X[at], Y[at], WEIGHTS[at] if weighted else None, features=features, **options)


def expected_failed_checks_of_maps(estimator):
    """Checks of scikit-learn that fail for estimators with a map frozen on their own rows."""
    reason = "the pilot sample of a map ignores sample weights"
    return {
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
    }
