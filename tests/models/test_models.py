from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import mergesvm as ms
from reference import blobs

TERMS = [
    {"multiclass": "ovr"},
    {"multiclass": "ovo", "ties": "recount"},
    {"multiclass": "ovo", "ties": "sequential"},
    {"multiclass": "ovo", "ties": "margin"},
]


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("classes", [1, 2, 3, 6])
def test_predictions_decisions_and_probabilities_fit_together(terms, classes):
    X, y = blobs(seed=classes, n=400, d=3, classes=classes)
    model = ms.solve(ms.learn(X, y), **terms)
    predicted, decision, shares = model.predict(X), model.decision_function(X), model.predict_proba(X)
    if classes > 2:
        np.testing.assert_array_equal(model.classes_[decision.argmax(axis=1)], predicted)
    elif classes == 2:
        np.testing.assert_array_equal(model.classes_[(decision > 0).astype(int)], predicted)
    else:
        assert (predicted == 0).all()
    assert shares.shape == (400, classes)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    if classes > 2:
        np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], predicted)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("ties", ["recount", "sequential", "margin"])
def test_no_class_is_more_probable_than_the_winner_of_the_votes(ties, class_weight):
    generator = np.random.default_rng(3)
    y = generator.choice(5, 400, p=[0.5, 0.2, 0.15, 0.1, 0.05])
    X = generator.normal(size=(400, 2)) + generator.normal(size=(5, 2))[y]
    model = ms.solve(ms.learn(X, y), multiclass="ovo", ties=ties, class_weight=class_weight)
    wide = np.vstack([X, 30 * generator.normal(size=(3000, 2))])
    probabilities = model.predict_proba(wide)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(wide))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_probabilities_of_two_normal_classes_are_the_true_ones(class_weight):
    generator = np.random.default_rng(0)
    spread = np.array([[1.0, 0.4], [0.4, 2.0]])
    y = (generator.random(60_000) < 0.15).astype(int)
    means = np.array([[0.0, 0.0], [1.5, -1.0]])
    X = generator.multivariate_normal([0, 0], spread, 60_000) + means[y]
    likelihood = [multivariate_normal(mean, spread).logpdf(X) for mean in means]
    truth = expit(likelihood[1] - likelihood[0] + np.log(0.15 / 0.85))
    shares = ms.solve(ms.learn(X, y), class_weight=class_weight).predict_proba(X)[:, 1]
    assert np.abs(shares - truth).max() < 0.03


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_probabilities_tell_more_than_frequencies(multiclass):
    X, y = load_digits(return_X_y=True)
    X, held_out, y, truth = train_test_split(X, y, random_state=0, stratify=y)
    model = ms.solve(ms.learn(X, y), multiclass=multiclass, standardize=True)
    assert log_loss(truth, model.predict_proba(held_out)) < 0.4
    assert (model.predict(held_out) == truth).mean() > 0.92


@pytest.mark.parametrize("terms", TERMS)
def test_all_kinds_of_rows_are_scored_alike(terms):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    X, y = blobs(seed=1, n=3_000, d=4, classes=4, offset=30.0)
    model = ms.solve(ms.learn(X, y), **terms)
    expected = model.predict(X)
    names = list("abcd")
    frame = pd.DataFrame(X, columns=names)
    for rows in (X.tolist(), np.asfortranarray(X), frame, pl.DataFrame(frame), pa.table(frame), sparse.csr_array(X)):
        np.testing.assert_array_equal(model.predict(rows), expected)


def test_sparse_rows_are_scored_without_becoming_dense():
    X = sparse.random_array((2_000, 300), density=0.02, random_state=np.random.default_rng(0), format="csr")
    y = np.arange(2_000) % 3
    model = ms.solve(ms.learn(X, y), multiclass="ovo")
    dense = X.toarray()
    np.testing.assert_allclose(model.scores(X), dense @ model.coef_.T + model.intercept_, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.predict(dense))


def test_many_rows_are_scored_block_by_block():
    X, y = blobs(seed=2, n=50_000, d=3, classes=12)
    model = ms.solve(ms.learn(X, y), multiclass="ovo")
    np.testing.assert_array_equal(model.predict(X)[40_000:], model.predict(X[40_000:]))
    np.testing.assert_allclose(model.scores(X), X @ model.coef_.T + model.intercept_, atol=1e-10)


def test_rows_that_do_not_fit_the_model_are_refused():
    import pandas as pd

    X, y = blobs(n=30, d=2, classes=2)
    model = ms.solve(ms.learn(pd.DataFrame(X, columns=["x", "y"]), y))
    with pytest.raises(ms.errors.DataError, match="X has 3 features, but the model was trained on 2"):
        model.predict(np.ones((2, 3)))
    with pytest.raises(ms.errors.DataError, match="Column 0 of X is named 'y', but 'x' is expected"):
        model.predict(pd.DataFrame(X, columns=["y", "x"]))
    with pytest.raises(ms.errors.DataError, match=r"NaN: row 1, column 0\. Remove or impute missing values before"):
        model.predict([[0.0, 0.0], [np.nan, 0.0]])
    with pytest.raises(ms.errors.DataError, match="infinity: row 0, column 1"):
        model.predict([[0.0, np.inf]])
    np.testing.assert_array_equal(model.predict(X), model.predict(pd.DataFrame(X, columns=["x", "y"])))


def test_models_say_what_they_are():
    X, y = blobs(n=60, d=2, classes=3)
    assert repr(ms.solve(ms.learn(X, y))) == "LinearModel of 3 classes x 2 features"
    pairwise = ms.solve(ms.learn(X, y), multiclass="ovo")
    assert repr(pairwise) == "PairwiseModel of 3 classes x 2 features, 3 pairs, ties by recount"
    assert pairwise.pairs_ == [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize("terms", TERMS[:2])
def test_the_score_is_the_fraction_predicted_correctly(terms):
    X, y = blobs(n=200, d=2, classes=3)
    model = ms.solve(ms.learn(X, y), **terms)
    assert model.score(X, y) == (model.predict(X) == y).mean()
    with pytest.raises(ms.errors.DataError, match="differ in length"):
        model.score(X, y[:-1])


def test_probabilities_of_the_pooled_form_follow_the_true_frequencies_too():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(4_000, 2))
    y = (X[:, 0] + generator.normal(size=4_000) > 1.3).astype(int)
    weights = {0: 1.0, 1: 9.0}
    pooled = ms.solve(ms.learn(X, y, per_class=False, class_weight=weights)).predict_proba(X)
    np.testing.assert_allclose(pooled.mean(axis=0), np.bincount(y) / 4_000, atol=0.03)


@pytest.mark.parametrize("options", [{}, {"multiclass": "ovo"}, {"multiclass": "ovr", "C": 0.1}])
def test_the_numbers_of_a_model_are_not_edited_in_place(options, tmp_path):
    X, y = blobs(seed=4, n=60, d=3, classes=3, offset=5.0)
    model = ms.solve(ms.learn(X, y), **options)
    model.save(tmp_path / "m.msvm")
    estimator = ms.MergeSVC(**options).fit(X, y)
    for each in (model, ms.load_model(tmp_path / "m.msvm"), model.with_calibration(None), estimator, estimator.model_):
        before = each.decision_function(X)
        for name in ("coef_", "intercept_"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(each, name)[0] = 7.0
            with pytest.raises(AttributeError):
                setattr(each, name, np.zeros(3))
        np.testing.assert_array_equal(each.decision_function(X), before)


def test_numbers_of_a_path_are_not_edited_behind_its_models():
    X, y = blobs(seed=4, n=60, d=3, classes=2)
    path = ms.path(ms.learn(X, y), [0.1, 10.0])
    with pytest.raises(ValueError, match="read-only"):
        path.solutions[0].coefs[0] = 1.0
    path.coef_[:] = 0.0  # a copy
    assert path[0].coef_.any()
