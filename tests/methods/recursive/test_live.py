"""Rows that come and go one by one, against the closed form and against the formulas of the paper."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mergesvm as ms
from hunting import examples
from mergesvm.data.batch import Batch
from mergesvm.errors import SolverWarning
from mergesvm.features import Identity
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.recursive.live import LiveModel
from mergesvm.methods.recursive.options import RecursiveOptions
from mergesvm.methods.recursive.prequential import MAX_POINTS, Prequential
from mergesvm.methods.recursive.rls import RecursiveLeastSquares


def stream(n_rows, width, n_classes=3, seed=0, offset=0.0):
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(n_classes, width))
    y = generator.integers(0, n_classes, n_rows)
    return centres[y] + 1.5 * generator.normal(size=(n_rows, width)) + offset, y


def live_model(width, **options):
    return LiveModel(Signature(Identity(), width), RecursiveOptions(**options))


def off(live, X, y, **options):
    """How far the coefficients are from the closed form on the same rows, as a share of the largest."""
    expected = ms.solve(ms.learn(X, y), **options).coef_
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
    live._checks.due = 10**9
    assert live.check() < 1e-10


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
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
    live._rls._invert()
    live._rls.state.inverse *= 1.5
    with pytest.warns(SolverWarning, match="had drifted by .* recomputed"):
        live.predict_then_learn(Batch.of(X[1000:], y[1000:]))
    assert live.checks[-1].drift > 1e-6
    assert off(live, X, y) < 1e-12


def test_the_inverse_stays_symmetric_and_the_inverse():
    X, y = stream(500, 7)
    recursion = RecursiveLeastSquares(7, 2.0)
    for _ in range(3):
        recursion.add_class(1.0)
    recursion.learn_rows(X, y, np.ones(500), np.empty(0, dtype=np.int64))
    recursion.state.write_pending()
    corner = recursion.state.inverse[:4, :4]
    np.testing.assert_array_equal(corner, corner.T)
    inverse = np.triu(recursion.state.inverse) + np.triu(recursion.state.inverse, 1).T
    inverse = inverse[:7, :7]
    near = X - X.mean(axis=0)
    np.testing.assert_allclose(inverse @ (np.eye(7) / 2.0 + near.T @ near), np.eye(7), atol=1e-10)


def test_one_row_allocates_nothing():
    import tracemalloc

    X, y = stream(300, 40)
    live = live_model(40)
    live.predict_then_learn(Batch.of(X, y))
    live._checks.due = 10**9
    live.learn_one(X[0], int(y[0]))  # what is compiled is loaded with the first row
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
        test.update(Batch.of(X[part], y[part], weights[part]))
    counted = weights > 0
    predicted = live_model(4)
    places = predicted.predict_then_learn(Batch.of(X[counted], y[counted]))
    right = np.array(predicted.labels)[places] == y[counted]
    right[0] = False
    assert test.rows == counted.sum()
    assert test.correct == right.sum()
    usual, counts = 0, {}
    for label in y[counted].tolist():
        usual += bool(counts) and max(counts, key=lambda key: (counts[key], 0)) == label
        counts[label] = counts.get(label, 0) + 1
    assert abs(test.baseline_correct - usual) < 60  # ties are broken in another way
    assert len(test.points) < MAX_POINTS
    whole = len(test.points) * test.every
    np.testing.assert_allclose(np.mean([point[1] for point in test.points]), right[:whole].mean())
    assert [point[0] for point in test.points] == list(range(test.every, whole + 1, test.every))


# What an attack has found.


def test_a_restart_that_fails_is_made_again(monkeypatch):
    import mergesvm.methods.recursive.rls as recursive

    X, y = stream(60, 3)
    live = live_model(3)
    live.learn(Batch.of(X, y))
    for target, name in ((recursive, "NormalEquations"), (recursive.NormalEquations, "solve")):
        live.learn(Batch.of(X, y))

        def interrupted(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(target, name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                live.model()
        rows = live.rows_seen // 60
        assert off(live, np.vstack([X] * rows), np.tile(y, rows)) < 1e-12


def test_rows_that_were_never_learned_are_not_taken_back():
    X, y = stream(60, 3)
    for far in (9.0, 1e6):
        live = live_model(3)
        live.predict_then_learn(Batch.of(X, y))
        with pytest.raises(ms.errors.KnowledgeError):
            live.forget(Batch.of(np.full((1, 3), far), [1]))
        assert off(live, X, y) < 1e-12
        assert live.knowledge().rows.sum() == 60


def test_huge_rows_that_are_taken_back_leave_what_they_leave_the_closed_form():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(60, 5)) + 1e4, generator.integers(0, 2, 60)
    X[30] *= 1e5
    live = live_model(5)
    live.predict_then_learn(Batch.of(X, y))
    live.forget(Batch.of(X[30:31], y[30:31]))
    with pytest.warns(SolverWarning, match="lost its digits"):
        model = live.model()
    with pytest.warns(SolverWarning, match="lost its digits"):
        expected = ms.solve(ms.learn(X, y) - ms.learn(X[30:31], y[30:31]))
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)


def test_a_heavy_row_may_leave_a_window():
    for heavy in (1e6, 1e12, 1e14):
        live = live_model(2, window=2)
        for row, label, weight in (([0.0, 1.0], 0, heavy), ([1.0, 0.0], 1, 1.0), ([3.0, 1.0], 0, 1.0)):
            live.learn_one(row, label, weight)
        np.testing.assert_allclose(live.model().coef_, [[-0.25, -0.35]], rtol=1e-9)


@pytest.mark.parametrize(
    ("width", "window", "C", "offset", "weights"),
    [
        (17, 17, 1e3, 0.0, 0),
        (8, 8, 1e3, 0.0, 0),
        (3, 3, 1e4, 0.0, 0),
        (5, 8, 1.0, 0.0, 4),
        (5, 8, 1.0, 1e6, 0),
    ],
)
def test_a_small_window_is_exact_whenever_it_is_asked(width, window, C, offset, weights):
    X, y = stream(2000, width, n_classes=2, offset=offset)
    weight = 10.0 ** np.random.default_rng(1).uniform(-weights, weights, len(X))
    live = live_model(width, C=C, window=window)
    for index, (row, label) in enumerate(zip(X, y.tolist(), strict=True), 1):
        live.learn_one(row, label, weight[index - 1])
        if index % 97 == 0:
            part = slice(index - window, index)
            if len(set(y[part])) == 2:
                expected = ms.solve(ms.learn(X[part], y[part], weight[part]), C=C).coef_
                found = live.model(probabilities=False).coef_
                assert np.abs(found - expected).max() <= 1e-8 * np.abs(expected).max()


def test_a_class_that_has_faded_away_is_gone():
    generator = np.random.default_rng(0)
    live = live_model(2, forgetting=0.5)
    live.learn_one([5.0, 5.0], "rare")
    for number in range(400):
        live.learn_one(generator.normal(size=2), "ab"[number % 2])
    assert live.classes.tolist() == ["a", "b"]
    assert live.model().predict_proba([[0.0, 0.0]]).shape == (1, 2)


def test_rows_in_a_window_are_counted_though_they_have_faded():
    generator = np.random.default_rng(0)
    live = live_model(2, forgetting=0.1, window=400)
    for number in range(900):
        live.learn_one(generator.normal(size=2), 0 if number < 400 else 1 + number % 2)
    assert live.class_rows() == [0, 200, 200]
    assert live.classes.tolist() == [1, 2]


def test_a_batch_that_fails_in_a_later_block_leaves_no_trace():
    X, y = stream(200, 2, n_classes=2)
    for options in ({}, {"forgetting": 0.9}, {"window": 50}):
        live, untouched = live_model(2, **options), live_model(2, **options)
        for each in (live, untouched):
            each.predict_then_learn(Batch.of(X, y))
        large = np.zeros((1_100_000, 2))
        large[-1] = 1e200
        with pytest.raises(ms.errors.DataError, match="too large"):
            live.learn(Batch.of(large, np.full(len(large), 7)))
        assert live.classes.tolist() == [0, 1]
        np.testing.assert_allclose(live.model().coef_, untouched.model().coef_, rtol=1e-10)


def test_a_weight_that_is_too_large_loses_no_rows():
    X, y = stream(4000, 3, n_classes=2)
    live = live_model(3)
    live.predict_then_learn(Batch.of(X, y))
    for weight in (1e308, np.inf, np.nan, -1.0, "2", None):
        with pytest.raises(ms.errors.DataError, match="must be a number from 0"):
            live.learn_one([1e40, 0.0, 0.0], 1, weight)
    with pytest.raises(ms.errors.DataError, match="too large to be summed"):
        live.learn(Batch.of(X, y, np.full(len(X), 1e200)))
    assert live.knowledge().rows.sum() == 4000
    assert off(live, X, y) < 1e-10


NO_ROW = r"A row must be|has 2 features, but 3"


def test_what_is_no_row_of_numbers_is_refused():
    live = live_model(3)
    live.learn_one([1.0, 2.0, 3.0], 1)
    live.learn_one([3.0, 2.0, 0.0], 2)
    for row in (
        "123",
        ["1", "2", "3"],
        [1j, 0, 0],
        np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]),
        [[1.0, 2.0, 3.0]],
        [1.0, 2.0],
    ):
        with pytest.raises(ms.errors.DataError, match=NO_ROW):
            live.learn_one(row, 1)
        with pytest.raises(ms.errors.DataError, match=NO_ROW):
            live.predict_one(row)
    for row in ([np.nan, 0.0, 0.0], [np.inf, 0.0, 0.0], [1e200, 0.0, 0.0]):
        with pytest.raises(ms.errors.DataError, match="contains NaN, infinity"):
            live.predict_one(row)
        with pytest.raises(ms.errors.DataError, match="contains NaN, infinity"):
            live.learn_one(row, 3)
    for label in (True, 1.0, "1"):
        with pytest.raises(ms.errors.SignatureError, match="after rows of whole number labels"):
            live.learn_one([1.0, 2.0, 3.0], label)
    with pytest.raises(ms.errors.DataError, match="Unknown label type"):
        live.learn_one([1.0, 2.0, 3.0], [1])
    assert live.labels == [1, 2]


def test_a_row_that_weighs_nothing_is_looked_at_as_well():
    for options in ({}, {"window": 4}, {"forgetting": 0.9}):
        live = live_model(2, class_weight={1: 0.0}, **options)
        for label in (0, 1, 2):
            live.learn_one([1.0, label], label)
            with pytest.raises(ms.errors.DataError, match="contains NaN"):
                live.learn_one([np.nan, 0.0], label)
        assert live.knowledge().rows.sum() == 3
        assert np.isfinite(live.model().coef_).all()


def test_rows_leave_a_window_however_they_came_through_a_map():
    X, y = stream(60, 4)
    plan = ms.features.Fourier(20).freeze(X)
    for one_by_one in (True, False):
        live = LiveModel(Signature(plan, 4), RecursiveOptions(window=50))
        if one_by_one:
            for row, label in zip(X, y.tolist(), strict=True):
                live.learn_one(row, label)
            live.forget(Batch.of(X[20:30], y[20:30]))
        else:
            live.learn(Batch.of(X, y))
            for index in range(20, 30):
                live.forget(Batch.of(X[index : index + 1], y[index : index + 1]))
        assert live.knowledge().rows.sum() == 40


def test_nothing_left_of_the_pooled_form():
    X, y = stream(40, 3)
    live = LiveModel(Signature(Identity(), 3, per_class=False), RecursiveOptions())
    live.learn(Batch.of(X, y))
    live.forget(Batch.of(X, y))
    assert live.predict_one(X[0]) is None
    live.learn(Batch.of(X, y))
    assert off(live, X, y) < 1e-12


def test_the_most_frequent_class_does_not_depend_on_how_rows_are_read():
    X, y = stream(600, 2)
    found = set()
    for step in (1, 7, 600):
        test = Prequential(live_model(2), every=50)
        for start in range(0, 600, step):
            test.update(Batch.of(X[start : start + step], y[start : start + step]))
        found.add((test.correct, test.baseline_correct))
    assert len(found) == 1


@pytest.mark.parametrize("options", [{}, {"class_weight": {0: 2.0}}, {"forgetting": 0.999}])
@pytest.mark.parametrize("mapped", [False, True])
def test_a_batch_too_large_to_wait_is_that_of_its_parts(options, mapped):
    X, y = stream(9000, 6, offset=3.0)
    weights = np.random.default_rng(1).choice([0.0, 0.5, 2.0], len(X))
    features = ms.features.Fourier(20).freeze(X) if mapped else Identity()
    whole, parts = (LiveModel(Signature(features, 6), RecursiveOptions(**options)) for _ in range(2))
    whole.learn(Batch.of(X, y, weights))
    for start in range(0, 9000, 700):
        part = slice(start, start + 700)
        parts.learn(Batch.of(X[part], y[part], weights[part]))
    assert whole.knowledge().rows.tolist() == parts.knowledge().rows.tolist()
    assert whole.rows_seen == parts.rows_seen == (weights > 0).sum()
    np.testing.assert_allclose(whole.model().scores(X), parts.model().scores(X), atol=1e-6 if mapped else 1e-10)


def test_the_penalty_is_the_same_whether_rows_come_alone_or_together():
    X, y = stream(58, 5)
    for forgetting in (0.97, 0.5):
        alone, together = live_model(5, forgetting=forgetting), live_model(5, forgetting=forgetting)
        alone.predict_then_learn(Batch.of(X, y))
        together.learn(Batch.of(X, y))
        for row, label in zip(X[:3], y[:3].tolist(), strict=True):
            alone.learn_one(row, label)
            together.learn_one(row, label)
        np.testing.assert_allclose(alone._rls.state.ridge, together._rls.state.ridge, rtol=1e-12)
        np.testing.assert_allclose(alone.model().coef_, together.model().coef_, rtol=1e-9)


def test_a_window_in_which_nothing_weighs_anything_goes_on_afterwards():
    live = live_model(1, class_weight={"a": 0.1, "b": 0.0}, window=1)
    for weight in (0.3, 0.1, 0.7):
        live.learn_one([weight], "a", weight)
    live.learn_one([1.0], "b")
    assert live._rls.total_weight >= 0
    with pytest.raises(ms.errors.KnowledgeError, match="only rows of weight zero"):
        live.model()
    live.learn_one([2.0], "a")
    assert live._rls.total_weight == pytest.approx(0.1)
    assert live.model().predict([[2.0]]).tolist() == ["a"]
