"""PegasosSVC: invalid parameters and rows, interrupts, and starts that do not match."""

from __future__ import annotations

import pickle
import threading
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris

import mergesvm as ms
from mergesvm import PegasosSVC
from reference import blobs


@pytest.fixture
def data():
    return blobs(seed=30, n=400, d=5, classes=4)


def hyperplanes(machine):
    return np.column_stack([machine.coef_, machine.intercept_])


def test_failure_changes_nothing(data):
    X, y = data
    machine = PegasosSVC(0.01, 500).fit(X, y)
    before = machine.decision_function(X)
    spoilt = X.copy()
    spoilt[7, 3] = np.nan
    with pytest.raises(ms.errors.DataError, match="NaN: row 7, column 3"):
        machine.partial_fit(spoilt, y)
    with pytest.raises(ms.errors.DataError, match="infinity: row 7, column 3"):
        machine.fit(sparse.csr_array(np.where(np.isnan(spoilt), np.inf, spoilt)), y)
    with pytest.raises(ValueError, match="4 features"):
        machine.partial_fit(X[:, :4], y)
    with pytest.raises(ms.errors.SignatureError, match="text labels"):
        machine.partial_fit(X, y.astype(str))
    with pytest.raises(ms.errors.ParameterError, match="Class 3 in y is not among"):
        machine.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ms.errors.ParameterError, match="multiclass was 'ovo' when fitting began"):
        clone_of(machine).set_params(multiclass="ovr").partial_fit(X, y)
    with pytest.raises(ms.errors.ParameterError, match="fit_intercept was True"):
        clone_of(machine).set_params(fit_intercept=False).partial_fit(X, y)
    np.testing.assert_array_equal(machine.decision_function(X), before)
    assert (machine.n_iter_, machine.n_features_in_) == (500, 5)


def clone_of(machine):
    return pickle.loads(pickle.dumps(machine))


INVALID = {
    "lambda_": [0, -1, "x"],
    "alpha": [0, "x"],
    "n_iter": [0, 1.5],
    "batch_size": [0],
    "average": [2, "last"],
    "project": ["no"],
    "fit_intercept": [None],
    "intercept_scaling": [-1.0],
    "multiclass": ["ova", None],
    "class_weight": ["even", 3, {0: -1.0}, {0: "much"}, {"zero": 1.0}],
    "ties": ["coin", None],
    "precision": ["float16"],
    "features": ["cubist"],
    "n_jobs": [0, "all"],
    "random_state": [-1, "dice"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in INVALID.items() for value in values])
def test_invalid_parameter_is_named_with_its_value(data, name, value):
    X, y = data
    machine = PegasosSVC(**{"n_iter": 10} | {name: value})
    shown = value if not isinstance(value, dict) else next(iter(value.values() if 0 in value else value))
    with pytest.raises((ValueError, TypeError)) as caught:
        machine.fit(X, y)
    assert str(shown) in str(caught.value)
    assert not hasattr(machine, "n_features_in_")


def test_interrupt_between_calls_of_compiled_code(data, monkeypatch):
    X, y = data
    machine = PegasosSVC(0.01, 500).fit(X, y)
    before = machine.decision_function(X)
    from mergesvm.methods.pegasos import jit as pegasos_jit
    from mergesvm.methods.pegasos import sgd as pegasos

    calls, lock = [], threading.Lock()
    walk = pegasos_jit.make_steps

    def interrupted(*arguments):
        with lock:
            calls.append(None)
            if len(calls) == 9:
                raise KeyboardInterrupt
        walk(*arguments)

    monkeypatch.setattr(pegasos, "PRODUCTS_PER_CALL", 1)
    monkeypatch.setattr(pegasos_jit, "make_steps", interrupted)
    with pytest.raises(KeyboardInterrupt):
        machine.set_params(n_jobs=1).partial_fit(X, y)
    np.testing.assert_array_equal(machine.decision_function(X), before)
    assert (len(calls), machine.n_iter_) == (9, 500)


def test_fit_with_defaults_does_not_warn(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PegasosSVC().fit(*data)


def test_rows_too_large_for_float32_are_an_error():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(300, 5)), generator.integers(0, 3, 300)
    for size in (1e19, 1e25, 1e37):
        with pytest.raises(ms.errors.DataError, match="so large that steps overflow"):
            ms.PegasosSVC(n_iter=2000).fit((X * size).astype(np.float32), y)


def test_initial_model_with_other_columns_is_an_error():
    X, y = load_iris(return_X_y=True, as_frame=True)
    machine = ms.MergeSVC(multiclass="ovo").fit(X, y)
    with pytest.raises(ms.errors.SignatureError, match="column 0 is 'sepal length"):
        ms.PegasosSVC(n_iter=10).fit(X[X.columns[::-1]], y, initial=machine)


def test_weights_of_absent_classes_are_checked_and_not_kept(tmp_path):
    X, y = load_iris(return_X_y=True)
    for machine in (ms.PegasosSVC(n_iter=10), ms.MergeSVC()):
        machine.set_params(class_weight={0: 1.0, 1: 1.0, 2: 1.0, 9: np.nan})
        with pytest.raises(ms.errors.ParameterError, match="The weight of class 9"):
            machine.fit(X, y)
        machine.set_params(class_weight={0: 1.0, 1: 2.0, 2: 1.0, (3, 4): 1.0}).fit(X, y)
        machine.model_.save(tmp_path / "model.msvm")
        assert ms.load_model(tmp_path / "model.msvm").domain.options["class_weight"] == {0: 1.0, 1: 2.0, 2: 1.0}
        (tmp_path / "model.msvm").unlink()


def test_bounds_are_named():
    X, y = load_iris(return_X_y=True)
    for parameters, match in [
        ({"alpha": -1}, r"'alpha' .* must be a float in the range \[1e-30, 1e\+30\] or None"),
        ({"lambda_": 1e31}, r"'lambda_' .* must be a float in the range \[1e-30, 1e\+30\]"),
        ({"batch_size": 10**11}, r"'batch_size' .* must be an int in the range \[1, 16777216\]"),
    ]:
        with pytest.raises(ms.errors.ParameterError, match=match):
            ms.PegasosSVC(**parameters).fit(X, y)
