"""KernelModel.reduced and reduced_path: what users get."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

import mergesvm as ms
from mergesvm.errors import DataError, FormError, ParameterError

rng = np.random.default_rng(6)
X = rng.normal(size=(700, 3))
Y = (X[:, 0] ** 2 + X[:, 1] > 0.5).astype(int) + (X[:, 2] > 0.8)
NEW, TRUTH, X, Y = X[400:], Y[400:], X[:400], Y[:400]
PARAMETERS = {"C": 5.0, "gamma": 0.4}


def model(classes):
    return ms.ParallelKernelSVC(**PARAMETERS).fit(X, np.minimum(Y, classes - 1)).model_


TWO, THREE = model(2), model(3)


@pytest.mark.parametrize("full", [TWO, THREE])
def test_a_fifth_of_the_vectors_predicts_nearly_the_same(full):
    size = int(full.n_support_.sum()) // 5
    for small in (
        full.reduced(size),
        full.reduced(size, X),
        full.reduced(size, X, np.minimum(Y, len(full.labels) - 1)),
    ):
        assert small.n_support_.sum() == size
        assert np.mean(small.predict(NEW) == full.predict(NEW)) > 0.95
        rows = {row.tobytes() for row in X}
        assert all(row.tobytes() in rows for row in small.support_vectors_)
    assert (full.score(NEW, np.minimum(TRUTH, len(full.labels) - 1))) > 0.9


def test_all_pairs_share_the_vectors():
    small = THREE.reduced(12, X, Y)
    assert small.dual_coef_.shape == (3, 12)
    assert (small.dual_coef_ != 0).all()
    kernel = rbf_kernel(NEW, small.support_vectors_, gamma=0.4)
    np.testing.assert_allclose(-small.scores(NEW), kernel @ small.dual_coef_.T + small.intercept_, atol=1e-9)
    labels = dict(zip(map(bytes, X), Y, strict=True))
    assert [labels[bytes(row)] for row in small.support_vectors_] == np.repeat([0, 1, 2], small.n_support_).tolist()


def test_linear_coefficients_of_shared_vectors():
    full = ms.ParallelKernelSVC("linear").fit(X, Y).model_
    small = full.reduced(3, X)
    np.testing.assert_allclose(-small.scores(NEW), NEW @ small.coef_.T + small.intercept_, atol=1e-9)
    # Three rows span all linear functions.
    assert np.mean(small.predict(NEW) == full.predict(NEW)) > 0.97


def test_models_of_a_path_are_nested_and_those_of_reduced():
    path = THREE.reduced_path(X, Y, max_support_vectors=20)
    assert path.sizes.tolist()[-1] == 20
    seen = set()
    for size in path.sizes:
        vectors = {row.tobytes() for row in path.model(size).support_vectors_}
        assert seen < vectors
        seen = vectors
    for at in (3, -1):
        small = path.model(path.sizes[at])
        np.testing.assert_allclose(path.accuracy[at], small.score(X, Y))
        np.testing.assert_allclose(path.agreement[at], np.mean(small.predict(X) == THREE.predict(X)))
    np.testing.assert_allclose(path.full_accuracy, THREE.score(X, Y))
    np.testing.assert_allclose(path.loss, THREE.score(X, Y) - path.accuracy)
    np.testing.assert_allclose(path.model(20).scores(NEW), THREE.reduced(20, X, Y).scores(NEW), atol=1e-6)
    with pytest.raises(ParameterError, match=r"no model of 21 vectors"):
        path.model(21)


@pytest.mark.parametrize("loss", [0.0, 0.01, 0.05])
def test_a_budget_of_loss_is_kept(loss):
    small = THREE.reduced(X=X, y=Y, loss=loss)
    assert small.score(X, Y) >= THREE.score(X, Y) - loss
    size = int(small.n_support_.sum())
    if size > 1:
        assert THREE.reduced(size - 1, X, Y).score(X, Y) < THREE.score(X, Y) - loss
    # Without labels, predictions of the full model are the truth.
    unlabelled = THREE.reduced(X=X, loss=loss)
    assert np.mean(unlabelled.predict(X) != THREE.predict(X)) <= loss


def test_sparse_and_dense_rows_give_the_same_model():
    thin = sparse.random_array((200, 40), density=0.1, rng=np.random.default_rng(1), format="csr")
    labels = thin.sum(axis=1) > 2
    full = ms.ParallelKernelSVC(gamma=0.5, tol=1e-6, precision="float64").fit(thin, labels).model_
    found, expected = full.reduced(10, thin, labels), full.reduced(10, thin.toarray(), labels)
    assert sparse.issparse(found.support_vectors_)
    np.testing.assert_allclose(found.scores(thin), expected.scores(thin), atol=1e-6)


@pytest.mark.parametrize("full", [TWO, THREE])
def test_a_reduced_model_is_written_and_read(full, tmp_path):
    small = full.reduced(9, X)
    small.save(tmp_path / "small.msvm")
    loaded = ms.load_model(tmp_path / "small.msvm")
    np.testing.assert_array_equal(loaded.scores(NEW), small.scores(NEW))
    np.testing.assert_array_equal(loaded.predict_proba(NEW), small.predict_proba(NEW))
    np.testing.assert_array_equal(loaded.dual_coef_, small.dual_coef_)


def test_calibrations_are_dropped_and_moments_are_those_of_the_rows():
    calibrated = THREE.calibrated(NEW, TRUTH)
    small = calibrated.reduced(10, X, Y)
    assert small.calibration_ is None
    np.testing.assert_allclose(
        small.moments.counts.sum(axis=1), [np.isin(Y, p).sum() for p in ((0, 1), (0, 2), (1, 2))]
    )
    assert small.reduced(10) is small
    assert calibrated.reduced(10_000) is calibrated


def test_invalid_arguments_are_named():
    for size in (0, -1, 2.5, True, "5"):
        with pytest.raises(ParameterError, match="max_support_vectors must be a positive integer"):
            TWO.reduced(size)
    with pytest.raises(ParameterError, match="either max_support_vectors"):
        TWO.reduced()
    with pytest.raises(ParameterError, match="either max_support_vectors"):
        TWO.reduced(5, loss=0.1)
    for loss in (-0.1, 2, "0.1", float("nan")):
        with pytest.raises(ParameterError, match="loss must be a number from 0 to 1"):
            TWO.reduced(loss=loss)
    with pytest.raises(DataError, match="need the rows X"):
        TWO.reduced(5, y=Y)
    with pytest.raises(DataError, match="positive weight"):
        TWO.reduced(5, X, sample_weight=np.zeros(len(X)))
    with pytest.raises(DataError, match="does not know"):
        TWO.reduced(5, X, Y)
    alone = ms.ParallelKernelSVC().fit(X, np.zeros(len(X))).model_
    assert alone.reduced(1) is alone
    with pytest.raises(FormError, match="one class"):
        alone.reduced_path()
