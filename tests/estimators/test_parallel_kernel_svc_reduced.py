"""ParallelKernelSVC(max_support_vectors=...): the trained machine, reduced at the rows of its units."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from mergesvm import ParallelKernelSVC
from mergesvm.errors import EngineError, ParameterError

rng = np.random.default_rng(8)
X = rng.normal(size=(450, 3))
Y = np.array(["ash", "elm", "oak"])[(X[:, 0] ** 2 + X[:, 1] > 0.5).astype(int) + (X[:, 2] > 0.8)]
PARAMETERS = {"C": 5.0, "gamma": 0.4, "tol": 1e-6}
REDUCED = ParallelKernelSVC(max_support_vectors=15, **PARAMETERS).fit(X, Y)


def test_the_model_is_the_reduced_one():
    full = ParallelKernelSVC(**PARAMETERS).fit(X, Y)
    assert len(REDUCED.support_) == 15 == REDUCED.n_support_.sum()
    np.testing.assert_array_equal(REDUCED.support_vectors_, X[REDUCED.support_])
    assert sorted(Y[REDUCED.support_]) == Y[REDUCED.support_].tolist()
    np.testing.assert_allclose(REDUCED.objective_, full.objective_, rtol=1e-9)  # that of the full machine
    # With few rows all of them are candidates, as in the model's own method, and only their order differs.
    np.testing.assert_allclose(REDUCED.model_.scores(X), full.model_.reduced(15, X, Y).scores(X), atol=0.05)
    assert REDUCED.score(X, Y) > full.score(X, Y) - 0.03


@pytest.mark.parametrize("units", [2, 5])
def test_the_model_does_not_depend_on_the_units(units):
    weights = np.where(np.arange(len(X)) % 7 == 0, 0.0, 1.5)
    one, several = (
        ParallelKernelSVC(max_support_vectors=15, units=count, **PARAMETERS).fit(X, Y, weights) for count in (1, units)
    )
    np.testing.assert_array_equal(several.support_, one.support_)
    np.testing.assert_allclose(several.model_.scores(X), one.model_.scores(X), atol=1e-4)
    np.testing.assert_allclose(several.predict_proba(X), one.predict_proba(X), atol=1e-4)
    assert (weights[one.support_] > 0).all()
    mine, others = one.reduced_path(10), several.reduced_path(10)
    np.testing.assert_allclose(mine.accuracy, others.accuracy, atol=0.005)
    np.testing.assert_allclose(
        mine.full_accuracy, np.average(one._training.full_model.predict(X) == Y, weights=weights)
    )


def test_training_continues_from_the_full_machine():
    machine = ParallelKernelSVC(max_support_vectors=15, **PARAMETERS).fit(X[:300], Y[:300])
    machine.partial_fit(X[300:], Y[300:]).forget(X[:50], Y[:50])
    fresh = ParallelKernelSVC(max_support_vectors=15, **PARAMETERS).fit(X[50:], Y[50:])
    np.testing.assert_allclose(machine.objective_, fresh.objective_, rtol=1e-6)
    assert len(machine.support_) == 15
    assert (machine.support_ >= 50).all()


def test_a_machine_with_few_support_vectors_stays_as_it_is():
    full = ParallelKernelSVC(**PARAMETERS).fit(X, Y)
    same = ParallelKernelSVC(max_support_vectors=400, **PARAMETERS).fit(X, Y)
    np.testing.assert_array_equal(same.dual_coef_, full.dual_coef_)


def test_kernel_values_are_reduced_to_few_columns():
    K = np.exp(-0.4 * ((X[:, None] - X) ** 2).sum(axis=2))
    machine = ParallelKernelSVC("precomputed", C=5.0, max_support_vectors=15, units=2).fit(K, Y)
    assert len(machine.support_) == 15
    scores = K[:, machine.support_] @ machine.dual_coef_.T + machine.intercept_
    np.testing.assert_allclose(-machine.model_.scores(K), scores, atol=1e-9)
    assert machine.score(K, Y) > 0.9


def test_errors():
    with pytest.raises(ParameterError, match="positive integer, not 0"):
        REDUCED.reduced_path(0)
    with pytest.raises(EngineError, match="Call fit again"):
        pickle.loads(pickle.dumps(REDUCED)).reduced_path()
