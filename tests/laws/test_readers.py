"""What must be true of every reader of files."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mergesvm as ms
import samples
from hunting import examples
from mergesvm.data.readers.registry import format_name, reader_classes
from mergesvm.data.scan import Scan

each_writer = pytest.mark.parametrize("write", samples.WRITERS, ids=lambda writer: writer.__name__)


def assert_same(knowledge, other):
    np.testing.assert_array_equal(knowledge.rows, other.rows)
    assert knowledge.labels == other.labels
    for C in (0.1, 10.0):
        one, two = ms.solve(knowledge, C=C), ms.solve(other, C=C)
        np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-9, atol=1e-9 * np.abs(two.coef_).max())
        np.testing.assert_allclose(one.intercept_, two.intercept_, rtol=1e-9, atol=1e-9)


def open_files():
    links = [link for link in Path("/proc/self/fd").iterdir() if link.exists()]
    return sorted(str(link.readlink()) for link in links)


def test_every_reader_has_a_sample():
    assert {format_name(reader) for reader in reader_classes()} == set(samples.KINDS)


@each_writer
def test_any_batch_size_gives_the_knowledge_of_the_arrays(write, tmp_path):
    X, y = samples.rows()
    path, label = write(tmp_path, "day", X, y)
    expected = ms.learn(X, y)
    for batch_rows in (None, 1, 7, 250, 599, 600, 601):
        assert_same(ms.learn(ms.scan(path, label, batch_rows=batch_rows)), expected)


@each_writer
def test_one_file_or_ten_and_a_detour_through_files_of_knowledge_are_the_same(write, tmp_path):
    X, y = samples.rows()
    pairs = [
        write(tmp_path, f"day{index}", X[part], y[part])
        for index, part in enumerate(np.array_split(np.random.default_rng(1).permutation(len(X)), 10))
    ]
    paths = [path for path, _ in pairs]
    beside = isinstance(pairs[0][1], Path)
    label = [label for _, label in pairs] if beside else pairs[0][1]
    expected = ms.learn(X, y)
    assert_same(ms.learn(ms.scan(paths, label)), expected)
    width = {"width": X.shape[1]} if label is None and "libsvm" in paths[0].name else {}
    for index, (path, one_label) in enumerate(pairs):
        ms.learn(ms.scan(path, one_label, **width)).save(tmp_path / f"{index}.knowledge")
    pieces = [ms.Knowledge.load(tmp_path / f"{index}.knowledge") for index in range(10)]
    assert_same(ms.merge(pieces), expected)
    assert_same(ms.merge(pieces) - pieces[3] + pieces[3], expected)


@each_writer
def test_a_scan_can_be_read_again(write, tmp_path):
    X, y = samples.rows()
    scan = ms.scan(*write(tmp_path, "day", X, y), batch_rows=100)
    first = ms.learn(scan)
    assert scan.rows == len(X)
    assert scan.fraction == 1.0
    assert scan.dropped == 0
    assert_same(ms.learn(scan), first)
    assert scan.rows == len(X)


@each_writer
@pytest.mark.parametrize("stop_after", [1, 2])
def test_files_and_threads_end_when_reading_stops_early(write, stop_after, tmp_path):
    X, y = samples.rows()
    scan = ms.scan(*write(tmp_path, "day", X, y), batch_rows=50)
    before, threads = open_files(), threading.active_count()
    slices = iter(scan)
    for _ in range(stop_after):
        next(slices)
    slices.close()
    assert [name for name in open_files() if str(tmp_path) in name] == []
    assert len(open_files()) <= len(before)
    assert threading.active_count() == threads


@each_writer
def test_rows_come_in_order_and_labels_with_them(write, tmp_path):
    X, y = samples.rows()
    slices = list(ms.scan(*write(tmp_path, "day", X, y), batch_rows=77))
    blocks = [part.rows.block(0, part.rows.n_rows) for part in slices]
    dense = [block.toarray() if hasattr(block, "toarray") else block for block in blocks]
    np.testing.assert_array_equal(np.vstack(dense), X)
    np.testing.assert_array_equal(np.concatenate([part.labels for part in slices]), y)
    assert [part.rows.first for part in slices] == np.cumsum([0] + [part.total for part in slices[:-1]]).tolist()


@each_writer
def test_a_file_cut_short_is_an_error_that_names_it(write, tmp_path):
    path, label = write(tmp_path, "day", *samples.rows())
    content = path.read_bytes()
    # In the middle of a record: text that ends with a whole line is a whole file.
    cut = content[: len(content) // 2].rsplit(b"\n", 1)[0] + b"\nx" if path.suffix in (".csv", ".libsvm") else None
    path.write_bytes(cut or content[: len(content) // 2])
    with pytest.raises(ms.errors.MergeSVMError, match=path.name):
        ms.learn(ms.scan(path, label))


@each_writer
def test_an_empty_file_is_an_error_that_names_it(write, tmp_path):
    path, label = write(tmp_path, "day", *samples.rows())
    path.write_bytes(b"")
    with pytest.raises(ms.errors.MergeSVMError, match=path.name):
        ms.learn(ms.scan(path, label))


@each_writer
def test_a_value_that_is_not_finite_is_named_with_file_and_row(write, tmp_path):
    X, y = samples.rows()
    X[417, 2] = np.inf
    path, label = write(tmp_path, "day", X, y)
    with pytest.raises(ms.errors.DataError, match=rf"{path.name} contains infinity: row 417, column ('x2'|2)"):
        ms.learn(ms.scan(path, label, batch_rows=100))


@each_writer
def test_a_progress_function_sees_every_slice(write, tmp_path):
    X, y = samples.rows()
    seen = []
    scan = ms.scan(*write(tmp_path, "day", X, y), batch_rows=100)
    ms.learn(scan, progress=lambda scan: seen.append((scan.rows, scan.fraction)))
    counts, shares = zip(*seen, strict=True)
    assert list(counts) == sorted(counts)
    assert counts[-1] == len(X)
    assert list(shares) == sorted(shares)
    assert 0 < shares[-1] <= 1


@settings(max_examples=examples(20), deadline=None)
@given(batch_rows=st.integers(1, 700), cuts=st.lists(st.integers(1, 599), max_size=4, unique=True))
def test_any_split_and_batch_size_is_the_same(batch_rows, cuts, tmp_path_factory):
    X, y = samples.rows()
    folder = tmp_path_factory.mktemp("split")
    bounds = [0, *sorted(cuts), len(X)]
    for number, (start, stop) in enumerate(pairwise(bounds)):
        samples.parquet(folder, f"part{number}", X[start:stop], y[start:stop])
    assert_same(ms.learn(ms.scan(f"{folder}/*.parquet", "y", batch_rows=batch_rows)), ms.learn(X, y))


# Parts of files


def stacked(scan):
    """All rows, and all labels."""
    slices = list(scan)
    blocks = [part.rows.block(0, part.rows.n_rows) for part in slices]
    dense = [block.toarray() if hasattr(block, "toarray") else block for block in blocks]
    labels = [part.labels.to_array() if hasattr(part.labels, "to_array") else part.labels for part in slices]
    return np.vstack([np.zeros((0, scan.width)), *dense]), np.concatenate([np.zeros(0, dtype=int), *labels])


def cut(scan, size):
    """A scan for each part of the files."""
    return [scan.with_readers([part]) for reader in scan.readers for part in reader.split(size)]


def assert_parts_are_the_whole(parts, whole):
    pieces = [stacked(part) for part in parts]
    for together, expected in zip(map(np.concatenate, zip(*pieces, strict=True)), stacked(whole), strict=True):
        np.testing.assert_array_equal(together, expected)


UNCUT = {"packed_parquet", "arrow_stream", "gzipped_csv", "zstd_csv", "gzipped_libsvm", "npz", "gzipped_idx"}
"""Files of a single row group, streams, and what is compressed as a whole."""


@each_writer
@pytest.mark.parametrize("count", [1, 2, 3, 7, 50])
def test_the_parts_of_a_file_are_the_file(write, count, tmp_path):
    scan = ms.scan(*write(tmp_path, "day", *samples.rows()), batch_rows=77)
    parts = cut(scan, scan.size // count)
    assert (len(parts) > 1) == (count > 1 and write.__name__ not in UNCUT)
    assert sum(part.size for part in parts) == pytest.approx(scan.size, abs=len(parts))
    assert_parts_are_the_whole(parts, scan)
    for part in parts:
        shares = [piece.fraction for piece in part]
        assert shares == sorted(shares)
        assert all(0 < share <= 1 for share in shares)
    travelled = pickle.loads(pickle.dumps(parts))
    assert_same(ms.merge([ms.learn(part) for part in travelled if stacked(part)[0].size]), ms.learn(scan))


@each_writer
def test_a_part_can_be_cut_and_parts_that_follow_each_other_be_joined(write, tmp_path):
    scan = ms.scan(*write(tmp_path, "day", *samples.rows()), batch_rows=77)
    pieces = [piece for part in scan.readers[0].split(scan.size // 2) for piece in part.split(scan.size // 6)]
    assert_parts_are_the_whole([scan.with_readers([piece]) for piece in pieces], scan)
    if len(pieces) > 2:
        one = pieces[0].joined(pieces[1])
        assert_parts_are_the_whole([scan.with_readers([one]), scan.with_readers(pieces[2:])], scan)
        assert one.size == pieces[0].size + pieces[1].size
        assert pieces[0].joined(pieces[2]) is None
        assert pieces[1].joined(pieces[0]) is None


@each_writer
@pytest.mark.parametrize("count", [1, 2, 3, 7, 50])
def test_files_are_dealt_out_without_loss(write, count, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[Scan.__module__], "MIN_PART_BYTES", 1)
    X, y = samples.rows()
    pairs = [write(tmp_path, f"day{index}", X[at], y[at]) for index, at in enumerate(np.split(np.arange(600), [50]))]
    beside = isinstance(pairs[0][1], Path)
    scan = ms.scan([path for path, _ in pairs], [label for _, label in pairs] if beside else pairs[0][1])
    parts = pickle.loads(pickle.dumps(scan.parts(count)))
    assert len(parts) <= count
    assert all(isinstance(part, Scan) and part.readers for part in parts)
    pieces = [reader for part in parts for reader in part.readers]
    places = [(reader.file.name, 0 if reader.extent == "" else reader.span.start) for reader in pieces]
    in_order = [pieces[index] for index in sorted(range(len(pieces)), key=lambda index: places[index])]
    assert_parts_are_the_whole([scan.with_readers([reader]) for reader in in_order], scan)
    knowledge = ms.merge([ms.learn(part) for part in parts if stacked(part)[0].size])
    assert_same(knowledge, ms.learn(scan))
    rows = {}
    for part in parts:
        for name, count_of_rows in part.counts.items():
            rows[name] = rows.get(name, 0) + count_of_rows
    assert rows == scan.counts


@each_writer
def test_an_error_in_a_part_names_the_file_and_the_row(write, tmp_path):
    X, y = samples.rows()
    X[417, 2] = np.inf
    path, label = write(tmp_path, "day", X, y)
    scan = ms.scan(path, label, batch_rows=100)
    before = 0
    for part in cut(scan, scan.size // 7):
        count = len(stacked(part)[0])
        if before + count > 417:
            break
        before += count
    with pytest.raises(ms.errors.DataError, match=path.name) as raised:
        ms.learn(part)
    (reader,) = part.readers
    if reader.counted or not reader.extent:
        assert "row 417," in str(raised.value)
    else:
        assert f"{reader.extent} contains infinity: row {417 - before}," in str(raised.value)


@each_writer
def test_a_file_cut_short_is_an_error_of_one_of_its_parts(write, tmp_path):
    path, label = write(tmp_path, "day", *samples.rows())
    scan = ms.scan(path, label)
    parts = cut(scan, scan.size // 7)
    path.write_bytes(path.read_bytes()[: scan.size // 2])
    with pytest.raises(ms.errors.MergeSVMError, match=path.name):
        list(map(stacked, parts))


ENDS = st.sampled_from(["\n", "\r\n", "\n\n", "\r\n\r\n"])


@settings(max_examples=examples(60), deadline=None)
@given(
    lines=st.lists(
        st.tuples(st.floats(-1e6, 1e6), st.integers(0, 2), st.integers(0, 30), ENDS), min_size=2, max_size=12
    ),
    begin=st.sampled_from(["", "\n", "\r\n"]),
    last=st.booleans(),
    size=st.integers(1, 400),
    compiled=st.booleans(),
    header=st.sampled_from(["", "a,word,y\n", "a,word,y\r\n", '"a","word","y"\n']),
)
def test_text_is_cut_anywhere(lines, begin, last, size, compiled, header, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    sparse = "".join(f"{label} 1:{value!r} # {'x' * more}{end}" for value, label, more, end in lines)
    table = "".join(f"{value!r},{'x' * more},{label}{end}" for value, label, more, end in lines)
    for name, text in (("x.svm", begin + sparse), ("x.csv", header + (table if header else begin + table))):
        (folder / name).write_bytes((text if last else text.rstrip("\r\n")).encode())
    columns = ("y", ["a"]) if header else ("f2", ["f0"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mergesvm.data.readers.csv.MIN_BYTES_FOR_JIT", 0 if compiled else 1 << 60)
        for scan in (ms.scan(folder / "x.svm"), ms.scan(folder / "x.csv", *columns, header=bool(header))):
            parts = cut(scan, size)
            assert len(parts) > 1 or scan.size < 2 * size or b"\n" not in Path(scan.readers[0].file.path).read_bytes()
            assert_parts_are_the_whole(parts, scan)
            assert len(stacked(scan)[1]) == len(lines)


MEMORY = """
import resource, sys
import mergesvm as ms
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
small, large, label = sys.argv[1], sys.argv[2], eval(sys.argv[3])
learn = lambda stem: ms.learn(ms.scan(*(part.replace("STEM", stem) if isinstance(part, str) else part
                                        for part in label), batch_rows=2000))
learn(small)
before = peak()
learn(large)
print(peak() - before)
"""


@pytest.mark.parametrize(
    "write", [writers[0] for writers in samples.KINDS.values()], ids=lambda writer: writer.__name__
)
def test_memory_does_not_grow_with_the_file(write, tmp_path):
    X, y = samples.rows(5_000, 20)
    path, label = write(tmp_path, "small", X, y)
    write(tmp_path, "large", np.tile(X, (30, 1)), np.tile(y, 30))
    names = [str(path).replace("small", "STEM"), str(label).replace("small", "STEM") if label else None]
    script = [sys.executable, "-c", MEMORY, "small", "large", repr(names)]
    grown = int(subprocess.run(script, capture_output=True, text=True, check=True).stdout)
    assert grown < 40_000  # kilobytes; the large file holds 24 MB of numbers, read in parts of 0.3 MB
