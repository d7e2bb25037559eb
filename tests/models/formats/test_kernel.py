"""Kernel models as files: what is written predicts the same to the last bit, and what is wrong has its own error."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

import mergesvm as ms
from forging import forge_model
from mergesvm import errors
from mergesvm.files.container import read_container
from mergesvm.models.expansion import Expansion
from mergesvm.models.formats.kernel import VECTOR_TYPES
from mergesvm.models.kernel import KernelModel
from mergesvm.models.kernel_function import Kernel

rng = np.random.default_rng(3)
X = np.round(rng.normal(size=(30, 4)) * 3 + 6).clip(0, 12)
Y = ["no", "yes", "maybe"] * 10
NEW = np.round(rng.normal(size=(50, 4)) * 3 + 6, 1)
THIN = sparse.random_array((30, 40), density=0.1, rng=rng, format="csr")
NEW_THIN = sparse.random_array((20, 40), density=0.1, rng=rng, format="csr")


def trained(rows: Any = X, labels: Any = Y, **terms: Any) -> KernelModel:
    return ms.ParallelKernelSVC(**{"C": 3.0, "gamma": 0.2, "n_jobs": 1, **terms}).fit(rows, labels).model_


def kept(model: KernelModel, path: Path) -> KernelModel:
    model.save(path)
    loaded = ms.load_model(path)
    assert isinstance(loaded, KernelModel)
    return loaded


def same(loaded: KernelModel, model: KernelModel, rows: Any) -> None:
    """All that a model says and tells is the same, numbers to the last bit."""
    assert repr(loaded) == repr(model)
    assert loaded.labels == model.labels
    assert [type(label) for label in loaded.labels] == [type(label) for label in model.labels]
    assert (loaded.pairs_, loaded.ties, loaded.solver_) == (model.pairs_, model.ties, model.solver_)
    assert (loaded.signature, loaded.domain.options) == (model.signature, model.domain.options)
    assert loaded.expansion.kernel == model.expansion.kernel
    assert loaded.expansion.precision == model.expansion.precision
    assert loaded.support_vectors_.dtype == model.support_vectors_.dtype
    for one, other in (
        (loaded.domain.rows, model.domain.rows),
        (loaded.n_support_, model.n_support_),
        (loaded.dual_coef_, model.dual_coef_),
        (loaded.intercept_, model.intercept_),
        (loaded.scores(rows), model.scores(rows)),
        (loaded.decision_function(rows), model.decision_function(rows)),
        (loaded.predict(rows), model.predict(rows)),
        (loaded.predict_proba(rows), model.predict_proba(rows)),
    ):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tolist() == other.tolist() if one.dtype == object else one.tobytes() == other.tobytes()


# What is written is read.

LABELS: dict[str, list[Any]] = {
    "text": ["a", "", "é\u202e\U0001f600"],
    "surrogates": ["\ud800", "\udfff", "a"],
    "whole numbers": [-1, 2**63 - 1, -(2**63)],
    "beyond 64 bits": [10**30, -(10**40), 2**64],
    "booleans": [True, False],
    "decimals": [1.0, -0.0, 1e300],
    "one class": ["a"],
    "two classes": ["a", "b"],
    "ten classes": list(range(10)),
}


@pytest.mark.parametrize("kind", list(LABELS))
def test_labels_of_every_kind_come_back_as_they_were(kind, tmp_path):
    model = trained(labels=(LABELS[kind] * 30)[:30])
    same(kept(model, tmp_path / "m"), model, NEW)


@pytest.mark.parametrize("dtype", ["?", "u1", "i1", "u2", "i2", "i4", "i8", "f2", "f4", "f8", ">f4", ">i2", "O"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_dense_support_vectors_keep_their_type(dtype, order, tmp_path):
    model = trained(np.asarray(X, dtype=dtype, order=order))
    same(kept(model, tmp_path / "m"), model, NEW)


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "i4", "i8", "f4", "f8"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_sparse_support_vectors_keep_their_type(dtype, kernel, tmp_path):
    model = trained((THIN * 20).astype(dtype), kernel=kernel)
    assert sparse.issparse(model.support_vectors_)
    loaded = kept(model, tmp_path / "m")
    assert sparse.issparse(loaded.support_vectors_)
    assert (loaded.support_vectors_.toarray() == model.support_vectors_.toarray()).all()
    for rows in (NEW_THIN, NEW_THIN.toarray()):
        same(loaded, model, rows)


@pytest.mark.parametrize("precision", ["float32", "float64", None])
@pytest.mark.parametrize(
    "terms",
    [
        {"kernel": "linear", "method": "active-set"},
        {"kernel": "poly", "degree": 5, "coef0": -0.25, "gamma": 1 / 3},
        {"gamma": "scale", "beta": 2.0, "units": 3, "class_weight": "balanced"},
        {"gamma": np.float32(0.1), "degree": np.int8(2), "coef0": np.float32(0.1), "kernel": "poly"},
        {"gamma": 1, "method": "gradient", "beta": 1, "class_weight": {"no": 2, "yes": 0.5, "maybe": 1}},
        {"ties": "margin", "max_iter": 1, "C": 1e-300},
    ],
    ids=lambda terms: ", ".join(terms),
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_kernels_terms_and_precisions_come_back(terms, precision, tmp_path):
    model = trained(precision=precision, **terms)
    same(kept(model, tmp_path / "m"), model, NEW)


def test_names_come_back(tmp_path):
    names = ["size", "[/]", "\x1b[2J", "é"]
    model = trained(pd.DataFrame(X, columns=names))
    loaded = kept(model, tmp_path / "m")
    assert loaded.feature_names_ == tuple(names)
    same(loaded, model, NEW)
    with pytest.raises(errors.DataError, match="is named 'weight'"):
        loaded.predict(pd.DataFrame(X, columns=["weight", *names[1:]]))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_scores_of_a_loaded_model_are_those_of_the_formula(kind, tmp_path):
    rows, new = (X, NEW) if kind == "dense" else (THIN, NEW_THIN)
    labels = ["a", "b", "b"] * 10
    for kernel, values in (
        ("rbf", lambda one, other: rbf_kernel(one, other, 0.2)),
        ("poly", lambda one, other: polynomial_kernel(one, other, 2, 0.2, 1.0)),
    ):
        loaded = kept(trained(rows, labels, kernel=kernel, degree=2, coef0=1.0), tmp_path / "m")
        K = values(new, loaded.support_vectors_)
        expected = K @ loaded.dual_coef_[0] + loaded.intercept_
        np.testing.assert_allclose(loaded.decision_function(new), expected, rtol=1e-9, atol=1e-9)


def test_a_loaded_model_is_written_and_pickled_as_it_was(tmp_path):
    for rows in (X, THIN):
        loaded = kept(trained(rows), tmp_path / "one")
        kept(loaded, tmp_path / "other")
        (header, arrays), (again, others) = (read_container(tmp_path / name, "model") for name in ("one", "other"))
        assert header.fields == again.fields
        assert {name: array.tobytes() for name, array in arrays.items()} == {
            name: array.tobytes() for name, array in others.items()
        }
        new = NEW if rows is X else NEW_THIN
        same(pickle.loads(pickle.dumps(loaded)), loaded, new)


def test_what_is_loaded_cannot_be_written_to(tmp_path):
    dense, thin = kept(trained(), tmp_path / "dense"), kept(trained(THIN), tmp_path / "thin")
    stored = thin.support_vectors_
    for array in (
        *(dense.support_vectors_, dense.dual_coef_, dense.intercept_, dense.n_support_, dense.domain.anchor),
        *(stored.data, stored.indices, stored.indptr),
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


# What cannot be written.


def linear(one: Any, other: Any) -> Any:
    return one @ other.T


def test_a_kernel_that_is_a_function_is_not_written(tmp_path):
    with pytest.raises(
        errors.ParameterError, match=r"is a Python function.*'rbf', 'linear', 'poly', 'sigmoid', or pickle"
    ):
        trained(kernel=linear).save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("terms", [{"C": 1e101}, {"kernel": "poly", "coef0": -1e101, "degree": 1}, {"beta": 1e200}])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_numbers_that_could_not_be_read_again_are_not_written(terms, tmp_path):
    model = trained()
    if "coef0" in terms:
        kernel = Kernel(model.expansion.kernel.kind, coef0=terms["coef0"])
        old = model.expansion
        expansion = Expansion(kernel, old.vectors, old.counts, old.coefs, old.intercepts)
        model = KernelModel(model.domain, expansion, model.moments, "recount")
    else:
        model.domain.options.update(terms)
    with pytest.raises(errors.ParameterError, match="the largest number a file can store"):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_kernel_models_cannot_be_exported_to_onnx(tmp_path):
    with pytest.raises(errors.FormError, match=r"KernelModel of 3 classes.*MergeSVC with features='nystroem'"):
        trained().to_onnx(tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


# Invalid model files.


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    trained(class_weight={"no": 2.0}).save(folder / "dense")
    trained(THIN).save(folder / "thin")
    return {name: (folder / name).read_bytes() for name in ("dense", "thin")}


@pytest.fixture
def dense(written, tmp_path):
    (tmp_path / "dense.msvm").write_bytes(written["dense"])
    return tmp_path / "dense.msvm"


@pytest.fixture
def thin(written, tmp_path):
    (tmp_path / "thin.msvm").write_bytes(written["thin"])
    return tmp_path / "thin.msvm"


FIELDS = ["kernel", "sparse", "precision", "model", "ties", "solver", "terms", "classes", "provenance", "width"]
NUMBERS_OF_KERNEL = ["kind", "gamma", "degree", "coef0"]
TERMS = ["C", "class_weight", "multiclass", "beta", "units"]


@pytest.mark.parametrize("name", [*FIELDS, *NUMBERS_OF_KERNEL, *TERMS])
def test_a_header_without_a_field_is_invalid(name, dense):
    def change(fields: dict[str, Any], _: Any) -> None:
        part = fields["kernel"][0] if name in NUMBERS_OF_KERNEL else fields["terms"][0] if name in TERMS else fields
        del part[name]

    with pytest.raises(errors.InvalidHeaderError, match=f"no field {name!r}"):
        ms.load_model(forge_model(dense, change))


WRONG: list[tuple[str, list[Any]]] = [
    ("kernel", [None, "rbf", {}, [], [{}], [{}, {}], [1]]),
    ("kind", [None, "callable", "os.system", 1]),
    ("gamma", [None, "scale", True, 0, -1.0, 1e101, 10**400, [1.0]]),
    ("degree", [None, 0, -1, 2.0, 101, 10**400, True]),
    ("coef0", [None, "1", True, 1e101, [1]]),
    ("precision", [None, "float16", 32]),
    ("model", ["linear", "pairwise", "kernels"]),
    ("ties", [None, "coin", 1]),
    ("solver", [None, "cholesky", "pegasos", 1]),
    ("C", [None, 0, -1.0, "1", True, 10**400]),
    ("beta", [0, -1.0, "1", True, 10**400]),
    ("units", [None, 0, 1.0, True]),
    ("multiclass", [None, "ovr"]),
    (
        "class_weight",
        [1, [1], "heavy", [{"class": "no"}], [{"class": [], "weight": 1}], [{"class": "no", "weight": -1}]],
    ),
    ("classes", [[], ["no"], ["no", "yes"], list("abcdefgh")]),
    ("width", [1, 5, 10**18, 10**400]),
    ("sparse", [None, 0, True]),
    ("features", [[{"map": "fourier"}], "fourier"]),
]


@pytest.mark.parametrize(
    ("name", "value"),
    [pytest.param(name, value, id=f"{name}={str(value)[:30]}") for name, values in WRONG for value in values],
)
def test_a_wrong_field_is_refused(name, value, dense):
    def change(fields: dict[str, Any], _: Any) -> None:
        part = fields["kernel"][0] if name in NUMBERS_OF_KERNEL else fields["terms"][0] if name in TERMS else fields
        part[name] = value

    with pytest.raises((errors.InvalidHeaderError, errors.InvalidContentError)) as caught:
        ms.load_model(forge_model(dense, change))
    assert len(str(caught.value)) < 2000


ARRAYS = ["anchor", "rows", "support", "coefs", "intercepts", "scores.means", "scores.variances", "scores.counts"]
DENSE = [*ARRAYS, "vectors"]
THIN_ARRAYS = [*ARRAYS, "vectors.starts", "vectors.columns", "vectors.values"]
SPOILED: dict[str, Callable[[Any], Any]] = {
    "missing": lambda _: None,
    "one row less": lambda array: array[:-1],
    "empty": lambda array: array[:0],
    "another dimension": lambda array: array[None],
    "flat or deep": lambda array: array.reshape(-1, 1) if array.ndim == 1 else array.ravel(),
    "a number": lambda _: np.array(1.0),
    "booleans": lambda array: array.astype(bool),
    "halves": lambda array: array.astype(np.float16),
    "int32 or float32": lambda array: array.astype(np.int32 if array.dtype.kind == "i" else np.float32),
    "the other kind": lambda array: array.astype(np.float64 if array.dtype.kind == "i" else np.int64),
}


@pytest.mark.parametrize("how", list(SPOILED))
def test_an_array_of_a_wrong_shape_or_type_is_refused(how, dense, thin):
    for path, names in ((dense, DENSE), (thin, THIN_ARRAYS)):
        pristine = path.read_bytes()
        for name in names:
            if name in ("vectors", "vectors.values") and how in ("int32 or float32", "the other kind"):
                continue  # they may be of these types

            def change(_: Any, arrays: dict[str, Any], name: str = name) -> None:
                made = SPOILED[how](arrays.pop(name))
                arrays.update({} if made is None else {name: made})

            path.write_bytes(pristine)
            with pytest.raises((errors.InvalidContentError, errors.DamagedFileError), match=name):
                ms.load_model(forge_model(path, change))


def test_support_vectors_may_be_of_every_type_of_numbers(dense):
    pristine = dense.read_bytes()
    for dtype in VECTOR_TYPES:
        dense.write_bytes(pristine)
        forge_model(dense, lambda _, arrays, dtype=dtype: arrays.update(vectors=arrays["vectors"].astype(dtype)))
        assert ms.load_model(dense).support_vectors_.dtype == dtype


def put(name: str, place: int, value: Any) -> Callable[[Any, dict[str, Any]], None]:
    def change(_: Any, arrays: dict[str, Any]) -> None:
        arrays[name].reshape(-1)[place] = value

    return change


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e101])
def test_a_number_that_is_not_finite_or_too_large_is_refused(value, dense, thin):
    names = ("vectors", "coefs", "intercepts", "scores.means", "anchor", "vectors.values")
    for name in names:
        path = thin if name == "vectors.values" else dense
        pristine = path.read_bytes()
        with pytest.raises(errors.InvalidContentError, match="not finite, or too large"):
            ms.load_model(forge_model(path, put(name, -1, value)))
        path.write_bytes(pristine)


FAR = 2**63 - 1
WRONG_NUMBERS: list[tuple[str, str, int, Any, str]] = [
    ("dense", "anchor", 0, 1.0, "a kernel model with an anchor"),
    ("dense", "rows", 0, 0, "a class without rows"),
    ("dense", "support", 0, -1, "negative number of support vectors"),
    ("dense", "support", 0, FAR, "'coefs'"),
    ("dense", "support", 0, 0, "'coefs'"),
    ("dense", "scores.variances", 0, -1.0, "negative"),
    ("dense", "scores.counts", 0, 0.0, "a side without rows"),
    ("thin", "vectors.starts", 0, 1, "do not increase from 0"),
    ("thin", "vectors.starts", 0, -1, "do not increase from 0"),
    ("thin", "vectors.starts", 3, FAR, "do not increase from 0"),
    ("thin", "vectors.starts", 3, -FAR - 1, "do not increase from 0"),
    ("thin", "vectors.starts", -1, FAR, "'vectors.columns'"),
    ("thin", "vectors.starts", -1, 10**6, "'vectors.columns'"),
    ("thin", "vectors.columns", 2, 40, "outside of 0 to 39"),
    ("thin", "vectors.columns", 2, -1, "outside of 0 to 39"),
    ("thin", "vectors.columns", 2, FAR, "outside of 0 to 39"),
    ("thin", "vectors.columns", 2, -FAR - 1, "outside of 0 to 39"),
    ("thin", "vectors.columns", 2, 2**32, "outside of 0 to 39"),
]


@pytest.mark.parametrize(("fixture", "name", "place", "value", "said"), WRONG_NUMBERS)
def test_a_number_that_cannot_be_is_refused(fixture, name, place, value, said, request):
    with pytest.raises(errors.InvalidContentError, match=said):
        ms.load_model(forge_model(request.getfixturevalue(fixture), put(name, place, value)))


def test_dense_and_sparse_vectors_at_once_are_refused(dense, thin):
    for path, name in ((dense, "vectors.values"), (thin, "vectors")):
        with pytest.raises(errors.InvalidContentError, match=f"an unexpected array '{name}'"):
            ms.load_model(forge_model(path, lambda _, arrays, name=name: arrays.update({name: np.zeros((1, 1))})))


def test_sparse_columns_need_not_be_sorted_and_may_come_twice(thin):
    def change(_: Any, arrays: dict[str, Any]) -> None:
        starts, columns, values = (arrays[f"vectors.{name}"] for name in ("starts", "columns", "values"))
        for start, stop in pairwise(starts.tolist()):
            columns[start:stop], values[start:stop] = columns[start:stop][::-1].copy(), values[start:stop][::-1].copy()
        # The last value of all in two halves.
        starts[-1] += 1
        values[-1] /= 2
        arrays["vectors.columns"], arrays["vectors.values"] = (
            np.append(columns, columns[-1]),
            np.append(values, values[-1]),
        )

    before = ms.load_model(thin)
    after = ms.load_model(forge_model(thin, change))
    np.testing.assert_allclose(after.scores(NEW_THIN), before.scores(NEW_THIN), rtol=1e-12, atol=1e-12)


def test_a_wide_file_of_no_vectors_takes_no_memory_that_it_does_not_have(thin):
    def change(fields: dict[str, Any], arrays: dict[str, Any]) -> None:
        fields.update(width=2**50, sparse=False)
        for name in ("starts", "columns", "values"):
            del arrays[f"vectors.{name}"]
        arrays.update(vectors=np.zeros((0, 2**50)), coefs=np.zeros((2, 0)), support=arrays["support"] * 0)

    with pytest.raises(errors.InvalidContentError, match="'anchor'"):
        ms.load_model(forge_model(thin, change))


def test_a_kernel_model_takes_no_feature_map(dense, tmp_path):
    mapped = ms.learn(X, Y, features=ms.features.Fourier(4).freeze(X))
    ms.solve(mapped, multiclass="ovo").save(tmp_path / "mapped")
    header, arrays = read_container(tmp_path / "mapped", "model")

    def change(fields: dict[str, Any], held: dict[str, Any]) -> None:
        fields["features"] = header.fields["features"]
        held.update({name: array for name, array in arrays.items() if name.startswith("features.")})

    with pytest.raises(errors.InvalidHeaderError, match="a kernel model with a feature map"):
        ms.load_model(forge_model(dense, change))
