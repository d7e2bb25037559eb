"""Hidden layers with given weights, as an extreme SVM is printed: Zhu and others (2018), section 2.2."""

from __future__ import annotations

import numpy as np
import pytest

import mergesvm as ms
from mergesvm.errors import DataError, FeatureMapError, MissingFileError, ParameterError
from mergesvm.features import Chain, HiddenLayer
from mergesvm.features.ops.activations import ACTIVATIONS
from mergesvm.features.spec import as_map

GENERATOR = np.random.default_rng(3)
X = GENERATOR.normal(size=(300, 4)) * [1, 20, 0.1, 3] + [0, 5, 1, -2]
Y = np.where(np.sin(X[:, 0] * 2) + X[:, 3] / 4 > 0, 1, -1)
MATRIX = GENERATOR.uniform(-1, 1, (25, 5)) * [1, 0.1, 1, 1, 1]
"""W of equation 11: one line per unit, its bias in the last column."""

WEIGHTS, BIASES = MATRIX[:, :-1].T, MATRIX[:, -1]


def printed(**options):
    return HiddenLayer(weights=WEIGHTS, biases=BIASES, gain=False, **{"activation": "sigmoid"} | options)


def mapped_by_hand(rows):
    """Equation 11 with the sigmoid."""
    return 1 / (1 + np.exp(-np.column_stack([rows, np.ones(len(rows))]) @ MATRIX.T))


def test_features_are_those_of_equation_11():
    layer = printed().freeze(X)
    assert layer.width == 25
    np.testing.assert_allclose(layer.transform(X), mapped_by_hand(X), rtol=1e-13)
    np.testing.assert_array_equal(layer.arrays["weights"], WEIGHTS)
    for name, expected in (("centre", 0.0), ("scale", 1.0), ("gain", 1.0), ("middle", 0.0)):
        assert (layer.arrays[name] == expected).all()


def test_merged_slices_give_the_closed_form_of_all_rows():
    """Equation 9 in the feature space: (I/C + F'F)^-1 F'De with F = [Phi, -e]; nodes share nothing but the matrix."""
    C = 3.0
    features = np.column_stack([mapped_by_hand(X), -np.ones(len(X))])
    expected = np.linalg.solve(np.eye(26) / C + features.T @ features, features.T @ Y)
    pieces = [ms.learn(X[at], Y[at], features=printed()) for at in np.split(np.arange(300), [40, 41, 200])]
    model = ms.solve(ms.merge(pieces), C=C)
    np.testing.assert_allclose(model.coef_[0], expected[:-1], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(model.scores(X)[:, 0], features @ expected, rtol=0, atol=1e-10)
    rest = ms.solve(ms.merge(pieces) - pieces[1] - pieces[3], C=C)
    some = np.r_[0:40, 41:200]
    expected = np.linalg.solve(np.eye(26) / C + features[some].T @ features[some], features[some].T @ Y[some])
    np.testing.assert_allclose(rest.scores(X)[:, 0], features @ expected, rtol=0, atol=1e-10)


def test_layers_without_a_sample_are_equal_whatever_rows_they_are_frozen_on():
    one, other = printed().freeze(X[:50]), printed().freeze(X[100:] * 3 + 7)
    assert one == other
    assert one.fingerprint == other.fingerprint
    assert printed().freeze(X) != printed(activation="tanh").freeze(X)
    for sampled in (printed(scaling="columns"), HiddenLayer(weights=WEIGHTS, biases=BIASES)):
        assert sampled.freeze(X[:50]) != sampled.freeze(X[100:])


def test_layers_with_other_arrays_are_other_layers():
    weights, biases = WEIGHTS.copy(), BIASES.copy()
    layer = HiddenLayer(weights=weights, biases=biases, gain=False, activation="sigmoid")
    weights[0, 0] = biases[-1] = 5  # a copy is kept
    assert layer == printed()
    others = HiddenLayer(weights=weights, biases=BIASES, gain=False), HiddenLayer(weights=WEIGHTS, biases=biases)
    assert len({repr(each) for each in (layer, *others)}) == 3
    assert len({each.freeze(X).fingerprint for each in (layer, *others)}) == 3
    assert "weights=<4 x 25, " in repr(layer)
    assert HiddenLayer(weights=WEIGHTS) == HiddenLayer(25, weights=WEIGHTS.tolist(), biases=np.zeros(25))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_can_be_saved(activation, tmp_path):
    layer = printed(activation=activation).freeze(X)
    layer.save(tmp_path / "layer.features")
    loaded = ms.features.load(tmp_path / "layer.features")
    assert loaded == layer
    assert loaded.transform(X).tobytes() == layer.transform(X).tobytes()
    assert repr(loaded) == repr(layer)


def test_steps_are_one_at_zero():
    for activation, below in (("hardlimit", 0.0), ("sign", -1.0)):
        step = HiddenLayer(weights=[[1.0]], activation=activation, gain=False).freeze([[1.0]])
        assert step.transform([[-1e-300], [-0.0], [0.0], [1.0]]).ravel().tolist() == [below, 1.0, 1.0, 1.0]


def test_weights_can_be_read_from_a_file(tmp_path):
    path = tmp_path / "layer.npz"
    np.savez(path, weights=WEIGHTS, biases=BIASES)
    text = f"hidden:weights={path},gain=false,activation=sigmoid"
    assert as_map(text) == as_map(text, n_features=70) == printed()
    assert as_map(f"{text}+fourier:9,seed=1") == Chain([printed(), ms.features.Fourier(9, seed=1)])
    assert as_map(f"hidden:25,weights={path}") == HiddenLayer(weights=WEIGHTS, biases=BIASES)
    np.savez(path, weights=WEIGHTS)
    assert as_map(f"hidden:weights={path}") == HiddenLayer(weights=WEIGHTS)
    for arrays in ({"W": WEIGHTS}, {"weights": WEIGHTS, "b": BIASES}, {"biases": BIASES}):
        np.savez(path, **arrays)
        with pytest.raises(DataError, match="must contain the arrays weights and biases, and no others"):
            as_map(f"hidden:weights={path}")
    for content in (b"", b"weights", b"PK\x03\x04"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"is not an \.npz file of arrays"):
            as_map(f"hidden:weights={path}")
    np.savez(path, weights=np.array([{}], dtype=object))
    with pytest.raises(DataError, match=r"is not an \.npz file of arrays"):
        as_map(f"hidden:weights={path}")
    with pytest.raises(MissingFileError):
        as_map("hidden:weights=nowhere.npz")
    with pytest.raises(ParameterError, match="weights must be one of 'normal', 'uniform', 'constrained'"):
        as_map("hidden:weights=layer.txt")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_features": 4}, "n_features=4, but weights of shape \\(4, 25\\) are those of 25 units"),
        ({"biases": BIASES[:-1]}, "biases must have the shape \\(25,\\), one per unit, not \\(24,\\)"),
        ({"biases": WEIGHTS}, "biases must be an array of shape"),
        ({"weights": BIASES}, "weights must be an array of shape \\(columns, units\\), not of shape \\(25,\\)"),
        ({"weights": np.zeros((4, 0))}, "weights must be an array of shape"),
        ({"weights": [["a"]]}, "weights must be an array of numbers"),
        ({"weights": np.full((4, 25), np.inf)}, "weights must be finite, but the entry at \\(0, 0\\) is inf"),
        ({"weights": "normal", "n_features": 25}, "biases are given, but weights='normal' is not an array"),
        ({"spread": 2.0}, "spread and fields describe how weights are drawn"),
        ({"fields": "columns"}, "spread and fields describe how weights are drawn"),
        ({"activation": "cube"}, "activation must be one of 'sigmoid', 'tanh', .*'linear', not 'cube'"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        HiddenLayer(**{"weights": WEIGHTS, "biases": BIASES} | options)


def test_weights_for_other_columns_are_refused():
    with pytest.raises(DataError, match="Rows have 3 columns, but weights of shape \\(4, 25\\) are for rows of 4"):
        printed().freeze(X[:, :3])
    with pytest.raises(DataError, match="Transpose it: one line per column"):
        HiddenLayer(weights=MATRIX[:, :-1]).freeze(X)
    with pytest.raises(FeatureMapError, match="weights='given' stands for an array, which is missing"):
        HiddenLayer(25, weights="given").freeze(X)
