"""Importance of features, against refitting on the rows with numpy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import StandardScaler

import mergesvm as ms
from mergesvm.analysis.importance import Elimination, eliminate, standardized_coefficients
from mergesvm.errors import FormError, KnowledgeError, ParameterError, SignatureError


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return X[:, :8], y


def ridge_loss(X, y, test, truth, C):
    """Mean over one-vs-rest problems of the mean of (1 - y f)^2, by scikit-learn."""
    ridge = RidgeClassifier(alpha=1 / C).fit(X, y)
    scores = ridge.decision_function(test)
    signs = np.where(truth[:, None] == ridge.classes_, 1, -1)
    return ((1 - signs * scores) ** 2).mean()


def split(X, y, folds=4):
    fold = np.arange(len(y)) % folds
    return [(X[fold != f], y[fold != f], X[fold == f], y[fold == f]) for f in range(folds)]


def test_training_and_held_out_losses_equal_scikit_learn(wine):
    X, y = wine
    parts = split(X, y)
    pairs = [(ms.learn(X1, y1), ms.learn(X2, y2)) for X1, y1, X2, y2 in parts]
    elimination = eliminate(ms.learn(X, y), 0.2, penalize_intercept=False, held_out=pairs)
    assert len(elimination.order) == 7
    for step in range(8):
        rest = elimination.features(8 - step)
        assert set(rest) == set(range(8)) - set(elimination.order[:step].tolist())
        inside = ridge_loss(X[:, rest], y, X[:, rest], y, 0.2)
        outside = np.mean([ridge_loss(X1[:, rest], y1, X2[:, rest], y2, 0.2) for X1, y1, X2, y2 in parts])
        np.testing.assert_allclose(elimination.loss[step], inside, rtol=1e-8)
        np.testing.assert_allclose(elimination.held_out_loss[step], outside, rtol=1e-8)
    assert elimination.best == 8 - np.argmin(elimination.held_out_loss)


def test_each_step_removes_the_feature_with_the_smallest_rise_by_brute_force(wine):
    X, y = wine
    X = StandardScaler().fit_transform(X)

    def objective(features):
        model = ms.solve(ms.learn(X[:, features], y), 0.5)
        signs = np.where(y[:, None] == np.arange(3), 1, -1)
        loss = ((1 - signs * (X[:, features] @ model.coef_.T + model.intercept_)) ** 2).sum()
        return 0.5 * ((model.coef_**2).sum() + (model.intercept_**2).sum()) + 0.25 * loss

    elimination = eliminate(ms.learn(X, y), 0.5)
    left = list(range(8))
    for step, removed in enumerate(elimination.order.tolist()):
        np.testing.assert_allclose(elimination.objective[step], objective(left), rtol=1e-10)
        costs = {feature: objective([other for other in left if other != feature]) for feature in left}
        assert removed == min(costs, key=costs.get)
        left.remove(removed)
    assert elimination.features(1).tolist() == left


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_with_all_features_folds_give_the_cross_validated_loss(wine, class_weight, multiclass):
    X, y = wine
    folds = ms.learn(X, y, folds=5)
    options = {"multiclass": multiclass, "standardize": True}
    elimination = eliminate(folds, 0.1, class_weight, **options)
    for n in (8, 4, 1):
        part = folds.select(elimination.features(n))
        loss = -ms.validate(part, Cs=[0.1], class_weights=[class_weight], **options).best_score
        np.testing.assert_allclose(elimination.held_out_loss[8 - n], loss, rtol=1e-9)
    given = eliminate(folds.total, 0.1, class_weight, held_out=folds, **options)
    np.testing.assert_allclose(given.held_out_loss, elimination.held_out_loss, rtol=1e-12)


def test_anchors_of_training_and_held_out_parts_may_differ(wine):
    X, y = wine
    pairs = [(ms.learn(X1, y1), ms.learn(X2, y2)) for X1, y1, X2, y2 in split(X, y)]
    moved = [(train, test.about(test.anchor + 3.0)) for train, test in pairs]
    one, other = (eliminate(ms.learn(X, y), held_out=each).held_out_loss for each in (pairs, moved))
    np.testing.assert_allclose(one, other, rtol=1e-9)


def test_a_class_missing_from_training_or_from_the_held_out_rows_is_left_out(wine):
    X, y = wine
    whole, two = ms.learn(X, y), ms.learn(X[y < 2], y[y < 2])
    loss = eliminate(whole, held_out=[(whole, two)], max_steps=0).held_out_loss[0]
    model = ms.solve(whole)
    signs = np.where(y[y < 2, None] == np.arange(3), 1, -1)
    np.testing.assert_allclose(loss, ((1 - signs * model.scores(X[y < 2])) ** 2).mean(), rtol=1e-9)
    same = eliminate(whole, held_out=[(two, two)]).held_out_loss
    np.testing.assert_allclose(eliminate(whole, held_out=[(two, whole)]).held_out_loss, same, rtol=1e-12)


def test_the_pooled_form_gives_the_same_one_vs_rest(wine):
    X, y = wine
    pooled, apart = ms.learn(X, y, per_class=False), ms.learn(X, y)
    one, other = eliminate(pooled, held_out=[(pooled, pooled)]), eliminate(apart, held_out=[(apart, apart)])
    assert one.order.tolist() == other.order.tolist()
    for name in ("objective", "loss", "held_out_loss"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9)
    with pytest.raises(FormError, match="One-vs-one"):
        eliminate(pooled, multiclass="ovo")
    with pytest.raises(FormError, match="Class weights of pooled"):
        eliminate(pooled, class_weight="balanced")


def test_features_of_a_map_are_numbered(wine):
    X, y = wine
    layer = ms.features.Fourier(6, seed=0, precision="float64").freeze(X)
    knowledge = ms.learn(X, y, features=layer)
    elimination = eliminate(knowledge)
    assert elimination.names == tuple(f"feature {i}" for i in range(6))
    mapped = ms.learn(layer.transform(X), y)
    np.testing.assert_allclose(elimination.objective, eliminate(mapped).objective, rtol=1e-9)
    assert standardized_coefficients(ms.solve(knowledge), knowledge).names[0] == "feature 0"


def test_elimination_stops_at_keep_or_max_steps(wine):
    X, y = wine
    knowledge = ms.learn(X, y, feature_names=list("abcdefgh"))
    whole = eliminate(knowledge)
    assert eliminate(knowledge, keep=6).order.tolist() == whole.order[:2].tolist()
    short = eliminate(knowledge, max_steps=2)
    assert short.order.tolist() == whole.order[:2].tolist()
    assert short.best is None
    assert short.features(8).tolist() == list(range(8))
    with pytest.raises(ParameterError, match="n must be a number of features from 6 to 8, not 5"):
        short.features(5)
    rows = short.table()
    assert [row["features"] for row in rows] == [8, 7, 6]
    assert [row["removed"] for row in rows] == [None, *("abcdefgh"[i] for i in short.order)]
    assert [row["loss"] for row in rows] == short.loss.tolist()
    assert "held-out loss" not in rows[0]
    same = eliminate(knowledge, held_out=[(knowledge, knowledge)], max_steps=1)
    assert same.table()[1]["held-out loss"] == pytest.approx(same.loss[1], rel=1e-12)
    assert eliminate(ms.learn(X, y), max_steps=0).names[3] == "column 3"
    assert repr(short) == "Elimination of 2 of 8 features"


def test_of_losses_equal_to_rounding_the_fewest_features_are_best():
    losses = np.array([0.5, 0.4, 0.4 + 1e-16, 0.6])
    assert Elimination(tuple("abcd"), np.arange(3), losses, losses, losses).best == 2


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_standardised_coefficients_equal_those_of_a_model_on_scaled_features(wine, multiclass):
    X, y = wine
    weights = np.random.default_rng(0).choice([0.5, 2.0], len(y))
    knowledge = ms.learn(X, y, weights)
    model = ms.solve(knowledge, multiclass=multiclass, class_weight="balanced")
    deviation = np.sqrt(np.average((X - np.average(X, axis=0, weights=weights)) ** 2, axis=0, weights=weights))
    importance = standardized_coefficients(model, knowledge)
    np.testing.assert_allclose(importance.coefs, model.coef_ * deviation, rtol=1e-10)
    np.testing.assert_allclose(importance.overall, np.sqrt(((model.coef_ * deviation) ** 2).mean(axis=0)), rtol=1e-10)
    rows = importance.table()
    assert rows[0]["feature"] == f"column {np.argmax(importance.overall)}"
    assert [row["importance"] for row in rows] == sorted(importance.overall.tolist(), reverse=True)


def test_standardised_coefficients_equal_those_of_a_scaled_ridge():
    X, y = load_breast_cancer(return_X_y=True)
    knowledge = ms.learn(X, y)
    model = ms.solve(knowledge, 0.01, standardize=True, penalize_intercept=False)
    ridge = RidgeClassifier(alpha=100.0).fit(StandardScaler().fit_transform(X), y)
    np.testing.assert_allclose(standardized_coefficients(model, knowledge).coefs[0], ridge.coef_.ravel(), rtol=1e-8)


def test_a_constant_feature_has_no_importance(wine):
    X, y = wine
    knowledge = ms.learn(np.insert(X, 2, 1e6 + 0.1, axis=1), y)
    assert standardized_coefficients(ms.solve(knowledge), knowledge).overall[2] == 0


def test_invalid_arguments_raise_errors(wine):
    X, y = wine
    knowledge, narrow = ms.learn(X, y), ms.learn(X[:, :3], y)
    for keep in (0, 9, 1.5, True, "all"):
        with pytest.raises(ParameterError, match="keep must be a number of features from 1 to 8"):
            eliminate(knowledge, keep=keep)
    for steps in (-1, 0.5, False):
        with pytest.raises(ParameterError, match="max_steps"):
            eliminate(knowledge, max_steps=steps)
    with pytest.raises(ParameterError, match="C must be"):
        eliminate(knowledge, C=0)
    with pytest.raises(ParameterError, match="multiclass"):
        eliminate(knowledge, multiclass="all")
    with pytest.raises(TypeError, match="Only knowledge"):
        eliminate(X)
    with pytest.raises(KnowledgeError, match="so it cannot be solved"):
        eliminate(knowledge - knowledge)
    with pytest.raises(ParameterError, match="held_out is empty"):
        eliminate(knowledge, held_out=[])
    for wrong in ([knowledge], [(knowledge, X)], [(knowledge,)], 3):
        with pytest.raises(ParameterError, match="pairs of training and held-out knowledge"):
            eliminate(knowledge, held_out=wrong)
    with pytest.raises(SignatureError, match="knowledge of 3 features"):
        eliminate(knowledge, held_out=[(knowledge, narrow)])
    with pytest.raises(KnowledgeError, match="Pair 0 of held_out has no class that is in both"):
        eliminate(knowledge, held_out=[(knowledge.only([0]), knowledge.only([1]))])
    with pytest.raises(SignatureError, match="knowledge of 3 features"):
        standardized_coefficients(ms.solve(knowledge), narrow)
    with pytest.raises(TypeError, match="coefficients"):
        standardized_coefficients(knowledge, knowledge)
