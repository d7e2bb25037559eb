"""What commands write: never over an input, a device, or a file that another run has just written."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

import mergesvm as ms
from cli.commandline import SCRIPT, error, ok, run


@pytest.fixture
def folder(tmp_path):
    """A folder with data, knowledge, folds and a model."""
    lines = [f"{x},{x * x % 7},{'yes' if x % 3 else 'no'}" for x in range(30)]
    (tmp_path / "day.csv").write_text("a,b,y\n" + "\n".join(lines) + "\n")
    learn = ("learn", "day.csv", "--label", "y")
    ok(*learn, "-o", "day.knowledge", cwd=tmp_path)
    (tmp_path / "other.csv").write_bytes((tmp_path / "day.csv").read_bytes())
    ok("learn", "other.csv", "--label", "y", "-o", "other.knowledge", cwd=tmp_path)
    ok(*learn, "--folds", "2", "-o", "folds.knowledge", cwd=tmp_path)
    ok("solve", "day.knowledge", "-o", "model.msvm", cwd=tmp_path)
    return tmp_path


COMMANDS = {
    "map": ["map", "day.csv", "--label", "y", "--features", "fourier:4", "-o"],
    "learn": ["learn", "day.csv", "--label", "y", "-o"],
    "merge": ["merge", "day.knowledge", "other.knowledge", "-o"],
    "subtract": ["subtract", "day.knowledge", "other.knowledge", "-o"],
    "solve": ["solve", "day.knowledge", "-o"],
    "choose": ["solve", "folds.knowledge", "--C", "auto", "-o"],
    "report": ["report", "day.knowledge", "-o"],
    "stream": ["stream", "day.csv", "--label", "y", "--from", "day.knowledge", "-o"],
    "calibrate": ["calibrate", "model.msvm", "day.csv", "--label", "y", "-o"],
    "predict": ["predict", "model.msvm", "day.csv", "-o"],
    "evaluate": ["evaluate", "model.msvm", "day.csv", "--label", "y", "--report"],
}
SUFFIXES = {"report": ".html", "predict": ".csv", "evaluate": ".html"}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_output_never_replaces_an_input_or_a_device(name, folder):
    inputs = [word for word in COMMANDS[name] if (folder / word).is_file()]
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for number, given in enumerate(inputs):
        output = folder / f"link{number}{SUFFIXES.get(name, '')}"
        output.symlink_to(folder / given)
        assert "is an input of this command" in error(*COMMANDS[name], output, "--force", cwd=folder)
        output.unlink()
        output.hardlink_to(folder / given)
        assert "is an input of this command" in error(*COMMANDS[name], output, "--force", cwd=folder)
        output.unlink()
    pipe = folder / f"pipe{SUFFIXES.get(name, '')}"
    os.mkfifo(pipe)
    assert "is a pipe, not a regular file" in error(*COMMANDS[name], pipe, "--force", cwd=folder)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    pipe.unlink()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_two_outputs_of_one_command_must_be_different_files(folder):
    (folder / "link.onnx").symlink_to("model.onnx")
    message = error("solve", "day.knowledge", "-o", "model.onnx", "--onnx", "link.onnx", "--force", cwd=folder)
    assert "are the same output file" in message
    words = ("stream", "day.csv", "--label", "y", "-o", "x", "--knowledge", "./x")
    assert "are the same output file" in error(*words, cwd=folder)


SLOW = (
    """
import sys, time
from mergesvm.knowledge.knowledge import Knowledge
save = Knowledge.save
def late(self, *arguments, **options):
    print("learned", flush=True)
    sys.stdin.readline()
    return save(self, *arguments, **options)
Knowledge.save = late
"""
    + SCRIPT
)


def test_one_of_two_simultaneous_runs_without_force_reports_an_existing_file(folder):
    words = ["learn", "day.csv", "--label", "y", "-q", "-o", "new.knowledge"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    runs = [subprocess.Popen([sys.executable, "-c", SLOW, *words], cwd=folder, **pipes) for _ in range(2)]
    for each in runs:
        assert each.stdout.readline() == "learned\n"  # both have seen that there is no such file
    errors = [each.communicate("\n")[1] for each in runs]
    assert [each.returncode for each in runs] == [0, 2]
    assert "already exists" in errors[1]
    assert ms.Knowledge.load(folder / "new.knowledge").rows.sum() == 30


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_an_error_before_the_work(tmp_path):
    tmp_path.chmod(0o500)
    done = run("learn", "nowhere.csv", "-o", tmp_path / "x")
    assert done.returncode == 1
    assert "permission denied" in done.stderr
