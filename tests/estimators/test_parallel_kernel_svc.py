"""The face of the kernel machine: as SVC where they are the same, and what SVC cannot: more rows, and fewer."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import mergesvm as ms
from mergesvm import ParallelKernelSVC
from reference import blobs


@parametrize_with_checks([ParallelKernelSVC(), ParallelKernelSVC(beta=1.0, units=3)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


def pair_objectives(svc):
    """F of all pairs of an SVC together, from its multipliers and the definition."""
    X, ends, total = svc.support_vectors_, np.cumsum(svc.n_support_), 0.0
    kernel, dual = SVC_KERNELS[svc.kernel](X, svc), _dense(svc.dual_coef_)
    spans = [slice(end - count, end) for end, count in zip(ends, svc.n_support_, strict=True)]
    for i in range(len(ends)):
        for j in range(i + 1, len(ends)):
            coefs = np.zeros(len(kernel))
            coefs[spans[i]], coefs[spans[j]] = dual[j - 1, spans[i]], dual[i, spans[j]]
            total += np.abs(coefs).sum() - coefs @ kernel @ coefs / 2
    return total


def _dense(X):
    return X.toarray() if sparse.issparse(X) else X


def _rbf(X, svc):
    X = _dense(X)
    return np.exp(-svc._gamma * ((X[:, None] - X) ** 2).sum(axis=2))


SVC_KERNELS = {
    "rbf": _rbf,
    "linear": lambda X, _: _dense(X) @ _dense(X).T,
    "poly": lambda X, svc: (svc._gamma * _dense(X) @ _dense(X).T + svc.coef0) ** svc.degree,
}


def assert_same_as_svc(machine, svc, X, atol=1e-4):
    """The same objective, support, scores and classes."""
    np.testing.assert_allclose(machine.objective_, pair_objectives(svc), rtol=1e-6)
    used = np.zeros(X.shape[0], dtype=bool)
    used[machine.support_] = np.abs(machine.dual_coef_).max(axis=0) > 1e-6
    theirs = np.zeros(X.shape[0], dtype=bool)
    theirs[svc.support_] = np.abs(_dense(svc.dual_coef_)).max(axis=0) > 1e-6
    np.testing.assert_array_equal(used, theirs)
    sign = 1 if len(svc.classes_) == 2 else -1  # that of SVC changes with the number of classes
    scores = svc.set_params(decision_function_shape="ovo").decision_function(X).reshape(X.shape[0], -1)
    np.testing.assert_allclose(machine.model_.scores(X), sign * scores, atol=atol)
    np.testing.assert_allclose(machine.intercept_, sign * svc.intercept_, atol=atol)
    np.testing.assert_array_equal(machine.predict(X), svc.predict(X))
    np.testing.assert_array_equal(machine.classes_, svc.classes_)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(
    "terms",
    [
        {},
        {"gamma": "auto"},
        {"gamma": 0.3, "C": 20.0},
        {"kernel": "linear", "C": 0.1},
        {"kernel": "poly", "degree": 2, "coef0": 1.0},
    ],
    ids=str,
)
def test_without_a_beta_it_is_svc(terms, classes):
    X, y = blobs(seed=1, n=150, d=4, classes=classes)
    svc = SVC(tol=1e-7, **terms).fit(X, y)
    assert_same_as_svc(ParallelKernelSVC(tol=1e-6, **terms).fit(X, y), svc, X)
    assert_same_as_svc(ParallelKernelSVC(tol=1e-6, units=2, **terms).fit(X, y), svc, X)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "convert",
    [
        sparse.csr_array,
        lambda X: sparse.csr_matrix(X),
        lambda X: X.astype(np.float32),
        lambda X: np.asfortranarray(X),
        lambda X: np.clip(8 * X + 60, 0, 255).astype(np.uint8),
        lambda X: pd.DataFrame(X, columns=list("abcd")),
    ],
    ids=["csr_array", "csr_matrix", "float32", "fortran", "uint8", "frame"],
)
def test_rows_of_every_kind_are_those_of_svc(convert, classes):
    X, y = blobs(seed=2, n=120, d=4, classes=classes)
    X, labels = convert(np.where(np.abs(X) < 0.5, 0, X)), np.array(["spam", "eggs", "ham"])[y]
    svc = SVC(tol=1e-7, C=2.0).fit(X.astype(np.float64) if isinstance(X, np.ndarray) else X, labels)
    machine = ParallelKernelSVC(tol=1e-6, C=2.0, units=2).fit(X, labels)
    if isinstance(X, pd.DataFrame):
        assert machine.feature_names_in_.tolist() == list("abcd")
        with pytest.raises(ValueError, match="feature names"):
            machine.predict(X[list("bacd")])
        X, svc = X.to_numpy(), SVC(tol=1e-7, C=2.0).fit(X.to_numpy(), labels)
        machine = ParallelKernelSVC(tol=1e-6, C=2.0, units=2).fit(X, labels)
    assert_same_as_svc(machine, svc, X)


def test_very_sparse_rows_are_multiplied_as_such():
    X = sparse.random_array((150, 4000), density=0.004, rng=np.random.default_rng(0), format="csr")
    y = np.asarray(X.sum(axis=1)).ravel() > np.median(np.asarray(X.sum(axis=1)))
    for kernel in ("rbf", "linear", "poly"):
        svc = SVC(kernel=kernel, tol=1e-7, C=5.0, coef0=1.0).fit(X, y)
        machine = ParallelKernelSVC(kernel, tol=1e-6, C=5.0, coef0=1.0, units=2).fit(X, y)
        assert sparse.issparse(machine.support_vectors_)
        assert_same_as_svc(machine, svc, X)
        np.testing.assert_allclose(machine.decision_function(X.toarray()), machine.decision_function(X), atol=1e-9)


@pytest.mark.parametrize(
    ("class_weight", "weighted"),
    [({"no": 0.3, "yes": 4.0}, False), ({"no": 0.3, "yes": 4.0}, True), ("balanced", False), (None, True)],
    ids=str,
)
def test_weights_are_those_of_svc(class_weight, weighted):
    generator = np.random.default_rng(3)
    X, y = blobs(seed=3, n=120, d=3, classes=2)
    y, weights = np.array(["no", "yes"])[y], generator.uniform(0.1, 3.0, 120) if weighted else None
    terms = {"class_weight": class_weight, "gamma": 0.4}
    svc = SVC(tol=1e-7, **terms).fit(X, y, weights)
    for units in (1, 3):
        assert_same_as_svc(ParallelKernelSVC(tol=1e-6, units=units, **terms).fit(X, y, weights), svc, X)


def test_rows_that_weigh_nothing_are_not_there():
    X, y = blobs(seed=4, n=120, d=3, classes=3)
    weights = np.random.default_rng(4).choice([0.0, 1.0, 2.0], 120)
    there = weights > 0
    for beta in (None, 1.0):
        machine = ParallelKernelSVC(tol=1e-6, beta=beta).fit(X, y, weights)
        other = ParallelKernelSVC(tol=1e-6, beta=beta).fit(X[there], y[there], weights[there])
        np.testing.assert_allclose(machine.objective_, other.objective_, rtol=1e-9)
        np.testing.assert_allclose(machine.model_.scores(X), other.model_.scores(X), atol=1e-6)
    with pytest.raises(ms.errors.DataError, match="weight of zero"):
        ParallelKernelSVC().fit(X, y, np.zeros(120))


def test_a_real_problem_is_solved_as_by_svc():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    assert_same_as_svc(ParallelKernelSVC(tol=1e-6, C=10.0, units=4).fit(X, y), SVC(tol=1e-7, C=10.0).fit(X, y), X)


def test_the_precision_of_many_rows_is_enough():
    X, y = load_digits(return_X_y=True)
    single = ParallelKernelSVC(C=10.0, tol=1e-4, precision="float32").fit(X[:1500], y[:1500])
    svc = SVC(C=10.0, tol=1e-6).fit(X[:1500], y[:1500])
    np.testing.assert_allclose(single.objective_, pair_objectives(svc), rtol=1e-5)
    scores = -svc.set_params(decision_function_shape="ovo").decision_function(X)
    np.testing.assert_allclose(single.model_.scores(X), scores, atol=1e-3)
    assert (single.predict(X) == svc.predict(X)).mean() > 0.998  # but for ties


ONLINE = [
    {"units": 1},
    {"units": 3},
    {"units": 1, "beta": 0.5},
    {"units": 3, "beta": 0.5},
    {"units": 3, "method": "active-set"},
    {"units": 2, "kernel": "linear"},
    {"units": 3, "beta": 0.5, "class_weight": "balanced"},
    {"units": 1, "class_weight": "balanced"},
    {"units": 2, "class_weight": "inverse", "C": 100.0},
    {"units": 1, "beta": 0.01, "method": "gradient", "accelerated": True, "C": 0.2, "tol": 1e-5},
]


def assert_same_machine(one, other, X):
    np.testing.assert_allclose(one.objective_, other.objective_, rtol=1e-6)
    np.testing.assert_allclose(one.model_.scores(X), other.model_.scores(X), atol=1e-4)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-3)
    rows = [_sorted(machine.support_vectors_, machine.dual_coef_) for machine in (one, other)]
    np.testing.assert_array_equal(*rows)


def _sorted(vectors, coefs):
    vectors = vectors[np.abs(coefs).max(axis=0) > 1e-6]
    return np.unique(np.round(vectors, 9), axis=0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("terms", ONLINE, ids=str)
def test_rows_come_and_go(terms, weighted):
    X, y = blobs(seed=5, n=150, d=3, classes=3)
    weights = np.random.default_rng(5).uniform(0.2, 2.0, 150) if weighted else None

    def part(rows):
        return (X[rows], y[rows], None if weights is None else weights[rows])

    terms = {"gamma": 0.3, "tol": 1e-6, "C": 3.0} | terms
    machine, whole = ParallelKernelSVC(**terms), ParallelKernelSVC(**terms).fit(*part(slice(None)))
    for rows in np.array_split(np.arange(150), 3):
        chosen = part(rows)
        machine.partial_fit(*chosen[:2], sample_weight=chosen[2])
    assert_same_machine(machine, whole, X)
    np.testing.assert_array_equal(np.sort(machine.support_), np.sort(whole.support_))
    gone = np.random.default_rng(6).choice(150, 60, replace=False)
    stay = np.setdiff1d(np.arange(150), gone)
    for rows in np.array_split(gone, 2):
        machine.forget(*part(rows))
    rest = ParallelKernelSVC(**terms).fit(*part(stay))
    assert_same_machine(machine, rest, X)
    chosen = part(gone)
    machine.partial_fit(*chosen[:2], sample_weight=chosen[2])
    assert_same_machine(machine, whole, X)


@pytest.mark.parametrize("beta", [None, 0.5])
@pytest.mark.parametrize("units", [1, 3])
def test_classes_come_and_go(units, beta):
    X, y = blobs(seed=6, n=120, d=3, classes=4)
    terms = {"gamma": 0.3, "tol": 1e-6, "units": units, "beta": beta}
    machine = ParallelKernelSVC(**terms)
    for label in (2, 0, 3, 1):
        machine.partial_fit(X[y == label], y[y == label])
    assert machine.classes_.tolist() == [0, 1, 2, 3]
    assert_same_machine(machine, ParallelKernelSVC(**terms).fit(X, y), X)
    machine.forget(X[y == 2], y[y == 2])
    assert machine.classes_.tolist() == [0, 1, 3]
    assert_same_machine(machine, ParallelKernelSVC(**terms).fit(X[y != 2], y[y != 2]), X)
    machine.partial_fit(X[y == 2], y[y == 2])
    assert_same_machine(machine, ParallelKernelSVC(**terms).fit(X, y), X)
    for label in (0, 1, 2):
        machine.forget(X[y == label], y[y == label])
    assert machine.classes_.tolist() == [3]
    assert set(machine.predict(X)) == {3}


@pytest.mark.parametrize("beta", [None, 0.5])
@pytest.mark.parametrize("units", [1, 3])
def test_what_cannot_be_forgotten_changes_nothing(units, beta):
    X, y = blobs(seed=7, n=80, d=3, classes=2)
    terms = {"gamma": 0.3, "tol": 1e-6, "units": units, "beta": beta}
    machine = ParallelKernelSVC(**terms).fit(X, y, np.where(np.arange(80) < 40, 1.0, 2.0))
    before = machine.decision_function(X)
    for rows, labels, weights in [
        (X[:1] + 1e-9, y[:1], None),  # never learned
        (X[:1], 1 - y[:1], None),  # of another class
        (X[[0, 1, 0]], y[[0, 1, 0]], None),  # more often than learned
        (X[:1], y[:1], [2.0]),  # of another weight
        (X[:1], [9], None),  # of a class never seen
    ]:
        with pytest.raises(ms.errors.SubtractionError, match="not among the rows"):
            machine.forget(rows, labels, weights)
    with pytest.raises(ms.errors.SubtractionError, match="all the rows"):
        machine.forget(X, y, np.where(np.arange(80) < 40, 1.0, 2.0))
    np.testing.assert_array_equal(machine.decision_function(X), before)
    machine.forget(X[:10], y[:10]).partial_fit(X[:10], y[:10])
    np.testing.assert_allclose(machine.decision_function(X), before, atol=1e-4)


def test_one_of_many_rows_that_are_the_same_is_forgotten_at_a_time():
    X, y = blobs(seed=8, n=40, d=2, classes=2)
    terms = {"gamma": 0.3, "tol": 1e-6, "units": 3}
    thrice = ParallelKernelSVC(**terms).fit(np.tile(X, (3, 1)), np.tile(y, 3))
    twice = ParallelKernelSVC(**terms).fit(np.tile(X, (2, 1)), np.tile(y, 2))
    thrice.forget(X, y)
    np.testing.assert_allclose(thrice.objective_, twice.objective_, rtol=1e-6)
    np.testing.assert_allclose(thrice.decision_function(X), twice.decision_function(X), atol=1e-4)


def test_a_pickle_predicts_and_holds_support_vectors_only():
    generator = np.random.default_rng(9)
    X = np.vstack([generator.normal(-5, 1, (3000, 20)), generator.normal(5, 1, (3000, 20))])
    y = np.repeat([0, 1], 3000)
    machine = ParallelKernelSVC(units=2).fit(X, y)
    pickled = pickle.dumps(machine)
    assert len(pickled) < X.nbytes / 4
    row = np.setdiff1d(np.arange(6000), machine.support_)[0]
    assert X[row].tobytes() not in pickled
    assert X[machine.support_[0]].tobytes() in pickled
    copy = pickle.loads(pickled)
    np.testing.assert_array_equal(copy.decision_function(X), machine.decision_function(X))
    np.testing.assert_array_equal(copy.predict_proba(X), machine.predict_proba(X))
    assert copy.traffic_ == machine.traffic_
    for change in (copy.partial_fit, copy.forget):
        with pytest.raises(ms.errors.EngineError, match="Fit it anew"):
            change(X[:5], y[:5])
    np.testing.assert_array_equal(copy.decision_function(X), machine.decision_function(X))
    assert copy.fit(X[::10], y[::10]).partial_fit(X[1::10], y[1::10]).score(X, y) == 1.0


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"kernel": "sigmoid"}, "kernel"),
        ({"kernel": None}, "kernel"),
        ({"gamma": "large"}, "gamma"),
        ({"gamma": 0.0}, "gamma"),
        ({"gamma": -1.0}, "gamma"),
        ({"gamma": None}, "gamma"),
        ({"gamma": np.nan}, "gamma"),
        ({"C": 0}, "C"),
        ({"C": -1.0}, "C"),
        ({"C": np.inf}, "C"),
        ({"C": "1"}, "C"),
        ({"C": True}, "C"),
        ({"beta": 0.0}, "beta"),
        ({"beta": np.nan}, "beta"),
        ({"units": 0}, "units"),
        ({"units": 1.5}, "units"),
        ({"units": True}, "units"),
        ({"method": "smo"}, "method"),
        ({"kernel": "poly", "degree": 0}, "degree"),
        ({"kernel": "poly", "gamma": 1.0, "degree": 2.5}, "degree"),
        ({"kernel": "poly", "coef0": np.inf}, "coef0"),
        ({"class_weight": "heavy"}, "class_weight"),
        ({"class_weight": {0: -1.0, 1: 1.0}}, "weight"),
        ({"tol": 0.0}, "tol"),
        ({"tol": np.nan}, "tol"),
        ({"stop": "never"}, "stop"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_support_vectors": 1, "method": "active-set"}, "max_support_vectors"),
        ({"max_support_vectors": 10}, "max_support_vectors is for the method 'active-set'"),
        ({"working_set": 3}, "working_set"),
        ({"working_set": None}, "working_set"),
        ({"cache_size": 0}, "cache_size"),
        ({"precision": "float16"}, "precision"),
        ({"ties": "coin"}, "ties"),
        ({"method": "gradient"}, "beta"),
        ({"engine": "spark"}, "engine"),
    ],
    ids=str,
)
def test_what_cannot_be_is_named(parameters, name):
    X, y = blobs(seed=10, n=20, classes=2)
    machine = ParallelKernelSVC(**parameters)
    with pytest.raises(ms.errors.ParameterError, match=name):
        machine.fit(X, y)
    with pytest.raises(NotFittedError):
        machine.predict(X)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("units", [1, 3])
def test_rows_that_are_no_numbers_or_too_large_are_an_error(convert, units):
    X, y = blobs(seed=11, n=30, classes=2)
    machine = ParallelKernelSVC(units=units).fit(X, y)
    before = machine.decision_function(X)
    for value, match in [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")]:
        bad = X.copy()
        bad[7, 1] = value
        for run in (ParallelKernelSVC(units=units).fit, machine.partial_fit, machine.forget):
            with pytest.raises(ValueError, match=match):
                run(convert(bad), y)
        with pytest.raises(ValueError, match=match):
            machine.predict(convert(bad))
    for size in (1e200, 1e308):
        for kernel in ("rbf", "linear", "poly"):
            with pytest.raises(ms.errors.DataError, match="too large"):
                ParallelKernelSVC(kernel, units=units).fit(convert(np.clip(X, -1, 1) * size), y)
    np.testing.assert_array_equal(machine.decision_function(X), before)


@pytest.mark.parametrize("units", [1, 3])
def test_rows_too_large_that_come_later_change_nothing(units):
    X, y = blobs(seed=11, n=30, classes=2)
    for kernel, precision, size in [("rbf", None, 1e200), ("linear", None, 1e200), ("rbf", "float32", 1e30)]:
        machine = ParallelKernelSVC(kernel, units=units, precision=precision).fit(X, y)
        before = machine.decision_function(X)
        with pytest.raises(ms.errors.DataError, match="too large"):
            machine.partial_fit(X * size, y)
        np.testing.assert_array_equal(machine.decision_function(X), before)
        machine.partial_fit(X[:5], y[:5]).forget(X[:5], y[:5])
        np.testing.assert_allclose(machine.decision_function(X), before, atol=1e-2)


@pytest.mark.parametrize(
    "function",
    [lambda *_: np.ones((2, 2)), lambda X, Z: X @ Z.T * np.nan, lambda *_: "kernel"],
    ids=["shape", "nan", "text"],
)
def test_functions_that_are_no_kernels_are_an_error(function):
    X, y = blobs(seed=12, n=30, classes=2)
    with pytest.raises(ms.errors.DataError, match="The kernel"):
        ParallelKernelSVC(function).fit(X, y)


def test_too_few_rounds_are_told_with_what_is_left():
    X, y = blobs(seed=13, n=300, d=2, classes=3)
    machine = ParallelKernelSVC(max_iter=2, working_set=8, units=2)
    with pytest.warns(ms.errors.SolverWarning, match="3 of 3 problems did not come to their end in 2 rounds") as caught:
        machine.fit(X, y)
    assert f"{machine.violation_:.1e}" in str(caught[0].message)
    assert machine.n_iter_ == 2
    assert machine.violation_ > 1e-3
    machine.set_params(max_iter=None).fit(X, y)
    assert machine.violation_ <= 1e-3


def test_what_is_told_about_training_is_what_happened(capsys):
    X, y = blobs(seed=14, n=200, d=2, classes=3)
    machine = ParallelKernelSVC(units=4, verbose=True).fit(X, y)
    assert f"round {machine.n_iter_}: 0 problems to go, violation" in capsys.readouterr().err
    traffic = machine.traffic_
    assert traffic.sent.shape == traffic.received.shape == (traffic.rounds, 4)
    assert machine.n_iter_ <= traffic.rounds <= machine.n_iter_ + 1
    assert traffic.total == traffic.sent.sum() + traffic.received.sum()
    assert (machine.n_features_in_, machine.classes_.tolist()) == (2, [0, 1, 2])
    assert machine.n_support_.sum() == len(machine.support_) == machine.support_vectors_.shape[0]
    np.testing.assert_array_equal(machine.support_vectors_, X[machine.support_])
    np.testing.assert_array_equal(np.bincount(y[machine.support_]), machine.n_support_)
    assert machine.dual_coef_.shape == (2, len(machine.support_))


@pytest.mark.parametrize(
    "labels",
    [
        lambda y: y > 0,
        lambda y: y.astype(np.float64),
        lambda y: y.astype(np.int8) - 5,
        lambda y: np.array(["a", "b"], dtype=object)[y],
        lambda y: pd.Series(y).map({0: "x", 1: "y"}),
        lambda y: y.tolist(),
    ],
)
def test_labels_of_any_kind_come_back(labels):
    X, y = blobs(seed=15, n=60, d=2, classes=2)
    given = labels(y)
    machine = ParallelKernelSVC(units=2).fit(X, given)
    svc = SVC().fit(X, np.asarray(given))
    np.testing.assert_array_equal(machine.predict(X), svc.predict(X))
    np.testing.assert_allclose(machine.decision_function(X), svc.decision_function(X), atol=5e-3)


def test_many_classes_of_two_rows_each():
    X = np.random.default_rng(16).normal(size=(60, 2)) * 3
    y = np.repeat(np.arange(30), 2)
    svc = SVC(tol=1e-7, C=100.0).fit(X, y)
    machine = ParallelKernelSVC(tol=1e-6, C=100.0).fit(X, y)
    np.testing.assert_allclose(machine.objective_, pair_objectives(svc), rtol=1e-6)
    scores = svc.set_params(decision_function_shape="ovo").decision_function(X)
    np.testing.assert_allclose(machine.model_.scores(X), -scores, atol=1e-4)


@pytest.mark.parametrize("C", [1e-8, 1e8])
@pytest.mark.parametrize("gamma", ["scale", 1e4])
def test_extreme_parameters_are_those_of_svc(C, gamma):
    X, y = blobs(seed=17, n=60, d=3, classes=2)
    svc = SVC(tol=1e-9, C=C, gamma=gamma).fit(X, y)
    for units in (1, 3):
        machine = ParallelKernelSVC(tol=1e-6, C=C, gamma=gamma, units=units).fit(X, y)
        np.testing.assert_allclose(machine.objective_, pair_objectives(svc), rtol=1e-6)
        scores = svc.decision_function(X)
        np.testing.assert_allclose(machine.decision_function(X), scores, atol=1e-4 * max(1.0, np.abs(scores).max()))


def test_constant_features_decide_by_the_larger_class():
    y = np.arange(20) % 3 == 0
    for X in (np.ones((20, 3)), np.zeros((20, 3)), np.full((20, 1), 1e6)):
        for kernel in ("rbf", "linear"):
            machine = ParallelKernelSVC(kernel, units=2).fit(X, y)
            svc = SVC(kernel=kernel).fit(X, y)
            np.testing.assert_array_equal(machine.predict(X), svc.predict(X))
            np.testing.assert_allclose(machine.decision_function(X), -1.0, atol=1e-6)


def test_parameters_that_change_later_count_from_the_next_fit():
    X, y = load_iris(return_X_y=True)
    machine = ParallelKernelSVC(tol=1e-6).fit(X, y)
    before = machine.objective_
    machine.set_params(C=50.0)
    assert machine.objective_ == before
    np.testing.assert_allclose(
        machine.fit(X, y).objective_, pair_objectives(SVC(tol=1e-7, C=50.0).fit(X, y)), rtol=1e-6
    )
    assert clone(machine).C == 50.0


def test_classes_given_beforehand_are_what_may_come():
    X, y = load_iris(return_X_y=True)
    machine = ParallelKernelSVC().partial_fit(X[y < 2], y[y < 2], classes=[0, 1, 2])
    with pytest.raises(ms.errors.ParameterError, match="Class 2 in y is not among the classes given"):
        machine.partial_fit(X, y, classes=[0, 1])
    machine.partial_fit(X[y == 2], y[y == 2], classes=[0, 1, 2])
    assert machine.classes_.tolist() == [0, 1, 2]


def test_the_usual_fit_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ParallelKernelSVC().fit(*load_iris(return_X_y=True))


def test_what_a_machine_is_cannot_change_while_it_goes_on_but_how_it_is_trained_can():
    X, y = blobs(seed=5, n=60, d=2, classes=2)
    machine = ParallelKernelSVC(C=2.0, gamma=0.5).fit(X[:40], y[:40])
    with pytest.raises(ms.errors.ParameterError, match=r"C was 2.0 when fitting began, and cannot become 3.0"):
        machine.set_params(C=3.0).partial_fit(X[40:], y[40:])
    with pytest.raises(ms.errors.ParameterError, match="kernel was"):
        machine.set_params(C=2.0, gamma=0.7).forget(X[:1], y[:1])
    machine.set_params(gamma=0.5, tol=1e-6).partial_fit(X[40:], y[40:])
    assert machine.violation_ <= 1e-6
    np.testing.assert_allclose(
        machine.objective_, ParallelKernelSVC(C=2.0, gamma=0.5, tol=1e-6).fit(X, y).objective_, rtol=1e-9
    )


def test_rows_that_the_caller_changes_afterwards_stay_what_they_were():
    X, y = blobs(seed=6, n=80, d=2, classes=2)
    given, weights = X[:50].copy(), np.ones(50)
    machine = ParallelKernelSVC(gamma=0.5, units=2).fit(given, y[:50], weights)
    given[:], weights[:] = 7.0, 0.0
    machine.partial_fit(X[50:], y[50:]).forget(X[:10], y[:10])
    expected = ParallelKernelSVC(gamma=0.5).fit(X[10:], y[10:])
    np.testing.assert_allclose(machine.objective_, expected.objective_, rtol=1e-5)


@pytest.mark.parametrize("first", [np.asarray, sparse.csr_array])
def test_dense_rows_may_be_followed_by_sparse_ones_and_the_other_way_round(first):
    second = sparse.csr_array if first is np.asarray else np.asarray
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 400)) * (generator.random((300, 400)) < 0.008)
    y = (X.sum(axis=1) > 0).astype(int)
    machine = ParallelKernelSVC(gamma=0.3, units=2, tol=1e-6).fit(first(X[:200]), y[:200])
    machine.partial_fit(second(X[200:]), y[200:])
    expected = ParallelKernelSVC(gamma=0.3, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(machine.objective_, expected.objective_, rtol=1e-6)
    np.testing.assert_allclose(machine.decision_function(X), expected.decision_function(X), atol=1e-4)


def test_weights_may_be_shares():
    X, y = blobs(seed=7, n=60, d=2, classes=2)
    whole = ParallelKernelSVC(gamma=0.5, tol=1e-8).fit(X, y)
    share = ParallelKernelSVC(gamma=0.5, tol=1e-8, C=60.0).fit(X, y, np.full(60, 1 / 60))
    np.testing.assert_allclose(share.predict_proba(X), whole.predict_proba(X), atol=1e-6)


def test_a_kernel_of_ones_own_is_given_numbers_that_do_not_overflow():
    X = np.random.default_rng(1).integers(0, 255, (60, 5)).astype(np.uint8)
    y = X[:, 0] > 127
    given = ParallelKernelSVC(lambda a, b: a @ b.T / 1e4).fit(X, y)
    wide = ParallelKernelSVC(lambda a, b: a @ b.T / 1e4).fit(X.astype(float), y)
    np.testing.assert_allclose(given.decision_function(X), wide.decision_function(X), rtol=1e-9)
    thin = ParallelKernelSVC(lambda a, b: a @ b.T / 1e4, units=2).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.decision_function(sparse.csr_array(X)), wide.decision_function(X), atol=1e-5)


def test_rows_that_weigh_nothing_may_be_forgotten_with_the_others_and_not_be_all_that_is_left():
    X, y = blobs(seed=8, n=40, d=2, classes=2)
    weights = np.where(np.arange(40) % 4 == 0, 0.0, 1.0)
    machine = ParallelKernelSVC(gamma=0.5).fit(X, y, weights)
    with pytest.raises(ms.errors.SubtractionError, match="all the rows"):
        machine.forget(X[weights > 0], y[weights > 0], weights[weights > 0])
    machine.forget(X[:20], y[:20], weights[:20])
    expected = ParallelKernelSVC(gamma=0.5).fit(X[20:], y[20:], weights[20:])
    np.testing.assert_allclose(machine.objective_, expected.objective_, rtol=1e-6)


def test_a_class_that_goes_and_comes_again_leaves_nothing_behind():
    X, y = blobs(seed=9, n=120, d=2, classes=3)
    labels = sorted(set(y.tolist()))
    gone = y == labels[1]
    terms = {"gamma": 0.5, "beta": 1.0, "tol": 1e-6}
    machine = ParallelKernelSVC(**terms).fit(X, y).forget(X[gone], y[gone])
    some = np.flatnonzero(y == labels[0])[:10]
    machine.forget(X[some], y[some]).partial_fit(X[gone], y[gone])
    left = np.setdiff1d(np.arange(len(y)), some)
    np.testing.assert_allclose(
        machine.objective_, ParallelKernelSVC(**terms).fit(X[left], y[left]).objective_, rtol=1e-6
    )


@pytest.mark.parametrize("rows", [np.asarray, sparse.csr_array])
def test_rows_that_were_forgotten_are_nowhere_any_more(rows):
    X, y = blobs(seed=10, n=300, d=2, classes=2)
    X = X + 5
    machine = ParallelKernelSVC(gamma=0.5, units=2).fit(rows(X), y).forget(rows(X[:100]), y[:100])
    book = machine._training.machine._book
    kept = book.raw.take(np.arange(len(book.raw)))
    kept = kept if isinstance(kept, np.ndarray) else kept.toarray()
    secret = {row.tobytes() for row in X[:100]}
    assert 0 < len(kept) <= 200
    assert not any(row.tobytes() in secret for row in kept)


@pytest.mark.parametrize("terms", [{}, {"units": 3}, {"units": 2, "method": "active-set"}, {"beta": 1.0}])
@pytest.mark.parametrize("rows", [np.asarray, sparse.csr_array])
def test_a_window_that_slides_for_long_takes_no_more_room_and_ends_at_the_optimum_of_its_rows(terms, rows):
    X, y = blobs(seed=11, n=600, d=3, classes=3)
    machine = ParallelKernelSVC(gamma=0.5, tol=1e-6, **terms).fit(rows(X[:100]), y[:100])
    for first in range(100, 600, 50):
        machine.partial_fit(rows(X[first : first + 50]), y[first : first + 50])
        machine.forget(rows(X[first - 100 : first - 50]), y[first - 100 : first - 50])
        book = machine._training.machine._book
        assert len(book.raw) == len(book.lifted) == len(book.labels) <= 100
        assert book.used <= 100
    expected = ParallelKernelSVC(gamma=0.5, tol=1e-6, **terms).fit(rows(X[500:]), y[500:])
    np.testing.assert_allclose(machine.objective_, expected.objective_, rtol=1e-6)
    np.testing.assert_array_equal(machine.predict(rows(X)), expected.predict(rows(X)))
