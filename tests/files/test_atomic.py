"""Whatever happens while a file is written, the old one is there or the new one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import mergesvm as ms
from mergesvm.files.atomic import replacing, write_atomically

WRITE = """
import signal, sys
import numpy as np
import mergesvm as ms
signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
generator = np.random.default_rng(0)
pieces = [ms.learn(generator.normal(size=(20, 1500)), [label] * 20) for label in ("odd", "even")]
print("ready", flush=True)
for turn in range(10_000):
    pieces[turn % 2].save(sys.argv[1])
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_process_that_ends_while_writing_leaves_a_whole_file(how, tmp_path):
    path = tmp_path / "x.knowledge"
    chance = random.Random(0)
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", WRITE, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.2 + chance.random() / 4)
        process.send_signal(how)
        process.wait()
        process.stdout.close()
        assert ms.Knowledge.load(path).rows.tolist() == [20]
        if how == signal.SIGINT:
            assert [file.name for file in tmp_path.iterdir()] == ["x.knowledge"]


@contextmanager
def small_disk(folder):
    """A disk of its own, of 256 kB; where that may not be mounted, a limit on the size of files."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)]
    mounted = subprocess.run(mount, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


LEARN = """
import resource, signal, sys
import numpy as np
import mergesvm as ms
if sys.argv[2] == "limit":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
k = ms.learn(np.random.default_rng(0).normal(size=(300, 400)), np.arange(300) % 2)
try:
    k.save(sys.argv[1])
except OSError as error:
    print("failed:", error)
"""


def test_a_full_disk_leaves_the_old_file(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    with small_disk(folder) as mounted:
        old = ms.learn([[1.0], [2.0]], ["a", "b"])
        old.save(folder / "x.knowledge")
        script = [sys.executable, "-c", LEARN, str(folder / "x.knowledge"), "disk" if mounted else "limit"]
        done = subprocess.run(script, capture_output=True, text=True, check=True)
        assert "failed:" in done.stdout
        assert "x.knowledge" in done.stdout
        assert [file.name for file in folder.iterdir()] == ["x.knowledge"]
        np.testing.assert_array_equal(ms.Knowledge.load(folder / "x.knowledge").grams, old.grams)


def test_a_folder_that_cannot_be_written_to_is_an_error_that_leaves_nothing():
    knowledge = ms.learn([[1.0], [2.0]], ["a", "b"])
    with pytest.raises(OSError, match="x"):
        knowledge.save("/proc/self/x.knowledge")


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("old")

    def fail():
        with replacing(path) as sibling:
            sibling.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_the_file_behind_a_link_is_replaced_and_its_rights_kept(tmp_path):
    path, link = tmp_path / "notes.txt", tmp_path / "link.txt"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_new_files_have_the_rights_of_new_files(tmp_path):
    ms.learn([[1.0], [2.0]], ["a", "b"]).save(tmp_path / "x.knowledge")
    (tmp_path / "plain").touch()
    assert (tmp_path / "x.knowledge").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_folders_are_said_to_be_missing_or_in_the_way(tmp_path):
    with pytest.raises(ms.errors.MissingFolderError, match="There is no folder"):
        write_atomically(tmp_path / "none" / "x", b"")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_atomically(tmp_path, b"")


def test_the_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    events = []
    synchronise, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: events.append("fsync") or synchronise(fd))
    monkeypatch.setattr(Path, "replace", lambda self, target: events.append("rename") or replace(self, target))
    write_atomically(tmp_path / "x", b"whole")
    assert events == ["fsync", "rename", "fsync"]
