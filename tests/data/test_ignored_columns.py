"""Columns that only some files have."""

import re
import warnings

import pyarrow as pa
import pytest
from pyarrow import parquet

import mergesvm as ms
from mergesvm.errors import IgnoredColumnsWarning


def write(path, columns):
    if path.suffix == ".csv":
        rows = [",".join(columns), *(",".join(str(index + row) for index in range(len(columns))) for row in range(3))]
        path.write_text("\n".join(rows) + "\n")
    else:
        parquet.write_table(pa.table({name: [0, 1, 2] for name in columns}), path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_column_of_later_files_is_not_left_out_in_silence(tmp_path, suffix):
    for number, columns in enumerate((["a", "y"], ["a", "b", "y"], ["c", "a", "y"], ["a", "y"])):
        write(tmp_path / f"day{number}{suffix}", columns)
    said = rf"day1{suffix}: the columns 'b' are not in the first file, .*day0{suffix}, and are left out, and 1 other"
    with pytest.warns(IgnoredColumnsWarning, match=re.escape(said).replace(r"\.\*", ".*")):
        found = ms.learn(ms.scan(tmp_path / f"*{suffix}", label="y"))
    assert found.signature.names == ("a",)


def test_columns_that_are_not_features_are_no_reason_to_warn(tmp_path):
    write(tmp_path / "day0.csv", ["a", "y"])
    write(tmp_path / "day1.csv", ["b", "a", "y"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = ms.learn(ms.scan(tmp_path / "day0.csv", label="y"))
        ms.learn(ms.scan(tmp_path / "*.csv", label="y", features=["a"]))
        ms.learn(ms.scan(tmp_path / "*.csv", label="y", like=first))
