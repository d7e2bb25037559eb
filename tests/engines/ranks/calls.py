"""The MPI engine beyond the laws of all engines: errors, roots, actors, traffic."""

from __future__ import annotations

import pickle
import sys
import traceback
from pathlib import Path

import numpy as np
from mpi4py.MPI import COMM_WORLD

sys.path.insert(0, str(Path(__file__).parents[2]))

from engine_laws import raised
from mergesvm.engines import MPI
from mergesvm.engines.mpi.cascade import CHUNK, Tree
from mergesvm.engines.reduce import Addition, Block, Join, Total
from mergesvm.errors import EngineError, ParameterError
from ranks import run_checks


class Union(Join):
    def __call__(self, results):
        return sorted(number for result in results for number in result)


class Brittle(Union):
    def __call__(self, results):
        if sum(map(len, results)) > 5:
            raise ValueError("more than can be joined")
        return super().__call__(results)


class Blocks(Addition):
    """Results are dicts of the index of a block to its numbers."""

    def __init__(self, sizes, broken=False):
        self.sizes, self.broken = sizes, broken

    def __call__(self, results):
        total = {}
        for result in results:
            for index, numbers in result.items():
                total[index] = total.get(index, 0) + numbers
        return total

    def describe(self, result):
        return frozenset(result)

    def agree(self, descriptions):
        return descriptions

    def blocks(self, plan):
        return [Block(size, tuple(index in held for held in plan)) for index, size in enumerate(self.sizes)]

    def pack(self, result, _plan, index, out):
        out[:] = result[index]

    def total(self, _plan, own=None):
        return BlocksTotal(self, own or {})


class BlocksTotal(Total):
    def __init__(self, join, own):
        self.join = join
        self.blocks = {index: np.zeros(size) + own.get(index, 0) for index, size in enumerate(join.sizes)}

    def add(self, index, first, numbers, *, last):
        if self.join.broken and index == 1:
            raise MemoryError("no room for block 1")
        self.blocks[index][first : first + len(numbers)] += numbers

    def finish(self):
        return self.blocks


class StubbornError(Exception):
    """An error that cannot be unpickled: its constructor needs arguments that pickle does not have."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def check_the_error_of_the_first_failing_task_is_raised(engine):
    begun = []

    def work(task):
        begun.append(task)
        if task >= 2:
            raise KeyError(f"task {task} is broken")
        return [task]

    names = [f"part {task}" for task in range(20)]
    last = max(2, next(task for task in range(20) if task * engine.workers // 20 == engine.ranks.rank))
    for call in (
        lambda: engine.map(work, range(20), names=names),
        lambda: engine.merge(work, range(20), Union(), names=names),
    ):
        begun.clear()
        message = raised(KeyError, call)
        assert "task 2 is broken" in message, message
        assert "in part 2" in message, message
        assert "at rank 0" in message or engine.workers == 1, message
        assert begun[-1] == last, (begun, last)  # after an error, a rank runs no further tasks


def check_errors_that_cannot_be_pickled_are_sent_as_text(engine):
    last = engine.workers - 1

    def work(task):
        if task == last:
            raise StubbornError("this", "that")

    kind = StubbornError if engine.workers == 1 else EngineError
    message = raised(kind, lambda: engine.map(work, range(engine.workers)))
    assert "this and that" in message, message
    assert f"Rank {last}: " in message or engine.workers == 1, message
    if engine.workers > 1:
        assert "cannot be sent" in raised(EngineError, lambda: engine.map(lambda task: lambda: task, range(2)))


def check_system_exit_on_one_rank_is_raised_on_all(engine):
    def work(task):
        if task == engine.workers - 1:
            raise SystemExit(3)

    assert raised(SystemExit, lambda: engine.map(work, range(engine.workers))).startswith("3")


def check_an_error_in_a_join_is_raised_on_all_ranks(engine):
    assert "more than can be joined" in raised(
        ValueError, lambda: engine.merge(lambda task: [task], range(6), Brittle())
    )
    assert engine.merge(lambda task: [task], range(5), Brittle()) == [0, 1, 2, 3, 4]


def check_an_error_while_adding_is_raised_on_all_ranks(engine):
    if engine.workers > 1:
        join = Blocks([3, 3, 3], broken=True)
        tasks = [{index: np.ones(3) for index in range(3)}] * 4
        for each in (engine, engine.rooted):
            assert "no room" in raised(MemoryError, lambda each=each: each.merge(lambda task: task, tasks, join))


def check_blocks_are_summed_whichever_ranks_hold_them(engine):
    generator = np.random.default_rng(0)
    sizes = [5, 2 * CHUNK + 3, 1, CHUNK, 0, 7]
    for count in (1, 2, 3, 9):
        tasks = [
            {index: generator.normal(size=size) for index, size in enumerate(sizes) if generator.random() < 0.4}
            for _ in range(count)
        ]
        expected = Blocks(sizes)(tasks)
        for each in (engine, *engine.rooted_everywhere):
            found = each.merge(lambda task: task, tasks, Blocks(sizes))
            if not each.ranks.receives:
                assert found is None
                continue
            for index, size in enumerate(sizes):
                wanted = expected.get(index, np.zeros(size))
                np.testing.assert_allclose(found.get(index, np.zeros(size)), wanted, rtol=1e-12, atol=1e-12)


def check_own_tasks_of_all_ranks_are_merged(engine):
    tasks = [10 * engine.ranks.rank + number for number in range(engine.ranks.rank)]  # the first rank has none
    expected = sorted(10 * rank + number for rank in range(engine.workers) for number in range(rank))
    assert engine.merge(lambda task: [task], tasks, Union(), own=True) == (expected or None)
    names = [f"part {task} of rank {engine.ranks.rank}" for task in tasks]
    if engine.workers > 2:

        def work(task):
            if task >= 11:
                raise KeyError(task)
            return [task]

        message = raised(KeyError, lambda: engine.merge(work, tasks, Union(), own=True, names=names))
        assert "in part 20 of rank 2" in message, message


def check_actors_stay_where_they_were_built(engine):
    class Actor:
        def __init__(self, name):
            self.name, self.calls, self.rank = name, 0, engine.ranks.rank

        def call(self, more):
            self.calls += more
            return self.name, self.calls, self.rank

    with engine.actors(Actor, "abcde") as actors:
        actors.call("call", 1)
        found = actors.call("call", 2)
    assert found == [(name, 3, place * engine.workers // 5) for place, name in enumerate("abcde")]


def check_an_interrupt_or_error_of_one_actor_is_raised_on_all_ranks(engine):
    class Actor:
        def __init__(self, number):
            self.number = number

        def fail(self, kind):
            if self.number == engine.workers - 1:
                raise kind("on one rank")

    with engine.actors(Actor, range(engine.workers)) as actors:
        for kind in (KeyboardInterrupt, KeyError):
            for call in (
                lambda kind=kind: actors.call("fail", kind),
                lambda kind=kind: actors.consult(len, "fail", kind),
            ):
                message = raised(kind, call)
                assert "on one rank" in message, message
                notes = [] if engine.workers == 1 else [f"at rank {engine.workers - 1}"]
                assert message.splitlines()[1:] == notes, message
        try:
            actors.consult(len, "fail", KeyError)
        except KeyError as error:
            here = engine.ranks.rank == engine.workers - 1
            shown = "".join(traceback.format_exception(error))
            assert ("self.number == engine.workers - 1" in shown or "in fail" in shown) == here, shown


def check_consult_sends_results_to_the_root_only(engine):
    class Actor:
        def __init__(self, number):
            self.number = number

        def answer(self, size):
            return np.zeros(size)

    if engine.workers == 1:
        return
    for each in (engine, engine.rooted_everywhere[-1]):
        top = each.ranks.on_root(lambda: engine.ranks.rank)
        with each.actors(Actor, range(engine.workers)) as actors:
            before = each.traffic
            found = actors.consult(lambda answers: answers[0][:100], "answer", 1000)
            assert len(found) == 100
            for rank in range(engine.workers):
                sent = each.traffic.sent[f"rank {rank}"] - before.sent.get(f"rank {rank}", 0)
                least = (0 if rank == top else 8000) + 800 * len(Tree(rank, engine.workers, top).children)
                assert least < sent + 1 < least + 600 * (1 + len(Tree(rank, engine.workers, top).children)), sent
            assert each.traffic.messages - before.messages == 2 * (engine.workers - 1)
            assert each.traffic.rounds - before.rounds == 2 * Tree(0, engine.workers).levels
        assert len(set(COMM_WORLD.allgather(str(each.traffic)))) == 1


def check_traffic_is_what_the_tree_predicts(engine):
    if engine.workers != 4:
        return
    sizes = [100, CHUNK + 1, 10, 20]
    held = [{0, 1}, {0}, {0, 2}, {0, 1}]  # by rank; nobody holds the last block
    tasks = [{index: np.ones(sizes[index]) for index in mine} for mine in held]
    # The tree of four: 1 and 2 send to 0, 3 sends to 2. An edge carries a block if anything below it is held.
    edges = {1: held[1], 2: held[2] | held[3], 3: held[3]}
    up = {rank: 8 * sum(sizes[index] for index in edges.get(rank, ())) for rank in range(4)}
    whole = 8 * sum(sizes)
    down = {rank: whole * len(Tree(rank, 4).children) for rank in range(4)}
    messages = sum(-(-sizes[index] // CHUNK) for blocks in edges.values() for index in blocks)
    for each, broadcast in ((engine, True), (engine.rooted, False)):
        before = each.traffic
        each.merge(lambda task: task, tasks, Blocks(sizes))
        sent = [each.traffic.sent[f"rank {rank}"] - before.sent.get(f"rank {rank}", 0) for rank in range(4)]
        described = [size - up[rank] - (down[rank] if broadcast else 0) for rank, size in enumerate(sent)]
        least = [3 * len(pickle.dumps(frozenset(mine))) for mine in held]
        assert all(few <= size < few + 1000 for few, size in zip(least, described, strict=True)), described
        assert all(size % 3 == 0 for size in described), described  # to each of the three others
        assert each.traffic.messages - before.messages == 4 * 2 + messages + (3 * 5 if broadcast else 0)
        assert each.traffic.rounds - before.rounds == (6 if broadcast else 4)
        assert len(set(COMM_WORLD.allgather(str(each.traffic)))) == 1


def check_on_root_runs_on_the_root_only(engine):
    calls = []
    assert engine.ranks.on_root(lambda: calls.append(1) or engine.ranks.rank) == 0
    assert len(calls) == engine.ranks.is_root == (engine.ranks.rank == 0)
    last = engine.rooted_everywhere[-1]
    assert last.ranks.on_root(lambda: engine.ranks.rank) == engine.workers - 1
    assert last.ranks.is_root == last.ranks.receives == (engine.ranks.rank == engine.workers - 1)


def check_an_error_in_on_all_is_raised_on_all_ranks(engine):
    def work():
        if engine.ranks.rank == engine.workers - 1:
            raise KeyError("on one rank")
        return engine.ranks.rank

    assert "on one rank" in raised(KeyError, lambda: engine.ranks.on_all(work))
    assert engine.ranks.on_all(lambda: engine.ranks.rank) == engine.ranks.rank


def check_a_communicator_of_some_ranks(engine):
    half = COMM_WORLD.Split(engine.ranks.rank % 2)
    with MPI(half) as part:
        assert part.map(lambda task: task * 10, range(3)) == [0, 10, 20]
        assert part.workers == half.size
    assert "closed" in raised(EngineError, lambda: part.map(lambda task: task, [1]))
    part.close()
    half.Free()


def check_invalid_arguments_are_rejected(engine):
    assert "not 99" in raised(ParameterError, lambda: MPI(root=99))
    assert "intracommunicator" in raised(ParameterError, lambda: MPI("world"))
    assert repr(engine) == f"MPI({engine.workers} rank{'s' if engine.workers > 1 else ''})"


if __name__ == "__main__":
    with MPI() as engine:
        engine.rooted = MPI(root=0)
        engine.rooted_everywhere = [MPI(root=rank) for rank in range(engine.workers)]
        run_checks(engine, globals())
