"""A rank that waits to be killed during its task. Arguments: the file for its process number, and the output."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

import mergesvm as ms
from mergesvm.engines import MPI
from mergesvm.knowledge.learning.reduction import PartialResult, Reducer


def work(task):
    if task == 1:
        number.with_suffix(".part").write_text(str(os.getpid()))
        number.with_suffix(".part").rename(number)
        time.sleep(600)
    return PartialResult(ms.learn(np.eye(3), [task, 0, 0]))


if __name__ == "__main__":
    number, output = map(Path, sys.argv[1:])
    with MPI() as engine:
        partial = engine.merge(work, range(8), Reducer(ms.features.Identity()))
        if engine.ranks.is_root:
            partial.knowledge.save(output)
