"""Rows that come and go one by one, against the closed form and against the formulas of the paper."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mergesvm as ms
from mergesvm.data import Batch
from mergesvm.errors import SolverWarning
from mergesvm.features import Identity
from mergesvm.knowledge import Signature
from mergesvm.models.live import LiveModel
from mergesvm.models.live_terms import LiveTerms
from mergesvm.models.prequential import MOST_POINTS, Prequential
from mergesvm.solvers.recursive import Recursion


def stream(n_rows, width, n_classes=3, seed=0, offset=0.0):
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(n_classes, width))
    y = generator.integers(0, n_classes, n_rows)
    return centres[y] + 1.5 * generator.normal(size=(n_rows, width)) + offset, y


def live_model(width, **terms):
    return LiveModel(Signature(Identity(), width), LiveTerms(**terms))


def off(live, X, y, **terms):
    """How far the coefficients are from the closed form on the same rows, as a share of the largest."""
    expected = ms.solve(ms.learn(X, y), **terms).coef_
    return np.abs(live.model(probabilities=False).coef_ - expected).max() / np.abs(expected).max()


def recursive_from_the_paper(X, y, C):
    """Equations 7 to 9, for rows [x, 1] and a penalised intercept: the regularised problem begins with C I."""
    inverse, w = C * np.eye(X.shape[1] + 1), np.zeros(X.shape[1] + 1)
    for x, target in zip(np.hstack([X, np.ones((len(X), 1))]), y, strict=True):
        s = inverse @ x
        inverse -= np.outer(s, s) / (1 + x @ s)
        w += inverse @ x * (target - x @ w)
    return w


def test_it_is_the_recursion_of_the_paper():
    X, y = stream(500, 6, n_classes=2)
    live = live_model(6, C=4.0)
    live.predict_then_learn(Batch.of(X, y))
    w = recursive_from_the_paper(X, 2.0 * y - 1, 4.0)
    model = live.model()
    np.testing.assert_allclose(model.coef_[0], w[:-1], atol=1e-10)
    np.testing.assert_allclose(model.intercept_, w[-1:], atol=1e-10)


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_after_100_000_rows_it_is_the_closed_form(offset):
    X, y = stream(100_000, 20, offset=offset)
    live = live_model(20, C=3.0)
    live.predict_then_learn(Batch.of(X, y))
    assert off(live, X, y, C=3.0) < 1e-8
    assert max(check.drift for check in live.checks) < 1e-8
    live.forget(Batch.of(X[:30_000], y[:30_000]))
    assert off(live, X[30_000:], y[30_000:], C=3.0) < 1e-8
    for start in range(30_000, 30_040):
        live.forget(Batch.of(X[start : start + 1], y[start : start + 1]))
    assert off(live, X[30_040:], y[30_040:], C=3.0) < 1e-8


def test_a_window_that_has_slid_over_100_000_rows_is_the_closed_form():
    X, y = stream(100_000, 12)
    live = live_model(12, window=700, check_every=5000)
    live.predict_then_learn(Batch.of(X, y))
    assert off(live, X[-700:], y[-700:]) < 1e-8
    assert len(live.checks) >= 20
    assert max(check.drift for check in live.checks) < 1e-8


def test_between_checks_the_recursion_alone_keeps_its_digits():
    X, y = stream(60_000, 8)
    live = live_model(8, check_every=10**9)
    for start in range(0, len(X), 997):
        live.predict_then_learn(Batch.of(X[start : start + 997], y[start : start + 997]))
    live._next_check = 10**9
    assert live.check() < 1e-10


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_order_of_coming_and_going_gives_the_rows_that_are_left(data):
    width = data.draw(st.integers(1, 9))
    X, y = stream(400, width, seed=data.draw(st.integers(0, 99)), offset=data.draw(st.sampled_from([0.0, 50.0, 1e4])))
    C = data.draw(st.sampled_from([1e-3, 1.0, 1e3]))
    free = data.draw(st.booleans())
    live = live_model(width, C=C, penalize_intercept=not free, check_every=data.draw(st.sampled_from([3, 50, 10_000])))
    present: list[int] = []
    coming = list(range(400))
    for _ in range(data.draw(st.integers(1, 14))):
        size = data.draw(st.integers(1, 40))
        leave = present and data.draw(st.integers(0, 2)) == 0
        if leave:
            gone = present[: min(size, len(present) - 1)]
            if gone:
                live.forget(Batch.of(X[gone], y[gone]))
                present = present[len(gone) :]
        elif coming:
            new, coming = coming[:size], coming[size:]
            batch = Batch.of(X[new], y[new])
            live.predict_then_learn(batch) if data.draw(st.booleans()) else live.learn(batch)
            present += new
        if data.draw(st.booleans()) and present:
            live.model()
    if not present:
        return
    assert live.knowledge().rows.sum() == len(present)
    expected = ms.solve(ms.learn(X[present], y[present]), C=C, penalize_intercept=not free)
    model = live.model()
    assert model.labels == expected.labels
    np.testing.assert_allclose(model.scores(X), expected.scores(X), atol=1e-7)


def test_values_of_c_over_ten_orders_of_magnitude():
    X, y = stream(3000, 10)
    for C in 10.0 ** np.arange(-5, 6):
        live = live_model(10, C=C)
        live.predict_then_learn(Batch.of(X, y))
        assert off(live, X, y, C=C) < 1e-8


def test_coefficients_of_the_first_rows_are_exact_too():
    X, y = stream(40, 6)
    for C in (1.0, 1e6):
        live = live_model(6, C=C)
        for number, (row, label) in enumerate(zip(X, y.tolist(), strict=True), 1):
            live.learn_one(row, label)
            if len(set(y[:number])) > 1:
                assert off(live, X[:number], y[:number], C=C) < 1e-8


def test_duplicate_and_constant_features_do_no_harm():
    X, y = stream(800, 4)
    X = np.hstack([X, X[:, :1], np.full((800, 1), 3.0)])
    for C in (1.0, 1e12):
        live = live_model(6, C=C)
        live.predict_then_learn(Batch.of(X, y))
        model = live.model()
        expected = ms.solve(ms.learn(X[:, :4], y), C=C)
        assert np.isfinite(model.coef_).all()
        assert (model.predict(X) == expected.predict(X[:, :4])).mean() > 0.995


def test_a_drift_is_repaired_and_reported():
    X, y = stream(2000, 5)
    live = live_model(5, check_every=1000)
    live.predict_then_learn(Batch.of(X[:1000], y[:1000]))
    live._recursion._invert()
    live._recursion.inverse *= 1.5
    with pytest.warns(SolverWarning, match="had drifted by .* repaired"):
        live.predict_then_learn(Batch.of(X[1000:], y[1000:]))
    assert live.checks[-1].drift > 1e-6
    assert off(live, X, y) < 1e-12


def test_the_inverse_stays_symmetric_and_the_inverse():
    X, y = stream(500, 7)
    recursion = Recursion(7, 2.0)
    for _ in range(3):
        recursion.add_class(1.0)
    recursion.learn_rows(X, y, np.ones(500), np.empty(0, dtype=np.int64))
    recursion._write_waiting()
    corner = recursion.inverse[:4, :4]
    np.testing.assert_array_equal(corner, corner.T)
    inverse = np.triu(recursion.inverse) + np.triu(recursion.inverse, 1).T
    inverse = inverse[:7, :7]
    near = X - X.mean(axis=0)
    np.testing.assert_allclose(inverse @ (np.eye(7) / 2.0 + near.T @ near), np.eye(7), atol=1e-10)


def test_one_row_allocates_nothing():
    import tracemalloc

    X, y = stream(300, 40)
    live = live_model(40)
    live.predict_then_learn(Batch.of(X, y))
    live._next_check = 10**9
    tracemalloc.start()
    for row, label in zip(X[:50], y[:50].tolist(), strict=True):
        live.learn_one(row, label)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 * 40 * 8


def test_each_row_is_predicted_before_it_is_learned():
    X, y = stream(300, 4)
    whole, steps = live_model(4), live_model(4)
    predicted = whole.predict_then_learn(Batch.of(X, y))
    labels = np.array(whole.labels)
    assert predicted[0] == -1
    said = []
    for row, label in zip(X, y.tolist(), strict=True):
        said.append(steps.predict_one(row))
        steps.learn_one(row, label)
    assert said[1:] == labels[predicted[1:]].tolist()
    for number in (20, 100, 299):
        model = ms.solve(ms.learn(X[:number], y[:number]))
        assert labels[predicted[number]] == model.predict(X[number : number + 1])[0]


def test_prequential_accuracy_counts_every_row_once():
    X, y = stream(5000, 4)
    weights = np.ones(5000)
    weights[::7] = 0.0
    live = live_model(4)
    test = Prequential(live, every=3)
    for start in range(0, 5000, 640):
        part = slice(start, start + 640)
        test.take(Batch.of(X[part], y[part], weights[part]))
    counted = weights > 0
    predicted = live_model(4)
    places = predicted.predict_then_learn(Batch.of(X[counted], y[counted]))
    right = np.array(predicted.labels)[places] == y[counted]
    right[0] = False
    assert test.rows == counted.sum()
    assert test.right == right.sum()
    usual, counts = 0, {}
    for label in y[counted].tolist():
        usual += bool(counts) and max(counts, key=lambda key: (counts[key], 0)) == label
        counts[label] = counts.get(label, 0) + 1
    assert abs(test.frequent - usual) < 60  # ties are broken in another way
    assert len(test.points) < MOST_POINTS
    whole = len(test.points) * test.every
    np.testing.assert_allclose(np.mean([point[1] for point in test.points]), right[:whole].mean())
    assert [point[0] for point in test.points] == list(range(test.every, whole + 1, test.every))
