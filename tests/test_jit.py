"""The cache of compiled functions is never the reason for a failure or a wrong number."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mergesvm
from mergesvm.jit import compiled

CALLED = """
from mergesvm.jit import compiled

@compiled
def twice(x):
    return 2 * x
"""

CALLER = """
from package.called import twice
from mergesvm.jit import compiled

@compiled
def more(x):
    return twice(x) + 1

if __name__ == "package.caller":
    print(more(4), *(f"{sum(each.stats.cache_hits.values())}" for each in (more, twice)))
"""


@pytest.fixture
def place(tmp_path):
    """A folder with two modules, a home and a folder for temporary files, all of which can be written to."""
    for name in ("package", "home", "temporary", "here"):
        (tmp_path / name).mkdir()
    (tmp_path / "package" / "called.py").write_text(CALLED)
    (tmp_path / "package" / "caller.py").write_text(CALLER)
    return tmp_path


def run(place, **environment):
    """Call the compiled function; returns its result, whether it and the function it calls were cached, and errors."""
    paths = os.pathsep.join([str(place), str(Path(mergesvm.__file__).parents[1])])
    settings = {"HOME": str(place / "home"), "TMPDIR": str(place / "temporary"), "PYTHONPATH": paths}
    outer = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", "import package.caller"],
        cwd=place / "here",
        env={**outer, **settings, **environment, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not list((place / "here").iterdir())
    return done.stdout.split(), done.stderr


def block(folder):
    """Make a folder impossible to create, also for root, who may write everywhere."""
    folder.write_text("")


def test_functions_keep_their_own_order_of_operations_whoever_calls_them():
    @compiled
    def total(values):
        result = 0.0
        for value in values:
            result += value
        return result

    @compiled(fastmath={"reassoc"})
    def caller(values):
        return total(values)

    assert caller(np.array([1e300, 1.0, -1e300])) == 0.0
    assert all("reassoc" not in code for code in total.inspect_llvm().values())


def test_a_read_only_package_does_not_fail(place):
    block(place / "package" / "__pycache__")
    assert run(place) == (["9", "0", "0"], "")
    assert list((place / "home").rglob("*.nbi"))


def test_a_read_only_package_without_a_home_warns_once_and_does_not_fail(place):
    block(place / "package" / "__pycache__")
    home = "~"  # as a user without a home is told
    result, notice = run(place, HOME=home)
    assert result == ["9", "0", "0"]
    assert notice.count("Warning:") == 1
    assert "NUMBA_CACHE_DIR" in notice
    assert run(place, HOME=home) == (["9", "1", "0"], "")
    (folder,) = (place / "temporary").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_without_any_folder_functions_are_compiled_in_each_run_and_noticed_once(place):
    block(place / "package" / "__pycache__")
    block(place / "temporary" / f"mergesvm-compiled-{os.getuid()}")
    result, notice = run(place, HOME="/dev/null", NUMBA_CACHE_DIR="/dev/null")
    assert result == ["9", "0", "0"]
    assert notice.count("Warning:") == 1
    assert "cannot be cached" in notice


def test_code_in_a_temporary_folder_of_another_user_is_not_run(place):
    block(place / "package" / "__pycache__")
    folder = place / "temporary" / f"mergesvm-compiled-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    result, notice = run(place, HOME="/dev/null")
    assert result == ["9", "0", "0"]
    assert "cannot be cached" in notice
    assert not list(folder.iterdir())


def damaged(held, how):
    middle = 2 * len(held) // 3
    flipped = held[:middle] + bytes([held[middle] ^ 1]) + held[middle + 1 :]
    return {"truncated": held[:middle], "garbage": os.urandom(len(held)), "one bit": flipped, "empty": b""}[how]


DAMAGES = ("truncated", "garbage", "one bit", "empty")


def test_damaged_cache_files_are_compiled_again(place):
    functions = "".join(f"@compiled\ndef f{at}(x):\n    return x + {at}\n" for at in range(len(DAMAGES)))
    shown = f"for f in ({', '.join(f'f{at}' for at in range(len(DAMAGES)))}): print(f(1), len(f.stats.cache_hits))"
    (place / "package" / "caller.py").write_text(f"from mergesvm.jit import compiled\n{functions}\n{shown}")
    compiled, cached = (" ".join(f"{at + 1} {hit}" for at in range(len(DAMAGES))).split() for hit in (0, 1))
    assert run(place) == (compiled, "")
    for suffix in (".nbi", ".nbc"):
        for at, how in enumerate(DAMAGES):
            for file in (place / "package" / "__pycache__").glob(f"caller.f{at}-*{suffix}"):
                file.write_bytes(damaged(file.read_bytes(), how))
        assert run(place) == (compiled, "")
    assert run(place) == (cached, "")


def test_a_changed_function_that_is_called_is_not_taken_from_the_cache(place):
    assert run(place) == (["9", "0", "0"], "")
    (place / "package" / "called.py").write_text(CALLED.replace("2 * x", "3 * x"))
    assert run(place) == (["13", "0", "0"], "")
