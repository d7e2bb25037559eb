from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, roc_auc_score

import mergesvm as ms
from mergesvm.analysis.cross_validation.score_names import SCORINGS
from mergesvm.errors import (
    DataError,
    FoldWarning,
    FormError,
    IndefiniteError,
    KnowledgeError,
    ParameterError,
    SignatureError,
)
from reference import blobs

CS = [1e-3, 0.1, 10.0]


@pytest.fixture(scope="module")
def several():
    return blobs(seed=3, n=600, d=6, classes=4, offset=20.0)


@pytest.fixture(scope="module")
def two():
    X, y = blobs(seed=4, n=500, d=5, classes=2, offset=3.0)
    kept = (y == 0) | (np.arange(len(y)) % 4 == 0)  # unbalanced
    return X[kept], np.array(["no", "yes"])[y[kept]]


def loss_by_rows(model, X, y, weights, balanced):
    """Mean over problems of the mean squared loss, row by row."""
    scores, places = model.scores(X), np.searchsorted(model.classes_, y)
    n_classes = len(model.classes_)
    if isinstance(model, ms.PairwiseModel):
        pairs = [(i, j) for i in range(n_classes) for j in range(i + 1, n_classes)]
    losses = []
    for problem in range(scores.shape[1]):
        if isinstance(model, ms.PairwiseModel):
            i, j = pairs[problem]
            taking, target = (places == i) | (places == j), np.where(places == j, 1.0, -1.0)
        else:
            positive = problem if n_classes > 2 else 1
            taking, target = np.ones(len(y), bool), np.where(places == positive, 1.0, -1.0)
        squares = (target - scores[:, problem]) ** 2
        if balanced:
            by_class = {
                c: np.average(squares[places == c], weights=weights[places == c]) for c in np.unique(places[taking])
            }
            sides = [
                [loss for c, loss in by_class.items() if (target[places == c][0] > 0) == side] for side in (False, True)
            ]
            losses.append(np.mean([np.mean(side) for side in sides if side]))
        else:
            losses.append(np.average(squares[taking], weights=weights[taking]))
    return np.mean(losses)


def by_refitting(X, y, weights, numbers, options, scoring, fold):
    train, test = numbers != fold, numbers == fold
    model = ms.solve(ms.learn(X[train], y[train], weights[train]), **options)
    truth, seen, heavy = y[test], X[test], weights[test]
    if scoring == "accuracy":
        return accuracy_score(truth, model.predict(seen), sample_weight=heavy)
    if scoring == "balanced_accuracy":
        return balanced_accuracy_score(truth, model.predict(seen), sample_weight=heavy)
    if scoring == "neg_log_loss":
        return -log_loss(truth, model.predict_proba(seen), labels=model.classes_, sample_weight=heavy)
    if scoring == "roc_auc":
        probabilities = model.predict_proba(seen)
        if len(model.classes_) == 2:
            return roc_auc_score(truth, probabilities[:, 1], sample_weight=heavy)
        return np.mean(
            [
                roc_auc_score(truth == label, probabilities[:, at], sample_weight=heavy)
                for at, label in enumerate(model.classes_)
            ]
        )
    return -loss_by_rows(model, seen, truth, heavy, scoring == "neg_balanced_loss")


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("which", ["several", "two"])
def test_every_score_equals_refitting_on_the_rows(which, weighted, multiclass, request):
    X, y = request.getfixturevalue(which)
    generator = np.random.default_rng(0)
    weights = generator.integers(1, 4, len(y)).astype(float) if weighted else np.ones(len(y))
    numbers = generator.integers(0, 3, len(y))
    folds = ms.learn(X, y, weights if weighted else None, folds=numbers)
    found = ms.validate(
        folds,
        X,
        y,
        weights if weighted else None,
        numbers=numbers,
        Cs=CS,
        class_weights=[None, "balanced"],
        multiclass=multiclass,
        scoring=SCORINGS,
    )
    for at, options in enumerate(found.grid):
        given = {"C": options.C, "class_weight": options.class_weight, "multiclass": options.multiclass}
        for fold in range(3):
            for scoring in SCORINGS:
                wanted = by_refitting(X, y, weights, numbers, given, scoring, fold)
                np.testing.assert_allclose(found.scores[scoring][at, fold], wanted, rtol=1e-8, err_msg=scoring)


def test_losses_need_no_rows(several):
    X, y = several
    folds = ms.learn(X, y, folds=4)
    scoring = ["neg_squared_loss", "neg_balanced_loss"]
    for scheme in ("ovr", "ovo"):
        options = {"Cs": CS, "class_weights": [None, "inverse"], "multiclass": scheme, "scoring": scoring}
        blind, seeing = ms.validate(folds, **options), ms.validate(folds, X, y, **options)
        for name in scoring:
            np.testing.assert_array_equal(blind.scores[name], seeing.scores[name])
        assert len(blind.grid) == 6
        assert blind.exact("neg_squared_loss")
        assert not blind.exact("accuracy")


def test_losses_cannot_compare_one_vs_rest_with_one_vs_one(several):
    X, y = several
    folds, schemes = ms.learn(X, y, folds=4), ["ovr", "ovo"]
    with pytest.raises(ms.errors.ParameterError, match="cannot compare one-vs-rest with one-vs-one"):
        ms.validate(folds, multiclass=schemes)
    both = ms.validate(folds, Cs=[1.0], multiclass=schemes, scoring=["accuracy", "neg_squared_loss"])
    assert both.scores["neg_squared_loss"].shape == (2, 4)
    two = ms.learn(X[y != y[0]], (y[y != y[0]] == y[y != y[0]][0]).astype(int), folds=4)
    ms.validate(two, Cs=[1.0], multiclass=schemes)  # two classes are one problem in both schemes


@pytest.mark.parametrize("classes", [2, 4, 6, 10])
def test_the_balanced_loss_chooses_balanced_weights_for_rare_classes(classes):
    generator = np.random.default_rng(classes)
    centres = 2 * generator.normal(size=(classes, 8))
    prevalence = np.append(
        0.7 if classes > 2 else 0.93, np.full(classes - 1, (0.3 if classes > 2 else 0.07) / (classes - 1))
    )
    y = generator.choice(classes, 4000, p=prevalence)
    X = centres[y] + 1.5 * generator.normal(size=(4000, 8))
    found = ms.validate(
        ms.learn(X, y, folds=4),
        X,
        y,
        class_weights=[None, "balanced"],
        scoring=["neg_balanced_loss", "balanced_accuracy"],
    )
    assert found.best.class_weight == "balanced"
    accuracy = found.mean("balanced_accuracy")
    assert accuracy[found.best_index] > accuracy[: len(found.grid.Cs)].max()


def test_standardize_and_free_intercepts_are_validated(several):
    X, y = several
    numbers = np.arange(len(y)) % 3
    options = {"standardize": True, "penalize_intercept": False}
    found = ms.validate(ms.learn(X, y, folds=numbers), X, y, numbers=numbers, Cs=[0.1], scoring="accuracy", **options)
    for fold in range(3):
        train, test = numbers != fold, numbers == fold
        model = ms.solve(ms.learn(X[train], y[train]), 0.1, **options)
        assert found.scores["accuracy"][0, fold] == pytest.approx(model.score(X[test], y[test]), rel=1e-12)


def test_estimates_for_normal_rows_are_close():
    X, y = blobs(seed=8, n=40_000, d=4, classes=3, offset=1.0)
    folds = ms.learn(X, y, folds=4)
    names = ["accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc"]
    measured = ms.validate(folds, X, y, Cs=[1.0], multiclass=["ovr", "ovo"], scoring=names)
    guessed = ms.validate(folds, Cs=[1.0], multiclass=["ovr", "ovo"], scoring=names)
    for name in names[:3]:
        np.testing.assert_allclose(guessed.mean(name), measured.mean(name), atol=0.01, err_msg=name)
    assert "estimated" in repr(guessed)


def test_two_normal_classes_have_closed_forms(two):
    X, y = two
    model = ms.solve(ms.learn(X, y))
    from scipy.stats import norm

    from mergesvm.analysis.expected import expected

    guess = expected(model, ms.learn(X, y))
    scores = model.decision_function(X)
    means = [scores[y == label].mean() for label in ("no", "yes")]
    spreads = [scores[y == label].std() for label in ("no", "yes")]
    np.testing.assert_allclose(
        guess.recalls, [norm.cdf(-means[0] / spreads[0]), norm.sf(-means[1] / spreads[1])], rtol=1e-8
    )
    assert guess.auc == pytest.approx(norm.cdf((means[1] - means[0]) / np.hypot(*spreads)), rel=1e-8)
    odds = model.moments.log_odds(np.linspace(-30, 30, 200_001)[:, None])[:, 0]
    grid = np.linspace(-30, 30, 200_001)
    exact = [
        np.trapezoid(norm.pdf(grid, mean, spread) * np.logaddexp(0, sign * odds), grid)
        for mean, spread, sign in zip(means, spreads, (1, -1), strict=True)
    ]
    np.testing.assert_allclose(guess.log_losses, exact, rtol=1e-8)


def test_arrays_tables_sparse_rows_and_files_give_the_same_scores(several, tmp_path):
    X, y = several
    folds = ms.learn(X, y, folds=5)
    wanted = ms.validate(folds, X, y, Cs=CS, scoring=["accuracy", "roc_auc"])
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    backwards = ms.validate(folds, sparse.csr_array(X[::-1]), y[::-1], Cs=CS, scoring=["accuracy", "roc_auc"])
    scanned = ms.validate(
        folds, ms.scan(tmp_path / "rows.npz", label="y", batch_rows=70), Cs=CS, scoring=["accuracy", "roc_auc"]
    )
    for name in ("accuracy", "roc_auc"):
        np.testing.assert_allclose(backwards.scores[name], wanted.scores[name], rtol=1e-12)
        np.testing.assert_allclose(scanned.scores[name], wanted.scores[name], rtol=1e-12)


def test_roc_auc_of_many_candidates_takes_several_passes(several, monkeypatch):
    X, y = several
    folds = ms.learn(X, y, folds=3)
    wanted = ms.validate(folds, X, y, Cs=CS, class_weights=[None, "balanced"], scoring="roc_auc")
    monkeypatch.setattr("mergesvm.analysis.cross_validation.validation.MAX_KEPT_BYTES", 8 * X.shape[0] * 4 * 2)
    found = ms.validate(folds, X, y, Cs=CS, class_weights=[None, "balanced"], scoring="roc_auc")
    np.testing.assert_array_equal(found.scores["roc_auc"], wanted.scores["roc_auc"])


def test_feature_maps_are_validated():
    X, y = blobs(seed=9, n=400, d=3, classes=3)
    mapping = ms.features.Fourier(30, precision="float64").freeze(X)
    numbers = np.arange(len(y)) % 4
    folds = ms.learn(X, y, features=mapping, folds=numbers)
    found = ms.validate(folds, X, y, numbers=numbers, Cs=[1.0], scoring="accuracy")
    for fold in range(4):
        train, test = numbers != fold, numbers == fold
        model = ms.solve(ms.learn(X[train], y[train], features=mapping))
        assert found.scores["accuracy"][0, fold] == pytest.approx(model.score(X[test], y[test]))


@pytest.mark.filterwarnings("ignore::mergesvm.errors.FoldWarning")
def test_a_class_only_in_the_held_out_fold_is_always_wrong():
    X, y = blobs(seed=5, n=90, d=3, classes=3)
    numbers = np.where(y == 2, 0, np.arange(len(y)) % 3)
    folds = ms.learn(X, y, folds=numbers)
    found = ms.validate(
        folds, X, y, numbers=numbers, Cs=[1.0], multiclass=["ovr", "ovo"], scoring=["accuracy", "balanced_accuracy"]
    )
    model = ms.solve(ms.learn(X[numbers != 0], y[numbers != 0]))
    wanted = model.score(X[numbers == 0], y[numbers == 0])
    np.testing.assert_allclose(found.scores["accuracy"][:, 0], wanted)
    guess = ms.validate(folds, Cs=[1.0], scoring=["accuracy", "neg_squared_loss"])
    assert 0 < guess.scores["accuracy"][0, 0] < 1
    assert np.isfinite(guess.scores["neg_squared_loss"]).all()


def test_an_empty_fold_has_no_score(several):
    X, y = several
    numbers = np.where(np.arange(len(y)) % 2, 2, 0)
    found = ms.validate(
        ms.learn(X, y, folds=numbers), X, y, numbers=numbers, Cs=CS, scoring=["accuracy", "neg_squared_loss"]
    )
    assert np.isnan(found.scores["accuracy"][:, 1]).all()
    assert np.isfinite(found.mean()).all()


def test_the_best_candidate_is_solved_from_all_rows(several):
    X, y = several
    found = ms.validate(ms.learn(X, y, folds=5), X, y, Cs=CS, class_weights=["balanced", None], scoring="accuracy")
    means = found.mean()
    assert found.best_score == means.max()
    assert found.best == found.grid[int(np.argmax(means))]
    model = ms.solve(ms.learn(X, y), found.best.C, found.best.class_weight)
    np.testing.assert_allclose(found.solve().coef_, model.coef_, rtol=1e-9)
    rows = found.table()
    assert len(rows) == 6
    assert rows[0]["accuracy"] == means[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scoring": "f1"}, "scoring must be one or more of"),
        ({"scoring": []}, "scoring must be one or more of"),
        ({"Cs": []}, "Cs must be a list"),
        ({"Cs": [0.0]}, "Cs must be a positive number"),
        ({"Cs": "many"}, "Cs must be a list"),
        ({"class_weights": "heavy"}, "class_weights must be one of"),
        ({"class_weights": []}, "class_weights is empty"),
        ({"multiclass": "all"}, "multiclass must be"),
        ({"X": [[1.0]], "y": [0], "scoring": "accuracy"}, "learned from 6"),
        ({"X": [[1.0] * 6], "y": [77], "scoring": "accuracy"}, "in none of the folds"),
    ],
)
def test_invalid_options_raise_errors(several, options, message):
    X, y = several
    with pytest.raises((ParameterError, DataError), match=message):
        ms.validate(ms.learn(X, y, folds=3), **options)


def test_only_folds_with_rows_are_validated(several):
    X, y = several
    with pytest.raises(TypeError, match="learned with folds=5"):
        ms.validate(ms.learn(X, y))
    empty = ms.Knowledge.zero(ms.learn(X, y).signature)
    with pytest.raises(KnowledgeError, match="The folds have no rows"):
        ms.validate(ms.Folds([empty, empty]))
    by_hand = ms.learn(X, y, folds=np.arange(len(y)) % 3)
    with pytest.raises(ParameterError, match="Give them again"):
        ms.validate(by_hand, X, y, scoring="accuracy")


def test_the_path_equals_solving_at_each_c(several):
    X, y = several
    knowledge = ms.learn(X, y)
    for options in (
        {},
        {"class_weight": "inverse"},
        {"multiclass": "ovo"},
        {"standardize": True, "penalize_intercept": False},
    ):
        path = ms.path(knowledge, CS, **options)
        assert len(path) == len(CS)
        for C, model, coefs, intercepts in zip(CS, path, path.coef_, path.intercept_, strict=True):
            exact = ms.solve(knowledge, C, **options)
            np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-9)
            np.testing.assert_allclose(coefs, exact.coef_, rtol=1e-9)
            np.testing.assert_allclose(intercepts, exact.intercept_, rtol=1e-9)
            np.testing.assert_allclose(model.predict_proba(X[:9]), exact.predict_proba(X[:9]), rtol=1e-8)


def test_the_path_keeps_precision_for_features_of_very_different_scales():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((2000, 20)) * 10.0 ** generator.integers(-4, 5, 20)
    X[:, 3] = generator.random(2000) < 0.002
    y = (X[:, 0] / X[:, 0].std() + generator.standard_normal(2000) > 0).astype(int)
    knowledge, scale = ms.learn(X, y), X.std(axis=0)
    for C, model in zip((path := ms.path(knowledge)).Cs, path, strict=True):
        exact = ms.solve(knowledge, C)
        error = np.abs((model.coef_ - exact.coef_) * scale).max()
        assert error < 1e-9 * np.abs(exact.coef_ * scale).max()


def test_rows_must_be_those_that_were_learned(several):
    X, y = several
    table = pd.DataFrame(X, columns=list("abcdef"))
    folds = ms.learn(table, y, folds=3)
    with pytest.raises(DataError, match="named 'f', but 'a' is expected there"):
        ms.validate(folds, table[list("fedcba")], y, scoring="accuracy")
    with pytest.raises(DataError, match="Give the rows, weights, groups or folds"):
        ms.validate(folds, X + 5, y, scoring="accuracy")
    with pytest.raises(DataError, match="Give the rows, weights, groups or folds"):
        ms.validate(folds, X, y, np.full(len(y), 2.0), scoring="accuracy")
    with pytest.raises(DataError, match="Give the rows, weights, groups or folds"):
        ms.validate(folds).calibrated(X[:-20], y[:-20])
    numbers = np.arange(len(y)) % 3
    by_hand = ms.learn(X, y, folds=numbers)
    for wrong in (numbers + 0.7, numbers + 1, numbers[:-1]):
        with pytest.raises(ParameterError, match="numbers must be"):
            ms.validate(by_hand, X, y, numbers=wrong, scoring="accuracy")


def test_indefinite_sums_raise_an_error(several):
    X, y = several
    wrong = ms.subtract(ms.learn(X, y, folds=3), ms.learn(X[:30] * 9, y[:30], folds=3), force=True)
    with pytest.raises(IndefiniteError):
        ms.validate(wrong)


def test_estimates_and_measurements_agree_on_unseen_classes():
    X, y = blobs(seed=6, n=200, d=3, classes=2)
    y = np.where(np.arange(len(y)) < 40, 1, 0)
    numbers = np.repeat(np.arange(5), 40)
    folds, options = ms.learn(X, y, folds=numbers), {"Cs": [1.0], "scoring": SCORINGS[2:5]}
    with pytest.warns(FoldWarning, match="All rows of class 1 are in fold 0"):
        guess = ms.validate(folds, **options)
    with pytest.warns(FoldWarning):
        exact = ms.validate(folds, X, y, numbers=numbers, **options)
    for name in guess.scores:
        np.testing.assert_allclose(guess.scores[name][0, 0], exact.scores[name][0, 0], rtol=1e-12)


def test_the_auc_of_a_fold_without_a_class_is_that_of_the_others():
    X, y = blobs(seed=7, n=300, d=3, classes=3)
    numbers = np.arange(len(y)) % 3
    kept = (numbers != 0) | (y != 2)
    X, y, numbers = X[kept], y[kept], numbers[kept]
    found = ms.validate(ms.learn(X, y, folds=numbers), X, y, numbers=numbers, Cs=[1.0], scoring="roc_auc")
    model = ms.solve(ms.learn(X[numbers != 0], y[numbers != 0]))
    probabilities, truth = model.predict_proba(X[numbers == 0]), y[numbers == 0]
    wanted = np.mean([roc_auc_score(truth == label, probabilities[:, label]) for label in (0, 1)])
    assert found.scores["roc_auc"][0, 0] == pytest.approx(wanted, rel=1e-10)


def test_roc_auc_of_one_c_and_many_settings_takes_several_passes(several, monkeypatch):
    X, y = several
    folds = ms.learn(X, y, folds=3)
    options = {"Cs": [1.0], "class_weights": [None, "balanced", {0: 2.0}], "scoring": "roc_auc"}
    wanted = ms.validate(folds, X, y, **options)
    monkeypatch.setattr("mergesvm.analysis.cross_validation.validation.MAX_KEPT_BYTES", 1)
    np.testing.assert_array_equal(ms.validate(folds, X, y, **options).scores["roc_auc"], wanted.scores["roc_auc"])


def test_expected_needs_the_features_of_the_model(several):
    X, y = several
    model = ms.solve(ms.learn(pd.DataFrame(X, columns=list("abcdef")), y))
    with pytest.raises(
        SignatureError, match=r"columns named 'f', .* but the model 6 columns named 'a', .* in the same order"
    ):
        ms.expected(model, ms.learn(pd.DataFrame(X[:, ::-1], columns=list("fedcba")), y))
    folds = ms.learn(pd.DataFrame(X, columns=list("abcdef")), y, folds=3)
    assert ms.expected(model, folds).accuracy == pytest.approx(ms.expected(model, folds.total).accuracy)


def test_too_many_one_vs_one_scores_are_not_estimated():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(300, 4)), np.arange(300) % 30
    folds = ms.learn(X, y, folds=np.arange(300) // 30 % 2)
    with pytest.raises(FormError, match="Measure on rows"):
        ms.validate(folds, Cs=[1.0], multiclass="ovo", scoring="accuracy")
    assert np.isfinite(ms.validate(folds, Cs=[1.0], multiclass="ovo", scoring="roc_auc").best_score)
