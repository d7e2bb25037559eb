"""The command line in a process of its own, as users run it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from mergesvm.cli.console import Console
from mergesvm.cli.digits_demo import run_demo

COMMAND = [str(Path(sys.executable).with_name("mergesvm"))]


def run(*arguments, **options):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, **options)


def test_the_demo_prints_tables_and_saves_plots(tmp_path):
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for title in ("Learn in parallel, merge", "Forget", "Solve again for other C, without data"):
        assert title in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["mergesvm-demo.png"]
    assert (tmp_path / "mergesvm-demo.png").read_bytes().startswith(b"\x89PNG")


def test_merged_models_of_the_demo_equal_batch_training(tmp_path):
    results = run_demo(Console(quiet=True), tmp_path / "picture.svg", seed=3)
    assert max(results.difference) < 1e-12
    assert results.merged[-1] > np.max(results.alone[-1])
    assert results.merged[-1] > results.merged[0]
    assert max(results.grid["one-vs-one, balanced weights"]) > max(results.grid["one-vs-rest, no weights"])
    assert (tmp_path / "picture.svg").read_text().startswith("<?xml")


def test_the_demo_without_matplotlib_names_the_extra_to_install(tmp_path):
    script = "import sys; sys.modules['matplotlib'] = None; from mergesvm.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "demo"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "pip install 'mergesvm[plots]'" in done.stdout
    assert not list(tmp_path.iterdir())


def test_a_missing_output_folder_is_an_error(tmp_path):
    done = run("demo", "--picture", str(tmp_path / "none" / "x.png"))
    assert done.returncode == 2
    assert "There is no folder" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_picture_format_is_an_error(tmp_path):
    done = run("demo", "--picture", str(tmp_path / "x.docx"))
    assert done.returncode == 2
    assert "docx" in done.stderr
    assert "Traceback" not in done.stderr


def test_invalid_usage_exits_with_code_2():
    assert run("fly").returncode == 2
    assert run("demo", "--speed", "9").returncode == 2


def test_help_and_version():
    assert "demo" in run("--help").stdout
    assert "Example" in run("demo", "--help").stdout
    assert run("--version").stdout.startswith("mergesvm ")


def test_an_interrupt_leaves_no_files(tmp_path):
    process = subprocess.Popen([*COMMAND, "demo"], cwd=tmp_path, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # it has begun
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    assert not list(tmp_path.iterdir())
