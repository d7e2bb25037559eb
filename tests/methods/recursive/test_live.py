"""Rows that come and go one by one, against the closed form and against the formulas of the paper."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mergesvm as ms
from hunting import examples
from live_streams import live_model, make_stream, relative_error
from mergesvm.data.batch import Batch
from mergesvm.errors import SolverWarning


def recursive_from_the_paper(X, y, C):
    """Equations 7 to 9, for rows [x, 1] and a penalised intercept: the regularised problem begins with C I."""
    inverse, w = C * np.eye(X.shape[1] + 1), np.zeros(X.shape[1] + 1)
    for x, target in zip(np.hstack([X, np.ones((len(X), 1))]), y, strict=True):
        s = inverse @ x
        inverse -= np.outer(s, s) / (1 + x @ s)
        w += inverse @ x * (target - x @ w)
    return w


def test_matches_the_recursion_of_the_paper():
    X, y = make_stream(500, 6, n_classes=2)
    live = live_model(6, C=4.0)
    live.predict_then_learn(Batch.of(X, y))
    w = recursive_from_the_paper(X, 2.0 * y - 1, 4.0)
    model = live.model()
    np.testing.assert_allclose(model.coef_[0], w[:-1], atol=1e-10)
    np.testing.assert_allclose(model.intercept_, w[-1:], atol=1e-10)


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_matches_the_closed_form_after_100_000_rows(offset):
    X, y = make_stream(100_000, 20, offset=offset)
    live = live_model(20, C=3.0)
    live.predict_then_learn(Batch.of(X, y))
    assert relative_error(live, X, y, C=3.0) < 1e-8
    assert max(check.drift for check in live.checks) < 1e-8
    live.forget(Batch.of(X[:30_000], y[:30_000]))
    assert relative_error(live, X[30_000:], y[30_000:], C=3.0) < 1e-8
    for start in range(30_000, 30_040):
        live.forget(Batch.of(X[start : start + 1], y[start : start + 1]))
    assert relative_error(live, X[30_040:], y[30_040:], C=3.0) < 1e-8


def test_window_matches_the_closed_form_after_100_000_rows():
    X, y = make_stream(100_000, 12)
    live = live_model(12, window=700, check_every=5000)
    live.predict_then_learn(Batch.of(X, y))
    assert relative_error(live, X[-700:], y[-700:]) < 1e-8
    assert len(live.checks) >= 20
    assert max(check.drift for check in live.checks) < 1e-8


def test_drift_without_checks_is_negligible():
    X, y = make_stream(60_000, 8)
    live = live_model(8, check_every=10**9)
    for start in range(0, len(X), 997):
        live.predict_then_learn(Batch.of(X[start : start + 997], y[start : start + 997]))
    live._state._checks.due = 10**9
    assert live.check() < 1e-10


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_any_order_of_learning_and_forgetting_gives_the_model_of_the_remaining_rows(data):
    width = data.draw(st.integers(1, 9))
    X, y = make_stream(
        400, width, seed=data.draw(st.integers(0, 99)), offset=data.draw(st.sampled_from([0.0, 50.0, 1e4]))
    )
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


def test_matches_the_closed_form_for_c_over_ten_orders_of_magnitude():
    X, y = make_stream(3000, 10)
    for C in 10.0 ** np.arange(-5, 6):
        live = live_model(10, C=C)
        live.predict_then_learn(Batch.of(X, y))
        assert relative_error(live, X, y, C=C) < 1e-8


def test_coefficients_are_exact_from_the_first_rows_on():
    X, y = make_stream(40, 6)
    for C in (1.0, 1e6):
        live = live_model(6, C=C)
        for number, (row, label) in enumerate(zip(X, y.tolist(), strict=True), 1):
            live.learn_one(row, label)
            if len(set(y[:number])) > 1:
                assert relative_error(live, X[:number], y[:number], C=C) < 1e-8


@pytest.mark.filterwarnings("ignore:The system is singular")
def test_duplicate_and_constant_features():
    X, y = make_stream(800, 4)
    X = np.hstack([X, X[:, :1], np.full((800, 1), 3.0)])
    for C in (1.0, 1e12):
        live = live_model(6, C=C)
        live.predict_then_learn(Batch.of(X, y))
        model = live.model()
        expected = ms.solve(ms.learn(X[:, :4], y), C=C)
        assert np.isfinite(model.coef_).all()
        assert (model.predict(X) == expected.predict(X[:, :4])).mean() > 0.995


def test_drift_is_repaired_with_a_warning():
    X, y = make_stream(2000, 5)
    live = live_model(5, check_every=1000)
    live.predict_then_learn(Batch.of(X[:1000], y[:1000]))
    live._state._rls._invert()
    live._state._rls.state.inverse *= 1.5
    with pytest.warns(SolverWarning, match="had drifted by .* recomputed"):
        live.predict_then_learn(Batch.of(X[1000:], y[1000:]))
    assert live.checks[-1].drift > 1e-6
    assert relative_error(live, X, y) < 1e-12


def test_one_row_allocates_nothing():
    import tracemalloc

    X, y = make_stream(300, 40)
    live = live_model(40)
    live.predict_then_learn(Batch.of(X, y))
    live._state._checks.due = 10**9
    live.learn_one(X[0], int(y[0]))  # what is compiled is loaded with the first row
    tracemalloc.start()
    for row, label in zip(X[:50], y[:50].tolist(), strict=True):
        live.learn_one(row, label)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 * 40 * 8


def test_each_row_is_predicted_before_it_is_learned():
    X, y = make_stream(300, 4)
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
