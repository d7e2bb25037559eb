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
from sklearn.utils.estimator_checks import parametrize_with_checks

import mergesvm as ms
from maps import expected_failed_checks_of_maps
from mergesvm import MergeSVC
from reference import blobs

LINEAR = [
    MergeSVC(),
    MergeSVC(multiclass="ovo"),
    MergeSVC(class_weight="complement", standardize=True),
    MergeSVC(penalize_intercept=False, per_class=False),
]
MAPPED = [
    MergeSVC(features="hidden", n_features=50, random_state=0),
    MergeSVC(features="fourier", n_features=50, random_state=0),
    MergeSVC(features="nystroem:5,precision=float64", random_state=0),
]


@parametrize_with_checks(LINEAR)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@parametrize_with_checks(MAPPED, expected_failed_checks=expected_failed_checks_of_maps)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_accepts_it_with_a_map(estimator, check):
    check(estimator)


@pytest.fixture
def data():
    return blobs(seed=20, n=600, d=5, classes=3, offset=20.0)


def assert_same_model(one, other, X):
    np.testing.assert_array_equal(one.classes_, other.classes_)
    np.testing.assert_allclose(one.model_.scores(X), other.model_.scores(X), atol=1e-10)


def test_slices_give_the_batch_model(data):
    X, y = data
    order = np.argsort(y)  # classes come one after another
    sliced = MergeSVC(C=3.0)
    for part in np.array_split(order, 7):
        sliced.partial_fit(X[part], y[part])
    assert_same_model(sliced, MergeSVC(C=3.0).fit(X, y), X)


def test_a_slice_may_come_as_a_table_a_sparse_array_or_with_weights(data):
    X, y = data
    sliced = MergeSVC().fit(X[:200], y[:200])
    sliced.partial_fit(sparse.csr_array(X[200:400]), y[200:400])
    sliced.partial_fit(X[400:].tolist(), y[400:].tolist(), sample_weight=np.ones(200))
    assert_same_model(sliced, MergeSVC().fit(X, y), X)


def test_forgotten_rows_leave_no_trace(data):
    X, y = data
    machine = MergeSVC(multiclass="ovo").fit(X, y).forget(X[:100], y[:100])
    assert_same_model(machine, MergeSVC(multiclass="ovo").fit(X[100:], y[100:]), X)


def test_a_class_can_be_forgotten(data):
    X, y = data
    machine = MergeSVC().fit(X, y).forget(X[y == 1], y[y == 1])
    assert machine.classes_.tolist() == [0, 2]
    assert_same_model(machine, MergeSVC().fit(X[y != 1], y[y != 1]), X)


def test_everything_can_be_forgotten_and_learned_anew(data):
    X, y = data
    machine = MergeSVC().fit(X, y).forget(X, y)
    with pytest.raises(ms.errors.KnowledgeError, match="nothing to solve"):
        machine.predict(X)
    assert_same_model(machine.partial_fit(X, y), MergeSVC().fit(X, y), X)


def test_merged_machines_are_the_batch_machine(data):
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


def test_resolving_is_fitting_on_other_terms(data):
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


def test_it_is_at_home_in_scikit_learn():
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


def test_names_of_features_are_kept_and_checked():
    X, y = load_iris(return_X_y=True, as_frame=True)
    machine = MergeSVC().fit(X[:75], y[:75]).partial_fit(X[75:], y[75:])
    assert_same_model(machine, MergeSVC().fit(X, y), X)
    with pytest.raises(ValueError, match="feature names"):
        machine.partial_fit(X.rename(columns={X.columns[0]: "other"}), y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        machine.predict(X.to_numpy())
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        machine.partial_fit(X.to_numpy(), y)


def test_text_labels_come_back_as_they_were():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"], dtype=object)[y]
    for labels in (names, pd.Series(names, dtype="category"), list(names)):
        machine = MergeSVC(multiclass="ovo").fit(X, labels)
        assert set(machine.predict(X)) == {"setosa", "versicolor", "virginica"}
        assert machine.score(X, list(names)) > 0.95


def test_before_fitting_there_is_nothing_to_ask():
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


def test_a_fit_that_fails_teaches_nothing(data):
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


def test_names_that_are_not_text_are_no_names(data):
    X, y = data
    machine = MergeSVC().partial_fit(pd.DataFrame(X), y).partial_fit(X, y)
    assert machine.knowledge_.signature.names is None
    assert_same_model(machine.forget(pd.DataFrame(X), y), MergeSVC().fit(X, y), X)
    with pytest.raises(ms.errors.DataError, match="'a' occurs more than once"):
        MergeSVC().fit(pd.DataFrame(X[:, :2], columns=["a", "a"]), y)


def test_classes_may_be_given_in_any_manner(data):
    X, y = data
    for classes in ([0, 1, 2], {0, 1, 2}, np.arange(3), range(5)):
        assert MergeSVC().partial_fit(X, y, classes=classes).classes_.tolist() == [0, 1, 2]


def test_the_form_of_the_knowledge_counts_not_that_of_the_parameters(data):
    X, y = data
    machine = MergeSVC(class_weight="balanced").fit(X, y).set_params(per_class=False)
    assert_same_model(machine.resolve(C=1.0), MergeSVC(class_weight="balanced").fit(X, y), X)


def test_machines_and_knowledge_go_together(data):
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


def test_parameters_set_later_wait_for_fit_or_resolve(data):
    X, y = data
    for learned in (MergeSVC(C=5.0).fit(X, y), MergeSVC(C=5.0).partial_fit(X, y)):
        learned.set_params(C=0.001)
        assert_same_model(learned, MergeSVC(C=5.0).fit(X, y), X)
        assert_same_model(learned.resolve(), MergeSVC(C=0.001).fit(X, y), X)
    with pytest.raises(ms.errors.ParameterError, match=r"'C' parameter of MergeSVC must be .* Got -5"):
        MergeSVC(C=-5).partial_fit(X, y)
    with pytest.raises(ms.errors.ParameterError, match="'c' is not a parameter"):
        learned.resolve(c=3)


def test_what_fails_or_is_interrupted_leaves_the_width_as_it_was(data, monkeypatch):
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


def test_a_refused_first_slice_or_merge_leaves_the_machine_unfitted(data):
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


def test_a_pooled_machine_waits_with_new_parameters_as_well(data):
    X, y = data
    weights = {0: 1.0, 1: 5.0, 2: 0.5}
    machine = MergeSVC(per_class=False, class_weight=weights).partial_fit(X, y).set_params(class_weight=None)
    assert_same_model(machine, MergeSVC(class_weight=weights).fit(X, y), X)


# With feature maps.

SPECS = ["hidden:30", "fourier:30", "nystroem:30", "hidden:20+nystroem:15"]
each_spec = pytest.mark.parametrize(
    "spec", [f"{s.replace('+', ',precision=float64+')},precision=float64" for s in SPECS]
)


@each_spec
@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_a_machine_with_a_map_learns_in_slices_forgets_and_merges(data, spec, multiclass):
    X, y = data
    plan = ms.features.as_map(spec, seed=3).freeze(X, y)
    whole = MergeSVC(multiclass=multiclass, features=plan).fit(X, y)
    assert whole.features_ == plan
    assert whole.n_features_in_ == 5
    assert whole.coef_.shape[1] == plan.width
    assert_same_model(whole, MergeSVC(multiclass=multiclass, features=spec, random_state=3).fit(X, y), X)
    sliced = MergeSVC(multiclass=multiclass, features=plan)
    for part in np.array_split(np.argsort(y), 7):
        sliced.partial_fit(X[part], y[part])
    assert_same_model(sliced, whole, X)
    halves = [MergeSVC(multiclass=multiclass, features=plan).fit(X[i::2], y[i::2]) for i in range(2)]
    assert_same_model(halves[0] + halves[1], whole, X)
    assert_same_model(sum(halves), whole, X)
    assert_same_model(whole.forget(X[1::2], y[1::2]), halves[0], X)
    assert_same_model(whole.merge(halves[1].knowledge_), sliced, X)


@each_spec
def test_a_map_is_frozen_on_the_first_rows_without_a_warning_and_kept(data, spec):
    X, y = data
    machine = MergeSVC(features=spec, random_state=1).partial_fit(X[:200], y[:200])
    plan = machine.features_
    assert plan == ms.features.as_map(spec, seed=1).freeze(X[:200], y[:200])
    assert machine.partial_fit(X[200:] + 50, y[200:]).features_ == plan
    machine.forget(X[200:] + 50, y[200:]).forget(X[:200], y[:200])
    assert machine.features_ == plan
    assert_same_model(machine.partial_fit(X, y), MergeSVC(features=plan).fit(X, y), X)
    assert machine.fit(X[300:], y[300:]).features_ != plan


@each_spec
def test_a_machine_with_a_map_is_copied_pickled_and_resolved(data, spec):
    X, y = data
    plan = ms.features.as_map(spec).freeze(X, y)
    for features in (spec, plan):
        machine = MergeSVC(features=features, random_state=2).fit(X, y)
        again = pickle.loads(pickle.dumps(machine))
        np.testing.assert_array_equal(again.decision_function(X), machine.decision_function(X))
        assert again.features_ == machine.features_
        copied = clone(machine)
        assert not hasattr(copied, "knowledge_")
        assert copied.get_params() == machine.get_params()
        assert_same_model(copied.fit(X, y), machine, X)
        assert_same_model(again.resolve(C=9.0), MergeSVC(C=9.0, features=machine.features_).fit(X, y), X)
        with pytest.raises(ms.errors.ParameterError, match="'features' cannot be changed without data"):
            machine.resolve(features=None)


def test_machines_with_different_maps_do_not_merge_and_both_are_named(data):
    X, y = data
    found = [
        MergeSVC(features=features, n_features=20, random_state=seed).fit(X, y)
        for features, seed in (("hidden", 0), ("hidden", 1), ("fourier", 0), (None, None))
    ]
    for place, one in enumerate(found):
        before = one.decision_function(X)
        for other in found[:place] + found[place + 1 :]:
            for use in (lambda one=one, other=other: one + other, lambda one=one, other=other: one.merge(other)):
                with pytest.raises(ms.errors.SignatureError) as caught:
                    use()
                assert str(one.features_) in str(caught.value)
                assert str(other.features_) in str(caught.value)
        np.testing.assert_array_equal(one.decision_function(X), before)


def test_the_size_of_a_map_can_be_searched(data):
    X, _ = data
    rings = (np.hypot(*(X[:, :2] - X[:, :2].mean(axis=0)).T) > 2).astype(int)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), MergeSVC(features="fourier", random_state=0)),
        {"mergesvc__n_features": [2, 100], "mergesvc__features": ["fourier", "hidden"]},
        cv=3,
    ).fit(X, rings)
    assert search.best_params_["mergesvc__n_features"] == 100
    assert search.best_score_ > cross_val_score(MergeSVC(standardize=True), X, rings, cv=3).mean() + 0.1
    assert search.best_estimator_[-1].coef_.shape == (1, 100)


def test_a_seed_may_come_in_any_manner(data):
    X, y = data
    one = MergeSVC(features="fourier", n_features=10, random_state=np.random.RandomState(4)).fit(X, y)
    other = MergeSVC(features="fourier", n_features=10, random_state=np.random.RandomState(4)).fit(X, y)
    assert one.features_ == other.features_
    assert MergeSVC(features="fourier", n_features=10).fit(X, y).features_ != one.features_
    assert MergeSVC(features="fourier:10,seed=7", random_state=3).fit(X, y).features_.seed == 7
    for bad in ("fourrier", "fourier:0", 3, ["fourier"]):
        with pytest.raises(ms.errors.ParameterError):
            MergeSVC(features=bad).fit(X, y)


def test_names_of_columns_are_checked_against_those_of_a_map(data):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcde"))
    plan = ms.features.Fourier(20).freeze(frame)
    machine = MergeSVC(features=plan).fit(frame, y)
    assert machine.knowledge_.signature.names == tuple("abcde")
    assert_same_model(machine, MergeSVC().merge(ms.learn(frame, y, features=plan)), frame)
    with pytest.raises(ms.errors.DataError, match=r"Column 0 of X is named 'b', but .* was frozen with 'a' there"):
        MergeSVC(features=plan).fit(frame[list("bacde")], y)
    assert_same_model(MergeSVC(features=plan).fit(X, y), MergeSVC(features=plan).fit(pd.DataFrame(X), y), X)


def test_a_failure_with_a_map_changes_nothing(data):
    X, y = data
    machine = MergeSVC(features="hidden", n_features=20, random_state=0).fit(X, y)
    before = machine.decision_function(X)
    bad = X[:9].copy()
    bad[4, 2] = np.inf
    for use in (
        lambda: machine.partial_fit(bad, y[:9]),
        lambda: machine.forget(bad, y[:9]),
        lambda: machine.fit(bad, y[:9]),
    ):
        with pytest.raises(ms.errors.DataError, match="contains infinity: row 4, column 2"):
            use()
    with pytest.raises(ms.errors.DataError, match="contains infinity: row 4, column 2"):
        machine.predict(bad)
    with pytest.raises(ValueError, match="4 features"):
        machine.partial_fit(X[:, :4], y)
    np.testing.assert_array_equal(machine.decision_function(X), before)
