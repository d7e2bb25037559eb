"""Classes that are declared before they are seen, and the types of labels."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import SGDClassifier
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier

from mergesvm import MergeSVC, MergeSVCCV, ParallelKernelSVC, PegasosSVC, RecursiveSVC
from mergesvm.errors import ParameterError
from reference import blobs

ONLINE = {
    "MergeSVC": MergeSVC(),
    "MergeSVC ovo": MergeSVC(multiclass="ovo"),
    "PegasosSVC": PegasosSVC(0.01, 2000),
    "PegasosSVC ovr": PegasosSVC(0.01, 2000, "ovr"),
    "RecursiveSVC": RecursiveSVC(),
    "ParallelKernelSVC": ParallelKernelSVC(),
}
online = pytest.mark.parametrize("name", ONLINE)


def fresh(name):
    return pickle.loads(pickle.dumps(ONLINE[name]))


@online
@pytest.mark.parametrize("seen", [[0], [3], [0, 2], [1, 3], [0, 1, 3]])
def test_a_declared_class_has_a_column_and_is_never_predicted_before_it_is_seen(name, seen):
    X, y = blobs(seed=1, n=200, d=3, classes=4)
    now = np.isin(y, seen)
    machine = fresh(name).partial_fit(X[now], y[now], classes=np.arange(4))
    far = np.vstack([X, 100 * X, -100 * X])
    scores, probabilities = machine.decision_function(far), machine.predict_proba(far)
    np.testing.assert_array_equal(machine.classes_, np.arange(4))
    assert scores.shape == probabilities.shape == (len(far), 4)
    assert set(machine.predict(far)) <= set(seen)
    np.testing.assert_array_equal(scores.argmax(axis=1), machine.predict(far))
    unseen = [label for label in range(4) if label not in seen]
    assert (probabilities[:, unseen] == 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (machine.predict_log_proba(far)[:, unseen] == -np.inf).all()


@online
@pytest.mark.parametrize("seen", [0, 1])
def test_a_problem_of_two_classes_with_one_side_does_not_score_for_the_other(name, seen):
    X, _ = blobs(seed=2, n=60, d=3, classes=2)
    machine = fresh(name).partial_fit(X, np.full(60, seen), classes=[0, 1])
    np.testing.assert_array_equal(machine.decision_function(X), np.full(60, 2.0 * seen - 1))
    np.testing.assert_array_equal(machine.predict(X), np.full(60, seen))
    np.testing.assert_array_equal(machine.predict_proba(X), np.tile(np.eye(2)[seen], (60, 1)))


@online
def test_declared_classes_do_not_change_the_model_of_the_rows(name):
    X, y = blobs(seed=3, n=150, d=3, classes=3)
    order = np.argsort(y, kind="stable")
    declared, plain = fresh(name), fresh(name)
    for part in (order[:40], order[40:120], order):
        declared.partial_fit(X[part], y[part], classes=[0, 1, 2])
        plain.partial_fit(X[part], y[part])
    np.testing.assert_array_equal(declared.decision_function(X), plain.decision_function(X))
    np.testing.assert_array_equal(declared.predict_proba(X), plain.predict_proba(X))


@online
def test_one_vs_rest_does_not_predict_a_class_that_was_never_seen(name):
    X, y = load_iris(return_X_y=True)
    seen = y < 2
    for machine in (SGDClassifier(random_state=0), fresh(name)):
        many = OneVsRestClassifier(machine).partial_fit(X[seen], y[seen], classes=[0, 1, 2])
        assert set(many.predict(X[seen])) <= {0, 1}
        assert (many.decision_function(X[seen])[:, 2] < 0).all()
    many.partial_fit(X, y)
    assert many.score(X, y) > 0.6


@online
def test_one_vs_one_does_not_predict_a_class_that_was_never_seen(name):
    X, y = load_iris(return_X_y=True)
    seen = y < 2
    many = OneVsOneClassifier(fresh(name)).partial_fit(X[seen], y[seen], classes=[0, 1, 2])
    assert set(many.predict(X)) <= {0, 1}
    assert many.score(X[seen], y[seen]) == 1.0


@online
def test_a_class_that_was_not_declared_is_refused_and_nothing_is_learned(name):
    X, y = blobs(seed=4, n=90, d=3, classes=3)
    machine = fresh(name)
    with pytest.raises(ParameterError, match=r"Class 2 in y is not among the classes given: \[0, 1\]"):
        machine.partial_fit(X, y, classes=[0, 1])
    assert not hasattr(machine, "n_features_in_")
    assert machine._declared == ()
    few = y < 2
    machine.partial_fit(X[few], y[few], classes=[0, 1])
    before = machine.decision_function(X)
    with pytest.raises(ParameterError, match="Class 2 in y"):  # as in scikit-learn, the first call declares for all
        machine.partial_fit(X, y)
    np.testing.assert_array_equal(machine.decision_function(X), before)
    machine.partial_fit(X, y, classes=[0, 1, 2])
    assert machine.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ParameterError, match="classes is empty"):
        machine.partial_fit(X, y, classes=[])
    assert machine.fit(X[few], y[few]).classes_.tolist() == [0, 1]  # fit begins anew


def test_merged_estimators_keep_the_classes_of_both():
    X, y = blobs(seed=5, n=90, d=3, classes=3)
    one = MergeSVC().partial_fit(X[y == 0], y[y == 0], classes=[0, 7])
    other = MergeSVC().partial_fit(X[y == 1], y[y == 1], classes=[1, 9])
    assert (one + other).classes_.tolist() == [0, 1, 7, 9]
    assert (one + other).predict_proba(X).shape == (90, 4)
    assert one.classes_.tolist() == [0, 7]


LABELS = {
    "int8": np.array([0, 1, 2], dtype=np.int8),
    "int32": np.array([5, -3, 70000], dtype=np.int32),
    "uint64": np.array([0, 1, 2**63 + 1], dtype=np.uint64),
    "float32": np.array([0, 1, 2], dtype=np.float32),
    "bool": np.array([False, True, True]),
    "text": np.array(["a", "long", "bb"]),
    "wide text": np.array(["a", "bb", "c"], dtype="U9"),
    "bytes": np.array([b"a", b"b\xc3\xa4", b"ccc"]),
    "objects": np.array(["a", "bb", "ccc"], dtype=object),
    "object numbers": np.array([3, 1, 2], dtype=object),
    "object bytes": np.array([b"a", b"bb", b"c"], dtype=object),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("machine", [*ONLINE.values(), MergeSVCCV(cv=3)], ids=[*ONLINE, "MergeSVCCV"])
def test_labels_keep_their_type(machine, kind):
    X, codes = blobs(seed=6, n=60, d=3, classes=3)
    y = LABELS[kind][codes]
    machine = pickle.loads(pickle.dumps(machine)).fit(X, y)
    expected = np.unique(y)
    assert machine.classes_.dtype == machine.predict(X).dtype
    assert machine.classes_.dtype == (int if kind == "object numbers" else expected.dtype)
    np.testing.assert_array_equal(machine.classes_, expected)
    assert set(machine.predict(X)) <= set(expected)
    truth = y.astype(int) if kind == "object numbers" else y  # the metrics of scikit-learn refuse numbers as objects
    assert machine.score(X, truth) == np.mean(machine.predict(X) == y) > 0.5


@pytest.mark.parametrize(
    "column",
    [
        lambda y: y.astype(str).tolist(),
        lambda y: [str(v).encode() for v in y],
        lambda y: pd.Series(y, dtype="int16"),
        lambda y: pd.Series(y.astype(str)),
        lambda y: pd.Series(y.astype(str), dtype="category"),
        lambda y: pl.Series(y.astype(str).tolist()),
        lambda y: pd.DataFrame({"y": y.astype(np.int32)}),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_labels_of_columns_have_the_type_of_their_array(column):
    X, y = blobs(seed=6, n=60, d=3, classes=3)
    machine = MergeSVC().fit(X, column(y))
    assert machine.classes_.dtype == machine.predict(X).dtype == np.asarray(column(y)).dtype


def test_types_of_labels_join_without_losing_a_label():
    X, y = blobs(seed=7, n=60, d=3, classes=2)
    machine = MergeSVC().fit(X, y.astype(np.int8)).partial_fit(X, (y + 1000).astype(np.int16))
    assert machine.classes_.tolist() == [0, 1, 1000, 1001]
    assert machine.classes_.dtype == np.int16
    small = MergeSVC().fit(X, y.astype(np.int8))
    small.merge(MergeSVC().fit(X, y + 10**6).knowledge_)  # knowledge has no type
    assert small.classes_.tolist() == [0, 1, 10**6, 10**6 + 1]
    words = MergeSVC().fit(X, np.array(["a", "b"])[y]).partial_fit(X, np.array(["longer", "words"])[y])
    assert words.classes_.tolist() == ["a", "b", "longer", "words"]


@pytest.mark.parametrize("machine", [MergeSVC, PegasosSVC])
def test_weights_of_classes_without_rows_are_not_taken_for_misspelt(machine):
    X, y = blobs(seed=8, n=90, d=3, classes=3)
    few = y < 2
    weighted = machine(class_weight={1: 3.0, 2: 9.0}).partial_fit(X[few], y[few], classes=[0, 1, 2])
    same = machine(class_weight={1: 3.0}).fit(X[few], y[few])
    np.testing.assert_array_equal(weighted.coef_, same.coef_)
    with pytest.raises(ParameterError, match="unknown class 5 and leaves out 0"):
        machine(class_weight={1: 3.0, 5: 9.0}).partial_fit(X, y, classes=[0, 1, 2]).predict(X)


def test_classes_given_as_bytes_have_weights_as_bytes():
    X, y = blobs(seed=9, n=90, d=3, classes=2)
    labels = np.array([b"no", b"yes"])[y]
    plain = MergeSVC(class_weight={1: 5.0}).fit(X, y)
    np.testing.assert_array_equal(MergeSVC(class_weight={b"yes": 5.0}).fit(X, labels).coef_, plain.coef_)
