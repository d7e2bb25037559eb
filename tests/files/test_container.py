"""Our files: what is written is read to the last bit, and whatever is not as it should be has an error of its own."""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

import mergesvm as ms
from forging import forge
from mergesvm import errors
from mergesvm.files import container
from mergesvm.files.container import read_container
from mergesvm.knowledge.provenance.origin import Origin

X = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, -1.5], [4.0, 0.25], [0.1, 0.2], [-3.0, 1e-3]])
Y = ["no", "yes", "maybe", "no", "yes", "maybe"]

ORIGINS = (
    Origin("day1.csv", 4, "2026-01-02T03:04:05+00:00"),
    Origin("[/]\x1b[2J\n\ud800", 10**30, "", taken_back=True),
)


def knowledge(**terms: Any) -> ms.Knowledge:
    return ms.learn(X, Y, feature_names=["size", "[/]"], **terms)


def pooled() -> ms.Knowledge:
    return knowledge(per_class=False, class_weight={"no": 1.0, "yes": 0.1, "maybe": 3})


def content(piece: ms.Knowledge) -> tuple[Any, ...]:
    """All that knowledge consists of, arrays as bytes."""
    arrays = [(array.dtype.str, array.shape, array.tobytes()) for array in piece.arrays()]
    return (
        piece.signature,
        piece.labels,
        [type(label) for label in piece.labels],
        piece.precision,
        piece.provenance,
        arrays,
    )


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "day.knowledge"
    replace(knowledge(), provenance=ORIGINS).save(path)
    return path


@pytest.fixture
def weighted(tmp_path):
    path = tmp_path / "pooled.knowledge"
    pooled().save(path)
    return path


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "day.msvm"
    ms.solve(knowledge(), class_weight={"no": 1, "yes": 2.5, "maybe": 1}).save(path)
    return path


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.msvm"
    ms.solve(knowledge(), multiclass="ovo").save(path)
    return path


@pytest.fixture
def steps(tmp_path):
    path = tmp_path / "steps.msvm"
    ms.PegasosSVC(n_iter=10, class_weight={"no": 1, "yes": 2.5, "maybe": 1}).fit(X, Y).model_.save(path)
    return path


# What is written is read.

LABELS: dict[str, list[Any]] = {
    "text": ["a", "b", "a", "", "\0", "é\u202e\U0001f600"],
    "surrogates": ["\ud800", "\udfff", "a", "a", "a", "a"],
    "long text": ["a" * 100_000, "b", "b", "b", "b", "b"],
    "whole numbers": [-1, 0, 7, 2**63 - 1, -(2**63), 7],
    "beyond 64 bits": [10**30, -(10**40), 2**64, 2**64 + 1, 0, 1],
    "booleans": [True, False, True, True, False, False],
    "decimals": [1.0, -0.0, 1e300, 2.0**60, -5.0, 1.0],
    "one class": ["a"] * 6,
}


@pytest.mark.parametrize("kind", list(LABELS))
@pytest.mark.parametrize("per_class", [True, False])
def test_labels_of_every_kind_come_back_as_they_were(kind, per_class, tmp_path):
    piece = ms.learn(X, LABELS[kind], per_class=per_class)
    piece.save(tmp_path / "k")
    assert content(ms.Knowledge.load(tmp_path / "k")) == content(piece)


HOSTILE_NAMES = [
    ["", " "],
    ["a\nb", "a\rb"],
    ["[red]x[/]", "\x1b]0;x\x07"],
    ["__metadata__", "__proto__"],
    ["\ud800", "\0"],
    ["é", "e\u0301"],
    ['"', "\\"],
    ["x" * 100_000, "y"],
]


@pytest.mark.parametrize("names", HOSTILE_NAMES, ids=lambda names: ascii(names)[:30])
def test_any_names_come_back_as_they_were(names, tmp_path):
    piece = ms.learn(X, Y, feature_names=names)
    piece.save(tmp_path / "k")
    ms.solve(piece).save(tmp_path / "m")
    assert content(ms.Knowledge.load(tmp_path / "k")) == content(piece)
    assert ms.load_model(tmp_path / "m").feature_names_ == tuple(names)


def test_class_weights_of_the_pooled_form_come_back(tmp_path):
    piece = pooled()
    piece.save(tmp_path / "k")
    assert content(ms.Knowledge.load(tmp_path / "k")) == content(piece)


def test_knowledge_of_no_classes_comes_back(tmp_path):
    for piece in (
        ms.subtract(knowledge(), knowledge(), force=True),
        ms.subtract(pooled(), pooled(), force=True),
        ms.Knowledge.zero(ms.Signature(ms.features.Identity(), 3)),
    ):
        piece.save(tmp_path / "k")
        assert content(ms.Knowledge.load(tmp_path / "k")) == content(piece)


def test_precision_peaks_and_provenance_come_back(tmp_path):
    wide = np.random.default_rng(0).normal(size=(40, 200))
    whole = ms.learn(wide, [i % 3 for i in range(40)], precision="float32")
    part = ms.learn(wide[:9], [i % 3 for i in range(9)], precision="float32")
    rest = replace(ms.subtract(whole, part, force=True), provenance=ORIGINS)
    assert rest.precision == "float32"
    assert rest.peaks.any()
    rest.save(tmp_path / "k")
    assert content(ms.Knowledge.load(tmp_path / "k")) == content(rest)


def test_categories_come_back_with_the_types_of_their_values(tmp_path):
    categories = (("colour", ("red", "[/]")), ("size", (1, 2, True, -(10**25))))
    piece = replace(knowledge(), signature=replace(knowledge().signature, categories=categories))
    piece.save(tmp_path / "k")
    assert repr(ms.Knowledge.load(tmp_path / "k").signature) == repr(piece.signature)


def test_numbers_at_the_edge_of_float64_come_back(tmp_path):
    piece = ms.learn([[5e-324, -0.0], [1e99, 2.0**-1074], [-1e99, 1.0]], ["a", "b", "b"])
    piece.save(tmp_path / "k")
    assert content(ms.Knowledge.load(tmp_path / "k")) == content(piece)


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
@pytest.mark.parametrize("labels", [["a", "b", "a", "b", "a", "b"], Y, ["a"] * 6])
def test_a_model_predicts_the_same_to_the_last_bit(multiclass, labels, tmp_path):
    piece = replace(ms.learn(X + 1e4, labels, feature_names=["a", "b"]), provenance=ORIGINS)
    before = ms.solve(piece, multiclass=multiclass, C=0.3, standardize=True, class_weight="balanced")
    before.save(tmp_path / "m")
    after = ms.load_model(tmp_path / "m")
    assert type(after) is type(before)
    assert repr(after) == repr(before)
    assert after.domain.options == before.domain.options
    assert (after.signature, after.labels, after.domain.provenance) == (before.signature, before.labels, ORIGINS)
    for method in ("predict", "predict_proba", "decision_function"):
        one, other = getattr(before, method)(X + 1e4), getattr(after, method)(X + 1e4)
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


@given(
    seed=st.integers(0, 2**32 - 1),
    offset=st.sampled_from([0.0, 1.0, 1e6, 1e9]),
    scale=st.sampled_from([1e-9, 1.0, 1e9]),
    weights=st.sampled_from(["none", "tenths", "wild"]),
    per_class=st.booleans(),
)
def test_what_subtraction_leaves_can_be_read_again(tmp_path_factory, seed, offset, scale, weights, per_class):
    rng = np.random.default_rng(seed)
    rows, labels = rng.normal(size=(30, 3)) * scale + offset, rng.integers(0, 3, size=30)
    weight = {"none": None, "tenths": np.full(30, 0.1), "wild": 10.0 ** rng.uniform(-6, 6, size=30)}[weights]

    def learned(some: slice | list[int]) -> ms.Knowledge:
        return ms.learn(rows[some], labels[some], None if weight is None else weight[some], per_class=per_class)

    first = int(rng.integers(1, 29))
    pieces = [learned([index]) for index in rng.permutation(first)]
    rest = learned(slice(None))
    try:
        for piece in pieces:
            rest = ms.subtract(rest, piece, force=True)
    except errors.SubtractionError:  # rounding has eaten a class: it is said, and nothing is left to be read
        return
    path = tmp_path_factory.mktemp("rest") / "k"
    rest.save(path)
    assert content(ms.Knowledge.load(path)) == content(rest)


# Files of every format stay readable.

KNOWLEDGE_1 = (
    "H4sIAAAAAAACA5WTwY6bMBCGt2ofoIc+QORr2dQGwwakKnuq1PveQoSMGQcUwJExSdMo79RH6SP0EfbYY42Nqt2GrLYW0mjG/zf/YMPvtzd2nV"
    "CWNaBZwTTLMpSc0LZqC5SgBtQGun0z27byUEOxAeShElgByuyeUiSA6V5Bl6JklqKqgFZX+pgiz2SHqtDlsOEPWcsaJ1ulqKu+g9NwWctefVZp"
    "2mMsIp2itS0zDRupqpGwtR2ojNessyWterDCoZAdoNqU+om2ZjnU41AavunRbBD/HWL1aW1dIXa7rXTxOCicowJedZVsXSNRS6Yj6lQ7JffQsp"
    "aDbWeOojMv4rIUFexI5rzbO62SB2tK7amUMPbzsR/dYnKL/QccJJgmOPyIcYKxozTbQpvljG8HuWB1B2dvdmmEL43IFSPyYPub57rRcLJnd4hV"
    "rpg6uh54TuZGfzb335XMDyNz/zHzOec+zcMoXuQkJCImORRBzHIeBiKPQ8KBCMJzfMcFYSHkBSnCWAjMaXFHTS8hVcO06UXQ2bPzD19foY87MM"
    "WvEXV+Q7YK1h6yX6gUogNtlCvs+XRtQHMPpVRP0S/PUP8S9alH8cBy2be6u85O2FLsRdZ3o1jzEupNwBH1SBAN9A7Y9kV6YmyDemRhzbu++W96"
    "QT0/8Nfn82xYb9zvf/NvnF6Py+mI75/nP5av43+N8efy5lXrw+jzbozv76f5S58/okXIFugEAAA="
)

MODEL_1 = (
    "H4sIAAAAAAACA5VUTWjUQBSuf1f1IIrioY4Xpek6mU3W3aDsQRDUoxWEpoRJ8rIbNj9lMrvtWvfkQQQP6kEQPXtSkIIWQYiCHirYSxV7KIKgB0"
    "VQPOhNnUxiXVtXdFiYfW++73s/8yafNg7JNYMsKwROXcqpZSFjBiVNSvQKMpBeU51KzVM9VdM0qHkVoqu27Xq2B1oNiEYOlqFa1ohDbNvBugvE"
    "1cseIQ6olZru2UhBTaAuMKE1YyIPKG8zSExkDJvIdyHiPu+aSBHWlO/yZnZAMiuiYQ4bN1Hin4Ec48RB3GaHmWm2MfYq3EQT0k05NGLmFwzpmw"
    "RmOQFNpIuzNkhg5rCmwG80eR82oDYERVIcpnkRLAOvJDF+YEJGhVp+GsX53s0QeUQWdyCikQOSIspNRLK5ZSKXdtWSk3RyFounpLAmK29ClIMI"
    "JpVRrI5iMobLBtYMrI9gbGCcszhtQWTZ1GllcI8GCfSU4bWB8NpA6oBA6pjUF7/BgbLu9fJG+TajrJtr4JJaKvBh7EKQewM/AsoKmeJGonYQZH"
    "YSBx1gOc5pxgEkreLyObAw+dm2I3IKSnj1jfVLhe2A+yv3a6K4U8RMOI1cylw5M0WT8nmIaCCclh+JYA5M8l+l9cSYejELKRdjqgqj5Ueu+BsC"
    "a0DSCYdlfainyHZmD8Tl3UkQiGMVTcDFc8ms8fKEguQjij0vAS6Q41gh2oQgirFoxqyfevQ3KllLJZqi4YzrxOAlg6ll5Q9kDSvVakZecQ2kry"
    "VXq4qqkoydOLF4riUn7lDmZ6P9tzT+oCRkFLWq9UmFQKPkf1WqmiK+R30qAi62/ypKCCikKhraW5d/9oZW76uXr39d3vZ9qb7/3eXT5y4spQbd"
    "NH92x2I6++3uidcvXtWXW1+2bzk5n+5ZfHdv9sqr9Pj5hmC8SY3b+748n7ufPr089/LD6EI9V7tzaOif1qUHg07sm3zn+q3v63sv3tpw48nndO"
    "HR24Pvr71NPx5emly+9Cl1F0c2f2gs1ae37b46/XUhffhs2Lj+fTm1dvmP1uuPUyLzmk9PyfWivnr/AW/EUWYQBgAA"
)


def frozen(path: Path, text: str) -> Path:
    path.write_bytes(gzip.decompress(base64.b64decode(text)))
    return path


def check_frozen(folder: Path) -> None:
    piece = ms.Knowledge.load(frozen(folder / "1.knowledge", KNOWLEDGE_1))
    assert piece.labels == ("[/]é", "no", "yes")
    assert piece.signature.names == ("size", "colour=röt")
    assert piece.sums.tolist() == [[4.0, 0.25], [0.0, 1.0], [1.0, 0.5]]
    assert piece.grams[0].tolist() == [[16.0, 1.0], [1.0, 0.0625]]
    assert piece.peaks.tolist() == [[0.0, 0.0], [0.0, 0.0], [5.0, 2.5]]
    assert [origin.rows for origin in piece.provenance] == [4, 1]
    assert piece.provenance[1] == Origin("day0.csv", 1, "2026-01-01T00:00:00+00:00", taken_back=True)
    solved = ms.load_model(frozen(folder / "1.msvm", MODEL_1))
    assert solved.predict([[0.0, 1.0], [4.0, 0.25]]).tolist() == ["no", "[/]é"]
    np.testing.assert_allclose(solved.intercept_, [-0.6519733470015379, -0.10046130189646343, 0.2357765248590467])


def test_files_of_format_1_can_be_read_for_ever(tmp_path):
    check_frozen(tmp_path)


def test_files_of_format_1_can_be_read_once_there_is_another_format(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "FORMAT", container.FORMAT + 1)
    check_frozen(tmp_path)


# What is no file of ours.


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    for name in ("nowhere", "no/where", "\0", "x" * 1000):
        for load in (ms.Knowledge.load, ms.load_model):
            with pytest.raises(errors.MissingFileError, match=r"no (such )?file"):
                load(tmp_path / name)


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(errors.ForeignFileError, match="not a file"):
        ms.Knowledge.load(tmp_path)


FOREIGN = {
    "empty": b"",
    "short": b"\x08\0\0",
    "text": b"a,b\n1,2\n" * 100,
    "zip": b"PK\x03\x04" + bytes(100),
    "pickle": b"\x80\x04\x95" + bytes(100),
    "a header of exabytes": (2**63).to_bytes(8, "little") + b"{}",
    "a header longer than the file": (10**6).to_bytes(8, "little") + b"{}",
    "deep": (10**6).to_bytes(8, "little") + b"[" * 10**6,
    "plain safetensors": save({"a": np.zeros(3)}),
    "safetensors of another": save({"a": np.zeros(3)}, {"format": "pt"}),
    "another kind of kind": save({"a": np.zeros(3)}, {"format": "1", "kind": "mergesvm"}),
    "another name": save({"a": np.zeros(3)}, {"format": "1", "kind": "othersvm knowledge"}),
    "no format": save({"a": np.zeros(3)}, {"kind": "mergesvm knowledge"}),
}


@pytest.mark.parametrize("kind", list(FOREIGN))
def test_a_foreign_file_is_said_to_be_foreign(kind, tmp_path):
    path = tmp_path / "k"
    path.write_bytes(FOREIGN[kind])
    for load in (ms.Knowledge.load, ms.load_model):
        with pytest.raises(errors.ForeignFileError, match="mergesvm"):
            load(path)


@pytest.mark.parametrize("number", ["", "x", "-1", "1.0", " 1", "+1", "¹", "0x1", "9" * 400, "0"])
def test_a_format_that_never_was_is_foreign(number, stored):
    with pytest.raises(errors.ForeignFileError, match="not a mergesvm file"):
        ms.Knowledge.load(forge(stored, "knowledge", format=number))


@pytest.mark.parametrize("number", [str(container.FORMAT + 1), "99999999"])
def test_a_newer_format_asks_for_an_upgrade(number, stored):
    with pytest.raises(errors.NewerFormatError, match=f"format {number}.*Upgrade"):
        ms.Knowledge.load(forge(stored, "knowledge", format=number))


def test_model_files_are_not_loaded_as_knowledge_nor_knowledge_as_models(stored, model):
    with pytest.raises(errors.WrongKindError, match="holds a model, not knowledge"):
        ms.Knowledge.load(model)
    with pytest.raises(errors.WrongKindError, match="holds knowledge, not a model"):
        ms.load_model(stored)


def test_a_kind_that_is_not_known_is_the_wrong_one(stored):
    with pytest.raises(errors.WrongKindError, match="holds poetry"):
        ms.Knowledge.load(forge(stored, "knowledge", kind="mergesvm poetry"))


def test_a_file_without_or_with_a_wrong_digest_is_damaged(stored):
    for digest in (None, "", "0" * 64):
        with pytest.raises(errors.DamagedFileError, match="does not match its digest"):
            ms.Knowledge.load(forge(stored, "knowledge", sha256=digest))


def test_a_changed_bit_of_an_array_is_damage(stored):
    data = bytearray(stored.read_bytes())
    data[-3] ^= 1
    stored.write_bytes(data)
    with pytest.raises(errors.DamagedFileError, match="Copy or create it again"):
        ms.Knowledge.load(stored)


def test_a_million_arrays_are_refused_at_once(tmp_path):
    names = {f"a{i}": {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]} for i in range(200_000)}
    header = json.dumps({"__metadata__": {"format": "1", "kind": "mergesvm knowledge"}, **names}).encode()
    (tmp_path / "k").write_bytes(len(header).to_bytes(8, "little") + header)
    began = time.process_time()
    with pytest.raises(errors.FileError):
        ms.Knowledge.load(tmp_path / "k")
    assert time.process_time() - began < 1.5


# Headers.

TEXTS = {
    "nothing": "",
    "no JSON": "{",
    "a list": "[]",
    "null": "null",
    "NaN": '{"width": NaN}',
    "Infinity": '{"width": -Infinity}',
    "a field twice": '{"width": 1, "width": 1}',
    "a field twice within": '{"terms": [{"C": 1, "C": 1}]}',
    "deep": "[" * 200_000 + "]" * 200_000,
    "deep objects": '{"a":' * 200_000 + "1" + "}" * 200_000,
    "a huge number": '{"width": ' + "9" * 5000 + "}",
    "something behind": "{} {}",
    "a byte order mark": "\ufeff{}",
}


@pytest.mark.parametrize("what", list(TEXTS))
def test_headers_that_are_not_json_objects_are_invalid(what, stored):
    with pytest.raises(errors.InvalidHeaderError, match=r"day\.knowledge"):
        ms.Knowledge.load(forge(stored, "knowledge", text=TEXTS[what]))


SIGNATURE_FIELDS = ["features", "width", "names", "categories", "per_class", "class_weights", "labels"]
KNOWLEDGE_FIELDS = [*SIGNATURE_FIELDS, "classes", "precision", "provenance"]
MODEL_FIELDS = [*SIGNATURE_FIELDS, "classes", "provenance", "model", "solver", "terms"]
TERMS = ["C", "class_weight", "multiclass", "standardize", "penalize_intercept"]


@pytest.mark.parametrize("name", KNOWLEDGE_FIELDS)
def test_a_header_of_knowledge_without_a_field_is_invalid(name, stored):
    with pytest.raises(errors.InvalidHeaderError, match=f"no field {name!r}"):
        ms.Knowledge.load(forge(stored, "knowledge", lambda fields, _: fields.pop(name)))


@pytest.mark.parametrize("name", MODEL_FIELDS)
def test_a_header_of_a_model_without_a_field_is_invalid(name, model):
    with pytest.raises(errors.InvalidHeaderError, match=f"no field {name!r}"):
        ms.load_model(forge(model, "model", lambda fields, _: fields.pop(name)))


@pytest.mark.parametrize("name", TERMS)
def test_terms_without_a_field_are_invalid(name, model):
    with pytest.raises(errors.InvalidHeaderError, match=f"no field {name!r}"):
        ms.load_model(forge(model, "model", lambda fields, _: fields["terms"][0].pop(name)))


def test_a_pairwise_model_needs_a_rule_for_ties(pairs):
    for value in (None, "coin", 1):
        with pytest.raises(errors.InvalidHeaderError, match="'ties'"):
            ms.load_model(forge(pairs, "model", lambda fields, _, value=value: fields.update(ties=value)))


WRONG: list[tuple[str, list[Any]]] = [
    ("features", ["fourier", None, 1, "", ["identity"]]),
    ("width", [0, -1, 1.0, "2", None, True, 3, 10**18, 10**400, [2]]),
    ("names", ["ab", ["a"], ["a", "a"], ["a", 1], ["a", None], [["a"], "b"], {}, 1, ["a", "b", "c"], False]),
    ("categories", [None, {}, "x", [1], [["a", ["b"]]], [{"column": "a"}], [{"values": ["a"]}], [{}]]),
    (
        "categories",
        [[{"column": 1, "values": ["a"]}], [{"column": "a", "values": "a"}], [{"column": "a", "values": {}}]],
    ),
    ("categories", [[{"column": "a", "values": [None]}], [{"column": "a", "values": [["b"]]}]]),
    ("per_class", [None, 0, 1, "true", [True]]),
    ("class_weights", [None, {}, {"no": 1}, [1], [{}], [{"class": "no"}], [{"weight": 1}]]),
    ("class_weights", [[{"class": "no", "weight": weight}] for weight in (0, -1, None, "1", True, 10**400, [1])]),
    ("class_weights", [[{"class": label, "weight": 1}] for label in (None, [], {}, 1.5)]),
    ("labels", ["", "Text", 1, None, True, [], "whole number", "boolean", "decimal"]),
    ("classes", [None, "no", {}, ["no", "maybe", "yes"], ["maybe", "no", "no"], [1, 2, 3], [True, False, True]]),
    ("classes", [["maybe", "no", 1], [None, "a", "b"], [["a"], "b", "c"], [1.5, 2.5, 3.5]]),
    ("precision", [None, "float16", 32, "FLOAT64", ["float64"]]),
    ("provenance", [None, {}, "x", [1], [{}], [{"source": "a", "rows": 1, "when": ""}], [["a", 1, "", False]]]),
    ("provenance", [[{"source": 1, "rows": 1, "when": "", "taken_back": False}]]),
    ("provenance", [[{"source": "a", "rows": rows, "when": "", "taken_back": False}] for rows in (-1, 1.0, "1", True)]),
    ("provenance", [[{"source": "a", "rows": 1, "when": None, "taken_back": False}]]),
    ("provenance", [[{"source": "a", "rows": 1, "when": "", "taken_back": 0}]]),
]
WRONG_IN_MODEL: list[tuple[str, list[Any]]] = [
    ("classes", [[]]),
    ("model", [None, "quadratic", 1, ["linear"]]),
    ("solver", [None, "svd", 1]),
    ("terms", [None, {}, [], [{}, {}], "x", [1]]),
]
WRONG_TERMS: list[tuple[str, list[Any]]] = [
    ("C", [None, "1", True, 10**400, [1.0]]),
    ("class_weight", [1, True, [1], [{"class": "no"}], [{"weight": 1}], [{"class": [], "weight": 1}]]),
    ("class_weight", [[{"class": "no", "weight": weight}] for weight in (None, "1", True, 10**400)]),
    ("multiclass", [None, "ova", 1]),
    ("standardize", [None, 1, "yes"]),
    ("penalize_intercept", [None, 0]),
]


STEP_TERMS = [
    *("lambda_", "n_iter", "batch_size", "average", "project", "fit_intercept", "intercept_scaling"),
    *("class_weight", "multiclass"),
]
WRONG_STEP_TERMS: list[tuple[str, list[Any]]] = [
    ("lambda_", [None, "1", True, 0, -1.0, 10**400, 1e99, [1.0]]),
    ("n_iter", [None, "1", True, 0, -1, 1.0, 10**400, 2**53]),
    ("batch_size", [None, 0, 1.0, 10**400]),
    ("average", [None, True, -0.1, 1.5, "half"]),
    ("project", [None, 0, "no"]),
    ("fit_intercept", [None, 1]),
    ("intercept_scaling", [0, -1.0, "1", True, 10**400]),
    ("class_weight", [1, True, [1], [{"class": "no"}], [{"class": [], "weight": 1}]]),
    ("multiclass", [None, "ova"]),
]


def cases(table: list[tuple[str, list[Any]]]) -> list[Any]:
    return [pytest.param(name, value, id=f"{name}={str(value)[:40]!a}") for name, values in table for value in values]


@pytest.mark.parametrize(("name", "value"), cases(WRONG))
def test_a_field_of_a_wrong_type_or_value_is_refused(name, value, stored, model):
    def change(fields: dict[str, Any], _: Any) -> None:
        fields[name] = value

    # A width that does not belong to the arrays is found out by them.
    expected = errors.InvalidContentError if name == "width" and value == 10**400 else errors.FileError
    with pytest.raises((errors.InvalidHeaderError, expected)) as caught:
        ms.Knowledge.load(forge(stored, "knowledge", change))
    assert len(str(caught.value)) < 2000
    if name != "precision":
        with pytest.raises((errors.InvalidHeaderError, errors.InvalidContentError)):
            ms.load_model(forge(model, "model", change))


@pytest.mark.parametrize(("name", "value"), cases(WRONG_IN_MODEL))
def test_a_wrong_field_of_a_model_is_refused(name, value, model):
    with pytest.raises(errors.InvalidHeaderError):
        ms.load_model(forge(model, "model", lambda fields, _: fields.update({name: value})))


@pytest.mark.parametrize(("name", "value"), cases(WRONG_TERMS))
def test_a_wrong_term_of_a_model_is_refused(name, value, model):
    with pytest.raises(errors.InvalidHeaderError):
        ms.load_model(forge(model, "model", lambda fields, _: fields["terms"][0].update({name: value})))


@pytest.mark.parametrize("name", STEP_TERMS)
def test_terms_of_pegasos_without_a_field_are_invalid(name, steps):
    with pytest.raises(errors.InvalidHeaderError, match=f"no field {name!r}"):
        ms.load_model(forge(steps, "model", lambda fields, _: fields["terms"][0].pop(name)))


@pytest.mark.parametrize(("name", "value"), cases(WRONG_STEP_TERMS))
def test_a_wrong_term_of_pegasos_is_refused(name, value, steps):
    with pytest.raises(errors.InvalidHeaderError) as caught:
        ms.load_model(forge(steps, "model", lambda fields, _: fields["terms"][0].update({name: value})))
    assert len(str(caught.value)) < 2000


def test_terms_have_to_be_those_of_the_solver(model, steps):
    with pytest.raises(errors.InvalidHeaderError, match="no field 'intercept_scaling'"):
        ms.load_model(forge(model, "model", lambda fields, _: fields.update(solver="pegasos")))
    with pytest.raises(errors.InvalidHeaderError, match="no field 'C'"):
        ms.load_model(forge(steps, "model", lambda fields, _: fields.update(solver="recursive")))


def test_models_of_recursive_least_squares_have_the_usual_terms(model):
    forge(model, "model", lambda fields, _: fields.update(solver="recursive"))
    assert ms.load_model(model).solver_ == "recursive"


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_a_number_too_large_for_a_float_is_refused(number, weighted):
    header, _ = read_container(weighted, "knowledge")
    text = json.dumps(header.fields).replace('"weight": 0.1', f'"weight": {number}')
    assert number in text
    with pytest.raises(errors.InvalidHeaderError, match="not finite"):
        ms.Knowledge.load(forge(weighted, "knowledge", text=text))


def test_weights_of_a_class_given_twice_are_refused(weighted):
    with pytest.raises(errors.InvalidHeaderError):
        ms.Knowledge.load(
            forge(weighted, "knowledge", lambda fields, _: fields["class_weights"].append(fields["class_weights"][0]))
        )


def test_a_pairwise_model_of_two_classes_is_refused(pairs):
    with pytest.raises(errors.InvalidHeaderError, match="pairwise model of 2"):
        ms.load_model(forge(pairs, "model", lambda fields, _: fields["classes"].pop()))


def test_a_million_names_are_read_within_seconds(tmp_path):
    names = [f"name {i}" for i in range(300_000)]
    (tmp_path / "k").write_bytes(b"")
    knowledge().save(tmp_path / "k")
    with pytest.raises(errors.InvalidHeaderError, match="300000 names for 2 features"):
        ms.Knowledge.load(forge(tmp_path / "k", "knowledge", lambda fields, _: fields.update(names=names)))


# Arrays.

KNOWLEDGE_ARRAYS = ["anchor", "rows", "counts", "sums", "peaks", "grams"]
MODEL_ARRAYS = ["anchor", "rows", "coefs", "offsets", "scores.means", "scores.covariance", "scores.shares"]
PAIRS_ARRAYS = [*MODEL_ARRAYS[:5], "scores.variances", "scores.counts"]

SPOILED: dict[str, Callable[[Any], Any]] = {
    "missing": lambda _: None,
    "one row less": lambda array: array[:-1],
    "empty": lambda array: array[:0],
    "another dimension": lambda array: array[None],
    "flat or deep": lambda array: array.reshape(-1, 1) if array.ndim == 1 else array.ravel(),
    "a number": lambda _: np.array(1.0),
}
TYPED: dict[str, Callable[[Any], Any]] = {
    "float32": lambda array: array.astype(np.float32),
    "int32": lambda array: array.astype(np.int32),
    "the other of both types": lambda array: array.astype(np.float64 if array.dtype.kind == "i" else np.int64),
    "booleans": lambda array: array.astype(bool),
}
ALL_ARRAYS = [
    *(("stored", "knowledge", name) for name in KNOWLEDGE_ARRAYS),
    *(("weighted", "knowledge", name) for name in KNOWLEDGE_ARRAYS),
    *(("model", "model", name) for name in MODEL_ARRAYS),
    *(("pairs", "model", name) for name in PAIRS_ARRAYS),
]


def load(path: Path, kind: str) -> Any:
    return ms.Knowledge.load(path) if kind == "knowledge" else ms.load_model(path)


def put(name: str, value: Any) -> Callable[[Any, dict[str, Any]], None]:
    def change(_: Any, arrays: dict[str, Any]) -> None:
        made = value(arrays[name])
        if made is None:
            del arrays[name]
        else:
            arrays[name] = made

    return change


@pytest.mark.parametrize(("fixture", "kind", "name"), ALL_ARRAYS)
@pytest.mark.parametrize("how", [*SPOILED, *TYPED])
def test_an_array_of_a_wrong_shape_or_type_is_refused(fixture, kind, name, how, request):
    path = request.getfixturevalue(fixture)
    with pytest.raises((errors.InvalidContentError, errors.DamagedFileError), match=name):
        load(forge(path, kind, put(name, {**SPOILED, **TYPED}[how])), kind)


@pytest.mark.parametrize(("fixture", "kind", "name"), [case for case in ALL_ARRAYS if case[2] != "rows"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused(fixture, kind, name, value, request):
    def spoil(array: Any) -> Any:
        array.reshape(-1)[-1] = value
        return array

    with pytest.raises(errors.InvalidContentError, match="not finite"):
        load(forge(request.getfixturevalue(fixture), kind, put(name, spoil)), kind)


@pytest.mark.parametrize("name", ["extra", "scores.more", "\x1b[2J"])
def test_an_array_too_many_is_refused(name, stored, model):
    for path, kind in ((stored, "knowledge"), (model, "model")):
        with pytest.raises(errors.InvalidContentError, match="is not valid: it holds"):
            load(forge(path, kind, lambda _, arrays: arrays.update({name: np.zeros(1)})), kind)


NOT_POSITIVE = [
    *(("stored", "rows", value) for value in (0, -1, -(2**63))),
    *(("stored", "counts", value) for value in (0.0, -1.0, -0.0)),
    ("stored", "peaks", -1.0),
    *(("model", "rows", value) for value in (0, -1)),
    ("model", "scores.shares", -0.1),
    ("pairs", "scores.variances", -1.0),
    ("pairs", "scores.counts", -1.0),
]


@pytest.mark.parametrize(("fixture", "name", "value"), NOT_POSITIVE)
def test_a_count_that_no_rows_have_is_refused(fixture, name, value, request):
    kind = "knowledge" if fixture == "stored" else "model"

    def spoil(array: Any) -> Any:
        array.reshape(-1)[0] = value
        return array

    with pytest.raises(errors.InvalidContentError):
        load(forge(request.getfixturevalue(fixture), kind, put(name, spoil)), kind)


def test_counts_of_zero_in_the_scores_of_a_model_are_refused(pairs):
    with pytest.raises(errors.InvalidContentError):
        load(forge(pairs, "model", put("scores.counts", lambda array: array * 0)), "model")


@pytest.mark.parametrize("fixture", ["stored", "weighted"])
@pytest.mark.parametrize("factor", [1.01, 2.0, 1e10, 1e90])
def test_sums_too_large_for_their_squares_are_refused(fixture, factor, request):
    """For all rows alike v^2 = n M: any larger sum is that of no rows."""
    path = request.getfixturevalue(fixture)
    ms.learn([[3.0, 2.0]] * 4, ["a"] * 4, per_class=fixture == "stored", anchor=[0.0, 0.0]).save(path)
    _, arrays = read_container(path, "knowledge")
    if not arrays["sums"].any():  # kept about the rows themselves
        return
    with pytest.raises(errors.InvalidContentError, match="not those of any set of rows"):
        load(forge(path, "knowledge", put("sums", lambda array: array * factor)), "knowledge")


@pytest.mark.parametrize("fixture", ["stored", "weighted"])
def test_a_negative_square_is_refused(fixture, request):
    with pytest.raises(errors.InvalidContentError, match="a sum of squares that is negative"):
        load(forge(request.getfixturevalue(fixture), "knowledge", put("grams", lambda array: -array)), "knowledge")


@pytest.mark.parametrize(
    ("name", "value"), [("sums", 1e200), ("sums", -1.7e308), ("counts", 5e-324), ("grams", -1.7e308)]
)
def test_numbers_whose_squares_overflow_are_refused_without_a_warning(name, value, stored):
    with pytest.raises(errors.InvalidContentError):
        load(forge(stored, "knowledge", put(name, lambda array: np.full_like(array, value))), "knowledge")


@pytest.mark.parametrize("fixture", ["model", "pairs"])
def test_planes_that_overflow_about_their_anchor_are_refused_without_a_warning(fixture, request):
    def change(_: Any, arrays: dict[str, Any]) -> None:
        arrays["coefs"][:] = 1e200
        arrays["anchor"][:] = 1e200

    with pytest.raises(errors.InvalidContentError):
        load(forge(request.getfixturevalue(fixture), "model", change), "model")


def test_nothing_is_left_open_or_changed_by_a_file_that_is_refused(stored, model):
    before = stored.read_bytes(), model.read_bytes()
    for path in (stored, model):
        for load_it in (ms.Knowledge.load, ms.load_model):
            try:
                load_it(path)
            except errors.WrongKindError:
                continue
    assert (stored.read_bytes(), model.read_bytes()) == before
    assert sorted(file.name for file in stored.parent.iterdir()) == ["day.knowledge", "day.msvm"]


def test_loaded_arrays_are_read_only(stored, model):
    piece, solved = ms.Knowledge.load(stored), ms.load_model(model)
    for array in (*piece.arrays(), solved.coef_, solved.anchor_, solved.domain.rows):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
