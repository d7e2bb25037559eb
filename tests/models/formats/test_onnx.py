from __future__ import annotations

import itertools
import json
import sys
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import PolynomialFeatures

import mergesvm as ms
from mergesvm.features import Chain, Components, Correlogram, Fourier, HiddenLayer, Nystroem, Patches, Wrapped
from mergesvm.features.maps.correlogram import VALUES
from mergesvm.features.maps.nystroem import KERNELS
from mergesvm.features.maps.patches import RECTIFIERS
from mergesvm.features.ops.activations import ACTIVATIONS
from mergesvm.features.registry import random_map_classes
from mergesvm.models.domain import Domain
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.models.solution import Solution
from reference import blobs

TIES = ["sequential", "recount", "margin"]
TERMS = [{"multiclass": "ovr"}] + [{"multiclass": "ovo", "ties": ties} for ties in TIES]

MAPS = [
    *(HiddenLayer(20, activation=activation) for activation in ACTIVATIONS),
    HiddenLayer(20, weights="constrained"),
    HiddenLayer(weights=np.random.default_rng(0).normal(size=(64, 20)) / 20, activation="sigmoid", gain=False),
    Fourier(20),
    *(Nystroem(20, kernel=kernel) for kernel in KERNELS),
    *(Patches(4, size=3, pooling=2, rectify=rectify) for rectify in RECTIFIERS),
    *(Patches(4, size=2, padding=padding, pooling=2, image=(4, 8, 2)) for padding in (0, 1)),
    *(Correlogram(9, 2, "sample", values, image=None) for values in VALUES),
    Correlogram(9, (1, 2), "sample", image=(4, 8, 2)),
    Components(20),
    Components(0.8, whiten=True, scaling="columns"),
]
CHAINS = [
    Chain([Patches(4, size=3, pooling=2), Fourier(20)]),
    Chain([Nystroem(20), HiddenLayer(20), HiddenLayer(20, activation="tanh"), Fourier(20)]),
    Chain([Components(0.9), Fourier(20)]),
]
TOLERANCES = {"float32": 1e-4, "float64": 1e-9}


@pytest.fixture
def exported(tmp_path):
    """Labels, scores and probabilities by onnxruntime."""

    def run(model, X):
        model.to_onnx(tmp_path / "model.onnx")
        session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
        return session.run(["label", "scores", "probabilities"], {"X": X})

    return run


def assert_same(found, model, X, tolerance=1e-12):
    label, scores, probabilities = found
    assert label.tolist() == model.predict(X).tolist()
    for one, other in [(scores, model.decision_function(X)), (probabilities, model.predict_proba(X))]:
        assert one.dtype == np.float64
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * np.abs(other).max())


def of_precision(features, precision):
    if isinstance(features, Chain):
        return Chain([replace(stage, precision=precision) for stage in features.stages])
    return replace(features, precision=precision)


def digits(classes):
    X, y = load_digits(return_X_y=True)
    few = np.flatnonzero(y < classes)[:200]
    return X[few], y[few]


def clear_rows(model, X, tolerance):
    """The rows that do not change sides, nor their best class, when scores change by less than this."""
    scores = np.column_stack([model.scores(X), np.zeros(len(X))])
    clear = np.diff(np.sort(scores, axis=1)).min(axis=1) > 2 * tolerance
    assert clear.mean() > 0.9
    return X[clear]


def share_of_ties(votes):
    return ((votes == votes.max(axis=1, keepdims=True)).sum(axis=1) > 1).mean()


def voting_model(n_classes, ties):
    """A pairwise model whose scores are the features themselves."""
    pairs = n_classes * (n_classes - 1) // 2
    X, y = blobs(seed=n_classes, n=60 * n_classes, d=pairs, classes=n_classes)
    knowledge = ms.learn(X, y, anchor=np.zeros(pairs))
    moments = ms.solve(knowledge, multiclass="ovo").moments
    return PairwiseModel(
        Domain.of(knowledge), Solution(np.eye(pairs), np.zeros(pairs), ("cholesky",) * pairs), moments, ties
    )


def recounts(row, n_classes):
    """How many times the votes of one row have to be counted before all that are tied stay tied."""
    won = {}
    for score, (i, j) in zip(row, itertools.combinations(range(n_classes), 2), strict=True):
        won[i, j], won[j, i] = score < 0, score >= 0
    standing = list(range(n_classes))
    left, counts = None, 0
    while left != standing:
        standing, counts = left or standing, counts + 1
        votes = [sum(won[i, j] for j in standing if i != j) for i in standing]
        left = [i for i, count in zip(standing, votes, strict=True) if count == max(votes)]
    return counts


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("classes", [1, 2, 3, 7])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_a_graph_gives_what_the_model_gives(exported, terms, classes, offset):
    X, y = blobs(seed=classes, n=500, d=3, classes=classes, offset=offset)
    model = ms.solve(ms.learn(X, y), **terms)
    assert_same(exported(model, X), model, X)


@pytest.mark.parametrize(("classes", "multiclass"), [(2, "ovr"), (4, "ovr"), (4, "ovo")])
@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("features", MAPS + CHAINS, ids=repr)
def test_a_graph_maps_rows_as_the_model_does(exported, features, precision, classes, multiclass):
    X, y = digits(classes)
    frozen = of_precision(features, precision).freeze(X, y)
    model = ms.solve(ms.learn(X, y, features=frozen), multiclass=multiclass)
    rows = clear_rows(model, X, TOLERANCES[precision])
    assert_same(exported(model, rows), model, rows, TOLERANCES[precision])


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("calibration", [None, "platt", "isotonic"])
@pytest.mark.parametrize("classes", [2, 4])
def test_a_batch_of_no_rows_does_not_fail(exported, terms, calibration, classes):
    X, y = digits(classes)
    model = ms.solve(ms.learn(X, y), **terms)
    model = model if calibration is None else model.calibrated(X, y, method=calibration)
    label, _, probabilities = exported(model, X[:0])
    assert label.shape == (0,)
    assert probabilities.shape == (0, classes)


@pytest.mark.parametrize("features", MAPS + CHAINS, ids=repr)
def test_a_batch_of_no_rows_is_mapped(exported, features):
    X, y = digits(3)
    label, scores, _ = exported(ms.solve(ms.learn(X, y, features=features.freeze(X, y))), X[:0])
    assert label.shape == (0,)
    assert scores.shape == (0, 3)


def test_every_map_that_is_drawn_has_steps():
    assert {features.kind for features in MAPS} == set(random_map_classes())


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("features", [HiddenLayer(20), Fourier(20), Nystroem(20), Components(0.9), CHAINS[1]], ids=repr)
def test_rows_far_from_zero_are_mapped_alike(exported, features, precision):
    X, y = blobs(n=300, d=5, classes=3, offset=1e6)
    model = ms.solve(ms.learn(X, y, features=of_precision(features, precision).freeze(X)))
    rows = clear_rows(model, X, TOLERANCES[precision])
    assert_same(exported(model, rows), model, rows, TOLERANCES[precision])


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("features", [HiddenLayer, Fourier, Nystroem, Components])
def test_single_numbers_of_maps_are_not_rounded(exported, features, width):
    # onnxruntime takes single numbers, as the gain is and as the scale of one column is, into products as float.
    X, y = blobs(n=100, d=width, classes=3)
    model = ms.solve(ms.learn(X, y, features=features(width, precision="float64").freeze(X)))
    assert_same(exported(model, X), model, X)


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["", "Ω", "plum"], np.object_),
        ([-(2**63), 0, 2**63 - 1], np.int64),
        ([1.0, 2.0, 3.0], np.float64),
        ([False, True], np.bool_),
        (["only"], np.object_),
    ],
)
def test_labels_keep_their_kind(exported, terms, labels, kind):
    X, y = blobs(n=200, classes=len(labels))
    model = ms.solve(ms.learn(X, [labels[code] for code in y]), **terms)
    found = exported(model, X)
    assert found[0].dtype == kind
    assert_same(found, model, X)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("n_classes", [3, 4])
def test_all_outcomes_of_all_pairs_are_judged_alike(exported, ties, n_classes):
    model = voting_model(n_classes, ties)
    X = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=len(model.pairs_))))
    assert share_of_ties(model.votes(X)) > 0.2
    found = exported(model, X)
    assert_same(found, model, X)
    # Sums of whole numbers have no rounding: classes of equal margins have to be equal in the graph too.
    np.testing.assert_array_equal(found[1], model.decision_function(X))


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("n_classes", [7, 19])
def test_ties_among_many_classes_are_resolved_alike(exported, ties, n_classes):
    model = voting_model(n_classes, ties)
    X = np.random.default_rng(0).normal(size=(3_000, len(model.pairs_)))
    assert share_of_ties(model.votes(X)) > 0.3
    assert max(recounts(row, n_classes) for row in X[:500]) >= 4
    assert_same(exported(model, X), model, X)
    others = [voting_model(n_classes, other).predict(X) for other in TIES if other != ties]
    assert all((model.predict(X) != other).mean() > 0.02 for other in others)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_ties_of_solved_models_are_resolved_alike(exported, ties, offset):
    # Pairs of classes contradict one another where labels are drawn by lot, and rows are few for their width.
    generator = np.random.default_rng(0)
    learned, y = generator.normal(size=(140, 30)) + offset, generator.integers(0, 7, 140)
    X = generator.normal(size=(2_000, 30)) + offset
    model = ms.solve(ms.learn(learned, y), multiclass="ovo", ties=ties)
    assert share_of_ties(model.votes(X)) > 0.2
    assert_same(exported(model, X), model, X)


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_a_score_of_zero_is_of_the_second_of_two_classes(exported, multiclass):
    model = ms.solve(ms.learn([[-1.0], [1.0]], ["a", "b"]), multiclass=multiclass)
    X = np.array([[-1.0], [0.0], [1.0]])
    assert model.scores(X)[1] == 0
    found = exported(model, X)
    assert found[0].tolist() == ["a", "b", "b"]
    assert_same(found, model, X)


def test_small_probabilities_keep_their_digits(exported):
    X, y = blobs(seed=1, n=500, d=3, classes=2)
    model = ms.solve(ms.learn(X, y))
    far = X - 20 * model.coef_ / np.linalg.norm(model.coef_)
    expected = model.predict_proba(far)[:, 1]
    assert expected.max() < 1e-12
    np.testing.assert_allclose(exported(model, far)[2][:, 1], expected, rtol=1e-12)


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("classes", [2, 3])
def test_classes_without_variance_have_certain_probabilities(exported, terms, classes):
    X = np.eye(classes)
    model = ms.solve(ms.learn(X, list("abc"[:classes])), C=100.0, **terms)
    assert_same(exported(model, X), model, X)
    assert model.predict_proba(X).diagonal().min() > 0.99


def test_digits_are_not_lost_to_single_precision(tmp_path):
    X, y = blobs(n=200, d=3, classes=3, offset=1e6)
    ms.solve(ms.learn(X, y), multiclass="ovo").to_onnx(tmp_path / "model.onnx")
    graph = onnx.shape_inference.infer_shapes(onnx.load(tmp_path / "model.onnx")).graph
    types = {tensor.data_type for tensor in graph.initializer}
    types |= {value.type.tensor_type.elem_type for value in [*graph.input, *graph.value_info, *graph.output]}
    assert onnx.TensorProto.DOUBLE in types
    assert types.isdisjoint({onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16})
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    with pytest.raises(Exception, match=r"expected: \(tensor\(double\)\)"):
        session.run(None, {"X": X.astype(np.float32)})


@pytest.mark.parametrize("features", CHAINS, ids=repr)
def test_only_maps_of_single_precision_are_computed_in_it(tmp_path, features):
    X, y = digits(3)
    for precision in TOLERANCES:
        frozen = of_precision(features, precision).freeze(X, y)
        ms.solve(ms.learn(X, y, features=frozen)).to_onnx(tmp_path / "model.onnx")
        graph = onnx.shape_inference.infer_shapes(onnx.load(tmp_path / "model.onnx")).graph
        types = {value.name: value.type.tensor_type.elem_type for value in [*graph.value_info, *graph.output]}
        single = {name for name, kind in types.items() if kind == onnx.TensorProto.FLOAT}
        assert bool(single) == (precision == "float32")
        assert all(name.startswith("f") and name[1].isdigit() for name in single)
        names = [tensor.name for tensor in graph.initializer]
        assert len(set(names)) == len(names)
        assert set(names) <= {name for node in graph.node for name in node.input}


@pytest.mark.parametrize("terms", TERMS)
def test_a_graph_has_no_more_than_it_needs(tmp_path, terms):
    X, y = blobs(n=200, d=3, classes=5)
    ms.solve(ms.learn(X, y), **terms).to_onnx(tmp_path / "model.onnx")
    graph = onnx.shape_inference.infer_shapes(onnx.load(tmp_path / "model.onnx")).graph
    bodies = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    used = {name for part in [graph, *bodies] for node in part.node for name in node.input}
    assert {tensor.name for tensor in graph.initializer} <= used
    # Nothing of rows x classes x classes.
    assert all(len(value.type.tensor_type.shape.dim) <= 2 for part in [graph, *bodies] for value in part.value_info)


def test_the_file_says_what_it_is(tmp_path):
    X, y = blobs(n=200, d=2, classes=3)
    names = ["Länge", 'a "b"']
    model = ms.solve(ms.learn(X, np.array(["x", "y", "z"])[y], feature_names=names))
    model.to_onnx(tmp_path / "model.onnx")
    proto = onnx.load(tmp_path / "model.onnx")
    assert (proto.producer_name, proto.producer_version) == ("mergesvm", ms.__version__)
    assert repr(model) in proto.doc_string
    notes = {note.key: json.loads(note.value) for note in proto.metadata_props}
    assert notes == {"classes": ["x", "y", "z"], "feature_names": names}
    # What onnxruntime 1.20 reads.
    assert proto.ir_version <= 10
    assert [(opset.domain, opset.version <= 21) for opset in proto.opset_import] == [("", True)]


@pytest.mark.parametrize("label", [2**63, -(2**63) - 1, 10**30])
def test_whole_numbers_beyond_64_bits_are_refused(tmp_path, label):
    model = ms.solve(ms.learn([[0.0], [1.0]], [0, label]))
    with pytest.raises(ms.errors.ParameterError, match=f"Class {label} does not fit"):
        model.to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_models_too_large_for_onnx_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("mergesvm.models.formats.onnx.MAX_FILE_BYTES", 10_000)
    X, y = blobs(n=900, d=450, classes=3)
    with pytest.raises(ms.errors.ParameterError, match=r"3 classes x 450 features would take 1[45],[0-9]{3} bytes"):
        ms.solve(ms.learn(X, y)).to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_arrays_of_maps_count_towards_the_size(tmp_path, monkeypatch):
    monkeypatch.setattr("mergesvm.models.formats.onnx.MAX_FILE_BYTES", 10_000)
    X, y = blobs(n=100, d=150, classes=3)
    model = ms.solve(ms.learn(X, y, features=Fourier(20).freeze(X)))
    with pytest.raises(ms.errors.ParameterError, match=r"3 classes x 20 features would take 1[56],[0-9]{3} bytes"):
        model.to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_wrapped_transformers_are_refused_with_a_way_out(exported, tmp_path):
    X, y = blobs(n=100, d=2, classes=3)
    features = Wrapped(PolynomialFeatures(2, include_bias=False).fit(X))
    kinds = "hidden, fourier, nystroem, patches, pca, correlogram"
    advice = rf"these maps can: {kinds}\. .* learn from mapped rows, map\.transform\(X\)"
    with pytest.raises(
        ms.errors.ParameterError, match=rf"Wrapped\(.*PolynomialFeatures.* cannot be exported .*{advice}"
    ):
        ms.solve(ms.learn(X, y, features=features)).to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
    mapped = features.transform(X)
    model = ms.solve(ms.learn(mapped, y))
    assert_same(exported(model, mapped), model, mapped)


def test_without_onnx_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    model = ms.solve(ms.learn([[0.0], [1.0]], ["a", "b"]))
    with pytest.raises(ms.errors.ParameterError, match=r"pip install 'mergesvm\[onnx\]'"):
        model.to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
