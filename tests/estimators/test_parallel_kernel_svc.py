"""ParallelKernelSVC as a scikit-learn estimator: parameters, errors, pickling and attributes."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import mergesvm as ms
from kernel_reference import pair_objectives
from mergesvm import ParallelKernelSVC
from reference import blobs

SETTINGS = [
    ParallelKernelSVC(),
    ParallelKernelSVC(beta=1.0, units=3),
    ParallelKernelSVC("linear", decision_function_shape="ovo"),
    ParallelKernelSVC("poly", gamma=0.3, coef0=1.0, degree=2, ties="first"),
    ParallelKernelSVC("sigmoid", gamma=0.01, break_ties=True),
    ParallelKernelSVC("precomputed"),
    ParallelKernelSVC("poly", gamma="auto", units=2),
    ParallelKernelSVC(gamma=0.2, C=100.0, ties="confidence", class_weight="balanced"),
    ParallelKernelSVC(gamma="auto", method="active-set", ties="margin"),
    ParallelKernelSVC(gamma=0.1, C=0.1, beta=0.01, method="gradient", accelerated=True, tol=1e-2),
    ParallelKernelSVC(gamma=0.2, working_set=8, units=2, cache_size=0.1, max_iter=-1),
    ParallelKernelSVC(gamma=0.2, stop="gap", ties="sequential", class_weight="inverse", n_jobs=1),
    ParallelKernelSVC(gamma=0.2, precision="float64", class_weight="complement", units=5),
    ParallelKernelSVC("linear", C=0.01, units=2),
    ParallelKernelSVC("linear", C=100.0, class_weight={0: 2.0, 1: 1.0, 2: 0.5}),
    ParallelKernelSVC("linear", beta=0.1, ties="first", break_ties=True),
    ParallelKernelSVC(gamma=0.2, C=1e4, precision="float64"),
    ParallelKernelSVC(gamma=0.2, C=10.0, working_set=64),
    ParallelKernelSVC("linear", method="active-set", C=10.0),
    ParallelKernelSVC(gamma=0.5, beta=0.1, units=2, class_weight="balanced", ties="margin"),
]
"""Twenty settings that together cover kernels, methods, stopping rules, units, class weights, ties and shapes."""


def expected_failed_checks(classifier):
    """The checks that do not apply to a setting, with the reason."""
    if classifier.kernel == "precomputed":
        return {
            "check_fit_score_takes_y": "rows of a precomputed kernel cannot be added",
            "check_decision_proba_consistency": "passes rows that are not kernel values",
            "check_estimators_nan_inf": "passes rows that are not kernel values: their number of columns is the error",
        }
    failed = {}
    if isinstance(classifier.class_weight, dict):
        failed["check_classifiers_classes"] = "the class weights name other classes"
    if classifier.C >= 1e4:  # nor does SVC
        failed["check_class_weight_classifiers"] = "with this C a class of weight 1e-4 is still fitted"
    if classifier.decision_function_shape == "ovo":  # three classes have three pairs
        failed["check_classifiers_train"] = "takes the columns of pairs for those of classes"
    if classifier.kernel == "poly":  # nor does SVC
        failed["check_class_weight_classifiers"] = "a polynomial does not predict one class everywhere"
    if classifier.gamma == "scale" and classifier.kernel != "linear":
        for kind in ("dense", "sparse"):
            name = f"check_sample_weight_equivalence_on_{kind}_data"
            failed[name] = "weights do not change gamma, but copies of rows do"
    return failed


@parametrize_with_checks(SETTINGS, expected_failed_checks=expected_failed_checks)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_a_pickle_predicts_and_contains_only_support_vectors():
    generator = np.random.default_rng(9)
    X = np.vstack([generator.normal(-5, 1, (3000, 20)), generator.normal(5, 1, (3000, 20))])
    y = np.repeat([0, 1], 3000)
    classifier = ParallelKernelSVC(units=2).fit(X, y)
    pickled = pickle.dumps(classifier)
    assert len(pickled) < X.nbytes / 4
    row = np.setdiff1d(np.arange(6000), classifier.support_)[0]
    assert X[row].tobytes() not in pickled
    assert X[classifier.support_[0]].tobytes() in pickled
    copy = pickle.loads(pickled)
    np.testing.assert_array_equal(copy.decision_function(X), classifier.decision_function(X))
    np.testing.assert_array_equal(copy.predict_proba(X), classifier.predict_proba(X))
    assert copy.traffic_ == classifier.traffic_
    for change in (copy.partial_fit, copy.forget):
        with pytest.raises(ms.errors.EngineError, match="Call fit again"):
            change(X[:5], y[:5])
    np.testing.assert_array_equal(copy.decision_function(X), classifier.decision_function(X))
    assert copy.fit(X[::10], y[::10]).partial_fit(X[1::10], y[1::10]).score(X, y) == 1.0


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"kernel": "laplace"}, "kernel"),
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
        ({"decision_function_shape": "all"}, "decision_function_shape"),
        ({"break_ties": "yes"}, "break_ties"),
        ({"break_ties": True, "decision_function_shape": "ovo"}, "break_ties must be False"),
        ({"kernel": "sigmoid", "method": "gradient", "beta": 1.0}, "positive semi-definite"),
        ({"max_support_vectors": 1, "method": "active-set"}, "max_support_vectors"),
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
def test_an_invalid_parameter_is_named(parameters, name):
    X, y = blobs(seed=10, n=20, classes=2)
    classifier = ParallelKernelSVC(**parameters)
    with pytest.raises(ms.errors.ParameterError, match=name):
        classifier.fit(X, y)
    with pytest.raises(NotFittedError):
        classifier.predict(X)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("units", [1, 3])
def test_non_finite_or_too_large_values_raise_an_error(convert, units):
    X, y = blobs(seed=11, n=30, classes=2)
    classifier = ParallelKernelSVC(units=units).fit(X, y)
    before = classifier.decision_function(X)
    for value, match in [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")]:
        bad = X.copy()
        bad[7, 1] = value
        for run in (ParallelKernelSVC(units=units).fit, classifier.partial_fit, classifier.forget):
            with pytest.raises(ValueError, match=match):
                run(convert(bad), y)
        with pytest.raises(ValueError, match=match):
            classifier.predict(convert(bad))
    for size in (1e200, 1e308):
        for kernel in ("rbf", "linear", "poly"):
            with pytest.raises(ms.errors.DataError, match="too large"):
                ParallelKernelSVC(kernel, units=units).fit(convert(np.clip(X, -1, 1) * size), y)
    np.testing.assert_array_equal(classifier.decision_function(X), before)


@pytest.mark.parametrize(
    "function",
    [lambda *_: np.ones((2, 2)), lambda X, Z: X @ Z.T * np.nan, lambda *_: "kernel"],
    ids=["shape", "nan", "text"],
)
def test_an_invalid_kernel_function_raises_an_error(function):
    X, y = blobs(seed=12, n=30, classes=2)
    with pytest.raises(ms.errors.DataError, match="The kernel"):
        ParallelKernelSVC(function).fit(X, y)


def test_reaching_max_iter_warns_with_the_violation():
    X, y = blobs(seed=13, n=300, d=2, classes=3)
    classifier = ParallelKernelSVC(max_iter=2, working_set=8, units=2)
    with pytest.warns(
        ms.errors.SolverWarning, match=r"3 of 3 problems did not converge in 2 iterations \(max_iter=2\)"
    ) as caught:
        classifier.fit(X, y)
    assert f"{classifier.violation_:.1e}" in str(caught[0].message)
    assert classifier.n_iter_ == 2
    assert classifier.violation_ > 1e-3
    classifier.set_params(max_iter=None).fit(X, y)
    assert classifier.violation_ <= 1e-3


def test_progress_and_fitted_attributes(capsys):
    X, y = blobs(seed=14, n=200, d=2, classes=3)
    classifier = ParallelKernelSVC(units=4, verbose=True).fit(X, y)
    assert f"iteration {classifier.n_iter_}: 0 problems left, violation" in capsys.readouterr().err
    traffic = classifier.traffic_
    assert traffic.sent.shape == traffic.received.shape == (traffic.rounds, 4)
    assert classifier.n_iter_ <= traffic.rounds <= classifier.n_iter_ + 1
    assert traffic.total == traffic.sent.sum() + traffic.received.sum()
    assert (classifier.n_features_in_, classifier.classes_.tolist()) == (2, [0, 1, 2])
    assert classifier.n_support_.sum() == len(classifier.support_) == classifier.support_vectors_.shape[0]
    np.testing.assert_array_equal(classifier.support_vectors_, X[classifier.support_])
    np.testing.assert_array_equal(np.bincount(y[classifier.support_]), classifier.n_support_)
    assert classifier.dual_coef_.shape == (2, len(classifier.support_))


def test_set_params_takes_effect_in_the_next_fit():
    X, y = load_iris(return_X_y=True)
    classifier = ParallelKernelSVC(tol=1e-6).fit(X, y)
    before = classifier.objective_
    classifier.set_params(C=50.0)
    assert classifier.objective_ == before
    np.testing.assert_allclose(
        classifier.fit(X, y).objective_, pair_objectives(SVC(tol=1e-7, C=50.0).fit(X, y)), rtol=1e-6
    )
    assert clone(classifier).C == 50.0


def test_fit_with_defaults_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ParallelKernelSVC().fit(*load_iris(return_X_y=True))
