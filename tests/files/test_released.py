"""Files of every format that was ever written are read, and hold what they held."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

import mergesvm as ms
from mergesvm.files.container import FORMAT, read_format

RELEASED = Path(__file__).parent / "released"
X = [[1.0, 0.5], [2.0, 0.25], [3.0, 1.0], [4.0, -1.0], [0.0, 2.0], [1.5, 1.5]]
LABELS = ["a", "b", "c", "a", "b", "c"]
WEIGHTS = [1, 2, 1, 1, 1, 0.5]
NAMES = ["size", "weight"]
FINGERPRINT = "4dbbd9d7b0e813ce3df7af89877c77d4729dedccc42818289787d79ea1963dc1"
"""Of the map of all formats: it is printed by programs, and must not change as maps get more parameters."""


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_knowledge_and_models_of_every_format_are_read(number):
    stored = RELEASED / f"format-{number}.knowledge"
    assert read_format(stored) == number
    features = ms.features.load(RELEASED / f"format-{number}.features") if number > 1 else None
    today = ms.learn(X, LABELS, WEIGHTS, feature_names=NAMES, features=features)
    if features is not None:
        assert features.fingerprint == FINGERPRINT
    knowledge = ms.Knowledge.load(stored)
    assert knowledge.signature == today.signature
    for one, other in zip(knowledge.arrays(), today.arrays(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    model = ms.load_model(RELEASED / f"format-{number}.msvm")
    np.testing.assert_allclose(model.scores(X), ms.solve(today, C=2.0, multiclass="ovo").scores(X), atol=1e-10)


@pytest.mark.parametrize("number", range(3, FORMAT + 1))
def test_models_of_pegasos_are_read(number):
    model = ms.load_model(RELEASED / f"format-{number}-pegasos.msvm")
    assert (model.solver_, model.labels, model.feature_names_) == ("pegasos", ("a", "b", "c"), tuple(NAMES))
    assert model.domain.options == {
        "lambda_": 0.1,
        "n_iter": 200,
        "batch_size": 2,
        "average": 0.5,
        "project": True,
        "fit_intercept": True,
        "intercept_scaling": pytest.approx(2.6080803924214706),
        "class_weight": {"a": 2.0, "b": 1.0, "c": 0.5},
        "multiclass": "ovo",
    }
    np.testing.assert_allclose(
        model.coef_,
        [[0.0650377462, 1.2185122864], [0.534212034, 1.5525298063], [0.835333013, 0.6620880732]],
    )
    np.testing.assert_allclose(model.intercept_, [-1.2058223647, -2.3542412404, -2.5153899438])
    machine = ms.PegasosSVC(0.1, 200, class_weight={"a": 2.0, "b": 1.0, "c": 0.5}, batch_size=2, project=True)
    np.testing.assert_allclose(machine.fit(X, LABELS).coef_, model.coef_, rtol=1e-9)
    np.testing.assert_allclose(machine.predict_proba(X), model.predict_proba(X), rtol=1e-9)


@pytest.mark.parametrize("number", range(4, FORMAT + 1))
def test_kernel_models_are_read(number):
    model = ms.load_model(RELEASED / f"format-{number}-kernel.msvm")
    weights = {"a": 2.0, "b": 1.0, "c": 0.5}
    assert (model.solver_, model.labels, model.feature_names_) == ("working-set", ("a", "b", "c"), tuple(NAMES))
    assert model.domain.options == {"C": 2.0, "class_weight": weights, "multiclass": "ovo", "beta": 1.0, "units": 2}
    assert (model.ties, model.expansion.precision, model.n_support_.tolist()) == ("margin", "float64", [2, 2, 2])
    assert model.support_vectors_.dtype == np.float64
    assert model.support_vectors_.tolist() == [X[row] for row in (0, 3, 1, 4, 2, 5)]
    coefs, intercepts = model.expansion.coefs, model.expansion.intercepts
    np.testing.assert_allclose(
        coefs,
        [
            [-2.41462166, -1.07005655, 2.0, 1.462097, 1.0, 1.0],
            [-1.35946924, -0.78672465, -1.40190528, -0.81613359, 1.0, 1.0],
        ],
        rtol=1e-8,
    )
    np.testing.assert_allclose(intercepts, [-0.04516243, -0.29238779, -0.43607775], rtol=1e-6)
    np.testing.assert_array_equal(model.dual_coef_, -coefs)  # the signs of SVC
    np.testing.assert_array_equal(model.intercept_, -intercepts)
    K = rbf_kernel(X, model.support_vectors_, 0.5)
    # Of each pair the lines of multipliers of its first class and of its second, and where their vectors are.
    for pair, (first, second) in enumerate(
        [((0, [0, 1]), (0, [2, 3])), ((1, [0, 1]), (0, [4, 5])), ((1, [2, 3]), (1, [4, 5]))]
    ):
        expected = sum(K[:, places] @ coefs[line, places] for line, places in (first, second)) + intercepts[pair]
        np.testing.assert_allclose(model.scores(X)[:, pair], expected, rtol=1e-9)
    machine = ms.ParallelKernelSVC(gamma=0.5, C=2.0, beta=1.0, class_weight=weights, ties="margin", units=2, tol=1e-6)
    np.testing.assert_allclose(machine.fit(X, LABELS).model_.scores(X), model.scores(X), atol=1e-4)


@pytest.mark.parametrize("number", range(4, FORMAT + 1))
def test_kernel_models_of_sparse_rows_are_read(number):
    model = ms.load_model(RELEASED / f"format-{number}-sparse-kernel.msvm")
    assert (model.solver_, model.labels, model.expansion.precision) == ("active-set", (1, 2), "float32")
    kernel = model.expansion.kernel
    assert (kernel.kind, kernel.gamma, kernel.degree, kernel.coef0) == ("poly", 0.5, 2, 1.0)
    expected = np.zeros((8, 6))
    expected[[0, 1, 2, 4, 5, 6], [0, 2, 4, 1, 3, 5]] = [1, 3, 5, 2, 4, 6]
    assert model.support_vectors_.dtype == np.uint8
    assert (model.support_vectors_.toarray() == expected).all()
    rows = np.eye(6) * 2
    scores = polynomial_kernel(rows, expected, 2, 0.5, 1.0) @ model.dual_coef_[0] + model.intercept_
    np.testing.assert_allclose(model.decision_function(rows), scores, rtol=1e-4)
    assert model.predict(rows).tolist() == np.where(scores > 0, 2, 1).tolist()


@pytest.mark.parametrize("number", range(5, FORMAT + 1))
def test_models_calibrated_by_isotonic_regression_are_read(number):
    model = ms.load_model(RELEASED / f"format-{number}-isotonic.msvm")
    assert (model.solver_, model.labels, model.feature_names_) == ("cholesky", ("a", "b", "c"), tuple(NAMES))
    assert (model.calibration_.method, model.calibration_.rows) == ("isotonic", 8)
    expected = [
        ([-1.53211964, -0.43213146, -0.15713441, -0.00993025, 0.13727391, 0.46646176], [0, 0, 0.5, 0.5, 1, 1]),
        ([-0.57063483, -0.43527604, -0.28762265, 0.2045159, 0.3029909], [0, 0, 6 / 11, 6 / 11, 1]),
        ([-1.05965244, -0.30119399, -0.23317177, 0.15682705], [0, 0, 0.6, 0.6]),
    ]
    shares = np.empty((len(X), 3))
    for column, (curve, (knots, values)) in enumerate(zip(model.calibration_.curves, expected, strict=True)):
        np.testing.assert_allclose(curve.knots, knots, atol=1e-8)
        np.testing.assert_allclose(curve.values, values, atol=1e-12)
        shares[:, column] = np.interp(model.decision_function(X)[:, column], knots, values)
    np.testing.assert_allclose(model.predict_proba(X), shares / shares.sum(axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("number", range(5, FORMAT + 1))
def test_models_calibrated_by_a_sigmoid_are_read(number):
    model = ms.load_model(RELEASED / f"format-{number}-platt.msvm")
    assert (model.labels, model.calibration_.method, model.calibration_.rows) == (("a", "rest"), "platt", 8)
    (curve,) = model.calibration_.curves
    assert (curve.slope, curve.offset) == pytest.approx((2.0427461364798907, -0.16749162514127636), rel=1e-12)
    positive = 1 / (1 + np.exp(-(curve.slope * model.decision_function(X) + curve.offset)))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], positive, rtol=1e-12)


@pytest.mark.parametrize("number", range(5, FORMAT + 1))
def test_folds_are_read_and_rows_fall_into_them_as_ever(number):
    stored = RELEASED / f"format-{number}-folds.knowledge"
    assert read_format(stored) == number
    folds = ms.Folds.load(stored)
    today = ms.learn(X, LABELS, WEIGHTS, feature_names=NAMES, folds=3)
    assert folds.assignment == today.assignment
    assert [part.rows.tolist() for part in folds] == [[2, 1, 1], [1, 1], []]
    assert [part.labels for part in folds] == [("a", "b", "c"), ("b", "c"), ()]
    for part, same in zip(folds, today, strict=True):
        assert part.signature == same.signature
        for one, other in zip(part.arrays(), same.arrays(), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    groups = ms.Folds.load(RELEASED / f"format-{number}-groups.knowledge")
    again = ms.learn(X, LABELS, WEIGHTS, feature_names=NAMES, folds=2, groups=["n", "s", "e", "w", "n", "s"])
    assert (groups.assignment.by, groups.assignment.column) == ("groups", "quarter")
    assert groups.rows.tolist() == again.rows.tolist() == [3, 3]
    given = ms.Folds.load(RELEASED / f"format-{number}-given.knowledge")
    assert given.rows.tolist() == [2, 0, 2]
    np.testing.assert_allclose(given.rest.about([0.0, 0.0]).sums, [[1.0, 0.5], [4.0, 0.5]])
