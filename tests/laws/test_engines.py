"""Every engine is put through the laws of all engines: :mod:`engine_laws`. Engines are found by themselves."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import engine_laws
from mergesvm import engines
from mergesvm.engines.base import Engine
from mergesvm.errors import ParameterError
from ranks import run_ranks

LAWS = pytest.mark.parametrize("law", engine_laws.LAWS.values(), ids=lambda law: law.__name__.removeprefix("law_"))

WITH_A_CLUSTER = {"Dask", "Spark"}
"""Started once for all laws; all others are started for each."""


def test_every_engine_is_tested_by_the_laws():
    assert set(dir(engines)) == {"Threads", "MPI"} | WITH_A_CLUSTER
    assert all(issubclass(getattr(engines, name), Engine) for name in dir(engines))


@LAWS
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_threads(law, workers):
    law(engines.Threads(workers))


@pytest.fixture(scope="module", params=[2, 3])
def dask(request):
    """Two and three workers."""
    with engines.Dask(workers=request.param) as engine:
        yield engine


@LAWS
@pytest.mark.xdist_group("dask")
def test_dask(law, dask):
    law(dask)


@LAWS
@pytest.mark.xdist_group("spark")
def test_spark(law, spark_session):
    law(engines.Spark(spark_session))


@pytest.mark.parametrize("ranks", [1, 3, 4])
@pytest.mark.xdist_group("mpi")
def test_mpi(ranks):
    done = run_ranks(ranks, Path(engine_laws.__file__).parent / "engines" / "ranks" / "laws.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(done.stdout.split()) == set(engine_laws.LAWS)


def test_no_task_starts_after_an_error():
    done = []

    def work(task):
        if task == 0:
            raise KeyError("part 0 is broken")
        time.sleep(0.01)
        done.append(task)

    with pytest.raises(KeyError, match="part 0 is broken"):
        engines.Threads(2).map(work, range(50))
    assert len(done) < 49


def test_no_threads_are_left_running():
    before = threading.active_count()
    engines.Threads(4).map(lambda task: task, range(10))
    assert threading.active_count() == before


def test_invalid_numbers_of_workers_are_rejected():
    with pytest.raises(ParameterError, match="not 0"):
        engines.Threads(0)


def test_blas_has_one_thread_per_task_and_its_own_again_afterwards():
    from threadpoolctl import threadpool_info

    def threads(_=None):
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    before = threads()
    inside = engines.Threads(2).map(threads, range(2))
    assert all(number == 1 for numbers in inside for number in numbers)
    assert threads() == before


def test_blas_threads_are_restored_after_overlapping_tasks():
    from threadpoolctl import threadpool_info

    def threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    def hold(first, last):
        time.sleep(first)
        with engines.Threads.single_threaded_blas():
            time.sleep(last)

    before = threads()
    users = [threading.Thread(target=hold, args=times) for times in ((0.0, 0.1), (0.05, 0.1))]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert threads() == before
