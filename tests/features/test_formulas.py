"""Each map against its formula, by other means."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

import mergesvm as ms
from mergesvm.errors import DataError, FeatureMapError, ParameterError
from mergesvm.features import Chain, Components, Fourier, HiddenLayer, Nystroem, Patches, Wrapped
from mergesvm.features.pilot import PILOT_ROWS, Pilot
from mergesvm.features.scaling import find_scaling
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
}


def scaled(features, X):
    return (X - features.arrays["centre"]) / features.arrays["scale"]


@pytest.mark.parametrize("activation", FUNCTIONS)
def test_a_hidden_layer_is_its_formula(activation):
    layer = HiddenLayer(30, activation=activation, precision="float64").freeze(ROWS)
    before = scaled(layer, ROWS) @ layer.arrays["weights"] + layer.arrays["bias"]
    expected = FUNCTIONS[activation](before) * layer.arrays["gain"]
    np.testing.assert_allclose(layer.transform(ROWS), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.mean(expected**2), 1.0, rtol=1e-9)
    np.testing.assert_allclose(expected.mean(axis=0), layer.default_anchor, rtol=1e-9, atol=1e-12)


def test_every_activation_has_a_formula_here():
    from mergesvm.features.ops.activations import ACTIVATIONS

    assert set(ACTIVATIONS) == set(FUNCTIONS)


def test_constrained_units_take_two_rows_of_unlike_classes_to_opposite_ends():
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


def test_frequencies_are_orthogonal_in_sets_of_as_many_as_there_are_columns():
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
def test_landmarks_give_the_kernel_among_themselves(kernel):
    features = Nystroem(300, kernel=kernel, gamma=0.05, degree=2, scaling="none", precision="float64").freeze(ROWS)
    mapped = features.transform(ROWS) / features.arrays["gain"]
    exact = rbf_kernel(ROWS, gamma=0.05) if kernel == "rbf" else polynomial_kernel(ROWS, gamma=0.05, degree=2, coef0=1)
    np.testing.assert_allclose(mapped @ mapped.T, exact, atol=2e-5 * np.abs(exact).sum(axis=1).max())
    with pytest.raises(DataError, match="needs a sample of 301 rows, but there are 300"):
        Nystroem(301).freeze(ROWS)


@pytest.mark.parametrize("wanted", [3, 0.5, 0.9, 0.99, 1 - 1e-12])
@pytest.mark.parametrize("rows", [DIGITS, DIGITS[:40], ROWS, ROWS + 1e6], ids=["many", "few", "table", "far"])
def test_components_are_those_of_scikit_learn(rows, wanted):
    found = Components(wanted, precision="float64").freeze(rows)
    expected = PCA(wanted, svd_solver="full").fit(rows)
    if wanted in (3, 0.5, 0.9, 0.99):
        assert found.width == expected.n_components_
    else:
        # All that there is, and no rounding.
        assert found.width == np.linalg.matrix_rank(rows - rows.mean(axis=0), tol=1e-6)
    mapped, theirs = found.transform(rows), expected.transform(rows)[:, : found.width]
    signs = np.sign(np.sum(mapped * theirs, axis=0))
    np.testing.assert_allclose(mapped * signs, theirs, atol=1e-7)
    np.testing.assert_allclose(found.explained, expected.explained_variance_ratio_[: found.width], atol=1e-9)
    np.testing.assert_array_equal(found.default_anchor, 0)
    white = Components(wanted, whiten=True, precision="float64").freeze(rows).transform(rows)
    np.testing.assert_allclose(np.mean(white**2, axis=0), 1, atol=1e-6)


def test_components_of_scaled_columns_are_those_of_the_correlation_matrix():
    found = Components(4, scaling="columns", precision="float64").freeze(ROWS)
    values = np.linalg.eigvalsh(np.corrcoef(ROWS.T))[::-1]
    np.testing.assert_allclose(found.explained, values / 4, rtol=1e-9)
    expected = (ROWS - ROWS.mean(axis=0)) / ROWS.std(axis=0) @ found.arrays["directions"]
    np.testing.assert_allclose(found.transform(ROWS), expected, atol=1e-12)


def slow_patches(patches, images, shape):
    """What patches are, patch by patch."""
    height, width, channels = shape
    size, rim, grid = patches.size, patches.padding, patches.pooling
    filters, offsets = patches.arrays["filters"], patches.arrays["offsets"]
    out = []
    for image in images / patches.arrays["scale"]:
        padded = np.pad(image.reshape(height, width, channels), ((rim, rim), (rim, rim), (0, 0)))
        lines, places = padded.shape[0] - size + 1, padded.shape[1] - size + 1
        responses = np.empty((lines, places, len(offsets)))
        for i in range(lines):
            for j in range(places):
                patch = padded[i : i + size, j : j + size].ravel()
                patch = (patch - patch.mean()) / np.sqrt(patch.var() + 0.01)
                responses[i, j] = patch @ filters - offsets
        rectified = {
            "relu": np.maximum(responses, 0),
            "absolute": np.abs(responses),
            "split": np.concatenate([np.maximum(responses, 0), np.maximum(-responses, 0)], axis=2),
        }[patches.rectify]
        tops, lefts = (np.linspace(0, length, grid + 1).round().astype(int) for length in (lines, places))
        out.append(
            [
                rectified[tops[i] : tops[i + 1], lefts[j] : lefts[j + 1]].mean(axis=(0, 1))
                for i in range(grid)
                for j in range(grid)
            ]
        )
    return np.array(out).reshape(len(images), -1) * patches.arrays["gain"]


@pytest.mark.parametrize("rectify", ["relu", "absolute", "split"])
@pytest.mark.parametrize("shape", [(8, 8, 1), (4, 8, 2)])
def test_patches_are_what_a_slow_loop_gives(rectify, shape):
    patches = Patches(5, size=3, padding=1, pooling=2, rectify=rectify, image=shape, precision="float64")
    patches = patches.freeze(DIGITS[:200])
    expected = slow_patches(patches, DIGITS[:20], shape)
    np.testing.assert_allclose(patches.transform(DIGITS[:20]), expected, rtol=1e-9, atol=1e-9)
    assert patches.width == expected.shape[1]


def test_patches_see_bright_images_as_well_as_dark_ones():
    dark, bright = (Patches(8, size=3).freeze(DIGITS + offset).transform(DIGITS[:50] + offset) for offset in (0, 0.0))
    np.testing.assert_array_equal(dark, bright)
    fine = Patches(8, size=3, padding=0, precision="float64").freeze(DIGITS + 1000.0)
    coarse = Patches(8, size=3, padding=0).freeze(DIGITS + 1000.0)
    np.testing.assert_allclose(fine.transform(DIGITS[:50] + 1000.0), coarse.transform(DIGITS[:50] + 1000.0), atol=5e-3)


def test_a_chain_of_float32_maps_does_not_blow_up_what_is_constant():
    big = np.zeros((len(DIGITS), 16, 16))
    big[:, 4:12, 4:12] = DIGITS.reshape(-1, 8, 8)
    for images in (big, 255 - 15 * big):
        rows = images.reshape(len(images), -1)
        chain = as_map("patches:16,size=3+fourier:200").freeze(rows[:1200])
        model = ms.solve(ms.learn(rows[:1200], ANSWERS[:1200], features=chain))
        assert model.score(rows[1200:], ANSWERS[1200:]) > 0.9


def test_images_are_scaled_as_a_whole_and_tables_by_column():
    assert len(set(find_scaling(Pilot.of(DIGITS), "auto").scale)) == 1
    np.testing.assert_allclose(find_scaling(Pilot.of(ROWS), "auto").scale, ROWS.std(axis=0))
    np.testing.assert_allclose(find_scaling(Pilot.of(ROWS), "range").scale, np.ptp(ROWS, axis=0))
    constant = find_scaling(Pilot.of(np.full((20, 3), 0.1)), "columns")
    np.testing.assert_array_equal(constant.scale, 1.0)


def test_the_sample_of_a_map_is_drawn_from_all_rows_once():
    rows = np.arange(20_000.0)[:, None]
    pilot = Pilot.of(rows, seed=3)
    assert len(np.unique(pilot.rows)) == PILOT_ROWS
    assert abs(pilot.rows[:500].mean() - 10_000) < 1500
    np.testing.assert_array_equal(pilot.rows, Pilot.of(rows, seed=3).rows)


def test_a_sample_of_uneven_files_is_as_large_as_it_has_to_be(tmp_path):
    rng = np.random.default_rng(0)
    for index, count in enumerate([3000, 300, 10, 5, 5]):
        np.savetxt(
            tmp_path / f"{index}.csv",
            rng.normal(size=(count, 3)),
            delimiter=",",
            header="a,b,y",
            comments="",
            fmt="%.3f",
        )
    scan = ms.scan(tmp_path / "*.csv", label=None, features=["a", "b"])
    assert len(Pilot.of(scan).rows) == 3320
    assert len(Pilot.of(scan, min_rows=1000).rows) == 3320
    slices = ms.scan(tmp_path / "0.csv", label=None, features=["a", "b"], batch_rows=500)
    assert len(Pilot.of(slices).rows) == 500
    assert len(Pilot.of(slices, min_rows=1200).rows) >= 1200


def test_wide_rows_can_be_mapped():
    from scipy import sparse

    wide = sparse.random_array((600, 50_000), density=1e-3, format="csr", rng=np.random.default_rng(0))
    features = HiddenLayer(10).freeze(wide)
    np.testing.assert_allclose(features.transform(wide[:5]), features.transform(wide[:5].toarray()), atol=1e-5)
    assert Fourier(5).freeze(np.random.default_rng(0).normal(size=(50, 6000))).width == 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fourier", Fourier(1000)),
        ("patches", Patches(64)),
        ("hidden:20,activation=tanh,spread=2", HiddenLayer(20, activation="tanh", spread=2.0)),
        ("nystroem:5,kernel=polynomial,degree=2", Nystroem(5, kernel="polynomial", degree=2)),
        ("patches:4,image=6x8,padding=0", Patches(4, image=(6, 8), padding=0)),
        ("fourier:7,orthogonal=false,gamma=none", Fourier(7, orthogonal=False)),
        ("patches:4+fourier:9", Chain([Patches(4), Fourier(9)])),
        ("pca", Components(0.9999)),
        ("pca:50", Components(50)),
        ("pca:0.99,whiten=true+fourier:9", Chain([Components(0.99, whiten=True), Fourier(9)])),
    ],
)
def test_a_map_can_be_asked_for_by_name(text, expected):
    assert as_map(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "fourrier:4", "fourier:", "fourier:x", "fourier:-1", "fourier:4,depth=3", "fourier:4,gamma"),
        *("fourier:4.5", "hidden:4,activation=cube", "hidden:5,n_features=7", "fourier:4,seed=1,seed=2", "patches:4+"),
        *("nystroem:3,degree=0", "fourier:4,scaling=some", "fourier:4,precision=float16", "wrapped:3"),
        *("pca:0", "pca:1.0", "pca:1.5", "pca:-0.5", "pca:all", "pca:nan"),
        "patches:4,image=" + "9" * 5000 + "x3",
    ],
    ids=lambda text: text[:30],
)
def test_a_wrong_name_is_an_error_that_says_what_is_allowed(text):
    with pytest.raises(ParameterError):
        as_map(text)


def test_a_wrapped_transformer_serves_within_the_process_only(tmp_path):
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
    # Whole numbers do not wrap around, a transformer that takes no zeros is no obstacle, one fitted again is noticed.
    squares = Wrapped(FunctionTransformer(np.square, validate=True).fit(DIGITS))
    np.testing.assert_array_equal(squares.transform(DIGITS.astype(np.uint8) * 10), (DIGITS * 10) ** 2)
    positive = np.exp(ROWS[:, :2] / 10)
    assert Wrapped(PowerTransformer("box-cox").fit(positive)).transform(positive).shape == (300, 2)
    sampler.set_params(random_state=5).fit(ROWS)
    with pytest.raises(FeatureMapError, match="was refitted"):
        ms.learn(ROWS, SIDES, features=wrapped)
