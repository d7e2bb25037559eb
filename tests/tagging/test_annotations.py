"""Strokes are kept in a file: durable, once each, and gone when removed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from mergesvm.errors import DataError, ForeignFileError, NewerFormatError, ParameterError
from mergesvm.tagging.annotations import FORMAT, Annotations
from mergesvm.tagging.strokes import Stroke

STROKE = Stroke(((0.123456, 0.2), (0.3, 0.4)), 0.05)


@pytest.fixture
def annotations(tmp_path):
    with closing(Annotations(tmp_path / "strokes.sqlite")) as opened:
        yield opened


def test_strokes_come_back_as_they_were(annotations):
    annotations.add("k1", "a.png", " cat ", STROKE, "me")
    annotations.add("k2", "b.png", "dog", Stroke(((0.5, 0.5),), negative=True), "you")
    with closing(Annotations(annotations.path)) as again:
        assert [(each.key, each.picture, each.tag, each.author, each.stroke) for each in again.of()] == [
            ("k1", "a.png", "cat", "me", STROKE),
            ("k2", "b.png", "dog", "you", Stroke(((0.5, 0.5),), negative=True)),
        ]
        assert again.tags() == {"cat": 1, "dog": 1}
        assert [each.key for each in again.of(tag="dog")] == ["k2"]
        assert again.of(tag="dog", picture="a.png") == []


def test_the_same_stroke_twice_is_one_stroke(annotations):
    first = annotations.add("k1", "a.png", "cat", STROKE, "me")
    assert annotations.add("k1", "a.png", "cat", STROKE, "me") == first
    assert len(annotations.of()) == 1
    with pytest.raises(DataError, match="another stroke with the key 'k1'"):
        annotations.add("k1", "b.png", "cat", STROKE, "me")


def test_removed_strokes_leave_no_bytes(annotations):
    secret = Stroke(((0.987654321, 0.5),))
    annotations.add("k1", "a.png", "cat", secret, "somebody")
    annotations.add("k2", "a.png", "cat", STROKE, "me")
    assert [each.key for each in annotations.remove(["k1", "none"])] == ["k1"]
    assert annotations.remove(["k1"]) == []
    annotations.close()
    content = b"".join(path.read_bytes() for path in annotations.path.parent.iterdir())
    assert b"0.123456" in content
    assert b"0.987654321" not in content
    assert b"somebody" not in content


def test_many_threads_lose_nothing(annotations):
    def add(number):
        return annotations.add(f"k{number}", f"{number % 7}.png", "cat", STROKE, "me").key

    with ThreadPoolExecutor(8) as pool:
        added = set(pool.map(add, range(200)))
    assert {each.key for each in annotations.of()} == added
    assert annotations.tags() == {"cat": 7}


def test_a_killed_process_loses_no_confirmed_stroke(tmp_path):
    program = """
import os, sys, pathlib
from mergesvm.tagging.annotations import Annotations
from mergesvm.tagging.strokes import Stroke
annotations = Annotations(pathlib.Path(sys.argv[1]))
for number in range(20):
    annotations.add(f"k{number}", "a.png", "cat", Stroke(((0.5, 0.5),)), "me")
    print(number, flush=True)
os.kill(os.getpid(), 9)
"""
    path = tmp_path / "strokes.sqlite"
    run = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert run.returncode == -9
    assert run.stdout.split() == [str(number) for number in range(20)]
    with closing(Annotations(path)) as after:
        assert len(after.of()) == 20


@pytest.mark.parametrize(("key", "tag"), [("", "cat"), ("k" * 101, "cat"), ("k", " "), ("k", "c" * 101), ("k", "a\nb")])
def test_bad_keys_and_tags_are_refused(annotations, key, tag):
    with pytest.raises(ParameterError, match="must have 1 to 100"):
        annotations.add(key, "a.png", tag, STROKE, "me")
    assert annotations.of() == []


def test_foreign_and_newer_files_are_refused_and_unchanged(tmp_path):
    text, other, newer = (tmp_path / name for name in ("text", "other", "newer"))
    text.write_bytes(b"not a database, but long enough to look like one" * 20)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.commit()
    with closing(Annotations(newer)):
        pass
    with closing(sqlite3.connect(newer)) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    for path, error, message in (
        (text, ForeignFileError, "is not a file of strokes"),
        (other, ForeignFileError, "of another program"),
        (newer, NewerFormatError, f"has format {FORMAT + 1}"),
    ):
        with pytest.raises(error, match=message):
            Annotations(path)
    assert text.read_bytes().startswith(b"not a database")
