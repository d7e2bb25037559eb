"""Feature maps in files: invalid content is refused, in files of maps, knowledge and models."""

from __future__ import annotations

import json

import numpy as np
import pytest

import mergesvm as ms
from files.test_container import forge
from maps import X, Y
from mergesvm.errors import InvalidContentError, InvalidHeaderError, WrongKindError
from mergesvm.features import Chain, Components, Fourier, Nystroem, Patches
from mergesvm.files.container import read_container

LOAD = {"features": ms.features.load, "knowledge": ms.Knowledge.load, "model": ms.load_model}


@pytest.fixture
def stored(tmp_path):
    """A chain of patches and cosines as a file of each kind."""
    chain = Chain([Patches(3, size=3, pooling=2), Fourier(6)]).freeze(X)
    knowledge = ms.learn(X, Y, features=chain)
    for kind, thing in (("features", chain), ("knowledge", knowledge), ("model", ms.solve(knowledge))):
        thing.save(tmp_path / kind)
    return tmp_path


def assert_refused(folder, change, error, match=None):
    for kind, load in LOAD.items():
        (folder / "spoiled").write_bytes((folder / kind).read_bytes())
        with pytest.raises(error, match=match) as caught:
            load(forge(folder / "spoiled", kind, change))
        assert len(str(caught.value)) < 1000


WRONG = {
    "map": [None, 1, "", "identity", "wrapped", "chain", "Fourier"],
    "width": [0, -1, 35, 36.0, "36", None, True, 2**40],
    "names": ["ab", ["a"], 1, ["a"] * 36],
    "categories": [None, {}, [1]],
    "pilot_rows": [None, -1, 1.5, "9"],
    "parameters": [None, {}, [], [{}], [{}, {}], "x", [1]],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_field_of_a_wrong_type_or_value_is_refused(name, stored):
    for value in WRONG[name]:
        assert_refused(
            stored, lambda fields, _, value=value: fields["features"][0].update({name: value}), InvalidHeaderError
        )
    assert_refused(stored, lambda fields, _: fields["features"][0].pop(name), InvalidHeaderError, name)


SPOILED = {
    "n_filters": [None, 0, -1, 1.5, "3", True, 2**31, 10**400],
    "size": [0, 40, None, 2.0],
    "padding": [-1, 2**30, None],
    "pooling": [0, 30, 2**31 - 1],
    "filters": ["any", None, ["data"], {}],
    "rectify": ["9" * 5000, 1],
    "whitening": [0, -1.0, "0.1", True, 10**400, []],
    "image": [[6], [6, 7], [6, 6, 2], "6x6", 36, [0, 36], [6.0, 6.0], [[6, 6]], [2**30, 2**30]],
    "seed": [-1, 0.5, None, "9" * 5000],
    "scaling": ["some", None],
    "precision": ["float16", "float128", 32, None],
}


def test_every_parameter_is_covered_by_these_tests():
    assert set(SPOILED) == set(Patches.parameter_names())


@pytest.mark.parametrize("name", SPOILED)
def test_an_invalid_parameter_is_refused(name, stored):
    for value in SPOILED[name]:
        assert_refused(
            stored,
            lambda fields, _, value=value: fields["features"][0]["parameters"][0].update({name: value}),
            InvalidHeaderError,
            "has no valid map",
        )
    assert_refused(
        stored,
        lambda fields, _: fields["features"][0]["parameters"][0].pop(name),
        InvalidHeaderError,
        "has not the parameters of a map 'patches'",
    )


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e999"])
def test_a_parameter_that_is_not_finite_is_refused(text, stored):
    header, _ = read_container(stored / "features", "features")
    spoiled = json.dumps(header.fields).replace('"whitening": 0.1', f'"whitening": {text}')
    assert text in spoiled
    with pytest.raises(InvalidHeaderError):
        ms.features.load(forge(stored / "features", "features", text=spoiled))


def test_a_parameter_that_contradicts_the_arrays_is_refused(stored):
    for name, value in (("n_filters", 4), ("size", 2), ("precision", "float32"), ("precision", "auto")):
        assert_refused(
            stored,
            lambda fields, _, name=name, value=value: fields["features"][0]["parameters"][0].update({name: value}),
            (InvalidContentError, InvalidHeaderError),
        )


def test_maps_that_do_not_follow_one_another_are_refused(stored):
    for change in (
        lambda fields, _: fields["features"].reverse(),
        lambda fields, _: fields["features"].pop(),
        lambda fields, _: fields["features"].extend(fields["features"] * 3),
    ):
        assert_refused(stored, change, (InvalidHeaderError, InvalidContentError))


ARRAYS = [f"features.{stage}.{name}" for stage in (0, 1) for name in ("centre", "scale", "middle", "gain")]
ARRAYS += ["features.0.filters", "features.0.offsets", "features.1.weights", "features.1.bias"]


def test_every_array_is_covered_by_these_tests(stored):
    assert sorted(read_container(stored / "features", "features")[1]) == sorted(ARRAYS)


@pytest.mark.parametrize("name", ARRAYS)
def test_an_invalid_array_is_refused(name, stored):
    def put(value):
        def change(_, arrays):
            array = arrays[name]
            array.flat[-1] = value
            arrays[name] = array

        return change

    for value in (np.nan, np.inf, -np.inf):
        assert_refused(stored, put(value), InvalidContentError, name)
    for change in (
        lambda _, arrays: arrays.pop(name),
        lambda _, arrays: arrays.update({name: arrays[name][:-1]}),
        lambda _, arrays: arrays.update({name: arrays[name][None]}),
        lambda _, arrays: arrays.update({name: arrays[name].astype(np.int64)}),
        lambda _, arrays: arrays.update({name: arrays[name].astype("<f4" if arrays[name].itemsize == 8 else "<f8")}),
    ):
        assert_refused(stored, change, InvalidContentError, name)
    if "scale" in name:
        for value in (0.0, -1.0, 1e-310):
            assert_refused(stored, put(value), InvalidContentError, "a scale that is not positive")
    if "centre" in name:
        assert_refused(stored, put(1e200), InvalidContentError, "too large")


def test_an_extra_array_is_refused(stored):
    for name in ("features.2.centre", "features.0.more", "extra"):
        assert_refused(stored, lambda _, arrays, name=name: arrays.update({name: np.zeros(1)}), InvalidContentError)


def test_a_map_of_another_width_than_the_rows_is_refused(tmp_path):
    knowledge = ms.learn(X, Y, features=Nystroem(5).freeze(X))
    knowledge.save(tmp_path / "k")
    with pytest.raises(InvalidHeaderError, match="a map of 36 columns for rows of 35 columns"):
        ms.Knowledge.load(forge(tmp_path / "k", "knowledge", lambda fields, _: fields.update(width=35)))


@pytest.fixture
def components(tmp_path):
    """Principal components, whose number was found by freezing, as a file of each kind."""
    features = Components(0.9).freeze(X)
    knowledge = ms.learn(X, Y, features=features)
    for kind, thing in (("features", features), ("knowledge", knowledge), ("model", ms.solve(knowledge))):
        thing.save(tmp_path / kind)
    return tmp_path


def test_a_file_stores_the_number_of_components(components):
    header, arrays = read_container(components / "features", "features")
    (parameters,) = header.fields["features"][0]["parameters"]
    assert set(parameters) == set(Components.parameter_names())
    assert parameters["n_components"] == Components(0.9).freeze(X).width == len(arrays["features.0.explained"])
    assert ms.features.load(components / "features") == Components(0.9).freeze(X)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("n_components", value) for value in (0.9, 0, -1, 1.5, None, "5", True, [5], 37, 2**31, 10**400)),
        *(("whiten", value) for value in (None, 1, "yes")),
        *(("scaling", value) for value in ("some", None)),
    ],
)
def test_components_with_an_invalid_parameter_are_refused(name, value, components):
    assert_refused(
        components,
        lambda fields, _: fields["features"][0]["parameters"][0].update({name: value}),
        InvalidHeaderError,
        "has no valid map",
    )


def test_components_whose_number_contradicts_the_arrays_are_refused(components):
    for value in (1, 36):
        assert_refused(
            components,
            lambda fields, _, value=value: fields["features"][0]["parameters"][0].update({"n_components": value}),
            InvalidContentError,
            "middle",
        )
    for name in ("directions", "explained", "middle"):
        name = f"features.0.{name}"
        for change in (
            lambda _, arrays, name=name: arrays.pop(name),
            lambda _, arrays, name=name: arrays.update({name: arrays[name][..., :-1].copy()}),
            lambda _, arrays, name=name: arrays.update({name: arrays[name] * np.nan}),
            lambda _, arrays, name=name: arrays.update({name: arrays[name].astype(np.int64)}),
        ):
            assert_refused(components, change, InvalidContentError, name)


def test_a_map_is_neither_knowledge_nor_a_model(stored):
    for kind, load in LOAD.items():
        for other in LOAD:
            if other != kind:
                with pytest.raises(WrongKindError):
                    load(stored / other)
    with pytest.raises(WrongKindError, match=r"holds a feature map\. Use it to learn"):
        ms.load_model(stored / "features")
