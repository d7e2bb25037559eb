"""Calibrated probabilities: those of scikit-learn on the same rows, kept in files, and carried to ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

import mergesvm as ms
from forging import forge_model
from mergesvm import errors
from mergesvm.files.container import read_container
from mergesvm.models.calibration import Calibration, Isotonic, Platt

SIGMOID = {"isotonic": "isotonic", "platt": "sigmoid"}
CLOSE = {"isotonic": 1e-8, "platt": 1e-6}


class Scored(ClassifierMixin, BaseEstimator):
    """A model of ours as scikit-learn sees it."""

    def __init__(self, model=None):
        self.model = model

    def fit(self, X, y):
        raise AssertionError("a frozen model is not fitted again")

    def predict(self, X):
        return self.model.predict(X)

    def decision_function(self, X):
        return self.model.decision_function(X)

    @property
    def classes_(self):
        return self.model.classes_

    def __sklearn_is_fitted__(self):
        return True


def skewed(rows, classes, seed=0):
    """Rows whose scores are anything but normal."""
    generator = np.random.default_rng(seed)
    X = generator.exponential(size=(rows, 4))
    cuts = np.quantile(generator.exponential(size=(9999, 4)) @ [1, 1, 0.5, 0], np.linspace(0, 1, classes + 1)[1:-1])
    y = np.digitize(X @ [1, 1, 0.5, 0] + generator.normal(size=rows), cuts)
    return X, np.array(list("abcdef"))[y], generator.integers(0, 4, rows) / 2


def models(classes):
    X, y, _ = skewed(400, classes, seed=1)
    found = {"linear": ms.solve(ms.learn(X, y))}
    if classes > 2:
        found["pairwise"] = ms.solve(ms.learn(X, y), multiclass="ovo")
    found["kernel"] = ms.ParallelKernelSVC(gamma=0.3, n_jobs=1).fit(X[:150], y[:150]).model_
    return found


CASES = [
    (classes, kind)
    for classes in (2, 3, 5)
    for kind in ("linear", "pairwise", "kernel")
    if (classes, kind) not in ((2, "pairwise"), (5, "kernel"))
]


@pytest.fixture(scope="module")
def solved():
    return {classes: models(classes) for classes in (2, 3, 5)}


# Numbers.


@pytest.mark.parametrize("method", ["isotonic", "platt"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("classes", "kind"), CASES)
@pytest.mark.filterwarnings("ignore:Since FrozenEstimator does not appear:UserWarning")
def test_probabilities_are_those_of_scikit_learn_on_the_same_rows(classes, kind, weighted, method, solved):
    model = solved[classes][kind]
    X, y, weights = skewed(600, classes, seed=2)
    new = skewed(400, classes, seed=3)[0] * 1.5
    given = weights if weighted else None
    calibrated = model.calibrated(X, y, given, method)
    peer = CalibratedClassifierCV(FrozenEstimator(Scored(model)), method=SIGMOID[method])
    peer.fit(X, y, sample_weight=given)
    shares = calibrated.predict_proba(new)
    np.testing.assert_allclose(shares, peer.predict_proba(new), atol=CLOSE[method])
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
    assert type(calibrated) is type(model)
    np.testing.assert_array_equal(calibrated.predict(new), model.predict(new))
    np.testing.assert_array_equal(calibrated.decision_function(new), model.decision_function(new))
    assert calibrated.calibration_.rows == (int((weights > 0).sum()) if weighted else 600)
    assert model.calibration_ is None
    assert np.abs(shares - model.predict_proba(new)).max() > 0.01


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("separable", [False, True])
def test_platts_two_numbers_are_where_the_loss_is_least(scale, separable):
    generator = np.random.default_rng(5)
    truth = generator.random(300) < 0.2
    scores = (np.where(truth, 3.0, 0.0) + generator.normal(size=300) * (0.1 if separable else 2.0) + 7) * scale
    weights = generator.exponential(size=300)
    positives, negatives = weights[truth].sum(), weights[~truth].sum()
    targets = np.where(truth, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    curve = Platt.fit(scores, truth, weights)

    def gradient(point):
        errors = weights * (1 / (1 + np.exp(-(point[0] * scores / scale + point[1]))) - targets)
        return np.array([errors @ scores / scale, errors.sum()])

    found = np.array([curve.slope * scale, curve.offset])
    assert np.abs(gradient(found)).max() < 1e-9 * weights.sum()
    peer = minimize(
        lambda p: weights @ (np.logaddexp(0, p[0] * scores / scale + p[1]) - targets * (p[0] * scores / scale + p[1])),
        found * 1.01,
        jac=gradient,
        method="BFGS",
        options={"gtol": 1e-9},
    )
    np.testing.assert_allclose(found, peer.x, rtol=1e-5)


def test_scores_that_tell_nothing_give_the_frequencies():
    codes = np.array([0, 1, 1, 1] * 10)
    flat = Calibration.fit(np.zeros((40, 1)), codes, None, "platt", 2)
    assert flat.curves[0].slope == 0
    np.testing.assert_allclose(flat.probabilities(np.zeros((1, 1)))[0, 1], (30 * 31 / 32 + 10 / 12) / 40)
    np.testing.assert_allclose(
        Calibration.fit(np.zeros((40, 1)), codes, None, "isotonic", 2).probabilities(np.array([[5.0]])), [[0.25, 0.75]]
    )
    # Steps rise or stay: scores that speak for the other class tell nothing.
    against = Calibration.fit(-codes[:, None].astype(float), codes, None, "isotonic", 2)
    np.testing.assert_allclose(against.probabilities(np.array([[-1.0], [0.0]])), [[0.25, 0.75]] * 2)


def test_where_no_class_is_likely_all_are_equally_so():
    curve = Isotonic(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    shares = Calibration("isotonic", 9, (curve, curve, curve)).probabilities(
        np.array([[-1.0, -2.0, -3.0], [0.5, 0.5, 1.0]])
    )
    np.testing.assert_allclose(shares, [[1 / 3, 1 / 3, 1 / 3], [0.25, 0.25, 0.5]])


def test_calibration_is_a_gain_on_fresh_rows_where_scores_are_not_normal(solved):
    X, y, _ = skewed(4000, 2, seed=11)
    new, truth, _ = skewed(4000, 2, seed=12)
    model = solved[2]["linear"]

    def brier(found):
        return np.mean((found.predict_proba(new)[:, 1] - (truth == "b")) ** 2)

    for method in ("isotonic", "platt"):
        assert brier(model.calibrated(X, y, method=method)) < brier(model) - 1e-4


# Rows of all kinds.


@pytest.mark.parametrize("kind", ["list", "frame", "sparse", "scan"])
def test_rows_of_all_kinds_calibrate_alike(kind, solved, tmp_path):
    X, y, weights = skewed(700, 3, seed=2)
    model = solved[3]["linear"]
    expected = model.calibrated(X, y, weights).predict_proba(X)
    frame = pd.DataFrame(X, columns=list("pqrs"))
    seen = []
    if kind == "scan":
        frame.assign(y=y, w=weights).to_parquet(tmp_path / "t.parquet")
        source = ms.scan(tmp_path / "t.parquet", label="y", weight="w", batch_rows=100)
        found = model.calibrated(source, progress=lambda scan: seen.append(scan.rows))
        assert seen == list(range(100, 800, 100))
    else:
        rows = {"list": X.tolist(), "frame": frame, "sparse": sparse.csr_array(X)}[kind]
        found = model.calibrated(rows, list(y), list(weights))
    np.testing.assert_allclose(found.predict_proba(X), expected, rtol=1e-9)


def test_numbers_are_the_same_labels_whole_or_not():
    X, y, _ = skewed(200, 2)
    model = ms.solve(ms.learn(X, (y == "b").astype(int)))
    expected = model.calibrated(X, (y == "b").astype(int)).predict_proba(X)
    np.testing.assert_array_equal(model.calibrated(X, (y == "b").astype(float)).predict_proba(X), expected)


def test_a_model_can_be_calibrated_again(solved):
    X, y, _ = skewed(500, 2, seed=4)
    model = solved[2]["linear"]
    twice = model.calibrated(X, y).calibrated(X, y, method="platt")
    np.testing.assert_array_equal(twice.predict_proba(X), model.calibrated(X, y, method="platt").predict_proba(X))


def test_a_calibration_of_scores_from_elsewhere_can_be_given_and_taken_away(solved):
    X, y, _ = skewed(500, 3, seed=4)
    model = solved[3]["pairwise"]
    codes = np.searchsorted(["a", "b", "c"], y)
    fitted = Calibration.fit(model.decision_function(X), codes, None, "platt", 3)
    given = model.with_calibration(fitted)
    np.testing.assert_array_equal(given.predict_proba(X), model.calibrated(X, y, method="platt").predict_proba(X))
    np.testing.assert_array_equal(given.with_calibration(None).predict_proba(X), model.predict_proba(X))
    with pytest.raises(errors.FormError, match="for 3 classes, but the model has 2"):
        solved[2]["linear"].with_calibration(fitted)


@pytest.mark.parametrize("scale", [2.0**-70, 2.0**-200, 2.0**30])
def test_the_unit_of_the_scores_makes_no_difference_to_steps(scale):
    X, y, weights = skewed(500, 2)
    scores, truth = X @ [1.0, 1.0, 0.5, 0.0] - 2, y == "b"
    one, other = Isotonic.fit(scores, truth, weights + 1), Isotonic.fit(scores * scale, truth, weights + 1)
    np.testing.assert_allclose(other.knots, one.knots * scale, rtol=1e-12)
    np.testing.assert_allclose(other.values, one.values, rtol=1e-12)


@pytest.mark.parametrize("threshold", [1e-3, -1.0, 1e3, -1e15])
def test_knots_stay_apart_when_they_are_moved_far(threshold):
    knots = np.array([-1.0, *(np.arange(20) * 1e-15), 3e-14, 0.5, 0.5 + 2**-52, 1.0])
    values = np.linspace(0, 1, len(knots))
    moved = Isotonic(knots, values).shifted(threshold)
    assert (np.diff(moved.knots) > 0).all()
    np.testing.assert_allclose(moved.knots, knots - threshold, rtol=1e-14, atol=1e-14)
    assert moved.values.tolist() == values.tolist()


# What is wrong.


def test_what_cannot_be_calibrated_on_is_said(solved, tmp_path):
    X, y, _ = skewed(100, 3)
    model = solved[3]["linear"]
    with pytest.raises(errors.ParameterError, match="method must be one of 'isotonic', 'platt', not 'sigmoid'"):
        model.calibrated(X, y, method="sigmoid")
    with pytest.raises(errors.DataError, match=r"rows of class 'z', which the model does not know. Its .* 'a', 'b'"):
        model.calibrated(X, ["z", *y[1:]])
    with pytest.raises(errors.DataError, match="No row is of class 'c'"):
        model.calibrated(X[y != "c"], y[y != "c"])
    with pytest.raises(errors.DataError, match="at least one row with positive weight"):
        model.calibrated(X, y, np.zeros(100))
    with pytest.raises(errors.DataError, match="X has 2 features"):
        model.calibrated(X[:, :2], y)
    with pytest.raises(errors.DataError, match="unequal length"):
        model.calibrated(X, y[:50])
    with pytest.raises(errors.DataError, match="y to be passed"):
        model.calibrated(X)
    with pytest.raises(errors.FormError, match="has one class and cannot be calibrated"):
        ms.solve(ms.learn(X, ["a"] * 100)).calibrated(X, y)
    pd.DataFrame(X, columns=list("pqrs")).assign(y=y).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(errors.ParameterError, match="A scan provides labels and weights"):
        model.calibrated(ms.scan(tmp_path / "t.parquet", label="y"), y)
    with pytest.raises(errors.DataError, match="has no labels"):
        model.calibrated(ms.scan(tmp_path / "t.parquet", features=list("pqrs")))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scores": np.zeros(4)}, r"shapes \(rows, 3\)"),
        ({"scores": np.zeros((4, 2))}, r"shapes \(rows, 3\)"),
        ({"codes": np.zeros(3, int)}, r"\(3,\)"),
        ({"codes": np.array([0, 1, 2, 3])}, "integers from 0 to 2"),
        ({"codes": np.array([0, 1, 2, -1])}, "integers from 0 to 2"),
        ({"codes": np.array([0.0, 1.0, 2.0, 1.0])}, "integers from 0 to 2"),
        ({"codes": np.array([0, 1, 1, 0])}, "No row has class code 2"),
        ({"weights": np.array([1.0, -1.0, 1.0, 1.0])}, "row 1 has -1.0"),
        ({"weights": np.array([1.0, 1.0, np.inf, 1.0])}, "row 2 has inf"),
        ({"weights": np.zeros(4)}, "at least one row with positive weight"),
        ({"scores": np.full((4, 3), np.nan)}, "row 0 has nan in column 0"),
        ({"method": "beta"}, "not 'beta'"),
        ({"n_classes": 1}, "cannot be calibrated"),
    ],
)
def test_scores_that_cannot_be_fitted_are_said(change, said):
    terms = {
        "scores": np.zeros((4, 3)),
        "codes": np.array([0, 1, 2, 0]),
        "weights": None,
        "method": "isotonic",
        "n_classes": 3,
    }
    with pytest.raises(errors.MergeSVMError, match=said):
        Calibration.fit(**(terms | change))


# Files.


@pytest.mark.parametrize("method", ["isotonic", "platt"])
@pytest.mark.parametrize(("classes", "kind"), CASES)
def test_a_calibrated_model_comes_back_to_the_last_bit(classes, kind, method, solved, tmp_path):
    X, y, _ = skewed(300, classes, seed=6)
    model = solved[classes][kind].calibrated(X, y, method=method)
    model.save(tmp_path / "m.msvm")
    loaded = ms.load_model(tmp_path / "m.msvm")
    assert repr(loaded.calibration_) == repr(model.calibration_)
    assert loaded.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
    assert loaded.predict(X).tolist() == model.predict(X).tolist()
    loaded.save(tmp_path / "again.msvm")
    (header, arrays), (other, others) = (read_container(tmp_path / name, "model") for name in ("m.msvm", "again.msvm"))
    assert header.fields == other.fields
    assert {k: v.tobytes() for k, v in arrays.items()} == {k: v.tobytes() for k, v in others.items()}
    if method == "isotonic":
        assert not loaded.calibration_.curves[0].knots.flags.writeable


def test_a_model_without_calibration_has_no_word_of_it_in_its_file(solved, tmp_path):
    solved[3]["linear"].save(tmp_path / "m.msvm")
    header, arrays = read_container(tmp_path / "m.msvm", "model")
    assert "calibration" not in header.fields
    assert not any(name.startswith("calibration") for name in arrays)


@pytest.fixture
def written(solved, tmp_path):
    """Files of a calibrated model of three classes, by either method."""
    X, y, _ = skewed(300, 3, seed=6)
    for method in ("isotonic", "platt"):
        solved[3]["linear"].calibrated(X, y, method=method).save(tmp_path / f"{method}.msvm")
    return tmp_path


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "NoneType|where list is expected"),
        ({}, "where list is expected"),
        ([], "does not have exactly one calibration"),
        ([{"method": "platt", "rows": 9}] * 2, "does not have exactly one calibration"),
        (["platt"], "values other than objects"),
        ([{"rows": 9}], "no field 'method'"),
        ([{"method": "isotonic"}], "no field 'rows'"),
        ([{"method": "beta", "rows": 9}], "not one of 'isotonic', 'platt'"),
        ([{"method": 1, "rows": 9}], "where str is expected"),
        ([{"method": "isotonic", "rows": 2}], "at least 3"),
        ([{"method": "isotonic", "rows": 9.0}], "where int is expected"),
        ([{"method": "isotonic", "rows": True}], "where int is expected"),
    ],
)
def test_a_header_that_is_wrong_is_refused(value, said, written):
    with pytest.raises(errors.InvalidHeaderError, match=said):
        ms.load_model(forge_model(written / "isotonic.msvm", lambda fields, _: fields.update(calibration=value)))


def test_another_method_or_none_than_the_arrays_are_of_is_refused(written):
    with pytest.raises(errors.InvalidContentError, match=r"no array 'calibration\.slopes'"):
        ms.load_model(forge_model(written / "isotonic.msvm", lambda f, _: f["calibration"][0].update(method="platt")))
    with pytest.raises(errors.InvalidContentError, match=r"an unexpected array 'calibration\.offsets'"):
        ms.load_model(forge_model(written / "platt.msvm", lambda f, _: f.pop("calibration")))


def test_a_model_of_one_class_cannot_be_calibrated_in_a_file(tmp_path):
    ms.solve(ms.learn([[1.0], [2.0]], ["a", "a"])).save(tmp_path / "m.msvm")
    with pytest.raises(errors.InvalidHeaderError, match="a calibration for a model of one class"):
        ms.load_model(
            forge_model(tmp_path / "m.msvm", lambda f, _: f.update(calibration=[{"method": "platt", "rows": 2}]))
        )


def put(name: str, place: int, value: Any) -> Callable[[Any, dict[str, Any]], None]:
    def change(_: Any, arrays: dict[str, Any]) -> None:
        arrays[name][place] = value

    return change


FAR = 2**63 - 1


@pytest.mark.parametrize(
    ("method", "name", "place", "value", "said"),
    [
        ("isotonic", "starts", 0, 1, "starts do not increase from 0"),
        ("isotonic", "starts", 1, 0, "starts do not increase from 0"),
        ("isotonic", "starts", 1, FAR, "starts do not increase from 0"),
        ("isotonic", "starts", 1, -FAR - 1, "starts do not increase from 0"),
        ("isotonic", "starts", -1, FAR, r"'calibration\.knots'"),
        ("isotonic", "starts", -1, 10**6, r"'calibration\.knots'"),
        ("isotonic", "knots", 0, 1e99, "knots of a calibration that do not increase"),
        ("isotonic", "knots", 1, -1e99, "knots of a calibration that do not increase"),
        ("isotonic", "knots", 1, np.nan, "not finite, or too large"),
        ("isotonic", "knots", 0, -np.inf, "not finite, or too large"),
        ("isotonic", "knots", 0, -1e101, "not finite, or too large"),
        ("isotonic", "values", 0, -1e-9, "outside of 0 to 1"),
        ("isotonic", "values", -1, 1 + 1e-9, "outside of 0 to 1"),
        ("isotonic", "values", 0, 1.0, "probabilities that decrease"),
        ("isotonic", "values", 1, np.nan, "not finite, or too large"),
        ("platt", "slopes", 0, np.nan, "not finite, or too large"),
        ("platt", "slopes", 2, 1e101, "not finite, or too large"),
        ("platt", "offsets", 1, np.inf, "not finite, or too large"),
    ],
)
def test_a_number_that_cannot_be_is_refused(method, name, place, value, said, written):
    with pytest.raises(errors.InvalidContentError, match=said):
        ms.load_model(forge_model(written / f"{method}.msvm", put(f"calibration.{name}", place, value)))


def test_equal_knots_are_refused(written):
    def change(_: Any, arrays: dict[str, Any]) -> None:
        arrays["calibration.knots"][1] = arrays["calibration.knots"][0]

    with pytest.raises(errors.InvalidContentError, match="do not increase"):
        ms.load_model(forge_model(written / "isotonic.msvm", change))


@pytest.mark.parametrize(
    "name", ["isotonic starts", "isotonic knots", "isotonic values", "platt slopes", "platt offsets"]
)
@pytest.mark.parametrize(
    "spoil",
    [lambda _: None, lambda a: a[:-1], lambda a: a[:0], lambda a: a[None], lambda a: a.astype("<f4")],
    ids=["missing", "short", "empty", "deep", "another type"],
)
def test_an_array_of_a_wrong_shape_or_type_is_refused(name, spoil, written):
    method, name = name.split()

    def change(_: Any, arrays: dict[str, Any]) -> None:
        made = spoil(arrays.pop(f"calibration.{name}"))
        arrays.update({} if made is None else {f"calibration.{name}": made})

    with pytest.raises(errors.InvalidContentError, match=f"calibration.{name}"):
        ms.load_model(forge_model(written / f"{method}.msvm", change))


def test_knots_as_close_as_numbers_can_be_give_finite_probabilities(written):
    def change(_: Any, arrays: dict[str, Any]) -> None:
        arrays["calibration.starts"] = np.array([0, 3, 4, 6])
        arrays["calibration.knots"] = np.array([0.0, 5e-324, 1e-310, 1.0, -1e100, 1e100])
        arrays["calibration.values"] = np.array([0.0, 0.5, 1.0, 0.5, 0.0, 1.0])

    model = ms.load_model(forge_model(written / "isotonic.msvm", change))
    for scores in (np.zeros((1, 3)), np.full((1, 3), 5e-311), np.full((1, 3), 1e99), np.full((1, 3), -1e300)):
        shares = model.probabilities(scores)
        assert np.isfinite(shares).all()
        assert shares.sum() == pytest.approx(1)


# ONNX.


@pytest.mark.parametrize("method", ["isotonic", "platt"])
@pytest.mark.parametrize(("classes", "kind"), [case for case in CASES if case[1] != "kernel"])
def test_onnx_gives_the_same_probabilities(classes, kind, method, solved, tmp_path):
    X, y, _ = skewed(300, classes, seed=6)
    new = skewed(500, classes, seed=7)[0] * 1.5
    model = solved[classes][kind].calibrated(X, y, method=method)
    model.to_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    label, scores, shares = session.run(["label", "scores", "probabilities"], {"X": new})
    assert label.tolist() == model.predict(new).tolist()
    np.testing.assert_allclose(scores, model.decision_function(new), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(shares, model.predict_proba(new), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_onnx_gives_equal_shares_where_no_class_is_likely_and_takes_flat_curves(classes, solved, tmp_path):
    model = solved[classes]["linear"]
    flat = Isotonic(np.array([1.0]), np.array([0.25 if classes == 2 else 0.0]))
    X, y, _ = skewed(50, classes)
    model = model.calibrated(X, y)
    model.calibration_ = Calibration("isotonic", 9, (flat,) if classes == 2 else (flat,) * 3)
    model.to_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    expected = [0.75, 0.25] if classes == 2 else [1 / 3] * 3
    for shares in (session.run(["probabilities"], {"X": X})[0], model.predict_proba(X)):
        np.testing.assert_allclose(shares, [expected] * 50)
