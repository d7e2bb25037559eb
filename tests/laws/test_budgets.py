"""Small inputs that need much memory are refused with the size, before anything is allocated."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mergesvm as ms
from mergesvm.errors import DataError, ParameterError


@pytest.fixture(scope="module")
def many_classes():
    """Knowledge of 20,000 classes, of about a megabyte."""
    n_classes = 20_000
    small = ms.learn(np.eye(2), [0, 1])
    rows = np.ones(n_classes, dtype=np.int64)
    return ms.Knowledge(
        small.signature,
        np.zeros(2),
        tuple(range(n_classes)),
        rows,
        rows.astype(float),
        np.ones((n_classes, 2)),
        (np.ones((2, 2)),) * n_classes,
        np.zeros((n_classes, 2)),
    )


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_a_model_of_many_classes_is_not_begun_without_memory(many_classes, multiclass, monkeypatch):
    monkeypatch.setattr("mergesvm.engines.machine.memory_limit", lambda: 16 * 10**9)
    problems, needed = {"ovr": ("20,000", "19.6"), "ovo": ("199,990,000", "195,993.4")}[multiclass]
    said = (
        f"A model of {problems} binary problems between 20,000 classes takes {needed} GB, and this machine has 16.0 GB"
    )
    with pytest.raises(ParameterError, match=said):
        ms.solve(many_classes, multiclass=multiclass)


def test_a_report_of_many_classes_is_not_begun_without_memory(many_classes, monkeypatch, tmp_path):
    monkeypatch.setattr("mergesvm.engines.machine.memory_limit", lambda: 16 * 10**9)
    with pytest.raises(ParameterError, match=r"takes 19\.6 GB"):
        ms.report(many_classes, tmp_path / "page.html")


def test_sums_that_do_not_fit_into_memory_are_not_merged_or_unpacked(monkeypatch, tmp_path):
    one, other = ms.learn(np.eye(100), [0] * 100), ms.learn(np.eye(100), [1] * 100)
    (one + other).save(tmp_path / "k")
    monkeypatch.setattr("mergesvm.engines.machine.memory_limit", lambda: 200_000)
    with pytest.raises(ParameterError, match="The sum of 2 x 100 x 100 sums takes"):
        _ = one + other
    with pytest.raises(ParameterError, match="Knowledge of 2 x 100 x 100 sums takes"):
        ms.Knowledge.load(tmp_path / "k")


@pytest.mark.parametrize("column", ["y", "c"])
@pytest.mark.parametrize("coded", [True, False])
def test_a_text_of_megabytes_is_not_a_label_or_category(column, coded, tmp_path):
    long = {"y": ["p", "q", "p"], "c": ["p", "q", "p"]} | {column: ["p", "q", "x" * (2**20 + 1)]}
    table = pa.table({"a": [1.0, 2.0, 3.0], **{name: pa.array(values) for name, values in long.items()}})
    if coded:
        at = table.schema.get_field_index(column)
        table = table.set_column(at, column, table.column(column).dictionary_encode())
    pq.write_table(table, tmp_path / "t.parquet", compression="zstd")
    with pytest.raises(DataError, match=f"column '{column}' holds a text of 1,048,577 bytes") as caught:
        ms.learn(ms.scan(tmp_path / "t.parquet", label="y", categories="auto"))
    assert len(str(caught.value)) < 500


PEAK_OF_REFUSAL = """
import resource, sys
import pyarrow.parquet
import mergesvm as ms
from mergesvm.data.readers import parquet
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
scan = ms.scan(sys.argv[1], label="y", categories="auto", **eval(sys.argv[2]))
before = peak()
try:
    ms.learn(scan)
except ms.errors.DataError as error:
    print(peak() - before, error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is in kilobytes on Linux")
@pytest.mark.parametrize(("column", "coded"), [("y", False), ("c", True)])
def test_a_huge_text_is_refused_before_it_is_decoded(column, coded, tmp_path):
    long = {"y": ["p", "q", "p"], "c": ["p", "q", "p"]} | {column: ["p", "q", "x" * 2**27]}
    pq.write_table(
        pa.table({"a": [1.0, 2.0, 3.0], **long}), tmp_path / "t.parquet", compression="zstd", use_dictionary=coded
    )
    assert (tmp_path / "t.parquet").stat().st_size < 10**6
    words = [sys.executable, "-c", PEAK_OF_REFUSAL, str(tmp_path / "t.parquet"), "{}"]
    kilobytes, said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split(maxsplit=1)
    assert int(kilobytes) < 64 * 1024
    assert "3 rows of 3 columns take 134,2" in said


def test_long_texts_that_are_kept_or_left_out_are_read(tmp_path):
    texts = ["p", "q", "x" * (2**26 + 100)]
    pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "y": ["p", "q", "p"], "t": texts}), tmp_path / "t.parquet")
    assert ms.learn(ms.scan(tmp_path / "t.parquet", label="y", features=["a"])).rows.sum() == 3
    kept = ms.scan(tmp_path / "t.parquet", label="y", keep=["t"])
    assert ms.learn(kept).rows.sum() == 3


def test_a_row_group_larger_than_memory_is_not_read(tmp_path, monkeypatch):
    table = pa.table({"a": np.zeros(100_000), "y": ["p", "q"] * 50_000})
    pq.write_table(table, tmp_path / "t.parquet", compression="zstd", use_dictionary=False)
    scan = ms.scan(tmp_path / "t.parquet", label="y")
    monkeypatch.setattr("mergesvm.engines.machine.memory_limit", lambda: 10**6)
    with pytest.raises(ParameterError, match=r"t.parquet: a row group takes 0.0 GB"):
        ms.learn(scan)
