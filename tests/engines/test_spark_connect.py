"""Spark Connect with a real server, in a separate program: a process can have only one kind of session."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import engine_laws

pytestmark = pytest.mark.xdist_group("spark")

NEEDED = ("grpc", "grpc_status", "google.rpc", "zstandard")


def is_installed(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.fixture(scope="module")
def outcome(java, tmp_path_factory):
    """The outcome of every check of the program: "passed", or an error."""
    missing = [module for module in NEEDED if not is_installed(module)]
    if missing and "MERGESVM_REQUIRE_JAVA" not in os.environ:
        pytest.skip(f"pip install 'pyspark[connect]': {', '.join(missing)} missing")
    here = Path(__file__).parent
    path = os.pathsep.join(filter(None, [str(here.parent), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
    command = [sys.executable, "-W", "error", str(here / "connect_program.py"), str(tmp_path_factory.mktemp("connect"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stdout + done.stderr
    return json.loads(lines[-1])


@pytest.mark.parametrize("law", engine_laws.LAWS)
def test_law(outcome, law):
    assert outcome.pop(law) == "passed"


@pytest.mark.parametrize(
    "check",
    [
        "tables",
        "tables_in_many_partitions",
        "folds_and_groups",
        "mapped_tables",
        "vectors_and_arrays",
        "large_rows_in_memory",
        "large_results",
        "errors_in_partitions",
        "an_address",
        "a_table_of_another_session",
        "an_interrupt",
        "a_stopped_session",
    ],
)
def test_check(outcome, check):
    assert outcome.pop(f"check_{check}") == "passed"
