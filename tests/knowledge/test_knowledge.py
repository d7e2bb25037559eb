from __future__ import annotations

import pickle

import numpy as np
import pytest

import mergesvm as ms
from mergesvm.errors import FormError, KnowledgeError, MergeSVMError, ParameterError, SignatureError, SubtractionError
from reference import assert_same_knowledge, assert_same_scores, blobs


@pytest.fixture
def letters():
    X, y = blobs(seed=11, n=200, d=4, classes=4, offset=100.0)
    return X, np.array(list("aAbc"))[y]


def test_selected_features_match_learning_from_them_alone(letters):
    X, y = letters
    k = ms.learn(X, y, feature_names=["w", "x", "y", "z"])
    expected = ms.learn(X[:, [3, 1]], y, feature_names=["z", "x"])
    for features in (["z", "x"], [3, 1], [-1, -3]):
        chosen = k.select(features=features)
        assert chosen.signature == expected.signature
        assert_same_knowledge(chosen, expected)
    assert_same_knowledge(k.select([True, False, False, True]), ms.learn(X[:, [0, 3]], y))


@pytest.mark.parametrize("bad", [["q"], [False] * 4, [4], [-5], [0, 0], [], [1.5], ["w", "w"]])
def test_unknown_features_are_refused(letters, bad):
    with pytest.raises(ParameterError):
        ms.learn(*letters, feature_names=["w", "x", "y", "z"]).select(bad)


def test_selected_classes_match_learning_from_them_alone(letters):
    X, y = letters
    inside = np.isin(y, ["a", "c"])
    chosen = ms.learn(X, y).only(["c", "a"])
    assert_same_knowledge(chosen, ms.learn(X[inside], y[inside]))
    with pytest.raises(ParameterError, match=r"Unknown class .q.\. Known classes: 'A', 'a', 'b'"):
        ms.learn(X, y).only(["q"])


@pytest.mark.parametrize("per_class", [True, False])
def test_joined_classes_match_learning_with_one_label(letters, per_class):
    X, y = letters
    joined = ms.learn(X, y, per_class=per_class).join({"A": ["a", "A"]})
    expected = ms.learn(X, np.where(y == "a", "A", y), per_class=per_class)
    assert_same_knowledge(joined, expected)
    assert_same_scores(joined, expected, X)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"x": ["a"], "y": ["a"]}, "cannot join both 'x' and 'y'"),
        ({"c": ["a", "b"]}, "'c' exists and is not among the classes joined"),
        ({"x": ["q"]}, "Unknown class 'q'"),
        ({1: ["a"]}, "must be of the same kind"),
        ({None: ["a", "A", "b", "c"]}, "has no label"),
    ],
)
def test_classes_that_cannot_be_joined_are_refused(letters, groups, message):
    with pytest.raises(MergeSVMError, match=message):
        ms.learn(*letters).join(groups)


def test_different_signatures_do_not_add_and_both_are_named(letters):
    X, y = letters
    k = ms.learn(X, y, feature_names=["w", "x", "y", "z"])
    unlike = {
        "2 features to knowledge of 4": ms.learn(X[:, :2], y),
        "named 'x', 'w', 'y', 'z' to knowledge of features named 'w', 'x'": ms.learn(X, y, feature_names=list("xwyz")),
        "without names to knowledge of features named": ms.learn(X, y),
        "pooled form to knowledge of the class-wise": ms.learn(X, y, feature_names=list("wxyz"), per_class=False),
        "whole number labels to knowledge of text": ms.learn(X, np.arange(200) % 2, feature_names=list("wxyz")),
    }
    for message, other in unlike.items():
        with pytest.raises(SignatureError, match=message):
            k + other
        with pytest.raises(SignatureError, match="Cannot subtract"):
            k - other


def test_pooled_pieces_with_other_class_weights_do_not_add(letters):
    X, y = letters
    one = ms.learn(X, y, per_class=False, class_weight={"a": 1, "A": 1, "b": 1, "c": 2})
    other = ms.learn(X, y, per_class=False)
    with pytest.raises(
        SignatureError, match=r"pooled form to knowledge of the pooled form with class weights {'A': 1.0"
    ):
        one + other


def test_rows_that_were_never_added_cannot_be_subtracted(letters):
    X, y = letters
    k = ms.learn(X, y)
    with pytest.raises(
        SubtractionError, match=r"never learned, or is already gone\. Known classes: 'A', 'a', 'b', 'c'"
    ):
        ms.subtract(k, ms.learn(X[:1], ["q"]), force=True)
    with pytest.raises(SubtractionError, match=r"only [0-9]+ rows"):
        ms.subtract(k, ms.learn(np.vstack([X, X]), np.concatenate([y, y])), force=True)
    with pytest.raises(SubtractionError, match="sample weights with which"):
        ms.subtract(k, ms.learn(X, y, np.full(len(y), 0.5)), force=True)
    with pytest.raises(SubtractionError, match="weight"):
        ms.subtract(k, ms.learn(X[:9], y[:9], np.full(9, 1e6)), force=True)
    assert_same_knowledge(k, ms.learn(X, y))


def test_a_class_without_rows_is_dropped(letters):
    X, y = letters
    rest = ms.subtract(ms.learn(X, y), ms.learn(X[y == "b"], y[y == "b"]), force=True)
    assert rest.labels == ("A", "a", "c")
    assert_same_scores(rest, ms.learn(X[y != "b"], y[y != "b"]), X)


def test_the_pooled_form_refuses_what_needs_class_wise_sums(letters):
    X, y = letters
    pooled = ms.learn(X, y, per_class=False)
    with pytest.raises(FormError, match="per_class=True"):
        pooled.only(["a"])
    with pytest.raises(FormError, match="One-vs-one needs the Gram matrix of every class"):
        ms.solve(pooled, multiclass="ovo")
    with pytest.raises(FormError, match="fixed when learning"):
        ms.solve(pooled, class_weight="balanced")
    with pytest.raises(FormError, match="unless per_class=False"):
        ms.learn(X, y, class_weight={"a": 2.0})
    with pytest.raises(ParameterError, match="class 'A' has none"):
        ms.learn(X, y, per_class=False, class_weight={"a": 2.0})
    assert len(pooled.grams) == 1
    assert pooled.nbytes < ms.learn(X, y).nbytes


def test_knowledge_cannot_be_changed(letters):
    k = ms.learn(*letters)
    for array in (k.anchor, k.rows, k.counts, k.sums, *k.grams):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_merging_or_solving_nothing_is_refused():
    with pytest.raises(KnowledgeError, match="nothing to merge"):
        ms.merge([])
    with pytest.raises(KnowledgeError, match="so it cannot be solved"):
        ms.solve(ms.Knowledge.zero(ms.Signature(ms.features.Identity(), 3)))
    assert ms.merge([ms.learn([[1.0]], ["a"])]).labels == ("a",)


def test_only_knowledge_adds_to_knowledge(letters):
    k = ms.learn(*letters)
    with pytest.raises(TypeError):
        k + 1
    with pytest.raises(TypeError):
        1 + k
    with pytest.raises(TypeError):
        k - None


def test_an_anchor_is_one_finite_number_per_feature(letters):
    k = ms.learn(*letters)
    for bad in ([0.0], [0, 0, 0, np.nan]):
        with pytest.raises(ParameterError, match="4 finite numbers"):
            k.about(bad)


def test_many_pieces_share_matrices_instead_of_copying_them():
    pieces = [ms.learn(np.eye(3) + i, [f"class {i}"] * 3, anchor=np.zeros(3)) for i in range(4)]
    merged = ms.merge(pieces)
    assert all(np.shares_memory(merged.grams[i], pieces[i].grams[0]) for i in range(4))


def test_a_piece_far_from_the_origin_keeps_its_digits():
    X, y = blobs(seed=12, n=300, d=3, classes=2)
    k = ms.learn(X + 1e8, y).about()
    reference = ms.learn((X + 1e8) - 1e8, y).about()
    np.testing.assert_allclose(k.grams[0], reference.grams[0], atol=1e-6)
    assert np.abs(k.anchor - 1e8).max() < 10


def test_the_repr_shows_rows_features_and_classes(letters):
    assert repr(ms.learn([[1.0]], [True])) == "Knowledge of 1 row x 1 feature in 1 class: True 1"
    assert ", pooled" in repr(ms.learn(*letters, per_class=False))
    assert repr(ms.learn(np.ones((12, 1)), range(12))).endswith("9 1, ...")


def test_classes_may_be_joined_under_names_of_another_kind(letters):
    X, y = letters
    joined = ms.learn(X, y).join({0: ["a", "A"], 1: ["b", "c"]})
    numbered = ms.learn(X, np.isin(y, ["b", "c"]).astype(int))
    assert_same_knowledge(joined, numbered)
    assert (joined + numbered).labels == (0, 1)
    k = ms.learn(X, y)
    assert k.join({k.classes[0]: k.classes[:2]}).labels == ("A", "b", "c")


def test_pickled_knowledge_is_equal_and_immutable(letters):
    k = pickle.loads(pickle.dumps(ms.learn(*letters)))
    assert_same_knowledge(k, ms.learn(*letters))
    with pytest.raises(ValueError, match="read-only"):
        k.grams[0][0, 0] = 1.0


def test_a_given_anchor_is_copied(letters):
    anchor = np.full(4, 100.0)
    k = ms.learn(*letters, anchor=anchor)
    ms.Knowledge.zero(k.signature, anchor)
    anchor[0] = 7.0
    assert k.anchor[0] == 100.0
    for bad in ([1.0], "here", np.full(4, np.nan), 5.0):
        with pytest.raises(ParameterError, match="4 finite numbers"):
            ms.learn(*letters, anchor=bad)


def test_only_knowledge_is_merged_and_solved(letters):
    with pytest.raises(TypeError, match="A fitted estimator has it as knowledge_"):
        ms.merge([ms.learn(*letters), None])
    with pytest.raises(TypeError, match="not MergeSVC"):
        ms.solve(ms.MergeSVC())


def test_a_single_feature_or_class_needs_no_list(letters):
    k = ms.learn(*letters, feature_names=["age", "height", "weight", "year"])
    assert k.select("age").signature.names == ("age",)
    assert k.select(3).signature.names == ("year",)
    assert k.only("b").labels == ("b",)
    assert k.join({"x": "a"}).labels == ("A", "b", "c", "x")
    with pytest.raises(ParameterError, match="it has 2 for 4"):
        k.select([True, False])
    with pytest.raises(ParameterError, match="at least one class"):
        k.only([])
    with pytest.raises(ParameterError, match="must map each new class"):
        k.join(["a", "b"])


def test_solving_does_not_enlarge_pickles(letters):
    k = ms.learn(*letters)
    before = len(pickle.dumps(k))
    ms.solve(k)
    assert len(pickle.dumps(k)) == before


@pytest.mark.parametrize("per_class", [True, False])
def test_the_anchor_follows_rows_that_drift_away(per_class):
    generator = np.random.default_rng(0)
    near, far = generator.normal(size=(400, 3)), generator.normal(size=(300, 3)) + np.array([0.0, 1e3, 1e6])
    y = np.arange(400) % 2
    first = ms.learn(near, y, per_class=per_class)
    left = (first + ms.learn(far, y[:300], per_class=per_class)) - first
    np.testing.assert_allclose(left.anchor, far.mean(axis=0), atol=20)
    assert left.anchor[0] == 0
    again = ms.learn(far + 1e4, y[:300], per_class=per_class)
    np.testing.assert_allclose((left + again - left).anchor, far.mean(axis=0) + 1e4, atol=20)


def test_signatures_differ_in_every_field():
    many = tuple(f"feature {i}" for i in range(30))
    signature = ms.Signature(ms.features.Identity(), 30, many)
    for other in (
        ms.Signature(ms.features.Fourier(8).freeze(np.eye(30)), 30, many),
        ms.Signature(ms.features.Identity(), 30, (*many[:-1], "another")),
        ms.Signature(ms.features.Identity(), 30, many, per_class=False),
    ):
        with pytest.raises(SignatureError, match="Cannot add"):
            signature.joined(other)


def test_a_sum_has_the_lower_precision():
    X, y = np.random.default_rng(0).normal(size=(50, 70)), np.arange(50) % 2
    fine, coarse = ms.learn(X, y), ms.learn(X, y, precision="float32")
    assert (fine + coarse).precision == ((fine + coarse) - fine).precision == coarse.precision == "float32"
    assert ms.learn(X[:, :9], y, precision="float32").precision == "float64"  # narrow rows are multiplied in float64


def test_class_weights_fixed_when_learning_may_be_keyed_by_numpy_values(letters):
    X, y = letters[0], np.arange(200) % 2
    one = ms.learn(X, y, per_class=False, class_weight={0: 1, 1: 3})
    other = ms.learn(X, y, per_class=False, class_weight={np.int64(0): 1.0, np.int64(1): 3.0})
    assert (one + other).rows.sum() == 400
    with pytest.raises(ParameterError, match="must map classes to numbers"):
        ms.learn(X, y, per_class=False, class_weight={0: "x", 1: 2.0})


def test_the_pooled_gram_is_read_only(letters):
    with pytest.raises(ValueError, match="read-only"):
        ms.learn(*letters).pooled_gram[0, 0] = 1.0


def test_pooled_classes_join_only_if_their_weights_are_equal(letters):
    X, y = letters
    weights = {"A": 2.0, "a": 2.0, "b": 9.0, "c": 1.0}
    k = ms.learn(X, y, per_class=False, class_weight=weights)
    joined = k.join({"x": ["a", "A"]})
    np.testing.assert_allclose(joined.frequencies, joined.rows)
    with pytest.raises(FormError, match="different weights"):
        k.join({"x": ["b", "c"]})


def test_many_narrow_classes_do_not_fill_the_memory():
    import tracemalloc

    for n_classes, width in ((30_000, 1), (4_000, 4)):
        X, y = np.ones((40_000, width)), np.arange(40_000) % n_classes
        tracemalloc.start()
        ms.learn(X, y, n_jobs=8)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100e6


def test_the_first_different_name_is_shown():
    many = tuple(f"feature {i}" for i in range(30))
    with pytest.raises(SignatureError, match="Feature 29 is 'other' here, 'feature 29' there"):
        ms.Signature(ms.features.Identity(), 30, many).joined(
            ms.Signature(ms.features.Identity(), 30, (*many[:-1], "other"))
        )
