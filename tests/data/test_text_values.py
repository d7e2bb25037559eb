"""Text stays text: labels, kept columns, groups and categories of CSV, whichever parser reads them."""

from __future__ import annotations

import csv
import gzip
from decimal import Decimal, InvalidOperation

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mergesvm as ms
from hunting import examples
from mergesvm.data.text_parser.label_kinds import MISSING

WAYS = ("general", "compiled", "gzipped", "tabs", "two files", "parts")


def write_csv(path, columns, delimiter=","):
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def scanned(way, folder, columns, patch, block=60, **options):
    """A scan of the same rows, read in another way; blocks are so small that each holds a few lines."""
    patch.setattr("mergesvm.data.readers.csv.MIN_BYTES_FOR_JIT", 0 if way in ("compiled", "parts") else 1 << 60)
    for name in ("readers.csv.BLOCK_BYTES", "readers.csv.INFERENCE_BYTES"):
        patch.setattr(f"mergesvm.data.{name}", max(block, 400))
    for name in ("text_parser.lines.CHUNK_BYTES", "text_parser.lines.FIRST_BYTES"):
        patch.setattr(f"mergesvm.data.{name}", block)
    if way == "two files":
        for index, part in enumerate((slice(None, 3), slice(3, None))):
            write_csv(folder / f"{index}.csv", {name: values[part] for name, values in columns.items()})
        return ms.scan(folder / "*.csv", **options)
    name = {"gzipped": "x.csv.gz", "tabs": "x.tsv"}.get(way, "x.csv")
    path = write_csv(folder / name, columns, "\t" if way == "tabs" else ",")
    return ms.scan(path, **options)


def classes(scan, way, patch):
    """The classes, or the error; in parts as workers see them."""
    try:
        if way != "parts":
            return ms.learn(scan).labels
        return learned_in_parts(scan).labels
    except ms.errors.DataError as error:
        if "continuous" not in str(error):
            raise
        return "continuous"


def learned_in_parts(scan):
    from mergesvm.knowledge.learning.local import learn_scan
    from mergesvm.knowledge.learning.options import SumOptions

    options = SumOptions(ms.features.Identity(), True, {}, "float64", ms.engines.Threads(1))

    def learn():
        parts = [scan.with_readers([part]) for reader in scan.readers for part in reader.split(40)]
        found = [learn_scan(part, options).knowledge for part in parts]
        return ms.merge([piece for piece in found if piece is not None])

    return scan.settled(learn)


def expected_classes(texts):
    """The rule, by other means: exact decimal arithmetic."""
    words = [text.strip(" \t") for text in texts]
    if all(is_whole(word) for word in words):
        return tuple(sorted({int(word) for word in words}))
    if all(word in ("true", "True", "TRUE", "false", "False", "FALSE") for word in words):
        return tuple(sorted({word.lower() == "true" for word in words}))
    numbers = [as_decimal(word) for word in words]
    if None not in numbers:
        whole = all(number == number.to_integral_value() for number in numbers)
        return tuple(sorted({float(number) for number in numbers})) if whole else "continuous"
    return tuple(sorted(set(texts)))


def is_whole(word):
    try:
        return str(int(word)) == word and -(2**63) <= int(word) < 2**63
    except ValueError:
        return False


def as_decimal(word):
    try:
        number = Decimal(word)
    except InvalidOperation:
        return None
    mantissa = word.lstrip("-").lower().split("e")[0]
    canonical = (
        word[0] != "+" and "_" not in word and word.isascii() and not (mantissa[0] == "0" and mantissa[1:2].isdigit())
    )
    return number if canonical and number.is_finite() and abs(number) < 2**53 else None


NAMED = ["0", "1", "-1", "2.0", "01", "0x1", "9007199254740993", "9007199254740992", "12345678901234567890", "true"]
NAMED += [
    "False",
    "a",
    "é",
    "1e3",
    "0.5",
    " 1",
    "-0",
    "+1",
    "2020-01-01",
    "12:30",
    "1_000",
    "N",
    "-",
    ".",
    "1.",
    'q"t',
    "a,b",
]
TEXTS = st.one_of(
    st.sampled_from(NAMED),
    st.integers(-(2**64), 2**64).map(str),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5).filter(
        lambda text: text not in MISSING
    ),
)


@settings(max_examples=examples(40), deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=12), way=st.sampled_from(WAYS), block=st.integers(30, 200))
@example(texts=["1", "0", "1", "0", "1", "2.0"], way="general", block=60)
@example(texts=["1"] * 30 + ["2.0"], way="compiled", block=60)
@example(texts=["0", "1"] * 15 + ["01"], way="compiled", block=60)
@example(texts=["0", "1"] * 15 + ["x"], way="parts", block=60)
@example(texts=["1.5"] * 30 + ["2.0.1"], way="parts", block=60)
@example(texts=["9007199254740993"] * 30 + ["9007199254740992", "1.0"], way="gzipped", block=60)
@example(texts=["9223372036854775807"] * 20 + ["9223372036854775808"], way="two files", block=60)
@example(texts=["true"] * 20 + ["1"], way="tabs", block=60)
def test_labels_do_not_depend_on_parser_blocks_and_parts(texts, way, block, tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    with pytest.MonkeyPatch.context() as patch:
        scan = scanned(way, folder, {"a": np.arange(len(texts)), "y": texts}, patch, block, label="y")
        found = classes(scan, way, patch)
    assert found == expected_classes(texts)
    assert [type(label) for label in found] == [type(label) for label in expected_classes(texts)]


@pytest.mark.parametrize("way", WAYS)
def test_ordinary_labels_are_what_they_were(way, tmp_path, monkeypatch):
    for number, (texts, labels) in enumerate(
        [
            ("0101", (0, 1)),
            (["1.0", "-1.0"] * 2, (-1.0, 1.0)),
            ("abab", ("a", "b")),
            (["True", "False"] * 2, (False, True)),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        scan = scanned(way, folder, {"a": range(4), "y": texts}, monkeypatch, label="y")
        found = ms.learn(scan)
        assert found.labels == labels
        assert type(found.labels[0]) is type(labels[0])
        assert found.rows.tolist() == [2, 2]


@pytest.mark.parametrize("way", WAYS)
def test_a_missing_label_is_not_a_class(way, tmp_path, monkeypatch):
    for number, word in enumerate(("", "NA", "nan", "null")):
        folder = tmp_path / str(number)
        folder.mkdir()
        columns = {"a": range(8), "y": [*"xyxy", word, *"xyx"]}
        scan = scanned(way, folder, columns, monkeypatch, label="y")
        with pytest.raises(ms.errors.DataError, match=r"row \d has no label in column 'y'"):
            ms.learn(scan)
        dropping = scanned(way, folder, columns, monkeypatch, label="y", missing="drop")
        assert ms.learn(dropping).labels == ("x", "y")
        assert dropping.dropped == 1


def test_labels_of_csv_are_those_of_parquet(tmp_path):
    texts = ["01", "1", "0x1F", "007", "NA.", "TRUE!", "12345678901234567890", "a b", "'"] * 3
    columns = {"a": np.arange(27.0) ** 2 % 7, "y": texts}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    write_csv(tmp_path / "x.csv", columns)
    one, two = (ms.learn(ms.scan(tmp_path / name, "y")) for name in ("x.csv", "x.parquet"))
    assert one.labels == two.labels
    np.testing.assert_array_equal((one + two).rows, 2 * two.rows)
    assert ms.learn(ms.scan([tmp_path / "x.csv", tmp_path / "x.parquet"], "y")).labels == two.labels


def test_numbers_in_text_join_the_type_of_a_file_that_has_types(tmp_path):
    write_csv(tmp_path / "x.csv", {"a": [1, 2], "y": ["1", "2"]})
    pq.write_table(pa.table({"a": [3.0, 4.0], "y": ["1", "x"]}), tmp_path / "x.parquet")
    assert ms.learn(ms.scan(tmp_path / "x.*", "y")).labels == ("1", "2", "x")
    pq.write_table(pa.table({"a": [3.0, 4.0], "y": [1, 3]}), tmp_path / "x.parquet")
    assert ms.learn(ms.scan(tmp_path / "x.*", "y")).labels == (1, 2, 3)
    write_csv(tmp_path / "x.csv", {"a": [1, 2], "y": ["1", "x"]})
    with pytest.raises(ms.errors.SignatureError, match="whole number labels"):
        ms.learn(ms.scan(tmp_path / "x.*", "y"))


def test_a_later_piece_takes_the_type_of_labels_of_an_earlier_one(tmp_path):
    days = [
        write_csv(tmp_path / f"{day}.csv", {"a": [1, 2], "y": texts}) for day, texts in enumerate((["1", "x"], "12"))
    ]
    text = ms.learn(ms.scan(days[0], "y"))
    assert ms.learn(ms.scan(days[1], "y")).labels == (1, 2)
    assert (text + ms.learn(ms.scan(days[1], "y", like=text))).labels == ("1", "2", "x")
    with pytest.raises(ms.errors.SignatureError, match="whole number labels"):
        _ = text + ms.learn(ms.scan(days[1], "y"))


def test_evaluation_compares_labels_as_those_of_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr("mergesvm.data.readers.csv.BLOCK_BYTES", 400)
    X = np.arange(200.0).reshape(-1, 1)
    text, whole = ms.solve(ms.learn(X, ["0", "x"] * 100)), ms.solve(ms.learn(X, [0, 1] * 100))
    zeros = write_csv(tmp_path / "zeros.csv", {"a": range(200), "y": ["0"] * 200})
    assert ms.evaluate(text, ms.scan(zeros, "y")).unknown == {}
    mixed = write_csv(tmp_path / "mixed.csv", {"a": range(200), "y": ["0", "1"] * 90 + ["1.0", "0.0"] * 10})
    assert ms.evaluate(whole, ms.scan(mixed, "y")).unknown == {}
    other = write_csv(tmp_path / "other.csv", {"a": range(200), "y": ["0", "1"] * 90 + ["x"] * 20})
    with pytest.raises(ms.errors.DataError, match=r"other\.csv has text labels such as '0'"):
        ms.evaluate(whole, ms.scan(other, "y"))


def test_a_stream_does_not_take_the_first_labels_for_all(tmp_path, monkeypatch):
    monkeypatch.setattr("mergesvm.data.readers.csv.BLOCK_BYTES", 400)
    path = write_csv(tmp_path / "x.csv", {"a": range(300), "y": ["0", "1"] * 140 + ["01"] * 20})
    machine = ms.RecursiveSVC().fit(ms.scan(path, "y"))
    assert machine.classes_.tolist() == ["0", "01", "1"]
    scan = ms.scan(path, "y", batch_rows=10)
    with pytest.raises(ms.errors.LabelKindError, match=r"x\.csv: row 280 has the label '01', .*settle_labels"):
        list(scan)
    scan.settle_labels()
    assert {label for part in scan for label in part.label_array().tolist()} == {"0", "1", "01"}


# Kept columns and groups

IDS = [
    "007",
    "12345678901234567890",
    "0x1F",
    "NA",
    "2020-01-01",
    "12:30:00",
    " x ",
    "",
    "1.50",
    "true",
    "null",
    'q"t',
    "a,b",
]


@pytest.mark.parametrize("way", WAYS)
def test_kept_values_are_not_changed(way, tmp_path, monkeypatch):
    columns = {"a": range(26), "id": IDS * 2}
    scan = scanned(way, tmp_path, columns, monkeypatch, keep=["id"])
    found = [value for part in scan for value in part.table.column("id").to_pylist()]
    assert found == IDS * 2


def test_a_kept_column_can_be_a_feature_and_the_label_too(tmp_path):
    path = write_csv(tmp_path / "x.csv", {"a": ["01", " 2"], "y": ["001", "002"]})
    (part,) = ms.scan(path, "y", ["a"], keep=["a", "y"])
    np.testing.assert_array_equal(part.rows.block(0, 2), [[1], [2]])
    assert part.table.to_pydict() == {"a": ["01", " 2"], "y": ["001", "002"]}
    assert part.label_array().tolist() == ["001", "002"]
    path = write_csv(tmp_path / "x.csv", {"a": ["1"] * 400_000 + ["x"], "y": ["0"] * 400_001})
    with pytest.raises(ms.errors.DataError, match=r"column 'a' is not numeric .* row 400000 holds 'x'"):
        list(ms.scan(path, "y", ["a"], keep=["a"]))


def test_a_group_is_in_one_fold_whatever_else_is_in_the_file(tmp_path):
    rows = {"a": np.arange(40), "y": list("xy") * 20}
    groups = [str(index % 8) for index in range(40)]
    folds = {}
    for name, column in {
        "numbers": groups,
        "text": [*groups[:-1], "x"],
        "padded": ["0" + group for group in groups],
    }.items():
        path = write_csv(tmp_path / f"{name}.csv", {**rows, "g": column})
        folds[name] = ms.learn(ms.scan(path, "y", ["a"], keep=["g"]), folds=3, groups="g")
    pq.write_table(pa.table({**rows, "g": list(map(int, groups))}), tmp_path / "x.parquet")
    typed = ms.learn(ms.scan(tmp_path / "x.parquet", "y", ["a"], keep=["g"]), folds=3, groups="g")
    counts = {name: [part.rows.sum() for part in found] for name, found in folds.items()}
    assert counts["numbers"] == [part.rows.sum() for part in typed]
    assert np.abs(np.subtract(counts["text"], counts["numbers"])).sum() in (0, 2)  # one row has another group
    path = write_csv(tmp_path / "hole.csv", {**rows, "g": [*groups[:-1], ""]})
    with pytest.raises(ms.errors.DataError, match="1 rows have no group in 'g'"):
        ms.learn(ms.scan(path, "y", ["a"], keep=["g"]), folds=3, groups="g")


# Categories


@pytest.mark.parametrize("way", WAYS)
def test_declared_words_are_not_taken_for_missing_or_boolean(way, tmp_path, monkeypatch):
    words = ["NA", "true", "null", "nan", "false", "01", "1"]
    for number, column in enumerate((words * 3, ["true", "false"] * 10, ["NA", "nan"] * 10, ["1", "01"] * 10)):
        folder = tmp_path / str(number)
        folder.mkdir()
        columns = {"c": column, "y": [0, 1] * (len(column) // 2) + [0] * (len(column) % 2)}
        for missing in ("error", "drop"):
            scan = scanned(way, folder, columns, monkeypatch, label="y", categories={"c": words}, missing=missing)
            found = np.vstack([part.rows.block(0, part.rows.n_rows) for part in scan])
            np.testing.assert_array_equal(found, np.array(column)[:, None] == np.array(words))
            assert scan.dropped == 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("unknown", ["error", "zero"])
def test_an_empty_category_is_missing(way, unknown, tmp_path, monkeypatch):
    columns = {"c": ["u", "v", "u", "v", "", "u"], "y": [0, 1] * 3}
    options = {"label": "y", "categories": {"c": ["u", "v"]}, "unknown": unknown}
    row = 1 if way == "two files" else 4
    with pytest.raises(ms.errors.DataError, match=rf"row {row}, category 'c' is missing.*missing='drop'"):
        ms.learn(scanned(way, tmp_path, columns, monkeypatch, **options))
    dropping = scanned(way, tmp_path, columns, monkeypatch, **options, missing="drop")
    assert ms.learn(dropping).rows.sum() == 5
    assert dropping.dropped == 1
    declared = scanned(way, tmp_path, columns, monkeypatch, label="y", categories={"c": ["u", "v", ""]})
    assert ms.learn(declared).rows.sum() == 6


def test_an_empty_category_of_parquet_is_missing(tmp_path):
    pq.write_table(pa.table({"c": ["u", None, "v"], "y": [0, 1, 0]}), tmp_path / "x.parquet")
    with pytest.raises(ms.errors.DataError, match="row 1, category 'c' is missing"):
        ms.learn(ms.scan(tmp_path / "x.parquet", "y", categories={"c": ["u", "v"]}, unknown="zero"))


@pytest.mark.parametrize("way", WAYS)
def test_categories_that_are_found_are_words_and_not_what_is_missing(way, tmp_path, monkeypatch):
    column = ["u", "v", "2020-01-01", "true", "NA", "", "1"] * 3
    columns = {"c": column, "y": list(range(3)) * 7}
    scan = scanned(way, tmp_path, columns, monkeypatch, label="y", categories="auto", missing="drop")
    assert scan.names == ("c=1", "c=2020-01-01", "c=true", "c=u", "c=v")
    assert ms.learn(scan).rows.sum() == 15
    assert scan.dropped == 6


def test_categories_of_an_earlier_piece_are_read_as_text(tmp_path):
    first = write_csv(tmp_path / "1.csv", {"c": ["01", "1", "NA"], "y": "aba"})
    known = ms.learn(ms.scan(first, "y", categories={"c": ["01", "1", "NA"]}))
    second = write_csv(tmp_path / "2.csv", {"c": ["1", "01"], "y": "ab"})
    (part,) = ms.scan(second, "y", like=known)
    np.testing.assert_array_equal(part.rows.block(0, 2), [[0, 1, 0], [1, 0, 0]])
    frame = pd.DataFrame({"c": pd.Categorical([True, False, True]), "y": ["a", "b", "a"]})
    frame.to_feather(tmp_path / "x.feather")
    typed = ms.learn(ms.scan(tmp_path / "x.feather", "y"))
    third = write_csv(tmp_path / "3.csv", {"c": ["true", "FALSE"], "y": "ab"})
    (part,) = ms.scan(third, "y", like=typed)
    np.testing.assert_array_equal(part.rows.block(0, 2), [[0, 1], [1, 0]])
