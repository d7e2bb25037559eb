"""Rows that several units hold count once, by their ids or by their content: the model is that of SVC on the union."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from mergesvm import ParallelKernelSVC
from mergesvm.errors import DataError, ParameterError, SubtractionError
from reference import blobs

PARAMETERS = {"C": 2.0, "gamma": 0.3}  # problems of up to 200 rows are solved almost exactly


class Overlapping:
    """Ninety rows; ``at`` says which of them is given at each place: some twice, one four times."""

    def __init__(self, classes=3):
        self.X, self.y = blobs(seed=1, n=90, d=3, classes=classes)
        self.at = np.concatenate([np.arange(60), np.arange(30, 90), [3, 3, 45]])
        self.first = np.array([np.flatnonzero(self.at == row)[0] for row in range(90)])

    @property
    def given(self):
        return self.X[self.at], self.y[self.at]


@pytest.fixture(scope="module")
def rows():
    return Overlapping()


def assert_is_svc_of(classifier, X, y, first=None, weights=None):
    """Assert the model of SVC on these rows; ``first`` are the indices of their first copies."""
    expected = SVC(tol=1e-7, **PARAMETERS).fit(X, y, weights)
    numbers = np.arange(len(y)) if first is None else first
    by_class = np.lexsort((numbers[expected.support_], y[expected.support_]))
    np.testing.assert_array_equal(classifier.support_, numbers[expected.support_][by_class])
    np.testing.assert_array_equal(classifier.support_vectors_, X[expected.support_][by_class])
    np.testing.assert_array_equal(classifier.n_support_, expected.n_support_)
    np.testing.assert_allclose(classifier.dual_coef_, expected.dual_coef_[:, by_class], atol=1e-4)
    np.testing.assert_allclose(classifier.intercept_, expected.intercept_, atol=1e-5)
    assert classifier.shape_fit_ == X.shape


@pytest.mark.parametrize("kind", ["integers", "strings", "list", "hash"])
@pytest.mark.parametrize("units", [1, 4])
def test_overlapping_rows_count_once(rows, units, kind):
    strings = [f"patient {row}" for row in rows.at]
    ids = {"integers": rows.at, "strings": strings, "list": (rows.at * 7).tolist(), "hash": "hash"}[kind]
    classifier = ParallelKernelSVC(units=units, **PARAMETERS).fit(*rows.given, row_ids=ids)
    assert_is_svc_of(classifier, rows.X, rows.y, rows.first)


def test_units_that_hold_the_same_rows_share_them(rows):
    classifier = ParallelKernelSVC(units=3, **PARAMETERS)
    classifier.fit(np.tile(rows.X, (3, 1)), np.tile(rows.y, 3), row_ids=np.tile(np.arange(90), 3))
    assert_is_svc_of(classifier, rows.X, rows.y)
    assert classifier._training.trainer.units.call("size") == [30, 30, 30]


def test_precomputed_kernel_values(rows):
    other, K = np.random.default_rng(2).normal(size=(20, 3)), rbf_kernel(rows.X, gamma=0.3)
    classifier = ParallelKernelSVC("precomputed", units=2, C=2.0)
    classifier.fit(K[np.ix_(rows.at, rows.at)], rows.given[1], row_ids=rows.at)
    expected = SVC(tol=1e-7, **PARAMETERS).fit(rows.X, rows.y)
    np.testing.assert_array_equal(np.sort(classifier.support_), np.sort(rows.first[expected.support_]))
    np.testing.assert_array_equal(
        classifier.predict(rbf_kernel(other, rows.given[0], gamma=0.3)), expected.predict(other)
    )


@pytest.mark.parametrize("ids", ["hash", "own"])
def test_weights_and_rows_of_weight_zero(rows, ids):
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 90)
    given = weights[rows.at]
    given[100:103] = 0.0  # copies that do not count, and therefore need not be equal
    row_ids = rows.at if ids == "own" else "hash"
    classifier = ParallelKernelSVC(units=3, **PARAMETERS).fit(*rows.given, given, row_ids=row_ids)
    expected = SVC(tol=1e-7, **PARAMETERS)
    kept = np.setdiff1d(np.arange(90), rows.at[100:103])
    expected.fit(rows.X[kept], rows.y[kept], weights[kept])
    np.testing.assert_allclose(classifier.dual_coef_, expected.dual_coef_, atol=1e-4)
    np.testing.assert_array_equal(classifier.support_vectors_, expected.support_vectors_)


def test_gamma_and_class_weights_are_those_of_the_union():
    rows = Overlapping(classes=2)
    found = ParallelKernelSVC(units=2, class_weight="balanced").fit(*rows.given, row_ids="hash")
    expected = SVC(class_weight="balanced", tol=1e-7).fit(rows.X, rows.y)
    np.testing.assert_allclose(found.decision_function(rows.X), expected.decision_function(rows.X), atol=1e-5)
    np.testing.assert_allclose(found.class_weight_, expected.class_weight_)


@pytest.mark.parametrize("ids", ["hash", "own"])
def test_rows_are_added_once_and_forgotten_wherever_they_are(rows, ids):
    def of(chosen):
        return {"row_ids": "hash" if ids == "hash" else rows.at[chosen]}

    X, y = rows.given
    first, second = np.arange(70), np.arange(40, len(y))
    classifier = ParallelKernelSVC(units=3, **PARAMETERS).fit(X[first], y[first], **of(first))
    classifier.partial_fit(X[second], y[second], **of(second))
    np.testing.assert_allclose(classifier.objective_, ParallelKernelSVC(**PARAMETERS).fit(rows.X, rows.y).objective_)
    assert classifier.shape_fit_ == (90, 3)
    gone = np.append(np.arange(0, 90, 4), [4, 4])
    if ids == "hash":
        classifier.forget(rows.X[gone], rows.y[gone])  # a row that is named twice counts once, too
    else:
        classifier.forget(row_ids=gone)
    stay = np.setdiff1d(np.arange(90), gone)
    expected = SVC(tol=1e-7, **PARAMETERS).fit(rows.X[stay], rows.y[stay])
    given = X[np.append(first, second)]  # as support_ counts them
    np.testing.assert_array_equal(given[classifier.support_], classifier.support_vectors_)
    np.testing.assert_array_equal(*(np.sort(each.support_vectors_, axis=0) for each in (classifier, expected)))
    np.testing.assert_allclose(classifier.intercept_, expected.intercept_, atol=1e-5)
    classifier.partial_fit(X[:20], y[:20], **of(np.arange(20)))  # the forgotten ones of these are learned again
    assert classifier.shape_fit_ == (len(np.union1d(stay, np.arange(20))), 3)


def test_dense_and_sparse_rows_of_any_type_have_the_same_hash(rows):
    X = np.round(rows.X * 3)
    X[::5] *= -0.0
    whole = ParallelKernelSVC(**PARAMETERS).fit(*unique(X, rows.y))
    found = ParallelKernelSVC(units=2, **PARAMETERS).fit(X.astype(np.float32), rows.y, row_ids="hash")
    found.partial_fit(sparse.csr_array(X), rows.y, row_ids="hash")
    found.partial_fit(np.abs(X), rows.y, row_ids="hash").forget(*new_rows(np.abs(X), X, rows.y))
    np.testing.assert_allclose(found.objective_, whole.objective_, rtol=1e-6)


def unique(X, y):
    both = np.unique(np.column_stack([X + 0.0, y]), axis=0)
    return both[:, :-1], both[:, -1].astype(int)


def new_rows(X, before, y):
    """The distinct rows of X that are not among those before."""
    known = {row.tobytes() for row in np.column_stack([before + 0.0, y])}
    X, y = unique(X, y)
    fresh = [row.tobytes() not in known for row in np.column_stack([X + 0.0, y])]
    return X[fresh], y[fresh]


def test_hashes_need_the_key():
    """The digests of two trainings have nothing in common."""
    X, y = blobs(seed=1, n=20, d=2, classes=2)
    ids = [
        ParallelKernelSVC().fit(X, y, row_ids="hash")._training.trainer.units._objects[0]._local.ids for _ in range(2)
    ]
    assert len(np.unique(np.concatenate(ids))) == 40


def test_different_rows_with_the_same_id_raise_an_error_that_names_it(rows):
    X, y = rows.given
    classifier = ParallelKernelSVC(units=3, **PARAMETERS)
    for broken, labels, weights in [
        (np.where(np.arange(len(y))[:, None] == 70, X + 1, X), y, None),
        (X, np.where(np.arange(len(y)) == 70, (y + 1) % 3, y), None),
        (X, y, np.where(np.arange(len(y)) == 70, 2.0, 1.0)),
    ]:
        with pytest.raises(DataError, match=rf"Row id 'row {rows.at[70]}' belongs to different rows: rows 40 and 70"):
            classifier.fit(broken, labels, weights, row_ids=[f"row {row}" for row in rows.at])
    with pytest.raises(DataError, match="The same row has different weights: rows 40 and 70"):
        classifier.fit(X, y, np.where(np.arange(len(y)) == 70, 2.0, 1.0), row_ids="hash")
    classifier.fit(*rows.given, row_ids=rows.at)
    before = classifier.decision_function(X)
    with pytest.raises(DataError, match="Row id 5 belongs to different rows: rows 5 and 124"):
        classifier.partial_fit(X[[4, 5]] + [[0.0], [1.0]], y[[4, 5]], row_ids=[4, 5])
    np.testing.assert_array_equal(classifier.decision_function(X), before)
    assert classifier.partial_fit(X[[4, 5]], y[[4, 5]], row_ids=[4, 5]).shape_fit_ == (90, 3)


@pytest.mark.parametrize(
    ("row_ids", "error", "message"),
    [
        ("rows", ParameterError, 'must be "hash"'),
        (7, ParameterError, "one integer or string per row"),
        ([1, 2], DataError, "X has 3 rows, but 2 ids"),
        ([1, "a", 2], DataError, "row 0 has 1, row 1 has 'a'"),
        (["a", None, "b"], DataError, "row 1 has None"),
        ([1.0, 2.0, 3.0], DataError, "must be all integers or all strings"),
        (np.array([1.0, 2.0, 3.0]), DataError, "not values of type float64"),
        ([[1], [2], [3]], DataError, "1D"),
        ([1, 2, 2**70], DataError, "Give the ids as strings"),
        (np.array([1, 2, 2**63], np.uint64), DataError, "Give the ids as strings"),
    ],
)
def test_invalid_ids(row_ids, error, message):
    with pytest.raises(error, match=message):
        ParallelKernelSVC().fit(np.eye(3), [0, 1, 1], row_ids=row_ids)


def test_all_rows_are_identified_in_the_same_way(rows):
    X, y = rows.X, rows.y
    classifier = ParallelKernelSVC(**PARAMETERS).fit(X, y, row_ids=np.arange(90))
    for row_ids, message in [(None, "no row_ids"), ("hash", 'row_ids="hash"')]:
        with pytest.raises(ParameterError, match=f"one id per row in row_ids, partial_fit {message}"):
            classifier.partial_fit(X, y, row_ids=row_ids)
    with pytest.raises(DataError, match="integers in some places and strings in others"):
        classifier.partial_fit(X, y, row_ids=np.arange(90).astype(str))
    with pytest.raises(DataError, match="integers in some places and strings in others"):
        classifier.forget(row_ids=["1"])
    with pytest.raises(SubtractionError, match="Row id 90 is not among the rows that were learned"):
        classifier.forget(row_ids=[3, 90])
    with pytest.raises(ParameterError, match="X and y, or their row_ids"):
        classifier.forget(X, y, row_ids=np.arange(90))
    assert classifier.forget(X[:5], y[:5]).shape_fit_ == (85, 3)
    for row_ids, message in [("hash", "by their content"), (None, "without row_ids")]:
        with pytest.raises(ParameterError, match=message):
            classifier.fit(X, y, row_ids=row_ids).forget(row_ids=[1])
