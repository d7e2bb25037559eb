"""Uncaught errors, which end the program. Argument: where the error is raised."""

from __future__ import annotations

import sys

import numpy as np

from mergesvm.engines import MPI
from mergesvm.engines.reduce import Addition, Block, Total
from mergesvm.errors import DataError


class Numbers(Addition):
    def __call__(self, results):
        return sum(results)

    def describe(self, result):
        return len(result)

    def agree(self, descriptions):
        return descriptions

    def blocks(self, plan):
        return [Block(length, (True,) * len(plan)) for length in plan[:1]]

    def pack(self, result, _plan, _index, out):
        if where == "message" and engine.ranks.rank == engine.workers - 1:
            raise MemoryError("no room to pack")
        out[:] = result

    def total(self, plan, own=None):
        return Sum(plan[0])


class Sum(Total):
    def __init__(self, length):
        self.numbers = np.zeros(length)

    def add(self, _index, first, numbers, *, last):
        self.numbers[first : first + len(numbers)] += numbers

    def finish(self):
        return self.numbers


def work(task):
    if where == "task" and task == 1:
        raise DataError("row 7 is broken")
    return np.full(3, task)


if __name__ == "__main__":
    where = sys.argv[1]
    with MPI() as engine:
        engine.merge(work, range(8), Numbers(), names=[f"part {task}" for task in range(8)])
