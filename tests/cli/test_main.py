"""The command line as a user runs it: a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
from rich.console import Console

from mergesvm.cli.commands.demo import run_demo

COMMAND = [str(Path(sys.executable).with_name("mergesvm"))]


def run(*arguments, **options):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, **options)


def test_the_demo_shows_tables_and_saves_a_picture(tmp_path):
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for title in ("Learn in parallel, merge", "Forget", "Solve again for other C, with no data"):
        assert title in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["mergesvm-demo.png"]
    assert (tmp_path / "mergesvm-demo.png").read_bytes().startswith(b"\x89PNG")


def test_what_the_demo_shows_is_true(tmp_path):
    story = run_demo(Console(quiet=True), tmp_path / "picture.svg", seed=3)
    assert max(story.difference) < 1e-12
    assert story.merged[-1] > np.max(story.alone[-1])
    assert story.merged[-1] > story.merged[0]
    assert max(story.grid["one-vs-one, balanced weights"]) > max(story.grid["one-vs-rest, no weights"])
    assert (tmp_path / "picture.svg").read_text().startswith("<?xml")


def test_without_matplotlib_the_demo_says_what_to_install(tmp_path):
    script = "import sys; sys.modules['matplotlib'] = None; from mergesvm.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "demo"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "pip install 'mergesvm[plots]'" in done.stdout
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_said_at_once(tmp_path):
    done = run("demo", "--picture", str(tmp_path / "none" / "x.png"))
    assert done.returncode == 2
    assert "There is no folder" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_kind_of_picture_is_said(tmp_path):
    done = run("demo", "--picture", str(tmp_path / "x.docx"))
    assert done.returncode == 2
    assert "docx" in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_usage_has_its_own_exit_code():
    assert run("fly").returncode == 2
    assert run("demo", "--speed", "9").returncode == 2


def test_help_and_version_are_there():
    assert "demo" in run("--help").stdout
    assert "Example" in run("demo", "--help").stdout
    assert run("--version").stdout.startswith("mergesvm ")


def test_an_interrupt_leaves_nothing_behind(tmp_path):
    process = subprocess.Popen([*COMMAND, "demo"], cwd=tmp_path, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # it has begun
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    assert not list(tmp_path.iterdir())
