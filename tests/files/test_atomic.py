"""Whatever happens while a file is written, the old one is there or the new one."""

from __future__ import annotations

import errno
import os
import random
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
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
pieces[0].save(sys.argv[1])
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
        if how == signal.SIGKILL:
            ms.Knowledge.load(path).save(path)  # the next run removes what the killed one has left
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
    with pytest.raises(ms.errors.IrregularFileError, match="is a folder"):
        write_atomically(tmp_path, b"")


def test_the_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    events = []
    synchronise, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: events.append("fsync") or synchronise(fd))
    monkeypatch.setattr(Path, "replace", lambda self, target: events.append("rename") or replace(self, target))
    write_atomically(tmp_path / "x", b"whole")
    assert events == ["fsync", "rename", "fsync"]


def test_pipes_devices_sockets_and_loops_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "there").symlink_to(tmp_path / "back")
    (tmp_path / "back").symlink_to(tmp_path / "there")
    (tmp_path / "device").symlink_to("/dev/null")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "socket"))
    for name in ("pipe", "loop", "there", "device", "socket"):
        before = (tmp_path / name).lstat()
        for overwrite in (True, False):
            with pytest.raises(ms.errors.IrregularFileError, match="not a regular file"):
                write_atomically(tmp_path / name, b"", overwrite=overwrite)
        assert (tmp_path / name).lstat().st_ino == before.st_ino
    server.close()
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert len(list(tmp_path.iterdir())) == 6


def test_of_several_writers_that_must_not_overwrite_one_succeeds(tmp_path):
    path = tmp_path / "x"
    all_writing = threading.Barrier(8)

    def write(number):
        try:
            with replacing(path, overwrite=False) as temporary:
                temporary.write_text(str(number))
                all_writing.wait()  # each has seen that there is no file
        except ms.errors.ExistingFileError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(write, range(8)))
    assert won.count(True) == 1
    assert path.read_text() == str(won.index(True))
    assert list(tmp_path.iterdir()) == [path]


def test_without_hard_links_an_existing_file_is_not_overwritten_either(tmp_path, monkeypatch):
    def no_links(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    def write_too_late(path):
        with replacing(path, overwrite=False):
            path.write_text("another's")

    monkeypatch.setattr(os, "link", no_links)
    write_atomically(tmp_path / "x", b"first", overwrite=False)
    with pytest.raises(ms.errors.ExistingFileError, match="already exists"):
        write_too_late(tmp_path / "y")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"x": "first", "y": "another's"}


@pytest.mark.parametrize("kind", ["knowledge", "folds", "map", "model", "onnx", "report", "evaluation"])
def test_no_save_overwrites_a_file_unless_it_may(kind, tmp_path):
    X, y = np.arange(12.0).reshape(6, 2) ** 2, ["a", "b"] * 3
    knowledge = ms.learn(X, y)
    model = ms.solve(knowledge)
    write, suffix = {
        "knowledge": (knowledge.save, ""),
        "folds": (ms.learn(X, y, folds=[0, 1, 1, 0, 0, 1]).save, ""),
        "map": (ms.features.Fourier(4).freeze(X).save, ""),
        "model": (model.save, ""),
        "onnx": (model.to_onnx, ".onnx"),
        "report": (partial(ms.report, knowledge), ".html"),
        "evaluation": (ms.evaluate(model, X, y).report, ".json"),
    }[kind]
    path = tmp_path / f"x{suffix}"
    write(path, overwrite=False)
    held = path.read_bytes()
    with pytest.raises(ms.errors.ExistingFileError, match="already exists"):
        write(path, overwrite=False)
    assert path.read_bytes() == held
    write(path)


HANG = """
import sys, time
from mergesvm.files.atomic import replacing
with replacing(sys.argv[1]) as temporary:
    temporary.with_name("of the writer itself").write_text("half")
    temporary.write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


def test_what_a_killed_process_left_is_removed_but_not_what_a_living_one_writes(tmp_path):
    def start(name):
        process = subprocess.Popen([sys.executable, "-c", HANG, str(tmp_path / name)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    killed, living = start("x"), start("x")
    killed.kill()
    killed.communicate()
    elsewhere = tmp_path / ".mergesvm-00000000-12345678.tmp"  # of another machine, which may be at work
    elsewhere.mkdir()
    assert len(list(tmp_path.iterdir())) == 3
    write_atomically(tmp_path / "y", b"whole")
    assert {file.name for file in tmp_path.iterdir()} > {"y", elsewhere.name}
    assert len(list(tmp_path.iterdir())) == 3
    living.kill()
    living.communicate()
    long_ago = time.time() - 2 * 24 * 3600
    os.utime(elsewhere, (long_ago, long_ago))
    write_atomically(tmp_path / "y", b"whole")
    assert [file.name for file in tmp_path.iterdir()] == ["y"]
