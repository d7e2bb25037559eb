"""No traceback reaches a user of the command line, whatever happens to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from cli.commandline import SCRIPT, ok, run
from mergesvm.cli.commands.stream import ASCII_BLOCKS, plot_lines


def started(words, cwd, script=SCRIPT, environment=(), redirect=""):
    """Run a command in a process of its own, through a shell."""
    return subprocess.run(
        ["bash", "-c", f'exec "$@" {redirect}', "bash", sys.executable, "-c", script, *map(str, words)],
        cwd=cwd,
        env={**os.environ, **dict(environment)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data with labels that are not ASCII, knowledge and a model."""
    place = tmp_path_factory.mktemp("resort")
    lines = [f"{x},{x * x % 7},{'größer' if x % 3 else '小'}" for x in range(60)]
    (place / "day.csv").write_text("a,b,y\n" + "\n".join(lines) + "\n", encoding="utf-8")
    ok("learn", "day.csv", "--label", "y", "-o", "day.knowledge", cwd=place)
    ok("solve", "day.knowledge", "-o", "model.msvm", cwd=place)
    return place


@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "day.knowledge"],
        ["evaluate", "model.msvm", "day.csv", "--label", "y"],
        ["stream", "day.csv", "--label", "y", "--every", "5"],
        ["learn", "day.csv", "--label", "größer", "-o", "x"],
        ["learn", "--help"],
    ],
)
def test_text_that_standard_output_cannot_encode_is_escaped(words, folder):
    environment = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = started(words, folder, environment=environment)
    assert done.returncode == (2 if "größer" in words else 0), done.stderr
    assert (done.stdout + done.stderr).isascii()
    assert "Traceback" not in done.stderr
    if words[0] in ("inspect", "evaluate"):
        assert r"gr\xf6\xdfer" in done.stdout
    if words[0] == "stream":
        assert r"\u" not in done.stdout


def test_plots_have_an_ascii_form():
    assert plot_lines([0.5, 1.0], width=2, height=1, blocks=ASCII_BLOCKS) == ["100.0 % |.#"]


def test_a_closed_standard_output_loses_no_result(folder, tmp_path):
    words = ["learn", folder / "day.csv", "--label", "y", "-o", "x.knowledge"]
    done = started(words, tmp_path, redirect=">&- 2>&- <&-")
    assert done.returncode == 0
    assert ok("inspect", "x.knowledge", cwd=tmp_path)
    done = started(["predict", folder / "model.msvm", folder / "day.csv"], tmp_path, redirect=">&-")
    assert done.returncode == 2
    assert "Standard output is closed" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")  # noqa: PTH110
@pytest.mark.parametrize("words", [["inspect", "day.knowledge"], ["predict", "model.msvm", "day.csv"]])
def test_a_full_disk_behind_standard_output_is_an_error_in_one_line(words, folder):
    done = started(words, folder, redirect=">/dev/full")
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert len(done.stderr.splitlines()) == 1


SLOW_IMPORT = """
import sys, time, types
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            print("importing", flush=True)
            time.sleep(30)
sys.meta_path.insert(0, Slow())
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interrupt_while_modules_are_imported_is_quiet(number, code):
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_IMPORT + SCRIPT, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (code, "")


LATE = """
import os
class Late:
    def __del__(self, kill=os.kill, number=os.getpid()):
        kill(number, {number})
late = Late()  # modules are freed when Python has no handlers of signals any more
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_when_all_is_done_does_not_change_the_exit_code(number, folder):
    done = started(["inspect", "day.knowledge"], folder, LATE.format(number=int(number)) + SCRIPT)
    assert (done.returncode, done.stderr) == (0, "")
    assert "60 rows" in done.stdout


def test_a_signal_that_the_shell_ignores_stays_ignored(folder, tmp_path):
    script = "import os, threading; threading.Timer(0.2, os.kill, (os.getpid(), 1)).start(); " + SCRIPT
    words = ["learn", str(folder / "day.csv"), "--label", "y", "-o", "x.knowledge", "-q"]
    ignoring = ["bash", "-c", 'trap "" HUP; exec "$@"', "bash"]
    done = subprocess.run([*ignoring, sys.executable, "-c", script, *words], cwd=tmp_path, check=False)
    assert done.returncode == 0


FAULTY = """
import mergesvm.knowledge.knowledge as module
def fail(*_, **__):
    raise RuntimeError("the first line\\nthe second line")
module.Knowledge.load = fail
"""


def test_an_unexpected_error_is_one_line_that_says_how_to_get_the_traceback(folder):
    words = ["merge", "day.knowledge", "-o", "x"]
    done = started(words, folder, FAULTY + SCRIPT)
    assert done.returncode == 70
    assert done.stderr.startswith("Error: Unexpected RuntimeError: the first line the second line")
    assert len(done.stderr.splitlines()) == 1
    assert "MERGESVM_DEBUG=1" in done.stderr
    for more, environment in ((["--debug"], {}), ([], {"MERGESVM_DEBUG": "1"})):
        done = started([*words, *more], folder, FAULTY + SCRIPT, environment)
        assert done.returncode == 70
        assert "Traceback" in done.stderr
        assert "in fail" in done.stderr


def test_exit_codes_are_listed_in_the_help():
    shown = " ".join(run("--help").stdout.split())
    for code in ("0 success", "1 failure", "2 invalid", "70 an unexpected error", "130 interrupted"):
        assert code in shown
