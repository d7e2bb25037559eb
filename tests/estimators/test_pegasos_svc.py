from __future__ import annotations

import pickle

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

import mergesvm as ms
from mergesvm import MergeSVC, PegasosSVC
from mergesvm.methods import row_pool as pool
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from reference import blobs


@pytest.fixture
def data():
    return blobs(seed=30, n=400, d=5, classes=4)


def hyperplanes(machine):
    return np.column_stack([machine.coef_, machine.intercept_])


def test_accuracy_on_digits_is_close_to_an_exact_solver():
    X, y = load_digits(return_X_y=True)
    X, test, y, truth = X[:1200] / 16, X[1200:] / 16, y[:1200], y[1200:]
    exact = SVC(kernel="linear", C=1 / (1e-3 * 240)).fit(X, y)  # 240 rows per pair
    assert PegasosSVC(1e-3).fit(X, y).score(test, truth) > exact.score(test, truth) - 0.015
    assert PegasosSVC(1e-3, multiclass="ovr").fit(X, y).score(test, truth) > 0.9


@pytest.mark.parametrize("options", [{}, {"multiclass": "ovr"}, {"batch_size": 3, "project": True}])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)])
def test_results_do_not_depend_on_the_number_of_threads(data, options, convert):
    X, y = data
    one, two, three = (PegasosSVC(n_iter=2000, n_jobs=jobs, **options).fit(convert(X), y) for jobs in (1, 2, 3))
    for other in (two, three):
        np.testing.assert_array_equal(hyperplanes(one), hyperplanes(other))
        np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_random_state(data):
    X, y = data
    fit = {seed: hyperplanes(PegasosSVC(n_iter=500, random_state=seed).fit(X, y)) for seed in (0, 1)}
    assert (fit[0] != fit[1]).any()
    np.testing.assert_array_equal(fit[0], hyperplanes(PegasosSVC(n_iter=500).fit(X, y)))
    unlike = [hyperplanes(PegasosSVC(n_iter=500, random_state=None).fit(X, y)) for _ in range(2)]
    assert (unlike[0] != unlike[1]).any()
    again = [hyperplanes(PegasosSVC(n_iter=500, random_state=np.random.RandomState(3)).fit(X, y)) for _ in range(2)]
    np.testing.assert_array_equal(*again)


def test_alpha_is_an_alias_of_lambda(data):
    X, y = data
    np.testing.assert_array_equal(
        hyperplanes(PegasosSVC(alpha=0.02, n_iter=500).fit(X, y)), hyperplanes(PegasosSVC(0.02, n_iter=500).fit(X, y))
    )


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_partial_fit_continues_the_steps(data, multiclass):
    X, y = data
    machine = PegasosSVC(0.01, 700, multiclass, average=0, batch_size=2)
    twice = clone(machine).fit(X, y).partial_fit(X, y)
    once = clone(machine).set_params(n_iter=1400).fit(X, y)
    np.testing.assert_array_equal(hyperplanes(twice), hyperplanes(once))
    assert twice.n_iter_ == once.n_iter_ == 1400
    begun = clone(machine).partial_fit(X, y, classes=[0, 1, 2, 3, 4]).partial_fit(X, y)
    np.testing.assert_array_equal(hyperplanes(begun), hyperplanes(once))
    np.testing.assert_array_equal(twice.model_.domain.rows, 2 * np.bincount(y))


def test_partial_fit_on_batches_is_close_to_fit(data):
    X, y = data
    machine = PegasosSVC(0.01, 4000)
    for part in np.array_split(np.random.default_rng(0).permutation(len(y)), 4):
        machine.partial_fit(X[part], y[part])
    assert machine.score(X, y) > PegasosSVC(0.01, 16_000).fit(X, y).score(X, y) - 0.02
    assert machine.n_iter_ == 16_000


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_new_classes_in_partial_fit(data, multiclass):
    X, y = data
    machine = PegasosSVC(0.01, 3000, multiclass)
    machine.fit(X[y < 2], y[y < 2])
    pair = hyperplanes(machine)
    assert machine.classes_.tolist() == [0, 1]
    later = (y != 1) & (y != 3)  # class 1 is not in this slice, and 2 is new
    machine.partial_fit(X[later], y[later])
    assert machine.classes_.tolist() == [0, 1, 2]
    if multiclass == "ovo":  # the pair of 0 and 1 has no rows of 1 to draw, and stays
        np.testing.assert_array_equal(hyperplanes(machine)[0], pair[0])
        np.testing.assert_array_equal(machine.model_.coef_[2], 0.0)
    else:
        np.testing.assert_array_equal(hyperplanes(machine)[1], pair[0])
    assert np.isfinite(machine.predict_proba(X)).all()
    machine.partial_fit(X, y)
    machine.partial_fit(X, y)
    assert machine.classes_.tolist() == [0, 1, 2, 3]
    assert machine.score(X, y) > PegasosSVC(0.01, 9000, multiclass).fit(X, y).score(X, y) - 0.05
    seeds = [walk.seed for walk in machine._learned.walks.values()]
    assert len(set(seeds)) == len(seeds)
    probabilities = machine.predict_proba(X)
    assert log_loss(y, probabilities) < 0.9 * np.log(4)


@pytest.mark.parametrize("average", [0, 0.5])
def test_third_class_after_two_in_one_vs_rest(data, average):
    X, y = data
    machine = PegasosSVC(0.01, 500, "ovr", average=average).fit(X[y < 2], y[y < 2])
    pair, later = hyperplanes(machine)[0], (y == 1) | (y == 2)
    machine.partial_fit(X[later], y[later])  # no rows of 0: its coefficients, until now those of the pair, stay
    np.testing.assert_array_equal(hyperplanes(machine)[0], -pair)
    assert (hyperplanes(machine)[1] != pair).any()


def test_problems_without_rows_keep_their_probabilities_and_new_ones_the_intercept_scaling(data):
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


def test_batch_of_one_class_makes_no_steps_and_warns(data):
    X, y = data
    machine = PegasosSVC(0.01, 500).fit(X, y)
    before = hyperplanes(machine)
    with pytest.warns(ms.errors.SolverWarning, match="all rows are of class 2"):
        machine.partial_fit(X[y == 2], y[y == 2])
    np.testing.assert_array_equal(hyperplanes(machine), before)
    assert machine.n_iter_ == 500


def test_single_class(data):
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
def test_starting_from_the_closed_form_needs_fewer_steps(multiclass):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    closed = MergeSVC(multiclass=multiclass).fit(X, y)
    few = PegasosSVC(1e-3, 50, multiclass)
    cold, warm = clone(few).fit(X, y), clone(few).fit(X, y, initial=closed)
    assert warm.score(X, y) > cold.score(X, y) + 0.02
    assert warm.n_iter_ == 50
    np.testing.assert_array_equal(hyperplanes(warm), hyperplanes(clone(few).fit(X, y, initial=closed.model_)))
    # Steps go on from there, and not from zero.
    one = PegasosSVC(1e-3, 1, multiclass, average=0, intercept_scaling=1.0).fit(X, y, initial=closed)
    assert np.abs(one.coef_ - closed.coef_).max() < 0.3
    assert np.median(np.abs(one.coef_ - closed.coef_)) < 0.03


def test_initial_model_that_does_not_match_is_an_error(data):
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


def test_merge_and_forget_are_errors(data):
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
def test_class_weight_schemes_match_explicit_weights(data, scheme):
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
    np.testing.assert_array_equal(hyperplanes(one), hyperplanes(other))
    assert (hyperplanes(one) != hyperplanes(PegasosSVC(0.01, 500).fit(X, y))).any()
    # One against the rest, the rest is one side.
    X, y = data
    counts = np.bincount(y)
    rest = PegasosSVC(0.01, 500, "ovr", class_weight="balanced").fit(X, y)
    sides = {c: len(y) / (2 * (counts[2] if c == 2 else len(y) - counts[2])) for c in range(4)}
    np.testing.assert_array_equal(
        hyperplanes(rest)[2], hyperplanes(PegasosSVC(0.01, 500, "ovr", class_weight=sides).fit(X, y))[2]
    )


@pytest.mark.parametrize("ties", ["recount", "sequential", "margin"])
def test_votes_and_ties_match_the_pairwise_model(data, ties):
    X, y = data
    machine = PegasosSVC(n_iter=3, average=0, ties=ties).fit(X, y)  # poor coefficients, many ties
    assert isinstance(machine.model_, PairwiseModel)
    assert machine.model_.ties == ties
    assert machine.model_.pairs_ == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    np.testing.assert_array_equal(machine.decision_function(X).argmax(axis=1), machine.predict(X))


def test_first_class_of_a_pair_is_the_negative_side(data):
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
    probabilities = machine.predict_proba(X)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), machine.predict(X))
    slope = np.log(probabilities[:, 1] / probabilities[:, 0]) / machine.decision_function(X)
    np.testing.assert_allclose(slope, slope[0])
    if weights is None:  # no other slope does clearly better on rows not seen
        scores, truth = machine.decision_function(X[2000:]), y[2000:]
        best = min(log_loss(truth, expit(a * scores)) for a in np.geomspace(0.05, 50, 200))
        assert log_loss(truth, probabilities[2000:]) < best + 0.01


@pytest.mark.parametrize("block", [1, 1 << 20])
def test_moments_match_the_scores(data, block, monkeypatch):
    X, y = data
    monkeypatch.setattr(pool, "BLOCK_VALUES", block)  # 64 rows of the hundred of a class, or all
    machine = PegasosSVC(0.01, 2000, "ovr").fit(X, y)
    scores, moments = machine.model_.scores(X), machine.model_.moments
    means = np.array([scores[y == c].mean(axis=0) for c in range(4)])
    np.testing.assert_allclose(moments.means, means, rtol=1e-9)
    np.testing.assert_allclose(moments.covariance, np.cov((scores - means[y]).T, bias=True), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(moments.proportions, np.bincount(y) / len(y))


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, lambda X: X.tolist(), pd.DataFrame])
def test_accepts_rows_of_any_kind(data, convert):
    X, y = data
    expected = PegasosSVC(0.01, 1000).fit(X, y)
    found = PegasosSVC(0.01, 1000).fit(convert(X), y)
    np.testing.assert_allclose(hyperplanes(found), hyperplanes(expected), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"multiclass": "ovr"}, {"class_weight": {0: 2.0, 3: 1.0}, "project": True}])
@pytest.mark.parametrize("features", [None, "fourier:20"])
def test_saved_model_is_complete(data, tmp_path, options, features):
    X, y = data
    model = PegasosSVC(0.01, 500, features=features, **options).fit(X, y).model_
    model.save(tmp_path / "m.msvm")
    loaded = ms.load_model(tmp_path / "m.msvm")
    assert type(loaded) is type(model)
    assert loaded.solver_ == "pegasos"
    assert loaded.domain.options == model.domain.options
    for name in ("predict", "decision_function", "predict_proba"):
        np.testing.assert_array_equal(getattr(loaded, name)(X), getattr(model, name)(X))


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
@pytest.mark.parametrize("classes", [2, 4])
def test_onnx_model_matches(data, tmp_path, multiclass, classes):
    X, y = data
    X, y = X[y < classes], y[y < classes]
    model = PegasosSVC(0.01, 500, multiclass).fit(X, y).model_
    model.to_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    label, scores, probabilities = session.run(["label", "scores", "probabilities"], {"X": X})
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(scores.squeeze(), model.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-9)


def test_pipelines_and_searches_of_scikit_learn():
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
