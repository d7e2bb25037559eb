from __future__ import annotations

import numpy as np
import pytest

import mergesvm as ms
from mergesvm.errors import FormError
from mergesvm.methods.proximal.losses import LinearScores, class_losses, score_moments, squared_losses
from reference import blobs


@pytest.fixture
def rows():
    X, y = blobs(seed=1, n=300, d=4, classes=3, offset=1e3)
    return X, y, np.random.default_rng(0).random(300) + 0.5


@pytest.fixture
def planes():
    generator = np.random.default_rng(1)
    return LinearScores(generator.normal(size=(5, 4)), generator.normal(size=5), np.full(4, 999.0))


@pytest.mark.parametrize("pieces", [1, 4])
def test_losses_are_those_of_the_rows(rows, planes, pieces):
    X, y, weights = rows
    signs = np.array([[1, -1, -1], [-1, 1, 0], [0, -1, 1], [-1, -1, 1], [1, 0, 0]], dtype=np.int8)
    knowledge = ms.merge(ms.learn(X[i::pieces], y[i::pieces], weights[i::pieces]) for i in range(pieces))
    scores = (X - planes.anchor) @ planes.coefs.T + planes.offsets
    squares = weights[:, None] * np.where(signs.T[y] != 0, (signs.T[y] - scores) ** 2, 0.0)
    np.testing.assert_allclose(squared_losses(knowledge, planes, signs), squares.sum(axis=0), rtol=1e-9)
    by_class = np.array([squares[y == label].sum(axis=0) for label in range(3)]).T
    np.testing.assert_allclose(class_losses(knowledge, planes, signs), by_class, rtol=1e-9, atol=1e-9)


def test_losses_of_all_classes_need_one_matrix_only(rows, planes):
    X, y, _ = rows
    signs = np.array([[1, -1, -1], [-1, 1, -1], [-1, -1, 1], [-1, -1, 1], [1, 1, 1]], dtype=np.int8)
    pooled, full = ms.learn(X, y, per_class=False), ms.learn(X, y)
    np.testing.assert_allclose(squared_losses(pooled, planes, signs), squared_losses(full, planes, signs), rtol=1e-12)
    with pytest.raises(FormError, match="per_class=True"):
        class_losses(pooled, planes, signs)


def test_moments_are_those_of_the_scores(rows, planes):
    X, y, weights = rows
    means, variances = score_moments(ms.learn(X, y, weights), planes)
    scores = (X - planes.anchor) @ planes.coefs.T + planes.offsets
    for label in range(3):
        own, heavy = scores[y == label], weights[y == label]
        centre = np.average(own, axis=0, weights=heavy)
        np.testing.assert_allclose(means[label], centre, rtol=1e-9)
        np.testing.assert_allclose(variances[label], np.average((own - centre) ** 2, axis=0, weights=heavy), rtol=1e-8)
