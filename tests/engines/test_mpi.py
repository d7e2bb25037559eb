"""The MPI engine, on real ranks. The contract of all engines is tested in tests/laws."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mergesvm.engines.mpi.cascade import Tree
from ranks import mpiexec, run_ranks

pytestmark = pytest.mark.xdist_group("mpi")

PROGRAMS = Path(__file__).parent / "ranks"


def assert_all_checks_passed(done, ranks):
    """Assert that all ranks finished, without messages on stderr."""
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split().count("done") == ranks
    assert done.stderr == ""


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_calls(ranks):
    assert_all_checks_passed(run_ranks(ranks, PROGRAMS / "calls.py"), ranks)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_learning(ranks, tmp_path):
    assert_all_checks_passed(run_ranks(ranks, PROGRAMS / "learning.py", tmp_path), ranks)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_parallel_kernel_svc(ranks):
    assert_all_checks_passed(run_ranks(ranks, PROGRAMS / "kernel.py"), ranks)


def test_parallel_kernel_svc_of_rows_that_ranks_share():
    assert_all_checks_passed(run_ranks(3, PROGRAMS / "kernel_rows.py"), 3)


@pytest.mark.parametrize("ranks", [1, 3])
def test_machines_that_keep_rows(ranks, tmp_path):
    assert_all_checks_passed(run_ranks(ranks, PROGRAMS / "training.py", tmp_path), ranks)


def test_an_error_in_a_task_ends_all_ranks_with_its_message():
    done = run_ranks(3, PROGRAMS / "failing.py", "task", guarded=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.count("DataError: part 1: row 7 is broken") == 3


def test_an_error_in_a_message_exchange_ends_the_job():
    done = run_ranks(3, PROGRAMS / "failing.py", "message", guarded=False, timeout=60)
    assert done.returncode != 0
    assert "Rank 2 failed in a message exchange" in done.stderr
    assert "no room to pack" in done.stderr


def test_a_killed_rank_ends_the_job_without_output(tmp_path):
    number, output = tmp_path / "number", tmp_path / "all.knowledge"
    command = mpiexec(3, PROGRAMS / "dying.py", number, output, guarded=False)
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        waited = time.monotonic() + 60
        while not number.exists() and time.monotonic() < waited and job.poll() is None:
            time.sleep(0.05)
        os.kill(int(number.read_text()), signal.SIGKILL)
        output_text = "".join(job.communicate(timeout=30))
    finally:
        job.kill()
        job.communicate()
    assert job.returncode != 0
    assert "KILLED" in output_text.upper()
    assert sorted(tmp_path.iterdir()) == [number]


def test_the_error_for_a_missing_package_says_what_to_install(tmp_path):
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").write_text("raise ImportError('no mpi4py here')")
    program = "import mergesvm.engines as engines; engines.MPI()"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert "EngineError: The engine MPI needs mpi4py" in done.stderr
    assert "pip install 'mergesvm[mpi]'" in done.stderr


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 13])
def test_the_tree_contains_every_rank_once(size):
    for root in {0, size // 2, size - 1}:
        trees = [Tree(rank, size, root) for rank in range(size)]
        assert sorted(trees[root].all_below()) == list(range(size))
        for tree in trees:
            below = [rank for child in tree.children for rank in trees[child].all_below()]
            assert sorted([tree.rank, *below]) == sorted(tree.all_below())
            assert all(trees[child].parent == tree.rank for child in tree.children)
        assert max(len(tree.children) for tree in trees) == trees[0].levels == (size - 1).bit_length()
