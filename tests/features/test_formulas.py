"""Each map matches an independent computation of its formula."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, log_expit
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

import mergesvm as ms
from mergesvm.errors import DataError, FeatureMapError, ParameterError
from mergesvm.features import Components, Fourier, HiddenLayer, Nystroem, Wrapped
from mergesvm.features.spec import as_map

DIGITS, ANSWERS = load_digits(return_X_y=True)
ROWS = np.random.default_rng(5).normal(size=(300, 4)) * [1, 10, 0.1, 3] + [0, 5, 1, -2]
SIDES = (ROWS[:, 0] > 0).astype(int)

FUNCTIONS = {
    "gaussian": lambda z: np.exp(-(z**2) / 2),
    "relu": lambda z: np.where(z > 0, z, 0.0),
    "sigmoid": expit,
    "tanh": np.tanh,
    "sine": np.sin,
    "absolute": np.abs,
    "square": lambda z: z * z,
    "cosine": np.cos,
    "hardlimit": lambda z: np.heaviside(z, 1.0),
    "sign": lambda z: 2 * np.heaviside(z, 1.0) - 1,
    "triangular": lambda z: np.clip(1 - np.abs(z), 0, None),
    "softplus": lambda z: -log_expit(-z),
    "softsign": lambda z: z / (1 + np.abs(z)),
    "swish": lambda z: z * expit(z),
    "multiquadric": lambda z: np.sqrt(1 + z * z),
    "linear": lambda z: z,
}


def scaled(features, X):
    return (X - features.arrays["centre"]) / features.arrays["scale"]


@pytest.mark.parametrize("activation", FUNCTIONS)
def test_a_hidden_layer_matches_its_formula(activation):
    layer = HiddenLayer(30, activation=activation, precision="float64").freeze(ROWS)
    before = scaled(layer, ROWS) @ layer.arrays["weights"] + layer.arrays["bias"]
    expected = FUNCTIONS[activation](before) * layer.arrays["gain"]
    np.testing.assert_allclose(layer.transform(ROWS), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.mean(expected**2), 1.0, rtol=1e-9)
    np.testing.assert_allclose(expected.mean(axis=0), layer.default_anchor, rtol=1e-9, atol=1e-12)


def test_every_activation_has_a_formula_here():
    from mergesvm.features.ops.activations import ACTIVATIONS

    assert set(ACTIVATIONS) == set(FUNCTIONS)


def test_constrained_units_map_two_rows_of_different_classes_to_opposite_values():
    layer = HiddenLayer(40, activation="tanh", weights="constrained", spread=1.5, precision="float64")
    layer = layer.freeze(ROWS, SIDES)
    before = scaled(layer, ROWS) @ layer.arrays["weights"] + layer.arrays["bias"]
    low, high = np.abs(before + 1.5).argmin(axis=0), np.abs(before - 1.5).argmin(axis=0)
    units = np.arange(40)
    np.testing.assert_allclose(before[low, units], -1.5, atol=1e-9)
    np.testing.assert_allclose(before[high, units], 1.5, atol=1e-9)
    assert (SIDES[low] != SIDES[high]).all()
    with pytest.raises(FeatureMapError, match="needs labels"):
        HiddenLayer(40, weights="constrained").freeze(ROWS)
    with pytest.raises(FeatureMapError, match="two classes"):
        HiddenLayer(40, weights="constrained").freeze(ROWS, np.zeros(300, dtype=int))


@pytest.mark.parametrize("orthogonal", [True, False])
def test_cosines_approximate_the_gaussian_kernel(orthogonal):
    exact = rbf_kernel(ROWS[:20], gamma=0.05)
    found = []
    for seed in range(10):
        cosines = Fourier(2000, gamma=0.05, orthogonal=orthogonal, scaling="none", seed=seed, precision="float64")
        frozen = cosines.freeze(ROWS)
        features = frozen.transform(ROWS[:20]) / frozen.arrays["gain"]
        found.append(2 * features @ features.T / 2000)
    error = np.mean(found, axis=0) - exact
    deviation = np.std(found, axis=0, ddof=1) / np.sqrt(10)
    assert (np.abs(error) < 6 * deviation + 1e-12).all()
    assert np.abs(error).max() < 0.03


def test_frequencies_are_orthogonal_in_sets_of_the_number_of_columns():
    weights = Fourier(10, scaling="none", precision="float64").freeze(ROWS).arrays["weights"]
    for left in (0, 4, 8):
        part = weights[:, left : left + 4]
        angles = part.T @ part / np.outer(*[np.linalg.norm(part, axis=0)] * 2)
        np.testing.assert_allclose(angles, np.eye(part.shape[1]), atol=1e-12)


def test_detail_is_gamma_in_units_of_the_mean_squared_distance():
    distances = ((ROWS[:, None] - ROWS[None]) ** 2).sum(axis=2).mean()
    one = Fourier(20, detail=3.0, scaling="none", precision="float64").freeze(ROWS)
    other = Fourier(20, gamma=3.0 / distances, scaling="none", precision="float64").freeze(ROWS)
    np.testing.assert_allclose(one.transform(ROWS), other.transform(ROWS), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
def test_features_of_landmarks_reproduce_their_kernel(kernel):
    features = Nystroem(300, kernel=kernel, gamma=0.05, degree=2, scaling="none", precision="float64").freeze(ROWS)
    mapped = features.transform(ROWS) / features.arrays["gain"]
    exact = rbf_kernel(ROWS, gamma=0.05) if kernel == "rbf" else polynomial_kernel(ROWS, gamma=0.05, degree=2, coef0=1)
    np.testing.assert_allclose(mapped @ mapped.T, exact, atol=2e-5 * np.abs(exact).sum(axis=1).max())
    with pytest.raises(DataError, match="needs a sample of 301 rows, but there are 300"):
        Nystroem(301).freeze(ROWS)


@pytest.mark.parametrize("wanted", [3, 0.5, 0.9, 0.99, 1 - 1e-12])
@pytest.mark.parametrize("rows", [DIGITS, DIGITS[:40], ROWS, ROWS + 1e6], ids=["many", "few", "table", "far"])
def test_components_match_scikit_learn(rows, wanted):
    found = Components(wanted, precision="float64").freeze(rows)
    expected = PCA(wanted, svd_solver="full").fit(rows)
    if wanted in (3, 0.5, 0.9, 0.99):
        assert found.width == expected.n_components_
    else:
        # All components except those of rounding errors.
        assert found.width == np.linalg.matrix_rank(rows - rows.mean(axis=0), tol=1e-6)
    mapped, theirs = found.transform(rows), expected.transform(rows)[:, : found.width]
    signs = np.sign(np.sum(mapped * theirs, axis=0))
    np.testing.assert_allclose(mapped * signs, theirs, atol=1e-7)
    np.testing.assert_allclose(found.explained, expected.explained_variance_ratio_[: found.width], atol=1e-9)
    np.testing.assert_array_equal(found.default_anchor, 0)
    white = Components(wanted, whiten=True, precision="float64").freeze(rows).transform(rows)
    np.testing.assert_allclose(np.mean(white**2, axis=0), 1, atol=1e-6)


def test_components_of_scaled_columns_match_the_correlation_matrix():
    found = Components(4, scaling="columns", precision="float64").freeze(ROWS)
    values = np.linalg.eigvalsh(np.corrcoef(ROWS.T))[::-1]
    np.testing.assert_allclose(found.explained, values / 4, rtol=1e-9)
    expected = (ROWS - ROWS.mean(axis=0)) / ROWS.std(axis=0) @ found.arrays["directions"]
    np.testing.assert_allclose(found.transform(ROWS), expected, atol=1e-12)


def test_a_chain_of_float32_maps_does_not_amplify_constant_features():
    big = np.zeros((len(DIGITS), 16, 16))
    big[:, 4:12, 4:12] = DIGITS.reshape(-1, 8, 8)
    for images in (big, 255 - 15 * big):
        rows = images.reshape(len(images), -1)
        chain = as_map("patches:16,size=3+fourier:200").freeze(rows[:1200])
        model = ms.solve(ms.learn(rows[:1200], ANSWERS[:1200], features=chain))
        assert model.score(rows[1200:], ANSWERS[1200:]) > 0.9


def test_wide_rows_can_be_mapped():
    from scipy import sparse

    wide = sparse.random_array((600, 50_000), density=1e-3, format="csr", rng=np.random.default_rng(0))
    features = HiddenLayer(10).freeze(wide)
    np.testing.assert_allclose(features.transform(wide[:5]), features.transform(wide[:5].toarray()), atol=1e-5)
    assert Fourier(5).freeze(np.random.default_rng(0).normal(size=(50, 6000))).width == 5


def test_a_wrapped_transformer_can_be_used_but_not_saved(tmp_path):
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.preprocessing import FunctionTransformer, PowerTransformer

    sampler = RBFSampler(n_components=30, random_state=0).fit(ROWS)
    wrapped = Wrapped(sampler)
    knowledge = ms.learn(ROWS, SIDES, features=wrapped)
    plain = ms.learn(sampler.transform(ROWS), SIDES)
    np.testing.assert_allclose(ms.solve(knowledge).coef_, ms.solve(plain).coef_, rtol=1e-8, atol=1e-10)
    for thing in (wrapped, knowledge, ms.solve(knowledge)):
        with pytest.raises(FeatureMapError, match=r"Wrapped\(.*RBFSampler.*cannot be saved: it is arbitrary code"):
            thing.save(tmp_path / "file")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ParameterError, match="Call its fit first"):
        Wrapped(RBFSampler())
    # Integers do not overflow, transformers may refuse zeros, and refitting is detected.
    squares = Wrapped(FunctionTransformer(np.square, validate=True).fit(DIGITS))
    np.testing.assert_array_equal(squares.transform(DIGITS.astype(np.uint8) * 10), (DIGITS * 10) ** 2)
    positive = np.exp(ROWS[:, :2] / 10)
    assert Wrapped(PowerTransformer("box-cox").fit(positive)).transform(positive).shape == (300, 2)
    sampler.set_params(random_state=5).fit(ROWS)
    with pytest.raises(FeatureMapError, match="was refitted"):
        ms.learn(ROWS, SIDES, features=wrapped)
