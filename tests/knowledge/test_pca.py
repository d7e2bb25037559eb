"""Principal components of knowledge match scikit-learn on the stacked rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

import mergesvm as ms
from mergesvm.errors import DataError, FormError, IndefiniteError, KnowledgeError, ParameterError
from mergesvm.features import Chain, Components, Fourier
from reference import assert_same_knowledge, blobs

DIGITS, ANSWERS = load_digits(return_X_y=True)


def skewed(seed=0, n=400, d=12, offset=0.0):
    """Rows with well separated variances from 100 down to about 1e-4, and their classes."""
    generator = np.random.default_rng(seed)
    turn = np.linalg.qr(generator.normal(size=(d, d)))[0]
    return generator.normal(size=(n, d)) * np.logspace(1, -2, d) @ turn + offset, generator.integers(0, 3, n)


def assert_is_pca(found, X, n_components=0.9999, solver="full", tolerance=1e-9):
    """Assert that the map is scikit-learn's, except that the largest entry of each direction is positive."""
    expected = PCA(n_components, svd_solver=solver).fit(X)
    assert found.width == expected.n_components_
    directions = found.arrays["directions"].T
    assert (np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1) > 0).all()
    signs = np.sign(np.sum(directions * expected.components_, axis=1))
    np.testing.assert_allclose(directions * signs[:, None], expected.components_, atol=tolerance)
    np.testing.assert_allclose(found.arrays["centre"], expected.mean_, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.explained, expected.explained_variance_ratio_, rtol=1e-8, atol=1e-12)
    size = np.abs(X - X.mean(axis=0)).max()
    np.testing.assert_allclose(found.transform(X) * signs, expected.transform(X), atol=tolerance * size)


@pytest.mark.parametrize("solver", ["full", "covariance_eigh"])
@pytest.mark.parametrize("per_class", [True, False], ids=["per class", "pooled"])
def test_components_of_knowledge_match_those_of_the_rows(solver, per_class):
    X, y = skewed()
    for n_components in (0.5, 0.9, 0.99, 0.9999, 0.999999, 3, 12):
        assert_is_pca(ms.learn(X, y, per_class=per_class).pca(n_components), X, n_components, solver)


def test_images_with_blank_borders():
    knowledge = ms.learn(DIGITS, ANSWERS)
    assert_is_pca(knowledge.pca(0.9999), DIGITS)
    assert knowledge.pca(0.9999).fixed.pilot_rows == len(DIGITS)
    assert knowledge.pca(0.9999).fingerprint == knowledge.pca(0.9999).fingerprint


def test_sparse_rows():
    X, y = skewed(d=20)
    X = np.where(np.random.default_rng(1).random(X.shape) < 0.3, X + 1, 0)
    found = ms.learn(sparse.csr_array(X), y).pca(0.99)
    assert_is_pca(found, X, 0.99)
    np.testing.assert_allclose(found.transform(sparse.csr_array(X)), found.transform(X), atol=1e-12)


def test_sparse_rows_stay_sparse(monkeypatch):
    wide = sparse.random_array((300, 400), density=0.02, format="csr", rng=np.random.default_rng(0))
    found = ms.learn(wide, np.arange(300) % 2).pca(5)
    expected = found.transform(wide.toarray())
    monkeypatch.setattr(sparse.csr_array, "toarray", None)
    np.testing.assert_allclose(found.transform(wide), expected, atol=1e-12)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_sparse_rows_with_a_column_far_from_zero_keep_their_digits(precision):
    X, y = skewed(d=6)
    X[:, 0] += 1e5
    found = ms.learn(X, y).pca(4, precision=precision)
    tolerance = {"float32": 1e-4, "float64": 1e-9}[precision]
    np.testing.assert_allclose(found.transform(sparse.csr_array(X)), found.transform(X), atol=tolerance)


def test_rows_far_from_zero():
    X, y = skewed(offset=1e6)
    # The mean has an error of 1e-10.
    assert_is_pca(ms.learn(X, y).pca(0.999), X, 0.999, tolerance=1e-8)
    near, _ = skewed()
    found = ms.learn(X, y).pca(5).arrays["directions"]
    np.testing.assert_allclose(found, ms.learn(near, y).pca(5).arrays["directions"], atol=1e-8)


@pytest.mark.parametrize("per_class", [True, False], ids=["per class", "pooled"])
def test_a_weight_counts_like_repeated_rows(per_class):
    X, y = skewed()
    weights = np.random.default_rng(4).integers(0, 4, len(X))
    found = ms.learn(X, y, weights, per_class=per_class).pca(0.999)
    assert_is_pca(found, np.repeat(X, weights, axis=0), 0.999)
    assert found.fixed.pilot_rows == np.count_nonzero(weights)


def test_class_weights_of_the_pooled_form_count_as_weights():
    X, y = skewed()
    found = ms.learn(X, y, per_class=False, class_weight={0: 3, 1: 1, 2: 2}).pca(0.999)
    assert_is_pca(found, np.repeat(X, np.array([3, 1, 2])[y], axis=0), 0.999)


def test_merged_pieces_match_the_batch_and_subtracted_rows_have_no_effect():
    X, y = skewed(n=600, offset=50.0)
    pieces = [ms.learn(X[i::4], y[i::4]) for i in range(4)]
    assert_is_pca(ms.merge(pieces).pca(0.999), X, 0.999)
    left = np.concatenate([X[i::4] for i in (0, 1, 3)])
    assert_is_pca((ms.merge(pieces) - pieces[2]).pca(0.999), left, 0.999)


def test_learning_with_components_matches_a_scikit_learn_pipeline():
    knowledge = ms.learn(DIGITS, ANSWERS)
    through = ms.solve(ms.learn(DIGITS, ANSWERS, features=knowledge.pca(0.99)))
    pipeline = make_pipeline(PCA(0.99, svd_solver="full"), ms.MergeSVC()).fit(DIGITS, ANSWERS)
    np.testing.assert_allclose(through.decision_function(DIGITS), pipeline.decision_function(DIGITS), atol=1e-9)
    fitted = ms.MergeSVC(features=knowledge.pca(0.99)).fit(DIGITS, ANSWERS)
    np.testing.assert_allclose(fitted.decision_function(DIGITS), through.decision_function(DIGITS), atol=1e-9)
    assert fitted.features_ == knowledge.pca(0.99)


def test_components_of_knowledge_can_be_saved_and_chained(tmp_path):
    components = ms.learn(DIGITS, ANSWERS).pca(0.99)
    components.save(tmp_path / "plan.features")
    assert ms.features.load(tmp_path / "plan.features") == components
    then = Fourier(50, precision="float64").freeze(components.transform(DIGITS))
    chain = Chain([components, then])
    assert_same_knowledge(
        ms.learn(DIGITS, ANSWERS, features=chain),
        ms.learn(components.transform(DIGITS), ANSWERS, features=then),
    )


def test_components_have_the_names_of_the_columns():
    X, y = skewed(d=3)
    found = ms.learn(X, y, feature_names=["a", "b", "c"]).pca(2)
    assert found.layout.names == ("a", "b", "c")


def test_precision_and_whitening():
    X, y = skewed()
    knowledge = ms.learn(X, y)
    white = knowledge.pca(4, whiten=True)
    np.testing.assert_allclose(np.cov(white.transform(X).T, bias=True), np.eye(4), atol=1e-9)
    expected = PCA(4, whiten=True).fit_transform(X) * np.sqrt(len(X) / (len(X) - 1))
    np.testing.assert_allclose(np.abs(white.transform(X)), np.abs(expected), atol=1e-8)
    coarse = knowledge.pca(4, precision="float32")
    assert coarse.transform(X).dtype == coarse.explained.dtype == np.float32
    np.testing.assert_allclose(coarse.transform(X), knowledge.pca(4).transform(X), atol=1e-4)
    assert ms.learn(X, y, precision="float32").pca(0.99).width == knowledge.pca(0.99).width


# Fractions of the variance.


def test_a_fraction_is_exceeded_by_the_fewest_components():
    X = np.array([[9.0, 0, 0], [-9, 0, 0], [0, 3, 0], [0, -3, 0], [0, 0, 1], [0, 0, -1]])  # 81 : 9 : 1
    knowledge = ms.learn(X, list("aabbab"))
    for n_components, width in ((1e-9, 1), (0.89, 1), (0.8902, 2), (0.989, 2), (0.9891, 3), (1 - 1e-16, 3)):
        assert knowledge.pca(n_components).width == PCA(n_components, svd_solver="full").fit(X).n_components_ == width
    np.testing.assert_allclose(knowledge.pca(3).explained, np.array([81, 9, 1]) / 91)


def test_a_fraction_never_selects_rounding_errors():
    X, y = skewed(d=4)
    twice = np.hstack([X, X @ np.random.default_rng(0).normal(size=(4, 60)), np.full((len(X), 2), 0.1)])
    for offset in (0.0, 1e3):
        for rows in (twice + offset, sparse.csr_array(twice + offset)):
            found = ms.learn(rows, y).pca(1 - 1e-16)
            assert found.width <= 4
            assert (found.explained > 0).all()
    assert ms.learn(twice, y, precision="float32").pca(1 - 1e-16).width <= 4
    assert Components(1 - 1e-16).freeze(twice).width <= 4
    assert not ms.learn(twice, y).pca(66).explained[4:].any()
    assert np.abs(ms.learn(twice, y).pca(66, whiten=True).transform(twice)[:, 4:]).max() < 1e-9


def test_a_constant_column_far_from_zero_does_not_hide_the_others():
    X, y = skewed(d=5)
    far = sparse.csr_array(np.column_stack([X, np.full(len(X), 1e6)]))  # summed about zero
    found = ms.learn(far, y).pca(0.999999)
    assert found.width == ms.learn(X, y).pca(0.999999).width
    assert not found.arrays["directions"][5].any()


def test_identical_rows_have_one_component_without_variance():
    for rows in (np.full((5, 3), 0.1), np.zeros((4, 2)), np.array([[7.0, 8.0]])):
        for whiten in (False, True):
            found = ms.learn(rows, ["a"] * len(rows)).pca(0.99, whiten=whiten)
            assert found.explained.tolist() == [0.0]
            np.testing.assert_allclose(found.transform(rows), 0, atol=1e-12)


# Errors.


def test_more_components_than_columns_or_rows_are_refused():
    X, y = blobs(n=4, d=6)
    with pytest.raises(ParameterError, match="Rows of 6 columns have at most 6 principal components"):
        ms.learn(X, y).pca(7)
    with pytest.raises(DataError, match="needs at least 5 rows, but there are 4"):
        ms.learn(X, y).pca(5)
    with pytest.raises(ParameterError, match=r"n_components must be an integer .*, not 1\.0"):
        ms.learn(X, y).pca(1.0)
    with pytest.raises(ParameterError, match="precision must be one of"):
        ms.learn(X, y).pca(2, precision="float16")


def test_mapped_knowledge_is_refused_with_advice():
    X, y = blobs()
    mapped = ms.learn(X, y, features=Fourier(8).freeze(X))
    message = r"is of Fourier\(8, precision='float32'\) .*learn\(X, y\)\.pca\(0\.99\).*Components\(0\.99\)\]\)"
    with pytest.raises(FormError, match=message):
        mapped.pca(0.99)
    chain = Chain([Fourier(8), Components(0.99)]).freeze(X)
    assert ms.learn(X, y, features=chain).width == chain.width <= 8


def test_knowledge_of_no_rows_is_refused():
    X, y = blobs()
    knowledge = ms.learn(X, y)
    for nothing in (knowledge - knowledge, ms.Knowledge.zero(knowledge.signature)):
        with pytest.raises(KnowledgeError, match="Knowledge of no rows has no principal components"):
            nothing.pca(0.99)


@pytest.mark.parametrize("wrong", [[[9.0, 9.0], [-9.0, -9.0]], [[9.0, 0.0], [-9.0, 0.0]]])
def test_sums_with_a_negative_variance_are_refused(wrong):
    X, y = np.random.default_rng(0).normal(size=(30, 2)), ["a"] * 30
    with pytest.raises(IndefiniteError, match="a variance is negative"):
        ms.subtract(ms.learn(X, y), ms.learn(wrong, ["a", "a"]), force=True).pca(2)


def test_valid_subtraction_is_never_refused():
    generator = np.random.default_rng(0)
    X, y = skewed(n=50, d=80)
    for size in (1e2, 1e4, 1e6):
        large = generator.normal(size=(500, 80)) * size
        for precision in ("float64", "float32"):
            some = ms.learn(large, [0] * 500, precision=precision)
            left = some + ms.learn(X, y, precision=precision) - some
            assert left.pca(0.99).width >= 1
