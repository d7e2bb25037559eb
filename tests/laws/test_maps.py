"""What must be true of every feature map; maps, and the parameters of those that are drawn, are found by themselves."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits

import maps
import mergesvm as ms
import samples
from hunting import examples
from maps import ALL, DRAWN, NAMES, WEIGHTS, X, Y, changed, frozen, stages
from mergesvm.errors import DataError, FeatureMapError, FormError, FrozenHereWarning, ParameterError, SignatureError
from mergesvm.features import Chain, Components, Fourier, HiddenLayer, Identity, Nystroem, Patches
from mergesvm.features.random_map import State
from mergesvm.features.registry import map_classes, random_map_classes
from mergesvm.features.spec import as_map
from reference import assert_same_knowledge, assert_same_scores

ROUNDING = {"float64": 1e-12, "float32": 1e-5}
"""How much a row may differ when it is mapped among other rows. Features have a mean square of 1."""

SCORES = {"float64": 1e-9, "float32": 2e-5}
"""How much scores may differ when rows are learned in pieces: 3e-6 is the most that was measured in float32."""

each_map = pytest.mark.parametrize("features", ALL, ids=repr)
each_drawn = pytest.mark.parametrize("features", DRAWN, ids=repr)
each_mapped = pytest.mark.parametrize("features", [each for each in ALL if not isinstance(each, Identity)], ids=repr)
each_filed = pytest.mark.parametrize("features", [Identity(), *DRAWN], ids=repr)
each_precision = pytest.mark.parametrize("precision", maps.PRECISIONS)

FEW = [kind[0] for kind in maps.EXAMPLES.values()]
"""One map of each kind, where all would take long."""


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    """Files are written without waiting for the disk, which is not what these laws are about."""
    monkeypatch.setattr("os.fsync", lambda _: None)


def tables(features):
    """The arrays of all stages, in their order."""
    return [stage.arrays for stage in stages(features)]


def learn(features, at=slice(None), weighted=False, **terms):
    return ms.learn(X[at], Y[at], WEIGHTS[at] if weighted else None, features=features, **terms)


# All of them are here.


def test_every_kind_of_map_has_examples():
    found = {each.kind: each for each in map_classes()}
    assert set(maps.EXAMPLES) == set(found)
    for kind, maps_of_kind in maps.EXAMPLES.items():
        assert maps_of_kind
        assert all(type(features) is found[kind] for features in maps_of_kind)


def test_every_parameter_of_every_drawn_map_has_another_value():
    assert set(maps.VARIED) == set(random_map_classes())
    for kind, (features, others) in maps.VARIED.items():
        assert {*others, *maps.SHARED} == set(random_map_classes()[kind].parameter_names())
        assert all(getattr(features, name) != value for name, value in (others | maps.SHARED).items())


# Deterministic.


@each_drawn
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


@each_drawn
def test_another_seed_or_precision_is_another_map(features):
    one = frozen(features)
    for other in (changed(features, seed=77, precision="float64").freeze(X, Y), frozen(features, "float32")):
        assert other.fingerprint != one.fingerprint
        assert other != one


@each_map
def test_what_is_frozen_stays_as_it_is(features):
    one = frozen(features)
    assert one.frozen
    assert one.freeze(X[:50] * 100 + 7, Y[:50]) is one


@each_drawn
@each_precision
def test_features_are_numbers_of_the_same_size_for_every_map_but_components_of_columns(features, precision):
    one = frozen(features, precision)
    mapped = one.transform(X)
    assert mapped.shape == (len(X), one.width)
    assert mapped.dtype == one.dtype == precision
    if not isinstance(stages(features)[-1], Components):
        assert np.mean(np.square(mapped, dtype=np.float64)) == pytest.approx(1, rel=1e-5)
    np.testing.assert_allclose(
        mapped.mean(axis=0, dtype=np.float64), frozen(features, precision).default_anchor, atol=1e-5
    )


# Row by row.


@each_map
@each_precision
def test_a_row_is_mapped_alike_alone_in_any_block_and_in_any_order(features, precision):
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
def test_any_rows_are_mapped_as_among_all(features, chosen):
    whole = frozen(features).transform(X)
    np.testing.assert_allclose(frozen(features).transform(X[chosen]), whole[chosen], rtol=0, atol=1e-12)


def test_rows_in_many_blocks_and_threads_are_mapped_as_in_one(monkeypatch):
    digits, _ = load_digits(return_X_y=True)
    for features in (Patches(8, size=3), HiddenLayer(60), Chain([Patches(4, size=3), Nystroem(20)])):
        one = changed(features, precision="float64").freeze(digits)
        whole = one.transform(digits)
        with monkeypatch.context() as patch:
            patch.setattr("mergesvm.features.base.BLOCK_BYTES", 1)
            assert one.block_rows() == 64
            np.testing.assert_allclose(one.transform(digits), whole, rtol=0, atol=1e-12)


def test_many_landmarks_cost_float32_some_digits_and_float64_none():
    """Directions in which landmarks hardly differ are blown up by 1e3 at most, and rounding with them."""
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
    # Also where the arrays are the same.
    assert replace(features.freeze(X, Y), **{name: value}).fingerprint != features.freeze(X, Y).fingerprint


@each_drawn
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


def test_a_fingerprint_tells_maps_of_other_rows_and_widths_apart():
    one = Fourier(8).freeze(X)
    for rows in (X[:, :20], X[:100], X + 1):
        assert Fourier(8).freeze(rows).fingerprint != one.fingerprint


def test_a_chain_is_another_map_than_its_stages_and_than_others_of_them():
    one, two = HiddenLayer(36).freeze(X), Fourier(36).freeze(X)
    found = [one, two, Chain([one, two]), Chain([two, one]), Chain([one, one]), Chain([one, one, two])]
    assert len({each.fingerprint for each in found}) == len(found)


def test_all_examples_are_told_apart():
    found = [frozen(features, precision) for features in DRAWN for precision in maps.PRECISIONS]
    found += [frozen(features) for features in ALL if features not in DRAWN]
    assert len({features.fingerprint for features in found}) == len(found)


# Saved, copied, and never changed.


@each_drawn
@each_precision
def test_a_map_is_the_same_to_the_last_bit_after_saving_and_loading(features, precision, tmp_path):
    before = frozen(features, precision)
    before.save(tmp_path / "plan.features")
    after = ms.features.load(tmp_path / "plan.features")
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
    before.save(tmp_path / "plan.features")
    layout = ms.features.load(tmp_path / "plan.features").layout
    assert layout == before.layout
    assert layout.names == ("size", "colour=blue", "colour=red")
    assert layout.categories == (("colour", ("blue", "red")),)


def test_the_identity_needs_no_file_but_can_have_one(tmp_path):
    Identity().save(tmp_path / "plan.features")
    assert ms.features.load(tmp_path / "plan.features") == Identity()


@each_map
@each_precision
def test_copies_and_pickles_are_the_same_map(features, precision):
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


@each_drawn
def test_arrays_cannot_be_written_to(features, tmp_path):
    frozen(features).save(tmp_path / "plan.features")
    loaded, pickled = ms.features.load(tmp_path / "plan.features"), pickle.loads(pickle.dumps(frozen(features)))
    for each in (frozen(features), loaded, pickled):
        for array in (array for table in tables(each) for array in table.values()):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
    with pytest.raises(AttributeError):
        frozen(features).stages = ()
    with pytest.raises(AttributeError):
        stages(frozen(features))[0].seed = 3


# Merged equals batch, forgotten equals never seen.


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


@each_filed
@pytest.mark.parametrize(("precision", "per_class", "weighted"), FORMS)
def test_merged_is_batch_and_forgotten_is_never_seen_through_files(features, precision, per_class, weighted, tmp_path):
    frozen(features, precision).save(tmp_path / "plan.features")
    plan = ms.features.load(tmp_path / "plan.features")
    terms = {"weighted": weighted, "per_class": per_class}
    parts = np.split(np.random.default_rng(4).permutation(len(X)), [90, 91, 170])
    parts[-1] = parts[-1][np.argsort(Y[parts[-1]])]
    pieces = [through_file(learn(plan, part, **terms), tmp_path) for part in parts]
    whole, tolerance = learn(frozen(features, precision), **terms), SCORES[precision]
    merged = through_file(ms.merge(pieces[:2]) + (pieces[2] + pieces[3]), tmp_path)
    rest = merged - pieces[0] - pieces[2]
    never_seen = learn(plan, np.concatenate([parts[1], parts[3]]), **terms)
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
def test_any_partition_gives_the_batch(features, cuts, per_class, weighted):
    order = np.random.default_rng(len(cuts)).permutation(len(X))
    features = frozen(features)
    pieces = [learn(features, part, weighted, per_class=per_class) for part in np.split(order, sorted(cuts))]
    whole = learn(features, weighted=weighted, per_class=per_class)
    assert_same_knowledge(ms.merge(pieces), whole)
    assert_same_scores(ms.merge(pieces), whole, X)
    if whole.rows.sum() > pieces[0].rows.sum():
        assert_same_knowledge(whole - pieces[0], ms.merge(pieces[1:]))


@each_mapped
@each_precision
def test_learning_through_a_map_is_learning_what_it_gives(features, precision):
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


@each_drawn
def test_the_precision_of_products_is_that_of_the_map_unless_another_is_asked_for(features):
    for precision in maps.PRECISIONS:
        assert learn(frozen(features, precision)).precision == precision
    exact, rounded = learn(frozen(features)), learn(frozen(features), precision="float32")
    assert (exact.precision, rounded.precision) == ("float64", "float32")
    assert_same_scores(exact, rounded, X, SCORES["float32"])


# Any kind of rows.


@each_map
def test_sparse_rows_are_mapped_and_learned_as_dense_ones(features):
    for source in (X, sparse.csr_array(X)):  # about their mean, and about zero
        one = changed(features, precision="float64").freeze(source, Y)
        for kind in (sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix):
            np.testing.assert_allclose(one.transform(kind(X)), one.transform(X), rtol=0, atol=1e-12)
        dense = learn(one, weighted=True)
        assert_same_knowledge(ms.learn(sparse.csr_array(X), Y, WEIGHTS, features=one), dense)
        model = ms.solve(dense)
        np.testing.assert_allclose(model.scores(sparse.csr_array(X)), model.scores(X), atol=1e-9)
    sums = ms.learn(sparse.csr_array(X[:90]), Y[:90], features=one) + learn(one, slice(90, None))
    assert_same_scores(sums, learn(one), X)


@each_drawn
def test_sparse_rows_are_not_centred_or_only_after_they_are_mapped(features):
    few = sparse.csr_array(np.where(X > 1, X, 0))
    one = changed(features, precision="float64").freeze(few, Y)
    if not isinstance(stages(one)[0], Components):
        assert not stages(one)[0].arrays["centre"].any()
    np.testing.assert_allclose(one.transform(few), one.transform(few.toarray()), rtol=0, atol=1e-12)
    dense = ms.learn(few.toarray(), Y, WEIGHTS, features=one)
    assert_same_knowledge(ms.learn(few, Y, WEIGHTS, features=one), dense)
    np.testing.assert_allclose(ms.solve(dense).scores(few), ms.solve(dense).scores(few.toarray()), atol=1e-9)


@each_map
def test_tables_and_lists_are_mapped_and_learned_as_arrays(features):
    one, frame = frozen(features), pd.DataFrame(X, columns=NAMES)
    expected, sums = one.transform(X), learn(one)
    for other in (X.tolist(), np.asfortranarray(X), X.astype(object), pd.DataFrame(X), frame):
        np.testing.assert_allclose(one.transform(other), expected, rtol=0, atol=1e-12)
    assert_same_knowledge(ms.learn(pd.DataFrame(X), list(Y), features=one), sums)
    named = ms.learn(frame, pd.Series(Y, dtype="category"), features=one)
    assert named.signature.names == tuple(NAMES)
    assert_same_knowledge(named, sums)
    by_name = changed(features, precision="float64").freeze(frame, Y)
    assert by_name == one
    np.testing.assert_array_equal(ms.solve(named).scores(frame), ms.solve(named).scores(X))


@each_drawn
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, ">f8"])
def test_rows_of_any_type_are_mapped_as_the_numbers_they_are(features, dtype):
    whole = np.round(40 * X)
    one = changed(features, precision="float64").freeze(whole, Y)
    np.testing.assert_allclose(one.transform(whole.astype(dtype)), one.transform(whole), rtol=0, atol=1e-12)


@each_map
@pytest.mark.parametrize("write", [samples.parquet, samples.comma_separated], ids=lambda writer: writer.__name__)
def test_a_scan_of_any_batch_size_gives_the_knowledge_of_the_arrays(features, write, tmp_path):
    path, label = write(tmp_path, "day", X[:40], Y[:40])
    expected = learn(frozen(features), slice(40))
    for batch_rows in (1, 17, None) if features in FEW else (17, None):
        found = ms.learn(ms.scan(path, label, batch_rows=batch_rows), features=frozen(features))
        assert_same_knowledge(found, expected)
    assert_same_scores(found, expected, X)
    assert [origin.rows for origin in found.provenance] == [40]


@each_drawn
def test_a_map_frozen_on_a_file_is_that_of_its_rows(features, tmp_path):
    path, label = samples.parquet(tmp_path, "day", X, Y)
    found = changed(features, precision="float64").freeze(ms.scan(path, label))
    assert found == frozen(features)
    assert found.layout.names == tuple(f"x{index}" for index in range(36))


def test_a_map_is_frozen_on_rows_of_all_files(tmp_path):
    for index in range(40):
        samples.parquet(tmp_path, f"day{index:02}", np.full((3, 4), float(index)), np.zeros(3, dtype=int))
    centre = Fourier(3).freeze(ms.scan(tmp_path, "y")).arrays["centre"]
    np.testing.assert_allclose(centre, np.full(4, 19.5), atol=1.0)


ALONE = """
import sys, warnings
warnings.simplefilter("error")
from pathlib import Path
import numpy as np
import mergesvm as ms
rows = np.load("X.npy")
for path in sorted(Path(".").glob("*.msvm")):
    model = ms.load_model(path)
    np.savez(path.with_suffix(".npz"), scores=model.scores(rows), predicted=model.predict(rows))
    print(path.stem, model.signature.features.fingerprint)
"""


def test_a_saved_model_predicts_alone_in_another_process(tmp_path):
    models = {}
    for index, features in enumerate((Identity(), *DRAWN)):
        precision = maps.PRECISIONS[index % 2]
        models[f"{index:02}"] = (
            ms.solve(learn(frozen(features, precision)), multiclass=["ovr", "ovo"][index % 3 == 0]),
            ROUNDING[precision],
        )
        models[f"{index:02}"][0].save(tmp_path / f"{index:02}.msvm")
    np.save(tmp_path / "X.npy", X)
    done = subprocess.run(
        [sys.executable, "-c", ALONE], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert dict(line.split() for line in done.stdout.splitlines()) == {
        name: model.signature.features.fingerprint for name, (model, _) in models.items()
    }
    for name, (model, tolerance) in models.items():
        found = np.load(tmp_path / f"{name}.npz")
        np.testing.assert_array_equal(found["predicted"], model.predict(X))
        np.testing.assert_allclose(found["scores"], model.scores(X), atol=tolerance)


@each_filed
@each_precision
def test_a_saved_model_is_the_same_to_the_last_bit(features, precision, tmp_path):
    before = ms.solve(learn(frozen(features, precision)), multiclass="ovo")
    before.save(tmp_path / "m.msvm")
    after = ms.load_model(tmp_path / "m.msvm")
    assert after.signature == before.signature
    for method in ("predict", "predict_proba", "decision_function"):
        assert getattr(after, method)(X).tobytes() == getattr(before, method)(X).tobytes()


# What cannot be mapped.


@each_map
@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (-np.inf, "infinity")])
def test_a_value_that_is_not_finite_is_named_with_row_and_column(features, value, what, tmp_path):
    one = frozen(features)
    model = ms.solve(learn(one))
    bad = X.copy()
    bad[173, 20] = value
    named = pd.DataFrame(bad, columns=NAMES)
    if not isinstance(one, Identity):
        with pytest.raises(DataError, match=f"Input X contains {what}: row 173, column 20. .* before mapping"):
            one.transform(bad)
        with pytest.raises(DataError, match=f"Input X contains {what}: row 173, column 20. "):
            one.transform(sparse.csr_array(bad))
    with pytest.raises(DataError, match=f"Input X contains {what}: row 173, column 20. .* before learning"):
        ms.learn(bad, Y, features=one)
    with pytest.raises(DataError, match=f"Input X contains {what}: row 173, column 20. "):
        ms.learn(sparse.csr_array(bad), Y, features=one)
    with pytest.raises(DataError, match=f"Input X contains {what}: row 173, column 'pixel 20'. "):
        ms.learn(named, Y, features=one)
    with pytest.raises(DataError, match=f"Input X contains {what}: row 173, column 20. .* before predicting"):
        model.predict(bad)
    path, label = samples.parquet(tmp_path, "day", bad, Y)
    with pytest.raises(DataError, match=rf"day\.parquet contains {what}: row 173, column 'x20'"):
        ms.learn(ms.scan(path, label, batch_rows=50), features=one)
    # A row that does not count may hold anything.
    weights = np.ones(len(X))
    weights[173] = 0
    assert_same_knowledge(ms.learn(bad, Y, weights, features=one), ms.learn(X, Y, weights, features=one))


@each_drawn
def test_a_map_is_not_frozen_on_values_that_are_not_finite(features, tmp_path):
    bad = X.copy()
    bad[173, 20] = np.nan
    unfrozen = changed(features, precision="float64")
    with pytest.raises(DataError, match="Input X contains NaN: row 173, column 20"):
        unfrozen.freeze(bad, Y)
    path, label = samples.comma_separated(tmp_path, "day", bad, Y)
    with pytest.raises(DataError, match=r"day\.csv contains NaN: row 173, column 'x20'"):
        unfrozen.freeze(ms.scan(path, label))


@each_mapped
def test_rows_of_another_width_are_refused(features):
    one = frozen(features)
    model = ms.solve(learn(one))
    for rows in (X[:, :35], np.hstack([X, X])):
        with pytest.raises(DataError, match=rf"X has {rows.shape[1]} columns, but .* was frozen for rows of 36"):
            one.transform(rows)
        with pytest.raises(DataError, match=rf"X has {rows.shape[1]} columns, but .* was frozen for rows of 36"):
            ms.learn(rows, Y, features=one)
        with pytest.raises(DataError, match=rf"X has {rows.shape[1]} features, but the model was learned from 36"):
            model.predict(rows)


@each_drawn
def test_rows_of_other_names_are_refused(features, tmp_path):
    frame = pd.DataFrame(X, columns=NAMES)
    swapped = frame[[NAMES[1], NAMES[0], *NAMES[2:]]]
    one = changed(features, precision="float64").freeze(frame, Y)
    for use in (
        lambda: one.transform(swapped),
        lambda: ms.learn(swapped, Y, features=one),
        lambda: ms.learn(X, Y, features=one, feature_names=list(swapped)),
    ):
        with pytest.raises(DataError, match=r"Column 0 of X is named 'pixel 1', but .* was frozen with 'pixel 0'"):
            use()
    with pytest.raises(DataError, match="Column 0 of X is named 'pixel 1', but the model was learned with 'pixel 0'"):
        ms.solve(ms.learn(frame, Y, features=one)).predict(swapped)
    swapped.assign(y=Y).to_parquet(tmp_path / "day.parquet")
    with pytest.raises(DataError, match=r"Column 0 of .* is named 'pixel 1'"):
        ms.learn(ms.scan(tmp_path / "day.parquet", "y"), features=one)
    found = ms.learn(ms.scan(tmp_path / "day.parquet", "y", like=one), features=one)
    assert_same_knowledge(found, ms.learn(frame, Y, features=one))


@each_drawn
def test_values_too_large_are_said_to_be_so(features):
    for one in (frozen(features), frozen(features, "float32")):
        try:
            assert np.isfinite(one.transform(X * 1e300)).all()
        except DataError as error:
            assert "too large to be mapped. Rescale the columns" in str(error)  # noqa: PT017


@each_drawn
def test_what_is_not_frozen_cannot_be_used(features, tmp_path):
    assert not features.frozen
    for use in (
        lambda: features.transform(X),
        lambda: features.map_block(X, np.empty((len(X), 12))),
        lambda: features.fingerprint,
        lambda: features.layout,
        lambda: features.width,
        lambda: features.default_anchor,
        lambda: features.save(tmp_path / "plan.features"),
        lambda: ms.scan("nowhere.csv", like=features),
    ):
        with pytest.raises(FeatureMapError, match=r"is not frozen yet\. Freeze it first: map = map\.freeze"):
            use()
    assert not list(tmp_path.iterdir())
    assert str(features) == f"{features!r}, not frozen"
    assert features != frozen(features)
    assert features == changed(features)


# How maps and knowledge go together.


@each_drawn
def test_a_map_that_is_not_frozen_is_frozen_on_the_rows_which_is_said(features):
    unfrozen = changed(features, precision="float64")
    with pytest.warns(FrozenHereWarning, match="was frozen on a sample of these rows") as caught:
        found = ms.learn(X, Y, features=unfrozen)
    assert caught[0].filename == __file__
    assert found.features == frozen(features)
    assert_same_knowledge(found, learn(frozen(features)))


def test_a_map_may_be_asked_for_by_its_name(tmp_path):
    for spec in (
        "hidden:20,seed=3",
        "fourier:20",
        "nystroem:20",
        "patches:3,size=3",
        "patches:3,size=3+fourier:9",
        "pca:0.9",
    ):
        with pytest.warns(FrozenHereWarning):
            found = ms.learn(X, Y, features=spec)
        assert found.features == as_map(spec).freeze(X, Y)
    path, label = samples.parquet(tmp_path, "day", X, Y)
    with pytest.warns(FrozenHereWarning):
        found = ms.learn(ms.scan(path, label, batch_rows=100), features="hidden:20,weights=constrained")
    assert found.width == 20
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ms.learn(X, Y, features="identity").signature == ms.learn(X, Y).signature


def test_different_maps_do_not_add_and_both_are_named():
    found = [learn(frozen(features)) for features in FEW] + [learn(frozen(FEW[1], "float32"))]
    found.append(learn(changed(FEW[1], seed=8, precision="float64").freeze(X)))
    for place, one in enumerate(found):
        for other in found[:place] + found[place + 1 :]:
            for use in (lambda one=one, other=other: one + other, lambda one=one, other=other: one - other):
                with pytest.raises(SignatureError, match="Freeze one map, save it, and learn all pieces") as caught:
                    use()
                assert str(one.features) in str(caught.value)
                assert str(other.features) in str(caught.value)


@each_mapped
def test_features_that_mix_columns_are_not_selected_from(features):
    with pytest.raises(FormError, match="each of which mixes them"):
        learn(frozen(features)).select([0])


@each_map
def test_classes_of_mapped_knowledge_are_chosen_and_joined(features):
    whole = learn(frozen(features))
    few = whole.only(["cat", "fox"])
    assert_same_knowledge(few, learn(frozen(features), Y != "dog"))
    joined = ms.learn(X, np.where(Y == "dog", "cat", Y), features=frozen(features))
    assert_same_knowledge(whole.join({"cat": ["cat", "dog"]}), joined)


# Memory.


@pytest.mark.parametrize("per_class", [True, False], ids=["per class", "pooled"])
def test_mapped_rows_are_never_held_as_a_whole(per_class):
    generator = np.random.default_rng(0)
    rows, labels = generator.normal(size=(30_000, 8)).astype(np.float32), generator.integers(0, 2, 30_000)
    features = Fourier(1000).freeze(rows)
    ms.learn(rows[:2000], labels[:2000], features=features, per_class=per_class)
    tracemalloc.start()
    try:
        found = ms.learn(rows, labels, features=features, per_class=per_class)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.rows.sum() == 30_000
    assert peak < found.nbytes + 40e6  # mapped rows would take 120 MB


def test_knowledge_that_would_not_fit_is_refused_before_anything_is_learned(monkeypatch, tmp_path):
    def learned(*_, **__):
        raise AssertionError

    monkeypatch.setattr("mergesvm.knowledge.learning.accumulator.accumulate", learned)
    monkeypatch.setattr("mergesvm.knowledge.learning.accumulator.memory_limit", lambda: 1.5e9)
    features = Fourier(10_000).freeze(X)  # of 0.8 GB a matrix
    path, label = samples.parquet(tmp_path, "day", X, Y)
    for use in (
        lambda: ms.learn(X, Y, features=features),
        lambda: ms.learn(ms.scan(path, label), features=features),
        lambda: ms.MergeSVC(features=features).fit(X, Y),
    ):
        with pytest.raises(ParameterError) as caught:
            use()
        assert "Knowledge of 3 x 10,000 x 10,000 sums takes 2.4 GB" in str(caught.value)
        assert "in the pooled form (per_class=False, --pooled), which takes 0.8 GB" in str(caught.value)
    with pytest.raises(AssertionError):
        ms.learn(X, Y, features=features, per_class=False)
    monkeypatch.setattr("mergesvm.knowledge.learning.accumulator.memory_limit", lambda: 0.5e9)
    for per_class in (True, False):
        with pytest.raises(ParameterError, match=r"takes [02]\.[84] GB, .* Learn from fewer features\.$"):
            ms.learn(X, Y, features=features, per_class=per_class)
