"""Attacks by data files that chance would hardly find: no crash, no memory beyond need, no error of others."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import struct
import subprocess
import sys
import textwrap
import unicodedata
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mergesvm as ms
from damage.data_files import ANSWERS, DIGITS, X
from mergesvm.cli.main import main
from mergesvm.errors import FileError, MergeSVMError
from mergesvm.knowledge.provenance.origin import Origin


def alone(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, with little memory to spare; its last line says how it ended, and the peak."""
    frame = f"""
import os, resource, sys
from pathlib import Path
import numpy as np, pyarrow as pa
import mergesvm as ms
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
{textwrap.indent(code, "    ")}
except ms.errors.MergeSVMError as error:
    print(type(error).__name__, end=" ")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    command = [sys.executable, "-c", frame, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def megabytes(done: subprocess.CompletedProcess[str], *outcomes: str) -> int:
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-2000:]}"
    outcome, peak = done.stdout.split()[-2:]
    assert outcome in outcomes, done.stdout
    return int(peak)


def test_a_parquet_footer_with_an_unknown_codec_does_not_end_the_process(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": X[:, 0], "y": ANSWERS}), path, compression="none")
    data = path.read_bytes()
    # Thrift: a list of one text "a" is the path of the column, and the codec follows.
    damaged = data.replace(b"\x19\x18\x01a\x15\x00", b"\x19\x18\x01a\x15\x40")
    assert damaged != data
    path.write_bytes(damaged)
    megabytes(alone("ms.learn(ms.scan('t.parquet', label='y'))", tmp_path), "MalformedFileError")


@pytest.mark.parametrize("name", ["t.feather", "t.npy"])
def test_a_file_that_is_cut_short_while_it_is_read_does_not_end_the_process(name, tmp_path):
    rows = np.ones((400_000, 3))
    if name == "t.npy":
        np.save(tmp_path / name, rows)
    else:
        whole = pa.table({column: rows[:, index] for index, column in enumerate("aby")})
        with pa.ipc.new_file(tmp_path / name, whole.schema) as writer:
            writer.write_table(whole, max_chunksize=10_000)
    code = """
slices = iter(ms.scan(sys.argv[1], label=sys.argv[2] if sys.argv[2] == "y" else 0, batch_rows=10_000))
next(slices)
os.truncate(sys.argv[1], 5000)
for part in slices:
    part.rows.block(0, part.rows.n_rows).sum()
print("fine", end=" ")
"""
    megabytes(alone(code, tmp_path, name, "0" if name == "t.npy" else "y"), "MalformedFileError", "fine")


def bomb(header: bytes, megabytes_of_zeros: int) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=1) as stream:
        stream.write(header)
        for _ in range(megabytes_of_zeros):
            stream.write(bytes(2**20))
    return packed.getvalue()


def idx_header(*shape: int) -> bytes:
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape)


def test_rows_too_wide_to_be_learned_are_refused_before_they_are_unpacked(tmp_path):
    (tmp_path / "t-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_header(256) + bytes(256)))
    (tmp_path / "t-images-idx3-ubyte.gz").write_bytes(bomb(idx_header(256, 2**22), 640))
    done = alone("ms.learn(ms.scan('t-images-idx3-ubyte.gz'))", tmp_path)
    assert megabytes(done, "MalformedFileError", "ParameterError", "DataError") < 400


def test_labels_are_unpacked_only_as_far_as_there_are_rows(tmp_path):
    (tmp_path / "t-labels-idx1-ubyte.gz").write_bytes(bomb(idx_header(2**30), 640))
    (tmp_path / "t-images-idx3-ubyte.gz").write_bytes(bomb(idx_header(2**30, 1), 1))
    assert megabytes(alone("ms.learn(ms.scan('t-images-idx3-ubyte.gz'))", tmp_path), "MalformedFileError") < 400


def test_long_texts_of_an_archive_are_unpacked_piece_by_piece(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("X.npy", "w") as stream:
            np.save(stream, np.zeros((16384, 2), dtype=np.uint8))
        with archive.open("y.npy", "w", force_zip64=True) as stream:
            stream.write(npy_header("'<U16384'", "(16384,)"))
            for _ in range(640):
                stream.write(bytes(2**20))
    done = alone("ms.learn(ms.scan('t.npz', label='y')); print('fine', end=' ')", tmp_path)
    assert megabytes(done, "MalformedFileError", "DataError", "fine") < 400


def test_a_line_without_an_end_is_given_up_soon(tmp_path):
    (tmp_path / "t.svm.gz").write_bytes(bomb(b"1 1:", 640))
    assert megabytes(alone("ms.learn(ms.scan('t.svm.gz', width=3))", tmp_path), "MalformedFileError") < 400


def npy_header(kind: str, shape: str) -> bytes:
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}}}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def write_feather(path: Path, **columns: Any) -> Path:
    whole = pa.table(columns)
    with pa.ipc.new_file(path, whole.schema) as writer:
        writer.write_table(whole)
    return path


def coded(values: Any, places: list[int], kind: Any = None) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(places, kind or pa.int8()), values)


def test_rows_whose_label_occurs_twice_in_a_dictionary_all_count(tmp_path):
    path = write_feather(tmp_path / "t.feather", a=[1.0, 2.0, 4.0], y=coded(["x", "x", "z"], [0, 1, 2]))
    learned = ms.learn(ms.scan(path, label="y"))
    assert learned.labels == ("x", "z")
    assert learned.rows.tolist() == [2, 1]
    assert (learned.sums + learned.counts[:, None] * learned.anchor).tolist() == [[3.0], [4.0]]


STRANGE_LABELS = {
    "structs": pa.array([{"a": 1}, {"a": 2}, {"a": 3}]),
    "lists": pa.array([[1], [2], [3]]),
    "bytes": pa.array([b"a", b"b", b"c"]),
    "dates": pa.array([1, 2, 3], pa.date32()),
    "fractions": pa.array([0.5, 1.5, 2.5]),
    "nothing": pa.nulls(3),
}


@pytest.mark.parametrize("kind", list(STRANGE_LABELS))
def test_labels_and_categories_of_unsupported_types_are_refused(kind, tmp_path):
    """In a process of its own: some of them have ended it."""
    strange = coded(STRANGE_LABELS[kind], [0, 1, 2])
    write_feather(tmp_path / "y.feather", a=[1.0, 2.0, 3.0], y=strange)
    write_feather(tmp_path / "a.feather", a=strange, y=["n", "m", "n"])
    megabytes(alone("ms.learn(ms.scan('y.feather', label='y'))", tmp_path), "MalformedFileError", "DataError")
    code = """
learned = ms.learn(ms.scan("a.feather", label="y"))
learned.save("k")  # what is learned can be kept
print("fine" if ms.Knowledge.load("k").signature == learned.signature else "another", end=" ")
"""
    megabytes(alone(code, tmp_path), "MalformedFileError", "DataError", "fine")


@pytest.mark.parametrize(("count", "kind"), [(128, pa.int8()), (256, pa.uint8())])
def test_a_dictionary_as_large_as_its_places_allow_is_a_category(count, kind, tmp_path):
    column = coded([f"v{index}" for index in range(count)], list(range(count)), kind)
    path = write_feather(tmp_path / "t.feather", a=column, y=["n", "m"] * (count // 2))
    assert ms.learn(ms.scan(path, label="y")).width == count


def test_whole_decimals_are_found_in_their_own_vocabulary(tmp_path):
    path = write_feather(tmp_path / "t.feather", a=coded(pa.array([1.0, 2.0]), [0, 1, 0]), y=["n", "m", "n"])
    assert ms.learn(ms.scan(path, label="y")).width == 2


@pytest.mark.parametrize("name", ["t.npz", "t.npy"])
def test_text_that_is_not_unicode_is_refused(name, tmp_path):
    labels = np.array([0x110000, 0x61, 0xFFFFFFFF], dtype="<u4").view("<U1")
    if name == "t.npz":
        np.savez(tmp_path / name, X=X[:3], y=labels)
    else:
        np.save(tmp_path / name, X[:3])
        np.save(tmp_path / "labels.npy", labels)
    with pytest.raises(MergeSVMError):
        ms.learn(ms.scan(tmp_path / name, label="y" if name == "t.npz" else tmp_path / "labels.npy"))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_of_any_method_with_a_flipped_byte_is_refused_or_the_same(method, tmp_path):
    with zipfile.ZipFile(tmp_path / "t.npz", "w", method) as archive:
        for name, array in (("X", X), ("y", DIGITS)):
            with archive.open(f"{name}.npy", "w") as stream:
                np.save(stream, array)
    data = (tmp_path / "t.npz").read_bytes()
    for at in range(0, len(data), 5):
        (tmp_path / "t.npz").write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        with contextlib.suppress(MergeSVMError):
            assert ms.learn(ms.scan(tmp_path / "t.npz", label="y")).rows.tolist() == [6, 12, 6]


@pytest.mark.parametrize(
    "shape", ["(2**60, 3)", "(1152921504606846976, 3)", "(4, 3L)", "(4, 3", "(4, 1or 3)", "(-4, 3)"]
)
def test_a_header_of_numpy_that_makes_no_sense_is_refused_without_a_warning(shape, tmp_path):
    (tmp_path / "t.npy").write_bytes(npy_header("'<f8'", shape) + X[:4].tobytes())
    try:
        assert ms.learn(ms.scan(tmp_path / "t.npy", label=0)).width == 2
    except MergeSVMError as error:
        assert str(tmp_path) in str(error)  # noqa: PT017


def test_paths_that_cannot_be_are_errors_of_ours(tmp_path):
    for name in ("a\0b.csv", "x" * 300 + ".csv", "x" * 300 + "*.csv", "\udcff.csv", ""):
        with pytest.raises(FileError):
            ms.scan(str(tmp_path / name) if name else "", label="y")


def test_column_names_that_are_not_text_are_read_or_raise_a_mergesvm_error(tmp_path):
    (tmp_path / "data").mkdir()
    try:
        (tmp_path / "data" / os.fsdecode(b"\xff.csv")).write_text("a,y\n1,p\n2,q\n")
    except OSError:
        pytest.skip("this file system has no such names")
    for path in (tmp_path / "data", tmp_path / "data" / os.fsdecode(b"\xff.csv"), tmp_path / "data" / "*.csv"):
        with contextlib.suppress(MergeSVMError):
            assert ms.learn(ms.scan(path, label="y")).rows.sum() == 2


def test_a_folder_that_links_to_itself_is_read_once(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n1,p\n2,q\n")
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "broken.csv").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.csv")
    try:
        assert ms.learn(ms.scan(tmp_path, label="y")).rows.sum() == 2
    except FileError as error:
        assert "again" in str(error)  # noqa: PT017


def test_labels_alone_are_no_rows(tmp_path):
    (tmp_path / "t-labels-idx1-ubyte").write_bytes(idx_header(3) + b"abc")
    with pytest.raises(MergeSVMError):
        ms.learn(ms.scan(tmp_path / "t-labels-idx1-ubyte"))


@pytest.mark.parametrize("evil", ["\x1b]0;x\x07\x1b[31m", "\x9b31m", "[/]", "[bold]x", "\ud800", "a\rb", "a\u202eb"])
def test_nothing_in_a_file_can_steer_the_terminal(evil, tmp_path, monkeypatch, capsys):
    names = [f"{evil}1", f"{evil}2"]
    learned = ms.learn([[0.0, 1.0], [1.0, 0.0]], [f"{evil}a", "b"], feature_names=names)
    learned = replace(learned, provenance=(Origin(evil, 2, evil),))
    learned.save(tmp_path / "k")
    ms.solve(learned).save(tmp_path / "m")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    for command in (["inspect", "k"], ["inspect", "m"], ["merge", "k", "k", "-o", f"{evil}/no"], ["inspect", evil]):
        monkeypatch.setattr(sys, "argv", ["mergesvm", *command])
        with pytest.raises(SystemExit):
            main()
        said = "".join(capsys.readouterr())
        said.encode()  # or it could not have been printed
        controls = {character for character in said if unicodedata.category(character) in ("Cc", "Cf")} - {"\n"}
        assert not controls, f"{command} printed {controls}"
        if command == ["inspect", "k"] and "[" in evil and evil.isprintable():
            assert evil in said, "taken for markup"
