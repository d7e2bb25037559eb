"""Invalid parameters are refused by the constructor; parameters that do not fit the rows, when a map is frozen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from maps import COLOURED, NAMES, VARIED, X, Y
from mergesvm.errors import DataError, FeatureMapError, ParameterError
from mergesvm.features import Chain, Components, Fourier, HiddenLayer, Identity, Nystroem, Patches
from mergesvm.features.random_map import INTEGER_LIMIT
from mergesvm.features.registry import random_map_classes

SIZES = [0, -1, 1.5, 10.0, "10", None, True, INTEGER_LIMIT, np.nan]
POSITIVE = [0, -1.0, np.nan, np.inf, "1", True, 1e200, [1.0]]
WORDS = ["", "any", 1, ["none"], b"none"]
SHAPES = [(6,), (6, 7), (6, 6, 2, 1), "6x6", 36, (0, 36), (6.0, 6.0), (True, 36), (2**20, 1)]

WRONG = {
    "n_features": SIZES,
    "landmarks": SIZES,
    "n_components": [*SIZES, 0.0, 1.0, -0.5, np.float32(1.5), [3]],
    "whiten": [None, 1, "yes", np.nan],
    "n_filters": SIZES,
    "n_colours": [*SIZES, 1, 4097],
    "distance": [0, -1, 0.5, None, "5", True, (1, 2, 3), (1, 0), 2**15],
    "palette": [*WORDS, None],
    "values": [*WORDS, None],
    "size": SIZES,
    "pooling": SIZES,
    "degree": SIZES,
    "padding": [-1, 0.5, None, "2", False],
    "seed": [-1, 0.5, None, "0", True, INTEGER_LIMIT],
    "activation": [*WORDS, None, "Tanh"],
    "weights": [*WORDS, None],
    "kernel": [*WORDS, None, "linear"],
    "filters": [*WORDS, None],
    "rectify": [*WORDS, None, "tanh"],
    "scaling": [*WORDS, None],
    "precision": [*WORDS, None, "float16", np.float32],
    "fields": [*WORDS, "rows"],
    "spread": POSITIVE,
    "gamma": POSITIVE,
    "detail": [*POSITIVE, None],
    "whitening": POSITIVE,
    "gain": [None, 1, "yes", np.nan],
    "orthogonal": [None, 1, "yes", np.nan],
    "image": SHAPES,
}

CASES = [(kind, name) for kind, each in random_map_classes().items() for name in each.parameter_names()]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_an_invalid_parameter_is_refused_and_named(kind, name):
    features = VARIED[kind][0]
    for value in WRONG[name]:
        if name == "image" and value == (6, 7):
            with pytest.raises(DataError, match=r"Images of shape \(6, 7\) have 42 columns, but the rows have 36"):
                replace(features, image=value).freeze(X)
            continue
        with pytest.raises(ParameterError, match=f"{name} must be"):
            replace(features, **{name: value})


def test_parameters_may_be_numpy_scalars():
    one = Fourier(np.int64(8), gamma=np.float32(0.5), detail=np.int8(1), orthogonal=np.bool_(True), seed=np.uint8(3))
    assert one == Fourier(8, gamma=0.5, seed=3)
    assert repr(one) == "Fourier(8, gamma=0.5, seed=3)"
    assert one.freeze(X) == Fourier(8, gamma=0.5, seed=3).freeze(X)
    assert Patches(4, image=[4, 3, 3]) == Patches(4, image=COLOURED)


@pytest.mark.parametrize("make", [HiddenLayer, Fourier])
def test_an_image_shape_needs_rectangles(make):
    for fields in (None, "columns"):
        with pytest.raises(ParameterError, match="used only with fields='rectangles'"):
            make(8, fields=fields, image=(6, 6))
    with pytest.raises(DataError, match=r"35 columns are not square images\. Give their shape"):
        make(8, fields="rectangles").freeze(X[:, :35])
    with pytest.raises(DataError, match=r"Images of shape \(4, 4\) have 16 columns, but the rows have 36"):
        make(8, fields="rectangles", image=(4, 4)).freeze(X)


def test_patches_must_fit_into_the_images():
    with pytest.raises(ParameterError, match="6 x 6 pixels have 0 x 0 patches of side 7, too few for 1 x 1 regions"):
        Patches(4, size=7, padding=0, pooling=1).freeze(X)
    with pytest.raises(ParameterError, match="4 x 4 patches of side 3, too few for 5 x 5 regions"):
        Patches(4, size=3, padding=0, pooling=5).freeze(X)
    with pytest.raises(DataError, match="35 columns are not square images"):
        Patches(4).freeze(X[:, :35])
    with pytest.raises(ParameterError):
        Patches(4, padding=10**6).freeze(X)
    with pytest.raises(ParameterError):
        Patches(2**30, size=3).freeze(X)


def test_more_landmarks_than_rows_are_refused():
    with pytest.raises(DataError, match="needs a sample of 241 rows, but there are 240"):
        Nystroem(241).freeze(X)
    assert Nystroem(240).freeze(X).width == 240


def test_more_components_than_columns_or_rows_are_refused():
    with pytest.raises(ParameterError, match=r"at most 36 .* Components\(37\) is impossible.* a fraction of"):
        Components(37).freeze(X)
    with pytest.raises(DataError, match=r"Components\(21\) needs at least 21 rows, but there are 20"):
        Components(21).freeze(X[:20])
    assert Components(36).freeze(X).width == 36
    assert Components(20).freeze(X[:20]).width == 20


def test_freezing_replaces_a_fraction_by_a_number():
    one = Components(0.9).freeze(X)
    assert isinstance(one.n_components, int)
    assert one == Components(one.n_components).freeze(X)
    assert repr(one) == f"Components({one.n_components}, precision='float64')"
    with pytest.raises(
        ParameterError, match=r"The number of features of Components\(0\.9\) is known only when it is frozen"
    ):
        Components(0.9).n_outputs(36)
    assert Components(np.float64(0.5)) == Components(0.5)
    assert Components(np.int16(5), whiten=np.bool_(True)) == Components(5, whiten=True)


def test_constrained_weights_need_labels_of_two_classes():
    with pytest.raises(FeatureMapError, match=r"needs labels: freeze\(X, y\)"):
        HiddenLayer(8, weights="constrained").freeze(X)
    with pytest.raises(FeatureMapError, match="at least two classes"):
        HiddenLayer(8, weights="constrained").freeze(X, ["a"] * len(X))
    with pytest.raises(DataError, match="different lengths"):
        HiddenLayer(8, weights="constrained").freeze(X, Y[:-1])


def test_a_chain_needs_random_maps_of_the_same_precision():
    one, other = Fourier(8, precision="float32"), Fourier(8, precision="float64")
    for stages in ([one], [one] * 5, [one, "fourier"], [one, Identity()], [one, Chain([one, one])], 3, None, one):
        with pytest.raises(ParameterError, match="A chain needs 2 to 4 random maps"):
            Chain(stages)
    with pytest.raises(ParameterError, match="must have the same precision"):
        Chain([one, other])
    with pytest.raises(ParameterError, match="Freeze the chain as a whole"):
        Chain([one.freeze(X), one])
    with pytest.raises(DataError, match="8 columns are not square images"):
        Chain([one, Patches(4, size=2)]).freeze(X)


@pytest.mark.parametrize("make", [HiddenLayer, Nystroem, Components])
def test_freezing_chooses_float64_for_few_features_only(make):
    wide = np.random.default_rng(0).normal(size=(300, 300))
    limit = make.max_float64_width
    for size, precision in ((1, "float64"), (limit, "float64"), (limit + 1, "float32")):
        frozen = make(size).freeze(wide)
        assert frozen.precision == frozen.dtype.name == frozen.transform(wide[:2]).dtype.name == precision
        assert f"precision='{precision}'" in repr(frozen)
        assert ("float32" in frozen.precision_note) == (precision == "float32")
        assert frozen == make(size, precision=precision).freeze(wide)
    with pytest.raises(ParameterError, match="precision must be 'float32' or 'float64' in a frozen map"):
        replace(make(1).freeze(wide), precision="auto")
    with pytest.raises(FeatureMapError, match="is not frozen yet"):
        make(1).dtype  # noqa: B018


def test_given_weights_are_used_in_float64():
    wide = np.random.default_rng(0).normal(size=(5, 300))
    assert HiddenLayer(weights=wide).freeze(X[:5, :5]).precision == "float64"
    assert HiddenLayer(weights=wide, precision="float32").freeze(X[:5, :5]).precision == "float32"


def test_a_chain_is_computed_in_float64_if_all_its_maps_would_be():
    few, many = Components(0.9), HiddenLayer(HiddenLayer.max_float64_width + 1)
    for stages, expected in (
        ([few, HiddenLayer(5)], "float64"),
        ([many, HiddenLayer(5)], "float32"),
        ([few, many], "float32"),
        ([few, replace(many, precision="float64")], "float64"),
        ([replace(few, precision="float32"), HiddenLayer(5)], "float32"),
    ):
        assert {stage.precision for stage in Chain(stages).freeze(X).stages} == {expected}


def test_constant_rows_are_mapped_and_huge_rows_are_mapped_or_refused():
    kinds = (HiddenLayer(8), Fourier(8), Nystroem(8), Patches(4, size=3), Fourier(8, gamma=1.0, scaling="none"))
    kinds += (
        Components(8),
        Components(0.9),
        Components(0.9, whiten=True),
        Components(8, whiten=True, scaling="columns"),
    )
    for features in kinds:
        for rows in (np.zeros((20, 36)), np.full((20, 36), 3.7), np.full((20, 36), 1e-200)):
            assert np.isfinite(features.freeze(rows).transform(rows)).all()
        for rows in (X * 1e200, X * 1e307, X + 1e300):
            try:
                assert np.isfinite(features.freeze(rows).transform(rows)).all()
            except DataError as error:
                assert "Rescale the columns" in str(error)  # noqa: PT017


def test_a_frozen_map_has_the_names_of_its_columns():
    import pandas as pd

    one = Fourier(5).freeze(pd.DataFrame(X, columns=NAMES))
    assert one.layout.names == tuple(NAMES)
    assert one == Fourier(5).freeze(X)
