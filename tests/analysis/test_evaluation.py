from __future__ import annotations

import json
import pickle

import numpy as np
import pandas
import pytest
from scipy.sparse import csr_array
from scipy.special import expit, softmax
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    confusion_matrix,
    log_loss,
    precision_recall_fscore_support,
    roc_auc_score,
)

import mergesvm as ms
from mergesvm.analysis import evaluation
from mergesvm.analysis.curves import MIN_BINS
from mergesvm.analysis.evaluation import Evaluation

TEXT = ("ant", "bee", "cat")


def rows_of(classes, n=2_000, seed=0, sharpness=2.0):
    """True labels, correlated predictions and probabilities, and weights."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, len(classes), n)
    probabilities = softmax(
        sharpness * (generator.normal(size=(n, len(classes))) + 1.5 * np.eye(len(classes))[codes]), axis=1
    )
    labels = np.array(classes)
    return labels[codes], labels[probabilities.argmax(axis=1)], probabilities, generator.random(n) * 3


def evaluation_of(classes, truth, predicted, probabilities, weights=None):
    evaluation = Evaluation(tuple(classes))
    evaluation.add(truth, predicted, probabilities, weights)
    return evaluation


def assert_same(a, b, rtol=1e-12):
    first, second = json.loads(json.dumps(a.summary())), json.loads(json.dumps(b.summary()))
    flat_a, flat_b = list(leaves(first)), list(leaves(second))
    assert [key for key, _ in flat_a] == [key for key, _ in flat_b]
    for (key, one), (_, other) in zip(flat_a, flat_b, strict=True):
        assert one == other if one is None or isinstance(one, str) else one == pytest.approx(other, rel=rtol), key


def leaves(value, path=""):
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, f"{path}/{key}")
    else:
        yield path, value


KINDS = {
    "two": (0, 1),
    "booleans": (False, True),
    "decimals": (1.0, 2.0, 5.0),
    "text": TEXT,
    "forty-seven": tuple(range(47)),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", KINDS.values(), ids=KINDS)
def test_scores_equal_scikit_learn(classes, weighted):
    truth, predicted, probabilities, weights = rows_of(classes)
    weights = weights if weighted else None
    found = evaluation_of(classes, truth, predicted, probabilities, weights)
    options = {"sample_weight": weights}
    assert found.rows == 2_000
    assert found.accuracy == pytest.approx(accuracy_score(truth, predicted, **options), rel=1e-12)
    assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(truth, predicted, **options), rel=1e-12)
    assert found.log_loss == pytest.approx(log_loss(truth, probabilities, **options), rel=1e-12)
    positive = probabilities[:, 1] if len(classes) == 2 else probabilities
    kind = {"pos_label": classes[1]} if len(classes) == 2 else {}
    assert found.brier == pytest.approx(brier_score_loss(truth, positive, **options, **kind), rel=1e-12)
    np.testing.assert_allclose(found.confusion, confusion_matrix(truth, predicted, **options), rtol=1e-12)
    expected = precision_recall_fscore_support(truth, predicted, zero_division=np.nan, **options)[:3]
    np.testing.assert_allclose([found.precision, found.recall, found.f1], expected, rtol=1e-12)
    np.testing.assert_allclose(found.support, [(found.confusion[i]).sum() for i in range(len(classes))])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", KINDS.values(), ids=KINDS)
def test_aucs_are_close_to_scikit_learn(classes, weighted):
    truth, predicted, probabilities, weights = rows_of(classes)
    weights = weights if weighted else None
    found = evaluation_of(classes, truth, predicted, probabilities, weights)
    areas, averages = [], []
    for index, label in enumerate(classes):
        areas.append(roc_auc_score(truth == label, probabilities[:, index], sample_weight=weights))
        averages.append(average_precision_score(truth == label, probabilities[:, index], sample_weight=weights))
        bound = found.auc_error(index)
        assert bound < 3e-4
        assert abs(found.auc(index) - areas[-1]) <= min(bound + 1e-12, 1e-4)
        # Two rows in one bin at the very top, a true and a false one, are off by half a row's recall.
        heaviest = 1.0 if weights is None else weights.max()
        assert abs(found.average_precision(index) - averages[-1]) < heaviest / found.support[index] / 2
    assert found.auc() == pytest.approx(np.mean(areas), abs=1e-4)
    assert found.average_precision() == pytest.approx(np.mean(averages), abs=3e-4)


SHAPES = {
    "rare": (0.005, 1.0, -7.0),
    "even": (0.5, 1.0, 0.0),
    "hardly apart": (0.3, 0.05, 0.0),
    "sharp": (0.3, 20.0, 0.0),
    "saturated": (0.3, 200.0, 0.0),
}


@pytest.mark.parametrize(("prevalence", "scale", "offset"), SHAPES.values(), ids=SHAPES)
def test_the_bins_resolve_log_odds_of_any_size(prevalence, scale, offset):
    generator = np.random.default_rng(1)
    truth = (generator.random(50_000) < prevalence).astype(int)
    positive = expit(scale * (generator.normal(size=50_000) * 1.5 + 2 * truth) + offset)
    found = evaluation_of((0, 1), truth, (positive > 0.5).astype(int), np.column_stack([1 - positive, positive]))
    error = abs(found.auc(1) - roc_auc_score(truth, positive))
    assert error <= found.auc_error(1) + 1e-12 < 1e-3
    assert found.average_precision(1) == pytest.approx(average_precision_score(truth, positive), abs=5e-4)


def test_aucs_are_close_with_the_fewest_bins():
    classes = tuple(range(600))
    truth, predicted, probabilities, _ = rows_of(classes, n=6_000)
    found = evaluation_of(classes, truth, predicted, probabilities)
    assert found.bins == MIN_BINS
    for index in range(20):
        assert found.auc(index) == pytest.approx(roc_auc_score(truth == index, probabilities[:, index]), abs=1e-3)


def test_auc_error_bounds_probabilities_in_one_bin():
    positive = 0.5 + np.arange(1, 101) * 1e-9
    truth = np.repeat([0, 1], 50)
    found = evaluation_of((0, 1), truth, np.ones(100, int), np.column_stack([1 - positive, positive]))
    assert roc_auc_score(truth, positive) == 1.0
    assert (found.auc(1), found.auc_error(1)) == (0.5, 0.5)


def test_ties_are_exact():
    generator = np.random.default_rng(2)
    truth = generator.integers(0, 2, 3_000)
    positive = np.clip(np.round((generator.normal(size=3_000) / 3 + truth) * 8) / 8, 0, 1)
    assert {0.0, 1.0} <= set(positive.tolist())
    found = evaluation_of((0, 1), truth, (positive > 0.5).astype(int), np.column_stack([1 - positive, positive]))
    assert found.auc(1) == pytest.approx(roc_auc_score(truth, positive), rel=1e-12)
    assert found.average_precision(1) == pytest.approx(average_precision_score(truth, positive), rel=1e-12)
    assert found.log_loss == pytest.approx(log_loss(truth, positive), rel=1e-12)


def test_curves_start_and_end_in_the_corners():
    found = evaluation_of(TEXT, *rows_of(TEXT))
    for index in (None, 0, 1, 2, -1):
        false, true = found.roc(index)
        assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
        assert (np.diff(false) >= 0).all()
        assert (np.diff(true) >= 0).all()
        assert len(false) <= max(found.bins + 1, 502)
        recall, precision = found.precision_recall(index)
        assert (recall[0], recall[-1], precision[0]) == (0, 1, 1)
    # The area under the mean curve is the mean of the areas.
    assert np.trapezoid(*found.roc()[::-1]) == pytest.approx(found.auc(), abs=1e-3)
    assert np.trapezoid(*found.precision_recall()[::-1]) == pytest.approx(found.average_precision(), abs=3e-3)


@pytest.mark.parametrize("bins", [5, 10, 20])
def test_calibration_equals_scikit_learn(bins):
    truth, predicted, probabilities, _ = rows_of(TEXT)
    found = evaluation_of(TEXT, truth, predicted, probabilities)
    for index, right, positive in [
        (1, truth == "bee", probabilities[:, 1]),
        (None, truth == predicted, probabilities.max(axis=1)),
    ]:
        expected, observed, weights = found.calibration(index, bins)
        used = weights > 0
        np.testing.assert_allclose((observed[used], expected[used]), calibration_curve(right, positive, n_bins=bins))
        assert weights.sum() == 2_000
    gaps = [abs(p - o) * w for p, o, w in zip(*found.calibration(1), strict=True) if w]
    assert found.calibration_error(1) == pytest.approx(sum(gaps) / 2_000)


def test_weights_equal_repeated_rows():
    truth, predicted, probabilities, _ = rows_of(TEXT, n=300)
    times = np.random.default_rng(3).integers(0, 4, 300)
    repeated = evaluation_of(TEXT, *(np.repeat(part, times, axis=0) for part in (truth, predicted, probabilities)))
    weighted = evaluation_of(TEXT, truth, predicted, probabilities, times)
    assert weighted.rows == (times > 0).sum()
    weighted.rows = repeated.rows
    assert_same(weighted, repeated)


def test_rows_of_weight_zero_are_ignored():
    found = evaluation_of(TEXT, ["ant", "fox"], ["ant", "?"], [[1.0, 0, 0], [np.nan, 9, 9]], [2.0, 0.0])
    assert (found.rows, found.weight, found.accuracy, found.unknown) == (1, 2.0, 1.0, {})
    nothing = evaluation_of(TEXT, ["ant"], ["bee"], [[0.0, 1, 0]], [0.0])
    assert_same(nothing, Evaluation(TEXT))


def test_classes_that_the_model_does_not_know_are_errors_and_negatives():
    truth, predicted, probabilities, _ = rows_of(TEXT, n=500)
    truth = truth.copy().astype("<U5")
    truth[:50], truth[50:60] = "zebra", "dog"
    found = evaluation_of(TEXT, truth, predicted, probabilities)
    assert found.unknown == {"dog": 10.0, "zebra": 50.0}
    assert found.labels == (*TEXT, "dog", "zebra")
    np.testing.assert_array_equal(found.confusion, confusion_matrix(truth, predicted, labels=found.labels)[:, :3])
    assert found.accuracy == pytest.approx(accuracy_score(truth, predicted))
    assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(truth, predicted))
    options = {"labels": found.labels, "zero_division": np.nan}
    expected = precision_recall_fscore_support(truth, predicted, **options)[:3]
    np.testing.assert_allclose([found.precision, found.recall, found.f1], expected)
    assert found.auc(0) == pytest.approx(roc_auc_score(truth == "ant", probabilities[:, 0]), abs=1e-4)
    padded = np.column_stack([probabilities, np.zeros((500, 2))])
    assert found.log_loss == pytest.approx(log_loss(truth, padded, labels=found.labels), rel=1e-12)
    assert found.brier == pytest.approx(brier_score_loss(truth, padded, labels=found.labels), rel=1e-12)


@pytest.mark.parametrize("parts", [2, 7, 100])
def test_batches_of_any_size_give_the_same(parts):
    truth, predicted, probabilities, weights = rows_of(TEXT, n=500)
    truth = truth.copy()
    truth[::50] = "dog"
    whole = evaluation_of(TEXT, truth, predicted, probabilities, weights)
    batched, order = Evaluation(TEXT), np.random.default_rng(4).permutation(500)
    pieces = []
    for part in np.array_split(order, parts):
        batched.add(truth[part], predicted[part], probabilities[part], weights[part])
        pieces.append(evaluation_of(TEXT, truth[part], predicted[part], probabilities[part], weights[part]))
    for other in (batched, sum(pieces), sum(pieces[::-1]), whole + Evaluation(TEXT), Evaluation(TEXT) + whole):
        assert_same(whole, other, rtol=1e-10)


def test_adding_does_not_change_the_operands():
    a, b = (evaluation_of(TEXT, *rows_of(TEXT, n=50, seed=seed)) for seed in (0, 1))
    before = a.summary(), b.summary()
    both = a + b
    both.add(*rows_of(TEXT, n=5)[:3])
    assert (a.summary(), b.summary()) == before
    assert both.rows == 105


def test_memory_does_not_grow_with_the_rows():
    found = Evaluation((0, 1))
    size = len(pickle.dumps(found))
    for seed in range(3):
        found.add(*rows_of((0, 1), n=20_000, seed=seed)[:3])
    assert len(pickle.dumps(found)) < size + 100


@pytest.mark.parametrize("classes", [("only",), (0, 1), tuple("abc")])
def test_without_rows_all_numbers_are_missing(classes):
    empty = Evaluation(classes)
    empty.add(np.array(classes)[:0], np.array(classes)[:0], np.zeros((0, len(classes))))
    summary = empty.summary()
    assert (summary["rows"], summary["weight"]) == (0, 0)
    for name in ("accuracy", "balanced_accuracy", "log_loss", "brier", "calibration_error"):
        assert summary[name] is None
    assert set(summary["macro"].values()) == {None}
    assert np.isnan(empty.roc()[1][1:]).all()


def test_a_single_class_has_no_roc_curve():
    found = evaluation_of(("only",), ["only"] * 3, ["only"] * 3, np.ones((3, 1)))
    assert (found.accuracy, found.balanced_accuracy, found.brier) == (1.0, 1.0, 0.0)
    assert found.log_loss == pytest.approx(0, abs=1e-15)
    assert np.isnan(found.auc(0))
    assert found.average_precision(0) == 1.0


def test_a_class_that_never_occurs_does_not_affect_the_means():
    truth, predicted, probabilities, _ = rows_of(TEXT, n=200)
    kept = truth != "bee"
    found = evaluation_of(TEXT, truth[kept], predicted[kept], probabilities[kept])
    assert np.isnan(found.recall[1])
    assert np.isnan(found.auc(1))
    assert found.balanced_accuracy == pytest.approx(np.mean(found.recall[[0, 2]]))
    assert found.auc() == pytest.approx((found.auc(0) + found.auc(2)) / 2)
    assert np.isfinite(found.roc()[1]).all()


def test_the_summary_is_ready_for_json():
    truth, predicted, probabilities, _ = rows_of((0, 1), n=100)
    summary = evaluation_of((0, 1), truth, predicted, probabilities).summary()
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["classes"][1]["label"] == 1
    assert np.sum(summary["confusion"]) == summary["rows"] == 100


WRONG = {
    "class": ({"predicted": ["ant", "fox"]}, "'fox'"),
    "kinds": ({"truth": [1, 2]}, "labels such as 1, but the model was learned from text labels such as 'ant'"),
    "shape": ({"probabilities": [[1.0, 0], [1, 0]]}, r"not 2, 2 and \(2, 2\)"),
    "length": ({"predicted": ["ant"]}, "not 1, 2"),
    "weights": ({"weights": [1.0, -3.0]}, "not -3.0"),
    "no weight": ({"weights": [1.0, np.nan]}, "not nan"),
    "more than all": ({"probabilities": [[1.0, 0, 0], [1, 1, 0]]}, r"add to 1, not \[1.0, 1.0, 0.0\]"),
    "negative": ({"probabilities": [[1.0, 0, 0], [1.5, -0.5, 0]]}, "from 0 to 1"),
    "not a number": ({"probabilities": [[1.0, 0, 0], [np.nan, 0, 0]]}, "not .nan"),
    "no label": ({"truth": ["ant", None]}, "row 1 has no label"),
}


@pytest.mark.parametrize(("changed", "message"), WRONG.values(), ids=WRONG)
def test_invalid_batches_raise_errors_and_change_nothing(changed, message):
    found = Evaluation(TEXT)
    good = {"truth": ["ant", "bee"], "predicted": ["ant", "cat"], "probabilities": [[1.0, 0, 0], [0, 0.2, 0.8]]}
    with pytest.raises(ms.errors.DataError, match=message):
        found.add(**(good | changed))
    assert_same(found, Evaluation(TEXT))


def test_too_many_unknown_labels_raise_an_error():
    n = 10_001
    with pytest.raises(ms.errors.DataError, match="Is that the column of the labels"):
        evaluation_of((0, 1), np.arange(2, n + 2), np.zeros(n, int), np.tile([1.0, 0.0], (n, 1)))


def test_evaluations_of_different_classes_cannot_be_added():
    with pytest.raises(ms.errors.SignatureError, match=r"\(1, 2\) to one of \(0, 1\)"):
        Evaluation((0, 1)) + Evaluation((1, 2))
    with pytest.raises(TypeError):
        Evaluation((0, 1)) + 3


@pytest.fixture(scope="module")
def labelled():
    """A model, and 700 rows with labels, one of them unknown to the model, and weights."""
    generator = np.random.default_rng(5)
    codes = generator.integers(0, 4, 700)
    X, y = generator.normal(size=(700, 3)) + np.eye(4, 3)[codes], np.array([*TEXT, "dog"])[codes]
    known = y[:300] != "dog"
    return ms.solve(ms.learn(X[:300][known], y[:300][known])), X, y, generator.integers(0, 3, 700)


def test_evaluate_compares_what_a_model_predicts(labelled):
    model, X, y, weights = labelled
    found = ms.evaluate(model, X, y, weights)
    assert_same(found, evaluation_of(TEXT, y, model.predict(X), model.predict_proba(X), weights))
    assert found.accuracy == pytest.approx(accuracy_score(y, model.predict(X), sample_weight=weights))
    assert "dog" in found.unknown


def test_evaluate_takes_tables_sparse_rows_and_estimators(labelled):
    model, X, y, _ = labelled
    whole = ms.evaluate(model, X, y)
    assert_same(ms.evaluate(model, csr_array(X), pandas.Series(y)), whole, rtol=1e-9)
    table = pandas.DataFrame(X, columns=["a", "b", "c"])
    fitted = ms.MergeSVC().fit(table[:300], y[:300])
    assert_same(ms.evaluate(fitted, table, y), ms.evaluate(fitted.model_, table, y))


def test_evaluate_predicts_in_blocks(labelled, monkeypatch):
    model, X, y, weights = labelled
    whole = ms.evaluate(model, X, y, weights)
    monkeypatch.setattr(evaluation, "BLOCK_PROBABILITIES", 1)
    assert_same(ms.evaluate(model, X, y, weights), whole, rtol=1e-10)


def test_evaluate_reads_a_scan_once_and_shows_progress(labelled, tmp_path):
    model, X, y, weights = labelled
    table = pandas.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, w=weights)
    table.to_parquet(tmp_path / "rows.parquet")
    seen = []
    scan = ms.scan(tmp_path / "rows.parquet", label="y", weight="w", batch_rows=100)
    found = ms.evaluate(model, scan, progress=lambda scan: seen.append(scan.rows))
    assert_same(found, ms.evaluate(model, X, y, weights), rtol=1e-10)
    assert seen == list(range(100, 701, 100))


def test_evaluate_raises_errors_for_invalid_input(labelled, tmp_path):
    model, X, y, _ = labelled
    with pytest.raises(ms.errors.DataError, match="Input X has whole number labels such as 0"):
        ms.evaluate(model, X, np.zeros(len(X), int))
    with pytest.raises(ms.errors.DataError, match="unequal length"):
        ms.evaluate(model, X, y[:5])
    with pytest.raises(TypeError, match="not Knowledge"):
        ms.evaluate(ms.learn(X, y), X, y)
    (tmp_path / "empty.csv").write_text("a,b,c,y\n1,,3,ant\n")
    scan = ms.scan(tmp_path / "empty.csv", label="y", missing="drop")
    with pytest.raises(ms.errors.DataError, match=r"empty\.csv has no rows to evaluate"):
        ms.evaluate(model, scan)
    with pytest.raises(ms.errors.ParameterError, match="A scan provides labels and weights"):
        ms.evaluate(model, scan, y)
