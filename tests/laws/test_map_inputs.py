"""Laws of feature maps: any kind of rows, invalid rows, learning, memory."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import maps
import mergesvm as ms
import samples
from maps import (
    NAMES,
    ONE_PER_KIND,
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
from mergesvm.errors import DataError, FeatureMapError, FormError, FrozenHereWarning, ParameterError, SignatureError
from mergesvm.features import Components, Fourier, Identity
from mergesvm.features.spec import as_map
from reference import assert_same_knowledge, assert_same_scores


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch):
    """Write files without waiting for the disk."""
    monkeypatch.setattr("os.fsync", lambda _: None)


# Kinds of rows.


@each_map
def test_sparse_rows_match_dense_rows(features):
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


@each_random
def test_maps_frozen_on_sparse_rows_do_not_centre_them(features):
    few = sparse.csr_array(np.where(X > 1, X, 0))
    one = changed(features, precision="float64").freeze(few, Y)
    if not isinstance(stages(one)[0], Components):
        assert not stages(one)[0].arrays["centre"].any()
    np.testing.assert_allclose(one.transform(few), one.transform(few.toarray()), rtol=0, atol=1e-12)
    dense = ms.learn(few.toarray(), Y, WEIGHTS, features=one)
    assert_same_knowledge(ms.learn(few, Y, WEIGHTS, features=one), dense)
    np.testing.assert_allclose(ms.solve(dense).scores(few), ms.solve(dense).scores(few.toarray()), atol=1e-9)


@each_map
def test_tables_and_lists_match_arrays(features):
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


@each_random
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, ">f8"])
def test_rows_of_any_dtype_are_mapped_like_float64(features, dtype):
    whole = np.round(40 * X)
    one = changed(features, precision="float64").freeze(whole, Y)
    np.testing.assert_allclose(one.transform(whole.astype(dtype)), one.transform(whole), rtol=0, atol=1e-12)


@each_map
@pytest.mark.parametrize("write", [samples.parquet, samples.comma_separated], ids=lambda writer: writer.__name__)
def test_a_scan_of_any_batch_size_matches_arrays(features, write, tmp_path):
    path, label = write(tmp_path, "day", X[:40], Y[:40])
    expected = learn(frozen(features), slice(40))
    for batch_rows in (1, 17, None) if features in ONE_PER_KIND else (17, None):
        found = ms.learn(ms.scan(path, label, batch_rows=batch_rows), features=frozen(features))
        assert_same_knowledge(found, expected)
    assert_same_scores(found, expected, X)
    assert [origin.rows for origin in found.provenance] == [40]


@each_random
def test_freezing_on_a_file_matches_freezing_on_its_rows(features, tmp_path):
    path, label = samples.parquet(tmp_path, "day", X, Y)
    found = changed(features, precision="float64").freeze(ms.scan(path, label))
    assert found == frozen(features)
    assert found.layout.names == tuple(f"x{index}" for index in range(36))


def test_the_pilot_sample_comes_from_all_files(tmp_path):
    for index in range(40):
        samples.parquet(tmp_path, f"day{index:02}", np.full((3, 4), float(index)), np.zeros(3, dtype=int))
    centre = Fourier(3).freeze(ms.scan(tmp_path, "y")).arrays["centre"]
    np.testing.assert_allclose(centre, np.full(4, 19.5), atol=1.0)


PREDICT_SCRIPT = """
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


def test_a_saved_model_predicts_in_another_process(tmp_path):
    models = {}
    for index, features in enumerate((Identity(), *RANDOM)):
        precision = maps.PRECISIONS[index % 2]
        models[f"{index:02}"] = (
            ms.solve(learn(frozen(features, precision)), multiclass=["ovr", "ovo"][index % 3 == 0]),
            ROUNDING[precision],
        )
        models[f"{index:02}"][0].save(tmp_path / f"{index:02}.msvm")
    np.save(tmp_path / "X.npy", X)
    done = subprocess.run(
        [sys.executable, "-c", PREDICT_SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert dict(line.split() for line in done.stdout.splitlines()) == {
        name: model.signature.features.fingerprint for name, (model, _) in models.items()
    }
    for name, (model, tolerance) in models.items():
        found = np.load(tmp_path / f"{name}.npz")
        np.testing.assert_array_equal(found["predicted"], model.predict(X))
        np.testing.assert_allclose(found["scores"], model.scores(X), atol=tolerance)


@each_saved
@each_precision
def test_saving_and_loading_a_model_is_exact(features, precision, tmp_path):
    before = ms.solve(learn(frozen(features, precision)), multiclass="ovo")
    before.save(tmp_path / "m.msvm")
    after = ms.load_model(tmp_path / "m.msvm")
    assert after.signature == before.signature
    for method in ("predict", "predict_proba", "decision_function"):
        assert getattr(after, method)(X).tobytes() == getattr(before, method)(X).tobytes()


# Invalid rows.


@each_map
@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (-np.inf, "infinity")])
def test_errors_name_row_and_column_of_nan_or_infinity(features, value, what, tmp_path):
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
    # A row of weight zero may contain anything.
    weights = np.ones(len(X))
    weights[173] = 0
    assert_same_knowledge(ms.learn(bad, Y, weights, features=one), ms.learn(X, Y, weights, features=one))


@each_random
def test_freezing_on_nan_is_refused(features, tmp_path):
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
        with pytest.raises(DataError, match=rf"X has {rows.shape[1]} features, but the model was trained on 36"):
            model.predict(rows)


@each_random
def test_rows_with_other_column_names_are_refused(features, tmp_path):
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
    with pytest.raises(DataError, match="Column 0 of X is named 'pixel 1', but 'pixel 0' is expected"):
        ms.solve(ms.learn(frame, Y, features=one)).predict(swapped)
    swapped.assign(y=Y).to_parquet(tmp_path / "day.parquet")
    with pytest.raises(DataError, match=r"Column 0 of .* is named 'pixel 1'"):
        ms.learn(ms.scan(tmp_path / "day.parquet", "y"), features=one)
    found = ms.learn(ms.scan(tmp_path / "day.parquet", "y", like=one), features=one)
    assert_same_knowledge(found, ms.learn(frame, Y, features=one))


@each_random
def test_values_that_overflow_are_refused(features):
    for one in (frozen(features), frozen(features, "float32")):
        try:
            assert np.isfinite(one.transform(X * 1e300)).all()
        except DataError as error:
            assert "too large to be mapped. Rescale the columns" in str(error)  # noqa: PT017


@each_random
def test_an_unfrozen_map_cannot_be_used(features, tmp_path):
    assert not features.frozen
    for use in (
        lambda: features.transform(X),
        lambda: features.map_block(X, np.empty((len(X), 12))),
        lambda: features.fingerprint,
        lambda: features.layout,
        lambda: features.width,
        lambda: features.default_anchor,
        lambda: features.save(tmp_path / "map.features"),
        lambda: ms.scan("nowhere.csv", like=features),
    ):
        with pytest.raises(FeatureMapError, match=r"is not frozen yet\. Freeze it first: map = map\.freeze"):
            use()
    assert not list(tmp_path.iterdir())
    assert str(features) == f"{features!r}, not frozen"
    assert features != frozen(features)
    assert features == changed(features)


# Maps and knowledge.


@each_random
def test_learning_freezes_a_map_with_a_warning(features):
    unfrozen = changed(features, precision="float64")
    if unfrozen.freeze(3 * X + 1, Y) != frozen(features):
        with pytest.warns(FrozenHereWarning, match="was frozen on a sample of these rows") as caught:
            found = ms.learn(X, Y, features=unfrozen)
        assert caught[0].filename == __file__
    else:  # given weights without a gain depend on no rows
        found = ms.learn(X, Y, features=unfrozen)
    assert found.features == frozen(features)
    assert_same_knowledge(found, learn(frozen(features)))


def test_learning_accepts_the_name_of_a_map(tmp_path):
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
    found = [learn(frozen(features)) for features in ONE_PER_KIND] + [learn(frozen(ONE_PER_KIND[1], "float32"))]
    found.append(learn(changed(ONE_PER_KIND[1], seed=8, precision="float64").freeze(X)))
    for place, one in enumerate(found):
        for other in found[:place] + found[place + 1 :]:
            for use in (lambda one=one, other=other: one + other, lambda one=one, other=other: one - other):
                with pytest.raises(SignatureError, match="Freeze one map, save it, and learn all pieces") as caught:
                    use()
                assert str(one.features) in str(caught.value)
                assert str(other.features) in str(caught.value)


@each_mapped
def test_mapped_features_cannot_be_selected(features):
    with pytest.raises(FormError, match="each of which mixes columns"):
        learn(frozen(features)).select([0])


@each_map
def test_classes_of_mapped_knowledge_can_be_selected_and_joined(features):
    whole = learn(frozen(features))
    few = whole.only(["cat", "fox"])
    assert_same_knowledge(few, learn(frozen(features), Y != "dog"))
    joined = ms.learn(X, np.where(Y == "dog", "cat", Y), features=frozen(features))
    assert_same_knowledge(whole.join({"cat": ["cat", "dog"]}), joined)


# Memory.


@pytest.mark.parametrize("per_class", [True, False], ids=["per class", "pooled"])
def test_mapped_rows_are_never_in_memory_all_at_once(per_class):
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


def test_knowledge_that_exceeds_memory_is_refused_before_learning(monkeypatch, tmp_path):
    def learned(*_, **__):
        raise AssertionError

    monkeypatch.setattr("mergesvm.knowledge.learning.accumulator.accumulate", learned)
    monkeypatch.setattr("mergesvm.engines.machine.memory_limit", lambda: 1.5e9)
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
    monkeypatch.setattr("mergesvm.engines.machine.memory_limit", lambda: 0.5e9)
    for per_class in (True, False):
        with pytest.raises(ParameterError, match=r"takes [02]\.[84] GB, .* Learn from fewer features\.$"):
            ms.learn(X, Y, features=features, per_class=per_class)
