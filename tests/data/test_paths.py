"""No file is read twice, however it is spelt."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import mergesvm as ms
from mergesvm.data.paths import find_files
from mergesvm.errors import ParameterError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for day in (1, 2):
        Path(f"day{day}.csv").write_text("x,y\n1,a\n2,b\n")
    return tmp_path


@pytest.mark.parametrize(
    ("second", "link"),
    [
        ("day1.csv", None),
        ("./day1.csv", None),
        ("{folder}/day1.csv", None),
        ("file://{folder}/day1.csv", None),
        ("day*.csv", None),
        ("{folder}", None),
        ("soft.csv", os.symlink),
        ("hard.csv", os.link),
    ],
)
def test_a_file_is_not_learned_twice(folder, second, link):
    if link is not None:
        link("day1.csv", second)
    second = second.format(folder=folder)
    with pytest.raises(ParameterError, match=r"day1\.csv.* (is given twice|are the same file): its rows would count"):
        ms.learn(ms.scan(["day1.csv", second], label="y"))


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_that_a_glob_matches_too_is_refused_and_both_are_named(folder, link):
    link("day2.csv", "latest.csv")
    with pytest.raises(ParameterError, match=r"latest\.csv and day2\.csv are the same file"):
        ms.scan("*.csv", label="y")
    # A folder is given once: each of its files is read once.
    assert [Path(file.path).name for file in find_files(folder)] == ["day1.csv", "day2.csv"]


def test_different_files_with_equal_content_are_two(folder):
    assert ms.learn(ms.scan("day*.csv", label="y")).rows.sum() == 4
