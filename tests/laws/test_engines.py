"""What must be true of every engine; engines are found by themselves."""

from __future__ import annotations

import threading
import time

import pytest

from mergesvm import engines
from mergesvm.errors import ParameterError

ENGINES = [getattr(engines, name) for name in engines.__all__]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("tasks", [0, 1, 2, 20])
def test_results_are_those_of_a_loop_in_the_same_order(engine, workers, tasks):
    def work(task):
        time.sleep(0.001 * (task % 3))
        return task * task

    assert engine(workers).map(work, range(tasks)) == [task * task for task in range(tasks)]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_surfaces_with_its_own_message_and_stops_what_has_not_begun(engine):
    done = []

    def work(task):
        if task == 0:
            raise KeyError("part 0 is broken")
        time.sleep(0.01)
        done.append(task)

    with pytest.raises(KeyError, match="part 0 is broken"):
        engine(2).map(work, range(50))
    assert len(done) < 49


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_left_running(engine):
    before = threading.active_count()
    engine(4).map(lambda task: task, range(10))
    assert threading.active_count() == before


@pytest.mark.parametrize("engine", ENGINES)
def test_a_number_of_workers_that_makes_no_sense_is_refused(engine):
    with pytest.raises(ParameterError, match="not 0"):
        engine(0)


def test_blas_has_one_thread_for_each_task_and_its_own_again_afterwards():
    from threadpoolctl import threadpool_info

    def threads(_=None):
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    before = threads()
    inside = engines.Threads(2).map(threads, range(2))
    assert all(number == 1 for numbers in inside for number in numbers)
    assert threads() == before


def test_blas_has_its_own_threads_again_after_tasks_that_overlap():
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
