from __future__ import annotations

import pickle
import threading
import warnings

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import mergesvm as ms
from mergesvm import MergeSVC, PegasosSVC
from mergesvm.methods import row_pool as pool
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from reference import blobs

MACHINES = [
    PegasosSVC(),
    PegasosSVC(multiclass="ovr"),
    PegasosSVC(lambda_=1e-2, batch_size=4, average=0.75, project=True, n_iter=20_000),
    PegasosSVC(lambda_=1e-2, class_weight="balanced", precision="float32"),
    PegasosSVC(lambda_=1e-2, class_weight="balanced", precision="float32", average=0),
    PegasosSVC(features="fourier:50,precision=float64", n_iter=20_000),
]


@parametrize_with_checks(MACHINES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.fixture
def data():
    return blobs(seed=30, n=400, d=5, classes=4)


def planes(machine):
    return np.column_stack([machine.coef_, machine.intercept_])


def test_digits_are_told_apart_as_well_as_by_an_exact_machine():
    X, y = load_digits(return_X_y=True)
    X, test, y, truth = X[:1200] / 16, X[1200:] / 16, y[:1200], y[1200:]
    exact = SVC(kernel="linear", C=1 / (1e-3 * 240)).fit(X, y)  # 240 rows a pair
    assert PegasosSVC(1e-3).fit(X, y).score(test, truth) > exact.score(test, truth) - 0.015
    assert PegasosSVC(1e-3, multiclass="ovr").fit(X, y).score(test, truth) > 0.9


@pytest.mark.parametrize("terms", [{}, {"multiclass": "ovr"}, {"batch_size": 3, "project": True}])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)])
def test_threads_change_nothing(data, terms, convert):
    X, y = data
    one, two, three = (PegasosSVC(n_iter=2000, n_jobs=jobs, **terms).fit(convert(X), y) for jobs in (1, 2, 3))
    for other in (two, three):
        np.testing.assert_array_equal(planes(one), planes(other))
        np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_seeds_matter_and_none_is_another_each_time(data):
    X, y = data
    fit = {seed: planes(PegasosSVC(n_iter=500, random_state=seed).fit(X, y)) for seed in (0, 1)}
    assert (fit[0] != fit[1]).any()
    np.testing.assert_array_equal(fit[0], planes(PegasosSVC(n_iter=500).fit(X, y)))
    unlike = [planes(PegasosSVC(n_iter=500, random_state=None).fit(X, y)) for _ in range(2)]
    assert (unlike[0] != unlike[1]).any()
    again = [planes(PegasosSVC(n_iter=500, random_state=np.random.RandomState(3)).fit(X, y)) for _ in range(2)]
    np.testing.assert_array_equal(*again)


def test_alpha_is_another_name_of_lambda(data):
    X, y = data
    np.testing.assert_array_equal(
        planes(PegasosSVC(alpha=0.02, n_iter=500).fit(X, y)), planes(PegasosSVC(0.02, n_iter=500).fit(X, y))
    )


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_partial_fit_goes_on_where_it_stopped(data, multiclass):
    X, y = data
    machine = PegasosSVC(0.01, 700, multiclass, average=0, batch_size=2)
    twice = clone(machine).fit(X, y).partial_fit(X, y)
    once = clone(machine).set_params(n_iter=1400).fit(X, y)
    np.testing.assert_array_equal(planes(twice), planes(once))
    assert twice.n_iter_ == once.n_iter_ == 1400
    begun = clone(machine).partial_fit(X, y, classes=[0, 1, 2, 3, 4]).partial_fit(X, y)
    np.testing.assert_array_equal(planes(begun), planes(once))
    np.testing.assert_array_equal(twice.model_.domain.rows, 2 * np.bincount(y))


def test_slices_come_close_to_the_whole(data):
    X, y = data
    machine = PegasosSVC(0.01, 4000)
    for part in np.array_split(np.random.default_rng(0).permutation(len(y)), 4):
        machine.partial_fit(X[part], y[part])
    assert machine.score(X, y) > PegasosSVC(0.01, 16_000).fit(X, y).score(X, y) - 0.02
    assert machine.n_iter_ == 16_000


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_new_classes_may_come_later(data, multiclass):
    X, y = data
    machine = PegasosSVC(0.01, 3000, multiclass)
    machine.fit(X[y < 2], y[y < 2])
    pair = planes(machine)
    assert machine.classes_.tolist() == [0, 1]
    later = (y != 1) & (y != 3)  # class 1 is not in this slice, and 2 is new
    machine.partial_fit(X[later], y[later])
    assert machine.classes_.tolist() == [0, 1, 2]
    if multiclass == "ovo":  # the pair of 0 and 1 has no rows of 1 to draw, and stays
        np.testing.assert_array_equal(planes(machine)[0], pair[0])
        np.testing.assert_array_equal(machine.model_.coef_[2], 0.0)
    else:
        np.testing.assert_array_equal(planes(machine)[1], pair[0])
    assert np.isfinite(machine.predict_proba(X)).all()
    machine.partial_fit(X, y)
    machine.partial_fit(X, y)
    assert machine.classes_.tolist() == [0, 1, 2, 3]
    assert machine.score(X, y) > PegasosSVC(0.01, 9000, multiclass).fit(X, y).score(X, y) - 0.05
    seeds = [walk.seed for walk in machine._learned.walks.values()]
    assert len(set(seeds)) == len(seeds)
    shares = machine.predict_proba(X)
    assert log_loss(y, shares) < 0.9 * np.log(4)


@pytest.mark.parametrize("average", [0, 0.5])
def test_two_classes_are_each_the_rest_of_the_other(data, average):
    X, y = data
    machine = PegasosSVC(0.01, 500, "ovr", average=average).fit(X[y < 2], y[y < 2])
    pair, later = planes(machine)[0], (y == 1) | (y == 2)
    machine.partial_fit(X[later], y[later])  # no rows of 0: its plane, until now that of the pair, stays
    np.testing.assert_array_equal(planes(machine)[0], -pair)
    assert (planes(machine)[1] != pair).any()


def test_problems_without_rows_keep_their_probabilities_and_new_ones_the_scale(data):
    X, y = data
    machine = PegasosSVC(0.01, 500).fit(X[y < 3], y[y < 3])
    moments, scaling = machine.model_.moments, machine.model_.domain.options["intercept_scaling"]
    later = (y == 0) | (y == 3)
    machine.partial_fit(100 * X[later], y[later])
    for name in ("means", "variances", "counts"):
        now = getattr(machine.model_.moments, name)
        np.testing.assert_array_equal(now[[0, 1, 3]], getattr(moments, name))  # the pairs of 0, 1 and 2
    assert machine.model_.domain.options["intercept_scaling"] == scaling
    assert {walk.bias for walk in machine._learned.walks.values()} == {scaling}


def test_a_slice_of_one_class_makes_no_steps_and_says_so(data):
    X, y = data
    machine = PegasosSVC(0.01, 500).fit(X, y)
    before = planes(machine)
    with pytest.warns(ms.errors.SolverWarning, match="all rows are of class 2"):
        machine.partial_fit(X[y == 2], y[y == 2])
    np.testing.assert_array_equal(planes(machine), before)
    assert machine.n_iter_ == 500


def test_a_single_class_is_all_there_is(data):
    X, y = data
    machine = PegasosSVC(0.01, 3000, average=0).fit(X[y == 2], ["only"] * (y == 2).sum())
    assert set(machine.predict(X)) == {"only"}
    assert machine.predict_proba(X).tolist() == [[1.0]] * len(X)
    assert machine.n_iter_ == 0
    labels = np.where(y == 2, "only", "other")
    assert (
        machine.partial_fit(X, labels).score(X, labels) > PegasosSVC(0.01, 3000).fit(X, labels).score(X, labels) - 0.05
    )


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_a_closed_form_is_a_good_start(multiclass):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    closed = MergeSVC(multiclass=multiclass).fit(X, y)
    few = PegasosSVC(1e-3, 50, multiclass)
    cold, warm = clone(few).fit(X, y), clone(few).fit(X, y, initial=closed)
    assert warm.score(X, y) > cold.score(X, y) + 0.02
    assert warm.n_iter_ == 50
    np.testing.assert_array_equal(planes(warm), planes(clone(few).fit(X, y, initial=closed.model_)))
    # Steps go on from there, and not from zero.
    one = PegasosSVC(1e-3, 1, multiclass, average=0, intercept_scaling=1.0).fit(X, y, initial=closed)
    assert np.abs(one.coef_ - closed.coef_).max() < 0.3
    assert np.median(np.abs(one.coef_ - closed.coef_)) < 0.03


def test_an_unlike_start_is_refused(data):
    X, y = data
    machine = PegasosSVC(n_iter=10)
    with pytest.raises(ms.errors.SignatureError, match=r"classes \[0, 1\], but y has \[0, 1, 2, 3\]"):
        machine.fit(X, y, initial=MergeSVC(multiclass="ovo").fit(X[y < 2], y[y < 2]))
    with pytest.raises(ms.errors.SignatureError, match=r"a one-vs-rest model\. Solve it with multiclass='ovo'"):
        machine.fit(X, y, initial=MergeSVC().fit(X, y))
    with pytest.raises(ms.errors.SignatureError, match="4 columns"):
        machine.fit(X, y, initial=MergeSVC(multiclass="ovo").fit(X[:, 1:], y))
    with pytest.raises(ms.errors.SignatureError, match="Fourier"):
        machine.fit(X, y, initial=MergeSVC(multiclass="ovo", features="fourier", n_features=9).fit(X, y))
    with pytest.raises(ms.errors.ParameterError, match="fit_intercept=False"):
        PegasosSVC(fit_intercept=False).fit(X, y, initial=MergeSVC(multiclass="ovo").fit(X, y))
    with pytest.raises(TypeError, match="not SGDClassifier"):
        machine.fit(X, y, initial=SGDClassifier().fit(X, y))
    with pytest.raises(NotFittedError):
        machine.predict(X)
    assert not hasattr(machine, "n_features_in_")
    mapped = MergeSVC(multiclass="ovo", features="fourier", n_features=9, random_state=0).fit(X, y)
    PegasosSVC(n_iter=10, features=mapped.features_).fit(X, y, initial=mapped)


def test_what_has_no_sums_cannot_be_merged_or_forgotten(data):
    X, y = data
    machine, other = PegasosSVC(n_iter=10).fit(X, y), PegasosSVC(n_iter=10).fit(X, y)
    for action in (
        lambda: machine.forget(X, y),
        lambda: machine.merge(other),
        lambda: machine + other,
        lambda: machine - other,
    ):
        with pytest.raises(ms.errors.FormError, match=r"hinge loss.*MergeSVC"):
            action()


@pytest.mark.parametrize("scheme", ["inverse", "complement", "balanced"])
def test_weights_are_those_of_the_sides(data, scheme):
    X, y = data
    X, y = X[y < 2], y[y < 2]
    X, y = np.concatenate([X, X[y == 0], X[y == 0]]), np.concatenate([y, y[y == 0], y[y == 0]])
    n0, n1 = np.bincount(y)
    weights = {
        "inverse": {0: 1 / n0, 1: 1 / n1},
        "complement": {0: n1 / (n0 + n1), 1: n0 / (n0 + n1)},
        "balanced": {0: (n0 + n1) / (2 * n0), 1: (n0 + n1) / (2 * n1)},
    }[scheme]
    one, other = (PegasosSVC(0.01, 500, class_weight=given).fit(X, y) for given in (scheme, weights))
    np.testing.assert_array_equal(planes(one), planes(other))
    assert (planes(one) != planes(PegasosSVC(0.01, 500).fit(X, y))).any()
    # One against the rest, the rest is one side.
    X, y = data
    counts = np.bincount(y)
    rest = PegasosSVC(0.01, 500, "ovr", class_weight="balanced").fit(X, y)
    sides = {c: len(y) / (2 * (counts[2] if c == 2 else len(y) - counts[2])) for c in range(4)}
    np.testing.assert_array_equal(
        planes(rest)[2], planes(PegasosSVC(0.01, 500, "ovr", class_weight=sides).fit(X, y))[2]
    )


@pytest.mark.parametrize("ties", ["recount", "sequential", "margin"])
def test_votes_and_ties_are_those_of_the_pairwise_model(data, ties):
    X, y = data
    machine = PegasosSVC(n_iter=3, average=0, ties=ties).fit(X, y)  # poor planes, many ties
    assert isinstance(machine.model_, PairwiseModel)
    assert machine.model_.ties == ties
    assert machine.model_.pairs_ == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    np.testing.assert_array_equal(machine.decision_function(X).argmax(axis=1), machine.predict(X))


def test_the_first_of_a_pair_is_the_negative_side(data):
    X, y = data
    machine = PegasosSVC(0.01, 2000).fit(X, y)
    for place, (i, j) in enumerate(machine.model_.pairs_):
        scores = machine.model_.scores(X)[:, place]
        assert scores[y == i].mean() < 0 < scores[y == j].mean()


@pytest.mark.parametrize("weights", [None, "balanced"])
def test_probabilities_of_two_classes_are_calibrated_and_agree(weights):
    generator = np.random.default_rng(0)
    y = (generator.random(4000) < 0.3).astype(int)
    X = generator.normal(size=(4000, 3)) + 1.0 * y[:, None]
    machine = PegasosSVC(0.01, class_weight=weights).fit(X[:2000], y[:2000])
    shares = machine.predict_proba(X)
    np.testing.assert_array_equal(shares.argmax(axis=1), machine.predict(X))
    slope = np.log(shares[:, 1] / shares[:, 0]) / machine.decision_function(X)
    np.testing.assert_allclose(slope, slope[0])
    if weights is None:  # no other slope does clearly better on rows not seen
        scores, truth = machine.decision_function(X[2000:]), y[2000:]
        best = min(log_loss(truth, expit(a * scores)) for a in np.geomspace(0.05, 50, 200))
        assert log_loss(truth, shares[2000:]) < best + 0.01


@pytest.mark.parametrize("block", [1, 1 << 20])
def test_moments_are_those_of_the_scores(data, block, monkeypatch):
    X, y = data
    monkeypatch.setattr(pool, "BLOCK_VALUES", block)  # 64 rows of the hundred of a class, or all
    machine = PegasosSVC(0.01, 2000, "ovr").fit(X, y)
    scores, moments = machine.model_.scores(X), machine.model_.moments
    means = np.array([scores[y == c].mean(axis=0) for c in range(4)])
    np.testing.assert_allclose(moments.means, means, rtol=1e-9)
    np.testing.assert_allclose(moments.covariance, np.cov((scores - means[y]).T, bias=True), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(moments.proportions, np.bincount(y) / len(y))


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, lambda X: X.tolist(), pd.DataFrame])
def test_rows_may_come_as_anything(data, convert):
    X, y = data
    expected = PegasosSVC(0.01, 1000).fit(X, y)
    found = PegasosSVC(0.01, 1000).fit(convert(X), y)
    np.testing.assert_allclose(planes(found), planes(expected), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("terms", [{}, {"multiclass": "ovr"}, {"class_weight": {0: 2.0, 3: 1.0}, "project": True}])
@pytest.mark.parametrize("features", [None, "fourier:20"])
def test_files_hold_all_of_it(data, tmp_path, terms, features):
    X, y = data
    model = PegasosSVC(0.01, 500, features=features, **terms).fit(X, y).model_
    model.save(tmp_path / "m.msvm")
    loaded = ms.load_model(tmp_path / "m.msvm")
    assert type(loaded) is type(model)
    assert loaded.solver_ == "pegasos"
    assert loaded.domain.options == model.domain.options
    for name in ("predict", "decision_function", "predict_proba"):
        np.testing.assert_array_equal(getattr(loaded, name)(X), getattr(model, name)(X))


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
@pytest.mark.parametrize("classes", [2, 4])
def test_onnx_says_the_same(data, tmp_path, multiclass, classes):
    X, y = data
    X, y = X[y < classes], y[y < classes]
    model = PegasosSVC(0.01, 500, multiclass).fit(X, y).model_
    model.to_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    label, scores, shares = session.run(["label", "scores", "probabilities"], {"X": X})
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(scores.squeeze(), model.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(shares, model.predict_proba(X), atol=1e-9)


def test_it_is_at_home_in_scikit_learn():
    X, y = load_iris(return_X_y=True, as_frame=True)
    machine = PegasosSVC(1e-3, 5000).fit(X, y)
    assert machine.feature_names_in_.tolist() == list(X.columns)
    assert machine.model_.feature_names_ == tuple(X.columns)
    copy = pickle.loads(pickle.dumps(machine))
    np.testing.assert_array_equal(copy.partial_fit(X, y).coef_, machine.partial_fit(X, y).coef_)
    pipeline = make_pipeline(StandardScaler(), PCA(0.95), PegasosSVC(1e-3, 5000)).fit(X, y)
    assert pipeline[-1].n_features_in_ == 2
    assert pipeline.score(X, y) > 0.88
    assert isinstance(PegasosSVC(n_iter=10, multiclass="ovr").fit(X, y).model_, LinearModel)


def test_a_failure_changes_nothing(data):
    X, y = data
    machine = PegasosSVC(0.01, 500).fit(X, y)
    before = machine.decision_function(X)
    spoilt = X.copy()
    spoilt[7, 3] = np.nan
    with pytest.raises(ms.errors.DataError, match="NaN: row 7, column 3"):
        machine.partial_fit(spoilt, y)
    with pytest.raises(ms.errors.DataError, match="infinity: row 7, column 3"):
        machine.fit(sparse.csr_array(np.where(np.isnan(spoilt), np.inf, spoilt)), y)
    with pytest.raises(ValueError, match="4 features"):
        machine.partial_fit(X[:, :4], y)
    with pytest.raises(ms.errors.SignatureError, match="text labels"):
        machine.partial_fit(X, y.astype(str))
    with pytest.raises(ms.errors.ParameterError, match="Class 3 in y is not among"):
        machine.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ms.errors.ParameterError, match="multiclass was 'ovo' when fitting began"):
        clone_of(machine).set_params(multiclass="ovr").partial_fit(X, y)
    with pytest.raises(ms.errors.ParameterError, match="fit_intercept was True"):
        clone_of(machine).set_params(fit_intercept=False).partial_fit(X, y)
    np.testing.assert_array_equal(machine.decision_function(X), before)
    assert (machine.n_iter_, machine.n_features_in_) == (500, 5)


def clone_of(machine):
    return pickle.loads(pickle.dumps(machine))


BAD = {
    "lambda_": [0, -1, "x"],
    "alpha": [0, "x"],
    "n_iter": [0, 1.5],
    "batch_size": [0],
    "average": [2, "last"],
    "project": ["no"],
    "fit_intercept": [None],
    "intercept_scaling": [-1.0],
    "multiclass": ["ova", None],
    "class_weight": ["even", 3, {0: -1.0}, {0: "much"}, {"zero": 1.0}],
    "ties": ["coin", None],
    "precision": ["float16"],
    "features": ["cubist"],
    "n_jobs": [0, "all"],
    "random_state": [-1, "dice"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_a_bad_parameter_is_named_with_its_value(data, name, value):
    X, y = data
    machine = PegasosSVC(**{"n_iter": 10} | {name: value})
    shown = value if not isinstance(value, dict) else next(iter(value.values() if 0 in value else value))
    with pytest.raises((ValueError, TypeError)) as caught:
        machine.fit(X, y)
    assert str(shown) in str(caught.value)
    assert not hasattr(machine, "n_features_in_")


def test_an_interrupt_is_heard_between_calls(data, monkeypatch):
    X, y = data
    machine = PegasosSVC(0.01, 500).fit(X, y)
    before = machine.decision_function(X)
    from mergesvm.methods.pegasos import jit as pegasos_kernels
    from mergesvm.methods.pegasos import sgd as pegasos

    calls, lock = [], threading.Lock()
    walk = pegasos_kernels.walk

    def interrupted(*arguments):
        with lock:
            calls.append(None)
            if len(calls) == 9:
                raise KeyboardInterrupt
        walk(*arguments)

    monkeypatch.setattr(pegasos, "CALL_PRODUCTS", 1)
    monkeypatch.setattr(pegasos_kernels, "walk", interrupted)
    with pytest.raises(KeyboardInterrupt):
        machine.set_params(n_jobs=1).partial_fit(X, y)
    np.testing.assert_array_equal(machine.decision_function(X), before)
    assert (len(calls), machine.n_iter_) == (9, 500)


def test_the_usual_fit_is_silent(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PegasosSVC().fit(*data)


def test_rows_too_large_for_float32_are_an_error_and_not_a_bad_model():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(300, 5)), generator.integers(0, 3, 300)
    for size in (1e19, 1e25, 1e37):
        with pytest.raises(ms.errors.DataError, match="too large for steps"):
            ms.PegasosSVC(n_iter=2000).fit((X * size).astype(np.float32), y)


def test_a_start_on_other_columns_is_refused():
    X, y = load_iris(return_X_y=True, as_frame=True)
    machine = ms.MergeSVC(multiclass="ovo").fit(X, y)
    with pytest.raises(ms.errors.SignatureError, match="column 0 is 'sepal length"):
        ms.PegasosSVC(n_iter=10).fit(X[X.columns[::-1]], y, initial=machine)


def test_weights_of_classes_that_are_not_there_are_checked_and_not_kept(tmp_path):
    X, y = load_iris(return_X_y=True)
    for machine in (ms.PegasosSVC(n_iter=10), ms.MergeSVC()):
        machine.set_params(class_weight={0: 1.0, 1: 1.0, 2: 1.0, 9: np.nan})
        with pytest.raises(ms.errors.ParameterError, match="The weight of class 9"):
            machine.fit(X, y)
        machine.set_params(class_weight={0: 1.0, 1: 2.0, 2: 1.0, (3, 4): 1.0}).fit(X, y)
        machine.model_.save(tmp_path / "model.msvm")
        assert ms.load_model(tmp_path / "model.msvm").domain.options["class_weight"] == {0: 1.0, 1: 2.0, 2: 1.0}
        (tmp_path / "model.msvm").unlink()


def test_bounds_are_said():
    X, y = load_iris(return_X_y=True)
    for parameters, match in [
        ({"alpha": -1}, r"'alpha' .* must be a float in the range \[1e-30, 1e\+30\] or None"),
        ({"lambda_": 1e31}, r"'lambda_' .* must be a float in the range \[1e-30, 1e\+30\]"),
        ({"batch_size": 10**11}, r"'batch_size' .* must be an int in the range \[1, 16777216\]"),
    ]:
        with pytest.raises(ms.errors.ParameterError, match=match):
            ms.PegasosSVC(**parameters).fit(X, y)
