"""Files that could not be read again are not written: the reader's checks run before anything is replaced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mergesvm as ms
from hunting import examples
from mergesvm.errors import DataError, KnowledgeError, MergeSVMError

rng = np.random.default_rng(5)
X = rng.normal(size=(30, 3))
Y = np.array(["a", "b", "c"])[rng.integers(0, 3, 30)]


def assert_written_or_refused(content, path: Path) -> None:
    """What is saved can be loaded; otherwise the file that was there stays as it was."""
    path.write_bytes(b"before")
    try:
        content.save(path)
    except MergeSVMError as error:
        assert path.read_bytes() == b"before"
        assert "could not be read again" in str(error)  # noqa: PT017
    else:
        assert repr(ms.load(path)) == repr(content)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("C", [1e99, 1e101, 1e150, 1e-150])
def test_a_model_of_an_extreme_penalty_is_not_written_unless_it_can_be_read(C, tmp_path):
    with np.errstate(all="ignore"):
        try:
            model = ms.solve(ms.learn(X, Y), C=C)
        except MergeSVMError:
            return
    assert_written_or_refused(model, tmp_path / "m")


@pytest.mark.parametrize("factor", [1e150, 1e101, 1e99, 1e-99, 1e-101, 1e-150, 1e-300])
@pytest.mark.parametrize("per_class", [True, False])
def test_knowledge_of_extreme_weights_is_not_written_unless_it_can_be_read(factor, per_class, tmp_path):
    learned = ms.learn(X, Y, np.full(30, factor), per_class=per_class)
    assert_written_or_refused(learned, tmp_path / "k")
    weights = ms.learn(X, Y, per_class=False, class_weight=dict.fromkeys("abc", factor))
    assert_written_or_refused(weights, tmp_path / "k")


@pytest.mark.parametrize("factor", [1e150, 1e-101, 1e-150])
def test_folds_of_extreme_weights_are_not_written_unless_they_can_be_read(factor, tmp_path):
    assert_written_or_refused(ms.learn(X, Y, np.full(30, factor), folds=3), tmp_path / "f")


def test_a_map_that_could_not_be_read_is_not_written(tmp_path):
    frozen = ms.features.Fourier(4, precision="float64").freeze(X)
    arrays = {**frozen.arrays, "centre": np.full(3, 1e200)}
    assert_written_or_refused(replace(frozen, state=replace(frozen.fixed, arrays=arrays)), tmp_path / "m")
    with pytest.raises(DataError, match="Nothing was written"):
        replace(frozen, state=replace(frozen.fixed, arrays=arrays)).save(tmp_path / "m")


@pytest.mark.parametrize(("forgetting", "rows"), [(0.5, 340), (0.5, 400), (0.5, 1100), (0.9, 3000)])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_live_model_that_has_forgotten_a_class_can_be_saved(forgetting, rows, at_once, tmp_path):
    """Its weight decays to less than a file can hold, and to zero."""
    X, labels = rng.normal(size=(rows, 3)), np.array(["a", "b"])[np.arange(rows) % 2]
    labels[:3] = "c"
    live = ms.RecursiveSVC(forgetting=forgetting)
    for part in [slice(None)] if at_once else [slice(0, 4), slice(4, None)]:
        live.partial_fit(X[part], labels[part])
    live.model_.save(tmp_path / "m")
    assert ms.load_model(tmp_path / "m").predict(X[:5]).tolist() == live.predict(X[:5]).tolist()
    live.to_knowledge().save(tmp_path / "k")
    assert ms.Knowledge.load(tmp_path / "k").labels == ("a", "b")
    assert live.classes_.tolist() == ["a", "b"]


def test_rows_past_64_bits_are_not_counted_as_negative(tmp_path):
    learned = ms.learn(X, Y)
    many = replace(learned, rows=learned.rows + 2**61)
    for one, other in ((many, many), (replace(many, rows=many.rows * 1), many)):
        with pytest.raises(KnowledgeError, match="9,223,372,036,854,775,807 rows"):
            ms.merge([replace(one, provenance=()), replace(other, provenance=())])
    with pytest.raises(DataError, match="more than 9,223,372,036,854,775,807 rows"):
        replace(learned, rows=np.full(3, 2**62)).save(tmp_path / "k")
    assert not list(tmp_path.iterdir())


def test_products_larger_than_their_squares_are_not_read_or_written(tmp_path):
    learned = ms.learn(X, Y)
    gram = learned.grams[1].copy()
    gram[0, 2] = gram[2, 0] = 1.001 * np.sqrt(gram[0, 0] * gram[2, 2])
    forged = replace(learned, grams=(learned.grams[0], gram, learned.grams[2]))
    with pytest.raises(DataError, match="a sum of products larger than its squares allow"):
        forged.save(tmp_path / "k")


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-90, 1e-30, 1.0, 1e30, 1e90]),
    st.sampled_from([0.0, 1.0, 1e4, 1e8]),
    st.sampled_from(["float64", "float32"]),
    st.booleans(),
)
@settings(max_examples=examples(40))
def test_products_of_rows_are_never_refused(tmp_path_factory, seed, scale, offset, precision, per_class):
    """Columns that are multiples of one another are on the edge of what is allowed, also after subtractions."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(40, 2)) + offset
    mapped = seed % 2 and scale == 1
    tiny = (1e-3 if mapped else 1e-60) * rows[:, 0]
    rows = scale * np.column_stack([rows, rows[:, 0] * 3, -rows[:, 1], np.full(40, 1e-3), tiny])
    labels = random.integers(0, 2, 40)
    features = ms.features.Fourier(5, precision=precision).freeze(rows) if mapped else None
    whole = ms.learn(rows, labels, per_class=per_class, features=features, precision=precision)
    part = ms.learn(rows[:30], labels[:30], per_class=per_class, features=whole.features, precision=precision)
    path = tmp_path_factory.mktemp("products") / "k"
    left = ms.subtract(whole, part, force=True)
    for piece in (whole, left, left.about(whole.anchor + scale * 5)):
        piece.save(path)
        assert ms.Knowledge.load(path).labels == piece.labels
