"""Scans: paths, columns, categories, labels, weights, and what is missing or wrong."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, fs
from scipy import sparse
from sklearn.datasets import load_svmlight_file

import mergesvm as ms
import samples
from mergesvm.data.partitioning import assign_sizes
from mergesvm.data.prefetch import map_ahead
from mergesvm.data.scan import Scan
from mergesvm.data.text_parser.lines import whole_lines
from mergesvm.data.text_parser.reader import _Fields


def write(path, text):
    path.write_text(text)
    return path


def coefficients(knowledge):
    return ms.solve(knowledge, C=3.0).coef_


# Paths


def test_globs_folders_lists_and_addresses_mean_the_same_files(tmp_path, monkeypatch):
    X, y = samples.rows()
    for index, part in enumerate(np.array_split(np.arange(600), 3)):
        samples.parquet(tmp_path, f"day{index}", X[part], y[part])
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".hidden.parquet").write_text("")
    expected = coefficients(ms.learn(X, y))
    monkeypatch.chdir(tmp_path)
    several = sorted(tmp_path.glob("day*.parquet"))
    for paths in ("day*.parquet", tmp_path, several, [str(path) for path in several], ".", "**/day?.parquet"):
        np.testing.assert_allclose(coefficients(ms.learn(ms.scan(paths, "y"))), expected, rtol=1e-9)
    for address in (f"file://{tmp_path}/day*.parquet", f"file://{tmp_path}", f"file://{tmp_path}/day0.parquet"):
        assert ms.learn(ms.scan(address, "y")).rows.sum() == (200 if "day0" in address else 600)


def test_folders_of_a_partition_are_columns(tmp_path):
    X, y = samples.rows(300, 2)
    for month in (2, 11):
        for place in ("north", "south"):
            folder = tmp_path / f"month={month}" / f"place={place}"
            folder.mkdir(parents=True)
            samples.parquet(folder, "part", X, y)
    scan = ms.scan(tmp_path, "y", categories={"place": ["north", "south"]})
    knowledge = ms.learn(scan)
    assert scan.names == ("x0", "x1", "month", "place=north", "place=south")
    assert knowledge.rows.sum() == 1200
    rows = np.vstack([part.rows.block(0, part.rows.n_rows) for part in scan])
    assert set(rows[:, 2]) == {2.0, 11.0}
    np.testing.assert_array_equal(rows[:, 3] + rows[:, 4], 1.0)
    assert ms.learn(ms.scan(tmp_path, "place", ["x0", "x1"])).labels == ("north", "south")


def test_provenance_lists_files_and_rows(tmp_path):
    X, y = samples.rows()
    one, _ = samples.parquet(tmp_path, "one", X[:100], y[:100])
    two, _ = samples.parquet(tmp_path, "two", X[100:], y[100:])
    knowledge = ms.learn(ms.scan([one, two], "y"))
    assert [(Path(origin.source).name, origin.rows) for origin in knowledge.provenance] == [
        ("one.parquet", 100),
        ("two.parquet", 500),
    ]
    piece = ms.learn(ms.scan(one, "y"))
    assert len((knowledge + piece).provenance) == 3
    assert (knowledge + piece - piece).provenance == knowledge.provenance
    with pytest.raises(ms.errors.SubtractionError, match=r"not inside: .*one\.parquet \(id"):
        knowledge - piece
    assert ms.subtract(knowledge, piece, force=True).provenance[-1] == piece.provenance[0]._replace(taken_back=True)


@pytest.mark.parametrize(
    ("paths", "what"),
    [
        ("nowhere.csv", "There is no file or folder nowhere.csv"),
        ("nothing*.csv", r"No file matches nothing\*.csv"),
        ([], "No paths to read from"),
        (3, "not iterable|A path is"),
        ([3], "A path must be a string"),
        ("nowhere://x/y.csv", "nowhere://x/y.csv is not a URL"),
        (".", "The folder . has no files"),
    ],
)
def test_paths_that_lead_nowhere(paths, what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ms.errors.MergeSVMError, TypeError), match=what):
        ms.scan(paths, "y")


def test_an_unknown_ending_names_the_formats_and_format_overrides_it(tmp_path):
    path = write(tmp_path / "a9a", "1 1:0.5\n-1 2:1\n")
    with pytest.raises(ms.errors.FileError, match=r"a9a: unrecognised file extension.* libsvm"):
        ms.scan(path)
    assert ms.learn(ms.scan(path, format="libsvm")).labels == (-1, 1)
    with pytest.raises(ms.errors.ParameterError, match="Unknown format 'excel'"):
        ms.scan(path, format="excel")


# Parts


def test_neighbours_are_dealt_to_the_same_worker_and_read_in_one_go(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[Scan.__module__], "MIN_PART_BYTES", 1)
    np.save(tmp_path / "x.npy", np.ones((1600, 10)))
    parts = ms.scan(tmp_path / "x.npy", -1).parts(4)
    assert [[reader.extent for reader in part.readers] for part in parts] == [
        [f"rows {start:,} to {start + 399:,}"] for start in range(0, 1600, 400)
    ]
    assert [part.n_rows() for part in parts] == [400] * 4
    assert parts[1].name.endswith("x.npy, rows 400 to 799")


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_parts_are_about_as_large(count, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[Scan.__module__], "MIN_PART_BYTES", 1)
    for index, rows in enumerate((5000, 37, 900, 1, 2100, 0, 333)):
        np.save(tmp_path / f"{index}.npy", np.ones((rows, 10)))
    scan = ms.scan(tmp_path, -1)
    sizes = [part.size for part in scan.parts(count)]
    assert len(sizes) == count
    assert max(sizes) < 1.15 * scan.size / count
    assert sum(part.n_rows() for part in scan.parts(count)) == 8371


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_parts_of_one_file_differ_by_one_group_of_rows_and_are_read_in_one_go(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[Scan.__module__], "MIN_PART_BYTES", 1)
    table = pa.table({"x": np.arange(770.0), "y": np.arange(770) % 2})
    if kind == "parquet":
        pq.write_table(table, tmp_path / "day.parquet", row_group_size=10)
    else:
        feather.write_feather(table, tmp_path / "day.feather", chunksize=10)
    scan = ms.scan(tmp_path / f"day.{kind}", label="y")
    for count in (2, 3, 8, 11):
        parts = scan.parts(count)
        assert [len(part.readers) for part in parts] == [1] * count
        rows = [sum(piece.rows.n_rows for piece in part) for part in parts]
        assert sum(rows) == 770
        assert max(rows) - min(rows) <= 10


def test_row_groups_of_unequal_size_are_cut_where_it_is_most_even(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[Scan.__module__], "MIN_PART_BYTES", 1)
    sizes = [100, 10, 10, 10, 10, 10, 50, 100, 100]
    table = pa.table({"x": np.arange(sum(sizes) + 0.0), "y": np.arange(sum(sizes)) % 2})
    with pq.ParquetWriter(tmp_path / "x.parquet", table.schema) as writer:
        for start, rows in zip(np.cumsum([0, *sizes]).tolist(), sizes, strict=False):
            writer.write_table(table.slice(start, rows))
    parts = ms.scan(tmp_path / "x.parquet", label="y").parts(2)
    assert [part.n_rows() for part in parts] == [200, 200]
    assert [part.readers[0].first_row for part in parts] == [0, 200]


def test_a_word_among_numbers_is_named_by_its_row(tmp_path):
    write(tmp_path / "a.csv", "x,y\n1,0\n2,1\n")
    write(tmp_path / "b.csv", "x,y\n" + "1,0\n" * 500 + "oops,1\n" + "2,1\n" * 500)
    with pytest.raises(ms.errors.DataError, match=r"b.csv: column 'x' is not numeric .* row 500 holds 'oops'\."):
        ms.learn(ms.scan(tmp_path, label="y"))


def test_row_groups_without_rows_are_not_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[Scan.__module__], "MIN_PART_BYTES", 1)
    nothing = pa.table({"x": np.empty(0), "y": np.empty(0, dtype=np.int64)})
    with pq.ParquetWriter(tmp_path / "x.parquet", nothing.schema) as writer:
        for _ in range(3):
            writer.write_batch(pa.RecordBatch.from_pylist([], nothing.schema))
    assert pq.ParquetFile(tmp_path / "x.parquet").num_row_groups == 3
    (part,) = ms.scan(tmp_path / "x.parquet", label="y").parts(2)
    assert part.n_rows() == 0


def test_an_empty_file_at_the_end_goes_to_a_worker_that_is_there():
    assert assign_sizes([4, 4, 0], 2) == [0, 1, 1]
    assert assign_sizes([0, 0], 3) == [0, 0]


def test_small_files_are_not_cut_and_a_single_row_is_one_part(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((1000, 10)))
    scan = ms.scan(tmp_path / "x.npy", -1)
    assert [part.readers for part in scan.parts(9)] == [scan.readers]
    np.save(tmp_path / "x.npy", np.ones((1, 2)))
    (part,) = ms.scan(tmp_path / "x.npy", -1).parts(9)
    assert part.n_rows() == 1


def test_arrays_stored_by_columns_are_cut(tmp_path):
    X, y = samples.rows()
    np.save(tmp_path / "x.npy", np.asfortranarray(np.column_stack([X, y])))
    scan = ms.scan(tmp_path / "x.npy", -1, batch_rows=13)
    parts = scan.readers[0].split(scan.size // 7)
    blocks = [part.rows.block(0, part.rows.n_rows) for reader in parts for part in scan.with_readers([reader])]
    np.testing.assert_array_equal(np.vstack(blocks), X)
    assert [reader.first_row for reader in parts] == [0, 86, 171, 257, 343, 429, 514]


def test_idx_with_labels_that_are_compressed_is_not_cut(tmp_path):
    path, _ = samples.idx(tmp_path, "day", *samples.rows())
    labels = Path(str(path).replace("images-idx3", "labels-idx1"))
    packed = samples._gzipped(labels, None)[0]
    (reader,) = ms.scan(path, packed).readers
    assert reader.split(1000) == [reader]


ELSEWHERE = """
import pickle, sys
import mergesvm as ms
parts = pickle.load(sys.stdin.buffer)
ms.merge([ms.learn(part) for part in parts]).save(sys.argv[1])
"""


@pytest.mark.parametrize("kind", ["relative", "absolute", "file address", "another file system"])
def test_parts_are_read_by_another_process_in_another_folder(kind, tmp_path, monkeypatch):
    X, y = samples.rows(2000)
    (tmp_path / "data").mkdir()
    (tmp_path / "elsewhere").mkdir()
    writers = [samples.parquet, samples.comma_separated, samples.feather]
    for write_file, at in zip(writers, np.array_split(np.arange(2000), 3), strict=True):
        write_file(tmp_path / "data", "day", X[at], y[at])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules[Scan.__module__], "MIN_PART_BYTES", 1)
    if kind == "another file system":
        scan = ms.scan("data", "y")
        subtree = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
        for reader in scan.readers:
            reader.file = replace(reader.file, filesystem=subtree, home="")
    else:
        folder = {"relative": "data", "absolute": tmp_path / "data", "file address": f"file://{tmp_path}/data"}[kind]
        scan = ms.scan(folder, "y")
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path / "k")]
    subprocess.run(command, input=pickle.dumps(scan.parts(3)), cwd=tmp_path / "elsewhere", check=True)
    np.testing.assert_allclose(coefficients(ms.Knowledge.load(tmp_path / "k")), coefficients(ms.learn(X, y)), rtol=1e-9)


def test_labels_beside_a_relative_path_are_found_from_another_folder(tmp_path, monkeypatch):
    X, y = samples.rows()
    samples.idx(tmp_path, "day", X, y)
    monkeypatch.chdir(tmp_path)
    scan = ms.scan("day-images-idx3-ubyte")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert ms.learn(scan).rows.tolist() == np.bincount(y).tolist()


@pytest.mark.parametrize("compiled", [True, False])
def test_csv_with_quotation_marks_is_not_cut_or_is_an_error(compiled, tmp_path, monkeypatch):
    monkeypatch.setattr("mergesvm.data.readers.csv.MIN_BYTES_FOR_JIT", 0 if compiled else 1 << 60)
    lines = ["a,b,y", *(f"{index},x,{index % 2}" for index in range(1000)), '7,"one\n7,two",1', "8,x,0"]
    path = write(tmp_path / "x.csv", "\n".join(lines))
    scan = ms.scan(path, "y", ["a"])
    assert scan.readers[0].split(1000) == scan.readers
    monkeypatch.setattr("mergesvm.data.readers.text.INSPECTED_BYTES", 1000)
    parts = [scan.with_readers([reader]) for reader in scan.readers[0].split(1000)]
    assert len(parts) > 5
    for part in parts[:-1]:
        list(part)
    with pytest.raises(
        ms.errors.CutError, match=r"x\.csv, bytes [\d,]+ to [\d,]+: .*quotation mark.*Parquet"
    ) as raised:
        list(parts[-1])
    assert str(raised.value).count("x.csv") == 1


@pytest.mark.parametrize(
    ("begin", "header"), [("\na,y\n", True), ('"a\nb",y\n', True), ("a,y\r1,2\n", True), ("", False)]
)
def test_csv_with_an_unusual_beginning_is_not_split_or_split_correctly(begin, header, tmp_path):
    path = write(tmp_path / "x.csv", begin + "1,2\n" * 100)
    scan = ms.scan(path, "y" if header else "f1", header=header)
    parts = scan.readers[0].split(10)
    assert (len(parts) == 1) is header
    total = sum(part.total for reader in parts for part in scan.with_readers([reader]))
    assert total == sum(part.total for part in scan)


def test_a_line_of_names_that_ends_in_the_old_way_loses_no_row(tmp_path, monkeypatch):
    monkeypatch.setattr("mergesvm.data.readers.csv.MIN_BYTES_FOR_JIT", 0)
    path = write(tmp_path / "x.csv", "a,y\r1,2\n3,4\n")
    assert ms.learn(ms.scan(path, "y")).labels == (2, 4)


@pytest.mark.parametrize(
    ("name", "head", "good", "bad", "what"),
    [
        ("x.svm", "", "1 1:0.5 2:1\n", "1 2:0.5 1:1\n", r"row {}: indices must be ascending"),
        ("x.csv", "a,b,y\n", "1,2,3\n", "1,2\n", r"line {}: Expected 3 columns, got 2"),
        ("x.csv", "a,b,y\n", "1,2,3\n", "1,x,2\n", r"line {}: .*'x'"),
        ("x.csv", "a,b,y\n", "1,2,3\n", "1,2,\n", r"row {}.* has no label"),
    ],
)
def test_a_malformed_line_is_named_with_its_part(name, head, good, bad, what, tmp_path, monkeypatch):
    monkeypatch.setattr("mergesvm.data.readers.csv.BLOCK_BYTES", 1000)
    scan = ms.scan(write(tmp_path / name, head + good * 700 + bad + good * 300), "y" if head else None)
    size = len(head + good * 500)
    first = [scan.with_readers([reader]) for reader in scan.readers[0].split(size)][1]
    begin = -(-(first.readers[0].span.start - len(head)) // len(good))
    row = 700 - begin + ("line" in what)
    with pytest.raises(ms.errors.MergeSVMError, match=rf"{name}, {first.readers[0].extent}: .*{what.format(row)}"):
        ms.learn(first)


# Columns


def test_columns_are_chosen_and_weights_count(tmp_path):
    X, y = samples.rows()
    weights = np.random.default_rng(2).integers(0, 3, len(y)).astype(float)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y, w=weights, id=np.arange(len(y)))
    frame.to_parquet(tmp_path / "x.parquet")
    knowledge = ms.learn(ms.scan(tmp_path / "x.parquet", "y", ["d", "a"], "w", batch_rows=99))
    expected = ms.learn(X[:, [3, 0]], y, weights)
    assert knowledge.signature.names == ("d", "a")
    np.testing.assert_allclose(knowledge.counts, expected.counts)
    np.testing.assert_allclose(coefficients(knowledge), coefficients(expected), rtol=1e-9)
    assert ms.scan(tmp_path / "x.parquet", "y", weight="w", keep=["id"]).names == tuple("abcd")


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])
def test_booleans_integers_and_decimals_are_numbers(kind, tmp_path):
    frame = pd.DataFrame({"flag": [True, False, True, False], "n": [1, 2, 3, 4], "x": [0.5, 1.5, 0.25, 2.0]})
    frame["y"] = ["a", "b", "a", "b"]
    path = tmp_path / f"x.{kind}"
    {"parquet": frame.to_parquet, "feather": frame.to_feather}.get(kind, lambda p: frame.to_csv(p, index=False))(path)
    scan = ms.scan(path, "y")
    assert scan.names == ("flag", "n", "x")
    (part,) = scan
    np.testing.assert_array_equal(part.rows.block(0, 4), frame[["flag", "n", "x"]].to_numpy(dtype=float))


def test_labels_of_every_kind(tmp_path):
    X, _ = samples.rows(6, 2)
    for labels in (
        ["red", "blue", "red", "blue", "red", "red"],
        [3, 1, 3, 1, 3, 3],
        [True, False, True, False, True, True],
    ):
        frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=labels)
        frame.to_parquet(tmp_path / "x.parquet")
        frame.to_csv(tmp_path / "x.csv", index=False)
        frame.assign(y=frame.y.astype("category")).to_feather(tmp_path / "x.feather")
        for name in ("x.parquet", "x.csv", "x.feather"):
            knowledge = ms.learn(ms.scan(tmp_path / name, "y", batch_rows=2))
            assert knowledge.labels == tuple(sorted(set(labels)))
            assert type(knowledge.labels[0]) is type(labels[0])
            np.testing.assert_allclose(coefficients(knowledge), coefficients(ms.learn(X, labels)), rtol=1e-9)


# Categories


COLOURS = "size,colour,y\n1,red,a\n2,blue,b\n3,red,a\n4,green,b\n"


def test_declared_categories_are_one_hot_and_pieces_learned_apart_add(tmp_path):
    words = {"colour": ["red", "green", "blue"]}
    one = ms.learn(ms.scan(write(tmp_path / "1.csv", COLOURS), "y", categories=words))
    two = ms.learn(ms.scan(write(tmp_path / "2.csv", "size,colour,y\n9,blue,a\n"), "y", categories=words))
    assert one.signature.names == ("size", "colour=red", "colour=green", "colour=blue")
    X = [[1, 1, 0, 0], [2, 0, 0, 1], [3, 1, 0, 0], [4, 0, 1, 0], [9, 0, 0, 1]]
    np.testing.assert_allclose(coefficients(one + two), coefficients(ms.learn(np.array(X), list("ababa"))), rtol=1e-9)


def test_pieces_with_other_vocabularies_do_not_add_and_like_makes_them(tmp_path):
    one = ms.learn(ms.scan(write(tmp_path / "1.csv", COLOURS), "y", categories="auto"))
    path = write(tmp_path / "2.csv", "colour,size,y\nblue,9,a\nred,1,b\n")
    with pytest.raises(ms.errors.SignatureError, match="knowledge of 3 features to knowledge of 4"):
        _ = one + ms.learn(ms.scan(path, "y", categories="auto"))
    two = ms.learn(ms.scan(path, "y", like=one))
    assert (one + two).rows.sum() == 6
    assert ms.learn(ms.scan(path, "y", like=ms.solve(one))).signature == one.signature


def test_a_category_never_seen_before_is_an_error_or_an_all_zero_block(tmp_path):
    path = write(tmp_path / "1.csv", COLOURS)
    with pytest.raises(ms.errors.DataError, match=r"1\.csv: row 3, category 'colour' is 'green'"):
        ms.learn(ms.scan(path, "y", categories={"colour": ["red", "blue"]}))
    (part,) = ms.scan(path, "y", categories={"colour": ["red", "blue"]}, unknown="zero")
    np.testing.assert_array_equal(part.rows.block(0, 4), [[1, 1, 0], [2, 0, 1], [3, 1, 0], [4, 0, 0]])


def test_text_that_is_not_declared_is_an_error_that_shows_the_way(tmp_path):
    path = write(tmp_path / "1.csv", COLOURS)
    with pytest.raises(ms.errors.DataError, match=r"column 'colour' is text \('blue', 'green', 'red'\).*categories"):
        ms.learn(ms.scan(path, "y"))
    assert ms.learn(ms.scan(path, "y", ["size"])).width == 1


def test_the_vocabulary_of_an_arrow_dictionary_is_taken_whole(tmp_path):
    colour = pd.Categorical(["red", "blue", "red"], categories=["blue", "green", "red"])
    frame = pd.DataFrame({"size": [1.0, 2.0, 3.0], "colour": colour, "y": ["a", "b", "a"]})
    frame.to_feather(tmp_path / "x.feather")
    assert ms.scan(tmp_path / "x.feather", "y").names == ("size", "colour=blue", "colour=green", "colour=red")
    frame.to_parquet(tmp_path / "x.parquet")
    knowledge = ms.learn(ms.scan(tmp_path / "x.parquet", "y", batch_rows=1))
    assert "colour=red" in knowledge.signature.names
    assert knowledge.rows.tolist() == [2, 1]


def test_whole_numbers_can_be_categories(tmp_path):
    path = write(tmp_path / "1.csv", "code,y\n1,a\n2,b\n10,a\n")
    (part,) = ms.scan(path, "y", categories={"code": [1, 2, 10]})
    np.testing.assert_array_equal(part.rows.block(0, 3), np.eye(3))
    pd.DataFrame({"code": [2, 1], "y": ["a", "b"]}).to_parquet(tmp_path / "x.parquet")
    (part,) = ms.scan(tmp_path / "x.parquet", "y", categories={"code": [1, 2, 10]})
    np.testing.assert_array_equal(part.rows.block(0, 2), [[0, 1, 0], [1, 0, 0]])


# What is missing


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])
def test_missing_values_are_an_error_or_dropped_and_counted(kind, tmp_path):
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0, 4.0, 5.0], "b": pd.array([1, 2, None, 4, 5], dtype="Int64")})
    frame["y"] = ["u", "v", "u", None, "v"]
    path = tmp_path / f"x.{kind}"
    {"parquet": frame.to_parquet, "feather": frame.to_feather}.get(kind, lambda p: frame.to_csv(p, index=False))(path)
    with pytest.raises(ms.errors.DataError, match=rf"x\.{kind}: row 3 has no label in column 'y'"):
        ms.learn(ms.scan(path, "y"))
    with pytest.raises(ms.errors.DataError, match=rf"x\.{kind} contains NaN: row 1, column 'a'"):
        ms.learn(ms.scan(path, "y", batch_rows=3))
    scan = ms.scan(path, "y", missing="drop", batch_rows=2)
    knowledge = ms.learn(scan)
    assert (scan.rows, scan.dropped) == (2, 3)
    np.testing.assert_allclose(coefficients(knowledge), coefficients(ms.learn([[1.0, 1], [5, 5]], ["u", "v"])))


def test_when_all_rows_are_dropped_it_is_said(tmp_path):
    path = write(tmp_path / "x.csv", "a,y\n,1\n,2\n")
    with pytest.raises(ms.errors.DataError, match="all rows have missing values"):
        ms.learn(ms.scan(path, "y", missing="drop"))
    with pytest.raises(ms.errors.DataError, match="there are no rows"):
        ms.learn(ms.scan(write(tmp_path / "z.csv", "a,y\n"), "y"))


# What is wrong


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a,b,y\n1,2,u\n1,x,v\n", r"column 'b' is text \('2', 'x'\)"),
        ("a,b,y\n1,2,u\n1,v\n", r"line 3: Expected 3 columns, got 2"),
        ("a,a,y\n1,2,u\n", "the column name 'a' occurs more than once"),
        ("a,b\n1,2\n", r"there is no column 'y', only 'a', 'b'"),
        ("y\nu\n", "no columns are left"),
        ("a,y\n1,\n", "row 0 has no label"),
        ("a,y\n1,0.5\n2,1\n", "continuous"),
        ('a,y\n1,"u\n' + "2,v\n" * 10, r"row 0: column 'y': a line break .* quotation mark"),
    ],
)
def test_malformed_csv_names_the_file_and_the_line(text, what, tmp_path):
    with pytest.raises(ms.errors.MergeSVMError, match=what) as raised:
        ms.learn(ms.scan(write(tmp_path / "x.csv", text * 1), "y"))
    assert "x.csv" in str(raised.value)


def test_a_late_line_is_named_by_its_number(tmp_path):
    path = write(tmp_path / "x.csv", "a,y\n" + "1,2\n" * 5000 + "1,2,3\n")
    with pytest.raises(ms.errors.MalformedFileError, match=r"x\.csv: line 5002: Expected 2 columns, got 3"):
        ms.learn(ms.scan(path, "y"))


def test_csv_without_names_with_tabs_quotes_and_windows_line_ends(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_bytes(b'1\t"2"\t"a, b"\r\n3\t4\tc\r\n')
    knowledge = ms.learn(ms.scan(path, "f2", header=False))
    assert knowledge.labels == ("a, b", "c")
    assert knowledge.signature.names == ("f0", "f1")


def test_columns_that_a_later_file_lacks_are_named_with_it(tmp_path):
    X, y = samples.rows()
    samples.parquet(tmp_path, "a", X, y)
    samples.parquet(tmp_path, "b", X[:, :3], y)
    with pytest.raises(ms.errors.DataError, match=r"b\.parquet: there is no column 'x3'"):
        ms.learn(ms.scan(tmp_path / "*.parquet", "y"))
    samples.npy(tmp_path, "a", X, y)
    samples.npy(tmp_path, "b", X[:, :3], y)
    with pytest.raises(ms.errors.DataError, match=r"b\.npy has 3 features, expected 4"):
        ms.learn(ms.scan(tmp_path / "?.npy", str(tmp_path / "labels" / "*.npy")))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"unknown": "guess"}, "unknown must be one of 'error', 'zero', not 'guess'"),
        ({"missing": "guess"}, "missing must be one of"),
        ({"batch_rows": 0}, "batch_rows must be a positive"),
        ({"categories": "some"}, "categories must be a mapping"),
        ({"categories": {"z": ["a"]}}, "Category 'z' is not one of the feature columns"),
        ({"categories": {"a": []}}, "needs a list of distinct values"),
        ({"features": ["a", "y"]}, "cannot be a feature as well"),
        ({"features": ["a", "b"]}, "there is no column 'b'"),
        ({"weight": "w"}, "there is no column 'w'"),
        ({"like": 3}, "like must be knowledge, a model or a frozen feature map"),
        ({"label": 3}, "name of a column"),
    ],
)
def test_options_that_make_no_sense(options, what, tmp_path):
    path = write(tmp_path / "x.csv", "a,y\n1,u\n2,v\n")
    with pytest.raises(ms.errors.MergeSVMError, match=what):
        ms.learn(ms.scan(path, **({"label": "y"} | options)))


def test_without_labels_there_is_nothing_to_learn_but_rows_can_be_read(tmp_path):
    path = write(tmp_path / "x.csv", "a,b\n1,2\n")
    assert next(iter(ms.scan(path))).labels is None
    with pytest.raises(ms.errors.DataError, match="has no labels"):
        ms.learn(ms.scan(path))
    with pytest.raises(ms.errors.ParameterError, match="labels, weights and names of its own"):
        ms.learn(ms.scan(path), [1])


def test_negative_weights_name_the_file(tmp_path):
    path = write(tmp_path / "x.csv", "a,w,y\n1,1,u\n2,-1,v\n")
    with pytest.raises(ms.errors.DataError, match=r"x\.csv, rows from 0 on: .*row 1 has -1"):
        ms.learn(ms.scan(path, "y", weight="w"))


LINES = [
    "1,2.5,red",
    "-0,1e-3,blue",
    "+3,.5,red",
    "4,5.,green",
    "0.1,123456789012345678,blue",
    "3.141592653589793,2.718281828459045e-300,red",
    "",
    "1,,red",
]
UNUSUAL = [
    '1,"2.5",red',
    "NA,2,blue",
    "1,nan,red",
    "1e400,1,red",
    "12345678901234567890123,1,red",
    '1,2,"a, b"',
    "1,2,NA",
]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("unusual", [None, *UNUSUAL])
def test_plain_csv_is_read_as_by_the_general_reader(end, last, unusual, tmp_path, monkeypatch):
    generator = np.random.default_rng(len(unusual or ""))
    lines = [LINES[index] for index in generator.integers(len(LINES), size=500)]
    if unusual is not None:
        lines[321] = unusual
    path = tmp_path / "x.csv"
    path.write_bytes(("a,b,y" + end + end.join(lines) + (end if last else "")).encode())
    monkeypatch.setattr("mergesvm.data.text_parser.lines.CHUNK_BYTES", 900)

    def read(large_bytes):
        monkeypatch.setattr("mergesvm.data.readers.csv.MIN_BYTES_FOR_JIT", large_bytes)
        slices = list(ms.scan(path, "y", missing="drop", batch_rows=83))
        labels = np.concatenate([part.labels.to_array() for part in slices])
        kept = np.concatenate([np.ones(part.total, bool) if part.kept is None else part.kept for part in slices])
        return np.vstack([part.rows.block(0, part.rows.n_rows) for part in slices]), labels, kept

    for plain, general in zip(read(0), read(1 << 60), strict=True):
        np.testing.assert_array_equal(plain, general)


def test_a_header_longer_than_a_megabyte_is_not_a_row(tmp_path, monkeypatch):
    monkeypatch.setattr("mergesvm.data.readers.csv.MIN_BYTES_FOR_JIT", 0)
    names = ",".join(f"feature_{number:06d}" for number in range(80_000))
    path = write(tmp_path / "x.csv", f"{names},colour\n" + 2 * ("1," * 80_000 + "red\n"))
    assert ms.scan(path, features=["colour"], categories="auto").readers[0].vocabulary() == {"colour": {"red"}}


def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path, monkeypatch):
    (tmp_path / "x.csv").write_bytes(b"\xef\xbb\xbfa,1\n" + b"b,2\n" * 9)
    for large in (0, 2**23):
        monkeypatch.setattr("mergesvm.data.readers.csv.MIN_BYTES_FOR_JIT", large)
        assert ms.learn(ms.scan(tmp_path / "x.csv", "f0", header=False)).labels == ("a", "b")


def test_a_lone_return_within_a_word_is_not_a_letter(tmp_path, monkeypatch):
    monkeypatch.setattr("mergesvm.data.readers.csv.MIN_BYTES_FOR_JIT", 0)
    monkeypatch.setattr("mergesvm.data.readers.csv.BLOCK_BYTES", 4096)
    (tmp_path / "x.csv").write_bytes(b"w,y\n" + b"red,1\n" * 2000 + b"bl\rue,0\n" + b"red,1\n" * 3)
    with pytest.raises(ms.errors.MalformedFileError, match=r"line 2002: Expected 2 columns, got 1"):
        ms.learn(ms.scan(tmp_path / "x.csv", "y", categories={"w": ["red", "bl\rue"]}))


def test_chunks_of_text_stay_valid_until_their_buffer_is_reused(monkeypatch):
    monkeypatch.setattr("mergesvm.data.text_parser.lines.CHUNK_BYTES", 64)
    text = b"".join(b"%d,%d\n" % (number, number**number) for number in range(40))  # lines longer than a chunk, too
    held, found = [], b""
    for stretch in whole_lines(io.BytesIO(text), 3):
        held = [*held[-2:], (stretch, stretch.tobytes())]
        found += held[-1][1]
        assert all(memory.tobytes() == content for memory, content in held)
    assert found == text


def test_text_is_not_overwritten_while_it_is_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr("mergesvm.data.readers.csv.MIN_BYTES_FOR_JIT", 0)
    monkeypatch.setattr("mergesvm.data.text_parser.lines.CHUNK_BYTES", 200)
    parse = _Fields.parse

    def slowly(self, *arguments):
        time.sleep(0.002)
        return parse(self, *arguments)

    monkeypatch.setattr(_Fields, "parse", slowly)
    path = write(tmp_path / "x.csv", "a,y\n" + "".join(f"{number},{number % 2}\n" for number in range(2000)))
    found = np.concatenate([part.rows.block(0, part.rows.n_rows)[:, 0] for part in ms.scan(path, "y")])
    np.testing.assert_array_equal(found, np.arange(2000))


def test_a_file_whose_columns_change_places_is_read_as_it_is_now(tmp_path, monkeypatch):
    monkeypatch.setattr("mergesvm.data.readers.csv.MIN_BYTES_FOR_JIT", 0)
    path = write(tmp_path / "x.csv", "a,b,y\n" + "1,5,0\n2,7,1\n" * 20)
    scan = ms.scan(path, "y")
    before = coefficients(ms.learn(scan))
    write(path, "b,a,y\n" + "5,1,0\n7,2,1\n" * 20)
    np.testing.assert_array_equal(coefficients(ms.learn(scan)), before)


def test_rows_read_before_an_error_are_yielded_first():
    def items():
        yield from "ab"
        raise OSError("the disk is gone")

    found = map_ahead(str.upper, items(), 2)
    assert [next(found), next(found)] == ["A", "B"]
    with pytest.raises(OSError, match="the disk is gone"):
        next(found)


def test_an_error_late_in_plain_csv_names_the_line(tmp_path, monkeypatch):
    monkeypatch.setattr("mergesvm.data.readers.csv.MIN_BYTES_FOR_JIT", 0)
    monkeypatch.setattr("mergesvm.data.text_parser.lines.CHUNK_BYTES", 1000)
    lines = ["1,2,red"] * 999 + ["1,red", "1,2,red"]
    with pytest.raises(ms.errors.MalformedFileError, match=r"x\.csv: line 1001: Expected 3 columns, got 2"):
        ms.learn(ms.scan(write(tmp_path / "x.csv", "a,b,y\n" + "\n".join(lines)), "y"))
    monkeypatch.setattr("mergesvm.data.readers.csv.BLOCK_BYTES", 1000)
    lines[999] = "1,x,red"
    with pytest.raises(ms.errors.MalformedFileError, match=r"x\.csv: line 1001: field 2: .*'x'"):
        ms.learn(ms.scan(write(tmp_path / "x.csv", "a,b,y\n" + "\n".join(lines)), "y"))


@pytest.mark.parametrize(
    "word", ["", "-", "+", ".", "-.", "1.2.3", "1-2", "--1", "12345678x", "0.12345678e", "0x1", "1:2"]
)
def test_invalid_numbers_are_refused_within_long_text(word, tmp_path, monkeypatch):
    monkeypatch.setattr("mergesvm.data.readers.csv.MIN_BYTES_FOR_JIT", 0)
    monkeypatch.setattr("mergesvm.data.readers.csv.BLOCK_BYTES", 200)  # which decides that the column is of numbers
    lines = ["0.25,1"] * 50 + [f"{word},1"] + ["0.25,1"] * 50
    path = write(tmp_path / "x.csv", "a,y\n" + "\n".join(lines) + "\n")
    if word:
        with pytest.raises(ms.errors.MalformedFileError, match=r"x\.csv: line 52: "):
            ms.learn(ms.scan(path, "y"))
    else:
        with pytest.raises(ms.errors.DataError, match="row 50, column 'a'"):
            ms.learn(ms.scan(path, "y"))


def test_numbers_in_text_are_rounded_as_python_rounds_them(tmp_path, monkeypatch):
    monkeypatch.setattr("mergesvm.data.readers.csv.MIN_BYTES_FOR_JIT", 0)
    generator = np.random.default_rng(0)
    random_bits = generator.integers(0, 2**63, 4000, dtype=np.uint64).view(np.float64)
    numbers = [repr(float(value)) for value in random_bits[np.isfinite(random_bits)]]
    numbers += [f"{value:.17g}" for value in generator.normal(size=2000)]
    numbers += [str(2 * int(value) + 1) for value in generator.integers(2**52, 2**53, 1000)]  # halfway cases
    numbers += ["9007199254740993", "1e23", "8.5e22", "0.1", "-0.0", "123456789.123456789e-5", "1" + "0" * 18]
    # Words of eight digits end everywhere: each sign, so many digits before and behind the point, and an exponent.
    for sign, before, behind, end in product(("", "-", "+"), range(10), range(27), ("", "e0", "E-3")):
        digits = "".join(map(str, generator.integers(0, 10, before + behind)))
        numbers += [f"{sign}{digits[:before]}.{digits[before:]}{end}"] if digits else []
        numbers += [f"{sign}{digits}{end}"] if digits and not behind else []
    path = write(tmp_path / "x.csv", "a,y\n" + "".join(f"{number},1\n" for number in numbers))
    found = np.concatenate([part.rows.block(0, part.rows.n_rows)[:, 0] for part in ms.scan(path, "y")])
    np.testing.assert_array_equal(found, [float(number) for number in numbers])


# libsvm text


def test_libsvm_text_is_read_as_scikit_learn_reads_it(tmp_path):
    generator = np.random.default_rng(3)
    numbers = [0.1, -2.5e-3, 1e22, 123456789012345678, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 7, 1e-30]
    lines = []
    for row in range(300):
        columns = np.sort(generator.choice(40, 5, replace=False)) + 1
        cells = " ".join(f"{column}:{numbers[generator.integers(len(numbers))]!r}" for column in columns)
        lines.append(f"{row % 3 - 1} {cells}" + (" # a comment 5:5" if row % 7 == 0 else ""))
    path = write(tmp_path / "x.libsvm", "# head\n\n" + "\n".join(lines))
    X, y = load_svmlight_file(str(path), n_features=40)
    slices = list(ms.scan(path, batch_rows=70, width=40))
    blocks = [part.rows.block(0, part.rows.n_rows) for part in slices]
    stacked = sparse.vstack([sparse.csr_array(block) for block in blocks]).toarray()
    np.testing.assert_array_equal(stacked, X.toarray())
    np.testing.assert_array_equal(np.concatenate([part.labels for part in slices]), y)
    assert ms.scan(path).width == 40


def test_libsvm_text_with_signs_blanks_groups_and_no_last_newline(tmp_path):
    path = write(tmp_path / "x.svm", "+1 qid:3 1:+0.5\t3:1E2  \r\n-1   2:.5\n+1.0 \n-1 1:2.")
    slices = list(ms.scan(path, batch_rows=9))
    blocks = [sparse.csr_array(part.rows.block(0, part.rows.n_rows)).toarray() for part in slices]
    np.testing.assert_array_equal(np.vstack(blocks), [[0.5, 0, 100], [0, 0.5, 0], [0, 0, 0], [2, 0, 0]])
    assert np.concatenate([part.labels for part in slices]).tolist() == [1, -1, 1, -1]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("1 0:3", "the index is 0, but indices start at 1"),
        ("1 2:1 1:3", "indices must be ascending: '1:3'"),
        ("1 2:1 2:3", "indices must be ascending"),
        ("1 2", "a feature must be index:value: '2'"),
        ("1 x:2", "a feature must be index:value: 'x:2'"),
        ("1 q:2", "a feature must be index:value: 'q:2'"),
        ("1 qidx:2", "a feature must be index:value: 'qidx:2'"),
        ("1 2:", "there is no number after the colon"),
        ("1 2:x", "'x' is not a number"),
        ("1 2:1_000", "'1_000' is not a number"),
        ("x 2:1", "'x' is not a number"),
        ("1 99999999999:1", "the index is too large"),
        ("1 9:1", "index 9 exceeds the number of features, 5"),
        ("1e16 2:1", r"the label 10000000000000000 is not below 2\^53"),
    ],
)
def test_malformed_libsvm_names_the_file_and_the_row(line, what, tmp_path):
    path = write(tmp_path / "x.libsvm", "1 1:1\n-1 2:1\n" + line + "\n1 3:1\n")
    with pytest.raises(ms.errors.MalformedFileError, match=rf"x\.libsvm, row 2: {what}"):
        ms.learn(ms.scan(path, width=5))


def test_zero_based_indices_are_read_on_request(tmp_path):
    path = write(tmp_path / "x.libsvm", "1 0:3 2:1\n-1 1:1\n")
    assert ms.learn(ms.scan(path, zero_based=True)).width == 3
    with pytest.raises(ms.errors.ParameterError, match="contains its labels"):
        ms.scan(path, "y")


# Arrays


def test_a_column_of_an_array_can_be_the_label(tmp_path):
    X, y = samples.rows()
    np.save(tmp_path / "x.npy", np.column_stack([y, X]))
    knowledge = ms.learn(ms.scan(tmp_path / "x.npy", 0))
    np.testing.assert_allclose(coefficients(knowledge), coefficients(ms.learn(X, y)), rtol=1e-9)
    np.save(tmp_path / "z.npy", np.asfortranarray(np.column_stack([X, y])))
    knowledge = ms.learn(ms.scan(tmp_path / "z.npy", -1, batch_rows=70))
    np.testing.assert_allclose(coefficients(knowledge), coefficients(ms.learn(X, y)), rtol=1e-9)
    with pytest.raises(ms.errors.ParameterError, match="there is no column 9, only 5 columns"):
        ms.learn(ms.scan(tmp_path / "z.npy", 9))


def test_pickled_arrays_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.array([["a", 1]], dtype=object), allow_pickle=True)
    with pytest.raises(ms.errors.MalformedFileError, match=r"x\.npy"):
        ms.learn(ms.scan(tmp_path / "x.npy", -1))
    np.savez(tmp_path / "x.npz", X=np.array([["a", 1]], dtype=object), y=np.array([1]))
    with pytest.raises(ms.errors.MalformedFileError, match=r"x\.npz"):
        ms.learn(ms.scan(tmp_path / "x.npz", "y"))


def test_images_are_flattened_and_pixels_stay_exact(tmp_path):
    generator = np.random.default_rng(0)
    images, y = generator.integers(0, 256, (50, 6, 5)).astype(np.uint8), generator.integers(0, 2, 50)
    np.savez(tmp_path / "x.npz", images=images, digits=y)
    knowledge = ms.learn(ms.scan(tmp_path / "x.npz", "digits", batch_rows=7))
    expected = ms.learn(images.reshape(50, -1), y)
    np.testing.assert_array_equal(knowledge.about(expected.anchor).grams[0], expected.grams[0])


def test_labels_of_another_length_are_an_error(tmp_path):
    X, y = samples.rows()
    path, label = samples.npy(tmp_path, "x", X, y)
    np.save(label, y[:-1])
    with pytest.raises(ms.errors.MalformedFileError, match=r"600 rows, but labels of type int64 and shape \(599,\)"):
        ms.learn(ms.scan(path, label))


def test_files_of_other_widths_of_tables_without_names_fit_a_model_of_arrays(tmp_path):
    X, y = samples.rows()
    model = ms.solve(ms.learn(X, y))
    path, _ = samples.comma_separated(tmp_path, "x", X, y)
    rows = [part.rows for part in ms.scan(path, "y", like=model)]
    np.testing.assert_array_equal(np.concatenate([model.predict(part) for part in rows]), model.predict(X))
    with pytest.raises(ms.errors.DataError, match="has 5 features, expected 4"):
        list(ms.scan(path, like=model))


# What comes first tells the types


def test_lines_may_be_longer_than_the_text_that_types_are_inferred_from(tmp_path, monkeypatch):
    monkeypatch.setattr("mergesvm.data.readers.csv.INFERENCE_BYTES", 1000)
    note = "n" * 2_500
    path = write(tmp_path / "x.csv", f"y,a,note\n0,1.5,{note}\n1,2.5,{note}\n0,3,s\n1,5,s\n")
    (part,) = ms.scan(path, "y", features=["a"])
    np.testing.assert_array_equal(part.rows.block(0, 4), [[1.5], [2.5], [3], [5]])


def test_the_first_lines_decide_which_columns_are_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr("mergesvm.data.readers.csv.INFERENCE_BYTES", 1000)
    text = "\n".join(["a,y", *(f"{row},{row % 2}" for row in range(400)), "word,1", ""])
    with pytest.raises(ms.errors.MalformedFileError, match="line 402"):
        ms.learn(ms.scan(write(tmp_path / "z.csv", text), "y"))


def test_a_scan_of_text_does_not_hold_the_text(tmp_path):
    path = write(tmp_path / "x.csv", "a,y\n" + "1.25,0\n2.5,1\n" * 50_000)
    scan = ms.scan(path, "y")
    assert sum(part.rows.n_rows for part in scan) == 100_000
    assert len(pickle.dumps(scan)) < 20_000


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])
def test_slices_cannot_be_written_into(kind, tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0], "y": [0, 1]})
    path = tmp_path / f"x.{kind}"
    {"parquet": frame.to_parquet, "feather": frame.to_feather}.get(kind, lambda p: frame.to_csv(p, index=False))(path)
    (part,) = ms.scan(path, "y")
    assert not any(array.flags.writeable for array in (*part.rows.columns, part.labels))


def test_missing_labels_within_a_dictionary_raise_an_error_with_advice(tmp_path):
    labels = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["no", None]))
    feather.write_feather(pa.table({"a": [1.0, 2.0, 3.0], "y": labels}), tmp_path / "x.feather")
    with pytest.raises(ms.errors.DataError, match=r"row 1 has no label.*missing='drop'"):
        ms.learn(ms.scan(tmp_path / "x.feather", "y"))
