from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mergesvm as ms
from mergesvm import MergeSVC
from reference import blobs


@pytest.fixture
def data():
    return blobs(seed=20, n=600, d=5, classes=3, offset=20.0)


def assert_same_model(one, other, X):
    np.testing.assert_array_equal(one.classes_, other.classes_)
    np.testing.assert_allclose(one.model_.scores(X), other.model_.scores(X), atol=1e-10)


def test_partial_fit_matches_fit(data):
    X, y = data
    order = np.argsort(y)  # classes come one after another
    sliced = MergeSVC(C=3.0)
    for part in np.array_split(order, 7):
        sliced.partial_fit(X[part], y[part])
    assert_same_model(sliced, MergeSVC(C=3.0).fit(X, y), X)


def test_partial_fit_accepts_tables_sparse_arrays_and_weights(data):
    X, y = data
    sliced = MergeSVC().fit(X[:200], y[:200])
    sliced.partial_fit(sparse.csr_array(X[200:400]), y[200:400])
    sliced.partial_fit(X[400:].tolist(), y[400:].tolist(), sample_weight=np.ones(200))
    assert_same_model(sliced, MergeSVC().fit(X, y), X)


def test_forget_matches_fit_on_the_remaining_rows(data):
    X, y = data
    machine = MergeSVC(multiclass="ovo").fit(X, y).forget(X[:100], y[:100])
    assert_same_model(machine, MergeSVC(multiclass="ovo").fit(X[100:], y[100:]), X)


def test_a_class_can_be_forgotten(data):
    X, y = data
    machine = MergeSVC().fit(X, y).forget(X[y == 1], y[y == 1])
    assert machine.classes_.tolist() == [0, 2]
    assert_same_model(machine, MergeSVC().fit(X[y != 1], y[y != 1]), X)


def test_all_rows_can_be_forgotten_and_learned_again(data):
    X, y = data
    machine = MergeSVC().fit(X, y).forget(X, y)
    with pytest.raises(ms.errors.KnowledgeError, match="so it cannot be solved"):
        machine.predict(X)
    assert_same_model(machine.partial_fit(X, y), MergeSVC().fit(X, y), X)


def test_merge_matches_fit(data):
    X, y = data
    here, there = MergeSVC().fit(X[:250], y[:250]), MergeSVC().fit(X[250:], y[250:])
    before = here.coef_
    both = here + there
    assert both is not here
    np.testing.assert_array_equal(here.coef_, before)
    assert_same_model(both, MergeSVC().fit(X, y), X)
    assert_same_model(here.merge(there), both, X)
    with pytest.raises(TypeError):
        here + 1


def test_resolve_matches_fit_with_other_parameters(data):
    X, y = data
    machine = MergeSVC().fit(X, y)
    for terms in ({"C": 0.01}, {"class_weight": "balanced"}, {"multiclass": "ovo"}, {"standardize": True}):
        machine.resolve(**terms)
        assert_same_model(machine, MergeSVC(**machine.get_params()).fit(X, y), X)
    assert machine.get_params()["C"] == 0.01


def test_a_failure_changes_nothing(data):
    X, y = data
    machine = MergeSVC().fit(X, y)
    before, parameters = machine.decision_function(X), machine.get_params()
    with pytest.raises(ms.errors.SubtractionError):
        machine.forget(X, np.where(y == 0, 9, y))
    with pytest.raises(ms.errors.ParameterError):
        machine.resolve(C=-1)
    with pytest.raises(ms.errors.ParameterError, match="'precision' cannot be changed without data"):
        machine.resolve(precision="float32")
    with pytest.raises(ms.errors.DataError):
        machine.partial_fit(np.full((1, 5), np.nan), [0])
    with pytest.raises(ValueError, match="4 features"):
        machine.partial_fit(X[:, :4], y)
    with pytest.raises(ms.errors.SignatureError, match="text labels"):
        machine.partial_fit(X, y.astype(str))
    with pytest.raises(ms.errors.SignatureError):
        machine.merge(MergeSVC().fit(X[:, :4], y))
    with pytest.raises(ms.errors.ParameterError, match="Class 2 in y is not among"):
        machine.partial_fit(X, y, classes=[0, 1])
    assert machine.get_params() == parameters
    np.testing.assert_array_equal(machine.decision_function(X), before)


def test_pipelines_and_searches_of_scikit_learn():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    machine = MergeSVC(standardize=True)
    assert cross_val_score(machine, X, y).mean() > 0.94
    piped = make_pipeline(StandardScaler(), MergeSVC())
    search = GridSearchCV(piped, {"mergesvc__C": [0.001, 1.0], "mergesvc__class_weight": [None, "balanced"]}).fit(X, y)
    assert search.best_score_ > 0.94
    fitted = machine.fit(X, y)
    assert fitted.feature_names_in_.tolist() == X.columns.tolist()
    assert fitted.knowledge_.signature.names == tuple(X.columns)
    assert fitted.n_features_in_ == 30
    assert not hasattr(clone(fitted), "knowledge_")
    assert repr(MergeSVC(C=2.0, multiclass="ovo")) == "MergeSVC(C=2.0, multiclass='ovo')"
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))


def test_feature_names_are_kept_and_checked():
    X, y = load_iris(return_X_y=True, as_frame=True)
    machine = MergeSVC().fit(X[:75], y[:75]).partial_fit(X[75:], y[75:])
    assert_same_model(machine, MergeSVC().fit(X, y), X)
    with pytest.raises(ValueError, match="feature names"):
        machine.partial_fit(X.rename(columns={X.columns[0]: "other"}), y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        machine.predict(X.to_numpy())
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        machine.partial_fit(X.to_numpy(), y)


def test_text_labels_are_returned_unchanged():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"], dtype=object)[y]
    for labels in (names, pd.Series(names, dtype="category"), list(names)):
        machine = MergeSVC(multiclass="ovo").fit(X, labels)
        assert set(machine.predict(X)) == {"setosa", "versicolor", "virginica"}
        assert machine.score(X, list(names)) > 0.95


def test_not_fitted_error_before_fit():
    for ask in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(MergeSVC(), ask)([[1.0]])
    for ask in ("coef_", "intercept_", "classes_", "model_"):
        with pytest.raises(NotFittedError):
            getattr(MergeSVC(), ask)
    for verb in (lambda m: m.forget([[1.0]], [1]), lambda m: m.resolve(C=1.0), lambda m: m.merge(m), lambda m: m + m):
        with pytest.raises(NotFittedError):
            verb(MergeSVC())


def test_pooled_class_weights_are_fixed_when_learning(data):
    X, y = data
    weights = {0: 1.0, 1: 5.0, 2: 0.5}
    pooled = MergeSVC(per_class=False, class_weight=weights).fit(X, y)
    assert_same_model(pooled, MergeSVC(class_weight=weights).fit(X, y), X)
    assert_same_model(pooled.resolve(C=0.1), MergeSVC(C=0.1, class_weight=weights).fit(X, y), X)
    for changed in ("balanced", None, {0: 1.0, 1: 1.0, 2: 1.0}):
        with pytest.raises(ms.errors.FormError, match="fixed when learning"):
            pooled.resolve(class_weight=changed)
    with pytest.raises(ms.errors.ParameterError, match="before the counts are known"):
        MergeSVC(per_class=False, class_weight="balanced").fit(X, y)


def test_failed_fit_changes_nothing(data):
    X, y = data
    machine = MergeSVC()
    with pytest.raises(ms.errors.DataError):
        machine.fit(pd.DataFrame(np.full((4, 2), np.nan), columns=["a", "b"]), [0, 1, 0, 1])
    with pytest.raises(NotFittedError):
        machine.predict(X)
    machine.fit(X, y)
    before = machine.predict(X)
    with pytest.raises(ms.errors.DataError):
        machine.fit(np.full((4, 9), np.nan), [0, 1, 0, 1])
    assert machine.n_features_in_ == 5
    np.testing.assert_array_equal(machine.predict(X), before)


def test_names_that_are_not_strings_are_ignored(data):
    X, y = data
    machine = MergeSVC().partial_fit(pd.DataFrame(X), y).partial_fit(X, y)
    assert machine.knowledge_.signature.names is None
    assert_same_model(machine.forget(pd.DataFrame(X), y), MergeSVC().fit(X, y), X)
    with pytest.raises(ms.errors.DataError, match="'a' occurs more than once"):
        MergeSVC().fit(pd.DataFrame(X[:, :2], columns=["a", "a"]), y)


def test_classes_may_be_any_sequence(data):
    X, y = data
    for classes in ([0, 1, 2], {0, 1, 2}, np.arange(3), range(5)):
        assert MergeSVC().partial_fit(X, y, classes=classes).classes_.tolist() == sorted(classes)


def test_per_class_of_the_knowledge_takes_precedence_over_the_parameter(data):
    X, y = data
    machine = MergeSVC(class_weight="balanced").fit(X, y).set_params(per_class=False)
    assert_same_model(machine.resolve(C=1.0), MergeSVC(class_weight="balanced").fit(X, y), X)


def test_estimators_and_knowledge_can_be_merged(data):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcde"))
    expected = MergeSVC(C=2.0).fit(frame, y)
    made = MergeSVC(C=2.0).merge(ms.learn(frame, y))
    assert made.feature_names_in_.tolist() == list("abcde")
    assert made.n_features_in_ == 5
    assert_same_model(made, expected, frame)
    halves = [MergeSVC(C=2.0).fit(frame[i::2], y[i::2]) for i in range(2)]
    assert_same_model(sum(halves), expected, frame)
    assert_same_model(halves[0] + halves[1].knowledge_, expected, frame)
    with pytest.raises(TypeError, match="not with int"):
        made.merge(3)


def test_new_parameters_take_effect_with_fit_or_resolve(data):
    X, y = data
    for learned in (MergeSVC(C=5.0).fit(X, y), MergeSVC(C=5.0).partial_fit(X, y)):
        learned.set_params(C=0.001)
        assert_same_model(learned, MergeSVC(C=5.0).fit(X, y), X)
        assert_same_model(learned.resolve(), MergeSVC(C=0.001).fit(X, y), X)
    with pytest.raises(ms.errors.ParameterError, match=r"'C' parameter of MergeSVC must be .* Got -5"):
        MergeSVC(C=-5).partial_fit(X, y)
    with pytest.raises(ms.errors.ParameterError, match="'c' is not a parameter"):
        learned.resolve(c=3)


def test_failure_or_interrupt_restores_n_features_in(data, monkeypatch):
    X, y = data
    machine = MergeSVC()
    with pytest.raises(ms.errors.DataError):
        machine.partial_fit(np.full((3, 4), np.nan), [0, 1, 0])
    assert not hasattr(machine, "n_features_in_")
    machine.fit(X, y)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("mergesvm.estimators.merge_svc.learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        machine.fit(X[:, :2], y)
    assert machine.n_features_in_ == 5
    assert machine.predict(X).shape == y.shape


def test_failed_first_partial_fit_or_merge_leaves_the_estimator_unfitted(data):
    X, y = data
    for refused in (
        lambda machine: machine.partial_fit(X, y, classes=[0, 1]),
        lambda machine: machine.set_params(C=-1.0).merge(ms.learn(X, y)),
    ):
        machine = MergeSVC()
        with pytest.raises(ms.errors.ParameterError):
            refused(machine)
        assert not hasattr(machine, "n_features_in_")
        assert not hasattr(machine, "knowledge_")


def test_new_parameters_without_sums_per_class_take_effect_with_fit(data):
    X, y = data
    weights = {0: 1.0, 1: 5.0, 2: 0.5}
    machine = MergeSVC(per_class=False, class_weight=weights).partial_fit(X, y).set_params(class_weight=None)
    assert_same_model(machine, MergeSVC(class_weight=weights).fit(X, y), X)
