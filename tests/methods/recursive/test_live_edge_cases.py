"""Live models: failures, interrupts, invalid rows, rounding, and windows that run empty."""

from __future__ import annotations

import numpy as np
import pytest

import mergesvm as ms
from live_streams import live_model, make_stream, relative_error
from mergesvm.data.batch import Batch
from mergesvm.errors import SolverWarning
from mergesvm.features import Identity
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.recursive.live import LiveModel
from mergesvm.methods.recursive.options import RecursiveOptions


def test_restart_is_repeated_after_an_interrupt(monkeypatch):
    import mergesvm.methods.recursive.rls as recursive

    X, y = make_stream(60, 3)
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
        assert relative_error(live, np.vstack([X] * rows), np.tile(y, rows)) < 1e-12


def test_forgetting_rows_that_were_never_learned_is_an_error():
    X, y = make_stream(60, 3)
    for far in (9.0, 1e6):
        live = live_model(3)
        live.predict_then_learn(Batch.of(X, y))
        with pytest.raises(ms.errors.KnowledgeError):
            live.forget(Batch.of(np.full((1, 3), far), [1]))
        assert relative_error(live, X, y) < 1e-12
        assert live.knowledge().rows.sum() == 60


@pytest.mark.filterwarnings("ignore:The system is singular")
def test_forgetting_a_huge_row_matches_the_closed_form():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(60, 5)) + 1e4, generator.integers(0, 2, 60)
    X[30] *= 1e5
    live = live_model(5)
    live.predict_then_learn(Batch.of(X, y))
    live.forget(Batch.of(X[30:31], y[30:31]))
    with pytest.warns(SolverWarning, match="lost its digits"):
        model = live.model()
    with pytest.warns(SolverWarning, match="lost its digits"):
        expected = ms.solve(ms.subtract(ms.learn(X, y), ms.learn(X[30:31], y[30:31]), force=True))
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)


def test_row_of_large_weight_leaves_the_window():
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
def test_small_window_is_exact_at_any_time(width, window, C, offset, weights):
    X, y = make_stream(2000, width, n_classes=2, offset=offset)
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


def test_class_whose_weight_has_decayed_to_zero_is_dropped():
    generator = np.random.default_rng(0)
    live = live_model(2, forgetting=0.5)
    live.learn_one([5.0, 5.0], "rare")
    for number in range(400):
        live.learn_one(generator.normal(size=2), "ab"[number % 2])
    assert live.classes.tolist() == ["a", "b"]
    assert live.model().predict_proba([[0.0, 0.0]]).shape == (1, 2)


def test_rows_in_a_window_are_counted_even_if_their_weight_has_decayed():
    generator = np.random.default_rng(0)
    live = live_model(2, forgetting=0.1, window=400)
    for number in range(900):
        live.learn_one(generator.normal(size=2), 0 if number < 400 else 1 + number % 2)
    assert live.class_rows() == [0, 200, 200]
    assert live.classes.tolist() == [1, 2]


def test_batch_that_fails_in_a_later_block_is_undone():
    X, y = make_stream(200, 2, n_classes=2)
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


def test_weight_that_is_too_large_is_an_error_and_changes_nothing():
    X, y = make_stream(4000, 3, n_classes=2)
    live = live_model(3)
    live.predict_then_learn(Batch.of(X, y))
    for weight in (1e308, np.inf, np.nan, -1.0, "2", None):
        with pytest.raises(ms.errors.DataError, match="must be a number from 0"):
            live.learn_one([1e40, 0.0, 0.0], 1, weight)
    with pytest.raises(ms.errors.DataError, match="too large to be summed"):
        live.learn(Batch.of(X, y, np.full(len(X), 1e200)))
    assert live.knowledge().rows.sum() == 4000
    assert relative_error(live, X, y) < 1e-10


INVALID_ROW = r"A row must be|has 2 features, but 3"


def test_invalid_rows_and_labels_are_errors():
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
        with pytest.raises(ms.errors.DataError, match=INVALID_ROW):
            live.learn_one(row, 1)
        with pytest.raises(ms.errors.DataError, match=INVALID_ROW):
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


def test_rows_of_weight_zero_are_validated():
    for options in ({}, {"window": 4}, {"forgetting": 0.9}):
        live = live_model(2, class_weight={1: 0.0}, **options)
        for label in (0, 1, 2):
            live.learn_one([1.0, label], label)
            with pytest.raises(ms.errors.DataError, match="contains NaN"):
                live.learn_one([np.nan, 0.0], label)
        assert live.knowledge().rows.sum() == 3
        assert np.isfinite(live.model().coef_).all()


def test_mapped_rows_are_found_in_the_window():
    X, y = make_stream(60, 4)
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


def test_forgetting_all_rows_without_sums_per_class():
    X, y = make_stream(40, 3)
    live = LiveModel(Signature(Identity(), 3, per_class=False), RecursiveOptions())
    live.learn(Batch.of(X, y))
    live.forget(Batch.of(X, y))
    assert live.predict_one(X[0]) is None
    live.learn(Batch.of(X, y))
    assert relative_error(live, X, y) < 1e-12


@pytest.mark.parametrize("options", [{}, {"class_weight": {0: 2.0}}, {"forgetting": 0.999}])
@pytest.mark.parametrize("mapped", [False, True])
def test_batch_larger_than_the_buffer_equals_its_parts(options, mapped):
    X, y = make_stream(9000, 6, offset=3.0)
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


def test_penalty_is_the_same_for_single_rows_and_blocks():
    X, y = make_stream(58, 5)
    for forgetting in (0.97, 0.5):
        alone, together = live_model(5, forgetting=forgetting), live_model(5, forgetting=forgetting)
        alone.predict_then_learn(Batch.of(X, y))
        together.learn(Batch.of(X, y))
        for row, label in zip(X[:3], y[:3].tolist(), strict=True):
            alone.learn_one(row, label)
            together.learn_one(row, label)
        np.testing.assert_allclose(alone._state._rls.state.ridge, together._state._rls.state.ridge, rtol=1e-12)
        np.testing.assert_allclose(alone.model().coef_, together.model().coef_, rtol=1e-9)


def test_window_with_only_zero_weights_recovers():
    live = live_model(1, class_weight={"a": 0.1, "b": 0.0}, window=1)
    for weight in (0.3, 0.1, 0.7):
        live.learn_one([weight], "a", weight)
    live.learn_one([1.0], "b")
    assert live._state._rls.total_weight >= 0
    with pytest.raises(ms.errors.KnowledgeError, match="all had zero weight"):
        live.model()
    live.learn_one([2.0], "a")
    assert live._state._rls.total_weight == pytest.approx(0.1)
    assert live.model().predict([[2.0]]).tolist() == ["a"]
