"""Laws of feature maps: determinism, fingerprints, files, merging. All maps and their parameters are discovered."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

import maps
import mergesvm as ms
from hunting import examples
from maps import (
    ALL,
    RANDOM,
    ROUNDING,
    WEIGHTS,
    X,
    Y,
    changed,
    each_map,
    each_mapped,
    each_precision,
    each_random,
    each_saved,
    frozen,
    learn,
    stages,
)
from mergesvm.features import MAP_NAMES, Chain, Components, Fourier, HiddenLayer, Identity, Nystroem, Patches
from mergesvm.features.random_map import State
from mergesvm.features.registry import map_classes, random_map_classes
from reference import assert_same_knowledge, assert_same_scores

SCORES = {"float64": 1e-9, "float32": 2e-5}
"""Tolerance for scores of rows learned in pieces; in float32 the largest measured difference is 3e-6."""


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch):
    """Write files without waiting for the disk."""
    monkeypatch.setattr("os.fsync", lambda _: None)


def tables(features):
    """The arrays of all stages, in order."""
    return [stage.arrays for stage in stages(features)]


# Completeness.


def test_every_kind_of_map_has_examples():
    found = {each.kind: each for each in map_classes()}
    assert set(maps.EXAMPLES) == set(found)
    for kind, maps_of_kind in maps.EXAMPLES.items():
        assert maps_of_kind
        assert all(type(features) is found[kind] for features in maps_of_kind)


def test_every_random_map_is_named_in_the_help_of_the_command_line():
    assert tuple(random_map_classes()) == MAP_NAMES


def test_every_parameter_of_every_random_map_has_another_value():
    assert set(maps.VARIED) == set(random_map_classes())
    for kind, (features, others) in maps.VARIED.items():
        assert {*others, *maps.SHARED} == set(random_map_classes()[kind].parameter_names())
        assert all(getattr(features, name) != value for name, value in (others | maps.SHARED).items())


# Determinism.


@each_random
@each_precision
def test_freezing_twice_gives_the_same_map(features, precision):
    one, other = frozen(features, precision), changed(features, precision=precision).freeze(X, Y)
    assert one is not other
    assert one == other
    assert hash(one) == hash(other)
    assert one.fingerprint == other.fingerprint
    assert one.default_anchor.tobytes() == other.default_anchor.tobytes()
    for mine, theirs in zip(tables(one), tables(other), strict=True):
        assert {name: (array.dtype, array.tobytes()) for name, array in mine.items()} == {
            name: (array.dtype, array.tobytes()) for name, array in theirs.items()
        }


@each_random
def test_another_seed_or_precision_is_another_map(features):
    one = frozen(features)
    for other in (changed(features, seed=77, precision="float64").freeze(X, Y), frozen(features, "float32")):
        assert other.fingerprint != one.fingerprint
        assert other != one


@each_map
def test_freezing_a_frozen_map_changes_nothing(features):
    one = frozen(features)
    assert one.frozen
    assert one.freeze(X[:50] * 100 + 7, Y[:50]) is one


@each_random
@each_precision
def test_features_have_unit_mean_square_except_for_components(features, precision):
    one = frozen(features, precision)
    mapped = one.transform(X)
    assert mapped.shape == (len(X), one.width)
    assert mapped.dtype == one.dtype == precision
    last = stages(features)[-1]
    if getattr(last, "gain", True) and not isinstance(last, Components):
        assert np.mean(np.square(mapped, dtype=np.float64)) == pytest.approx(1, rel=1e-5)
    if one == changed(features, precision=precision).freeze(X[:50] + 1, Y[:50]):  # a map that needs no sample
        assert not one.default_anchor.any()
        return
    np.testing.assert_allclose(mapped.mean(axis=0, dtype=np.float64), one.default_anchor, atol=1e-5)


# Rows are mapped independently.


@each_map
@each_precision
def test_mapping_a_row_does_not_depend_on_its_block_or_order(features, precision):
    features = frozen(features, precision)
    whole = features.transform(X)
    tolerance = ROUNDING[precision] * max(1.0, np.abs(whole).max())
    alone = np.concatenate([features.transform(X[row : row + 1]) for row in range(30)])
    np.testing.assert_allclose(alone, whole[:30], rtol=0, atol=tolerance)
    for size in (2, 7, 100, 239):
        parts = [features.transform(X[start : start + size]) for start in range(0, len(X), size)]
        np.testing.assert_allclose(np.concatenate(parts), whole, rtol=0, atol=tolerance)
    order = np.random.default_rng(3).permutation(len(X))
    np.testing.assert_allclose(features.transform(X[order]), whole[order], rtol=0, atol=tolerance)


@settings(max_examples=examples(40))
@given(st.sampled_from(ALL), st.lists(st.integers(0, len(X) - 1), min_size=1, max_size=70))
def test_any_subset_of_rows_is_mapped_like_all_rows(features, chosen):
    whole = frozen(features).transform(X)
    np.testing.assert_allclose(frozen(features).transform(X[chosen]), whole[chosen], rtol=0, atol=1e-12)


def test_blocks_and_threads_do_not_change_features(monkeypatch):
    digits, _ = load_digits(return_X_y=True)
    for features in (Patches(8, size=3), HiddenLayer(60), Chain([Patches(4, size=3), Nystroem(20)])):
        one = changed(features, precision="float64").freeze(digits)
        whole = one.transform(digits)
        with monkeypatch.context() as patch:
            patch.setattr("mergesvm.features.base.BLOCK_BYTES", 1)
            assert one.block_rows() == 64
            np.testing.assert_allclose(one.transform(digits), whole, rtol=0, atol=1e-12)


def test_many_landmarks_cost_digits_in_float32_only():
    """Whitening amplifies directions in which landmarks hardly differ, and rounding errors, by at most 1e3."""
    digits, _ = load_digits(return_X_y=True)
    for precision, tolerance in (("float64", 1e-11), ("float32", 2e-3)):
        features = Nystroem(200, detail=0.2, precision=precision).freeze(digits)
        alone = np.concatenate([features.transform(digits[row : row + 1]) for row in range(20)])
        np.testing.assert_allclose(alone, features.transform(digits)[:20], rtol=0, atol=tolerance)


# Fingerprints.

PARAMETERS = [
    pytest.param(features, name, value, id=f"{kind} {name}={value}")
    for kind, (features, others) in maps.VARIED.items()
    for name, value in (others | maps.SHARED).items()
]


@pytest.mark.parametrize(("features", "name", "value"), PARAMETERS)
def test_a_fingerprint_changes_with_any_parameter(features, name, value):
    other = replace(features, **{name: value})
    assert other != features
    assert repr(other) != repr(features)
    assert other.freeze(X, Y).fingerprint != features.freeze(X, Y).fingerprint
    # Even if the arrays are equal.
    assert replace(features.freeze(X, Y), **{name: value}).fingerprint != features.freeze(X, Y).fingerprint


@each_random
def test_a_fingerprint_changes_with_any_number_of_any_array(features):
    one, seen = frozen(features), {frozen(features).fingerprint}
    for place, stage in enumerate(stages(one)):
        for name, array in stage.arrays.items():
            for at in {0, array.size - 1}:
                spoiled = array.copy()
                spoiled.flat[at] = np.nextafter(spoiled.flat[at], np.inf)
                state = State(stage.layout, {**stage.arrays, name: spoiled}, stage.fixed.pilot_rows)
                other = replace(stage, state=state)
                if isinstance(one, Chain):
                    other = Chain([*one.stages[:place], other, *one.stages[place + 1 :]])
                assert other != one
                seen.add(other.fingerprint)
    arrays = [array for table in tables(one) for array in table.values()]
    assert len(seen) == 1 + sum(1 if array.size == 1 else 2 for array in arrays)


def test_fingerprints_differ_for_other_rows_and_widths():
    one = Fourier(8).freeze(X)
    for rows in (X[:, :20], X[:100], X + 1):
        assert Fourier(8).freeze(rows).fingerprint != one.fingerprint


def test_fingerprints_of_chains_differ_from_those_of_their_stages_and_of_other_orders():
    one, two = HiddenLayer(36).freeze(X), Fourier(36).freeze(X)
    found = [one, two, Chain([one, two]), Chain([two, one]), Chain([one, one]), Chain([one, one, two])]
    assert len({each.fingerprint for each in found}) == len(found)


def test_all_examples_have_different_fingerprints():
    found = [frozen(features, precision) for features in RANDOM for precision in maps.PRECISIONS]
    found += [frozen(features) for features in ALL if features not in RANDOM]
    assert len({features.fingerprint for features in found}) == len(found)


# Saving, copying, immutability.


@each_random
@each_precision
def test_saving_and_loading_a_map_is_exact(features, precision, tmp_path):
    before = frozen(features, precision)
    before.save(tmp_path / "map.features")
    after = ms.features.load(tmp_path / "map.features")
    assert type(after) is type(before)
    assert repr(after) == repr(before)
    assert after == before
    assert after.fingerprint == before.fingerprint
    assert after.layout == before.layout
    assert [stage.fixed.pilot_rows for stage in stages(after)] == [stage.fixed.pilot_rows for stage in stages(before)]
    assert after.transform(X).tobytes() == before.transform(X).tobytes()
    for mine, theirs in zip(tables(after), tables(before), strict=True):
        assert {name: array.tobytes() for name, array in mine.items()} == {
            name: array.tobytes() for name, array in theirs.items()
        }


def test_names_and_categories_of_the_columns_are_saved_with_the_map(tmp_path):
    (tmp_path / "t.csv").write_text("size,colour,y\n1,red,a\n2,blue,b\n3,red,a\n")
    before = Fourier(8).freeze(ms.scan(tmp_path / "t.csv", "y", categories="auto"))
    before.save(tmp_path / "map.features")
    layout = ms.features.load(tmp_path / "map.features").layout
    assert layout == before.layout
    assert layout.names == ("size", "colour=blue", "colour=red")
    assert layout.categories == (("colour", ("blue", "red")),)


def test_the_identity_can_be_saved(tmp_path):
    Identity().save(tmp_path / "map.features")
    assert ms.features.load(tmp_path / "map.features") == Identity()


@each_map
@each_precision
def test_copies_and_pickles_are_equal(features, precision):
    before = frozen(features, precision)
    for after in (copy.copy(before), copy.deepcopy(before), pickle.loads(pickle.dumps(before))):
        assert type(after) is type(before)
        assert after == before
        assert repr(after) == repr(before)
        assert after.fingerprint == before.fingerprint
        assert after.transform(X).tobytes() == before.transform(X).tobytes()
    unfrozen = pickle.loads(pickle.dumps(features))
    assert unfrozen == features
    assert unfrozen.frozen == features.frozen


@each_random
def test_arrays_are_read_only(features, tmp_path):
    frozen(features).save(tmp_path / "map.features")
    loaded, pickled = ms.features.load(tmp_path / "map.features"), pickle.loads(pickle.dumps(frozen(features)))
    for each in (frozen(features), loaded, pickled):
        for array in (array for table in tables(each) for array in table.values()):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
    with pytest.raises(AttributeError):
        frozen(features).stages = ()
    with pytest.raises(AttributeError):
        stages(frozen(features))[0].seed = 3


# Merging and subtracting.


def through_file(knowledge, folder):
    knowledge.save(folder / "piece.knowledge")
    loaded = ms.Knowledge.load(folder / "piece.knowledge")
    assert loaded.signature == knowledge.signature
    assert loaded.features.fingerprint == knowledge.features.fingerprint
    assert [array.tobytes() for array in loaded.arrays()] == [array.tobytes() for array in knowledge.arrays()]
    return loaded


FORMS = [
    pytest.param(precision, per_class, weighted, id=f"{precision} {'per class' if per_class else 'pooled'} {weighted}")
    for precision in maps.PRECISIONS
    for per_class in (True, False)
    for weighted in (True, False)
    if precision == "float64" or per_class == weighted
]


@each_saved
@pytest.mark.parametrize(("precision", "per_class", "weighted"), FORMS)
def test_merging_and_subtracting_match_the_batch_through_files(features, precision, per_class, weighted, tmp_path):
    frozen(features, precision).save(tmp_path / "map.features")
    plan = ms.features.load(tmp_path / "map.features")
    options = {"weighted": weighted, "per_class": per_class}
    parts = np.split(np.random.default_rng(4).permutation(len(X)), [90, 91, 170])
    parts[-1] = parts[-1][np.argsort(Y[parts[-1]])]
    pieces = [through_file(learn(plan, part, **options), tmp_path) for part in parts]
    whole, tolerance = learn(frozen(features, precision), **options), SCORES[precision]
    merged = through_file(ms.merge(pieces[:2]) + (pieces[2] + pieces[3]), tmp_path)
    rest = merged - pieces[0] - pieces[2]
    never_seen = learn(plan, np.concatenate([parts[1], parts[3]]), **options)
    nothing = rest - pieces[1] - pieces[3]
    assert nothing.labels == ()
    assert nothing.features == plan
    for one, other in ((merged, whole), (rest, never_seen)):
        assert_same_knowledge(one, other, tolerance)
        for multiclass in ("ovr", "ovo") if per_class else ("ovr",):
            assert_same_scores(one, other, X, tolerance, multiclass=multiclass)


@settings(max_examples=examples(25))
@given(
    st.sampled_from(ALL),
    st.lists(st.integers(1, len(X) - 1), min_size=1, max_size=5, unique=True),
    st.booleans(),
    st.booleans(),
)
def test_any_partition_matches_the_batch(features, cuts, per_class, weighted):
    order = np.random.default_rng(len(cuts)).permutation(len(X))
    features = frozen(features)
    pieces = [learn(features, part, weighted, per_class=per_class) for part in np.split(order, sorted(cuts))]
    whole = learn(features, weighted=weighted, per_class=per_class)
    assert_same_knowledge(ms.merge(pieces), whole)
    assert_same_scores(ms.merge(pieces), whole, X)
    if whole.rows.sum() > pieces[0].rows.sum():
        assert_same_knowledge(ms.subtract(whole, pieces[0], force=True), ms.merge(pieces[1:]))


@each_mapped
@each_precision
def test_learning_with_a_map_matches_learning_its_features(features, precision):
    features = frozen(features, precision)
    mapped, tolerance = features.transform(X), {"float64": 1e-9, "float32": 1e-4}[precision]
    for per_class in (True, False):
        fused = learn(features, weighted=per_class, per_class=per_class)
        plain = ms.learn(mapped, Y, WEIGHTS if per_class else None, per_class=per_class)
        assert fused.width == plain.width == features.width
        assert fused.signature.inputs == 36
        assert fused.precision == features.dtype.name
        assert_same_knowledge(fused, plain, tolerance)
        one, other = ms.solve(fused), ms.solve(plain)
        np.testing.assert_allclose(one.scores(X), other.scores(mapped), atol=tolerance)
        np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(mapped), atol=tolerance)


@each_random
def test_products_have_the_precision_of_the_map_by_default(features):
    for precision in maps.PRECISIONS:
        assert learn(frozen(features, precision)).precision == precision
    exact, rounded = learn(frozen(features)), learn(frozen(features), precision="float32")
    assert (exact.precision, rounded.precision) == ("float64", "float32")
    assert_same_scores(exact, rounded, X, SCORES["float32"])
