"""The program of each rank: ``mpiexec -n 4 python -m mergesvm.reproduce.cascade.ranks FOLDER ROWS REPEATS``.

The folder has the arrays ``X.npy`` and ``y.npy``, and optionally a feature map, ``map.features``. Each rank reads only
its own part of the first rows. The first rank prints the measurements as JSON.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm import precompile
from mergesvm.engines.mpi.cascade import CHUNK
from mergesvm.engines.mpi.engine import MPI
from mergesvm.engines.mpi.ranks import Attempt
from mergesvm.engines.threads import Threads
from mergesvm.features.base import FeatureMap
from mergesvm.features.format import load
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.learn import learn
from mergesvm.knowledge.learning.reduction import PartialResult, Reducer
from mergesvm.methods.proximal.solve import solve
from mergesvm.reproduce.cascade.cost import Handling, Link
from mergesvm.reproduce.timing import min_cpu_seconds

CLASS_WEIGHT = "complement"
"""The weighting of the paper, equation 3."""

N_PINGS = 200
POLL_SECONDS = 0.0005
N_TIMED_DESCRIPTIONS = 8
"""Number of descriptions that are read to time one."""


class Rank:
    """One rank with its own rows.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    folder : Path
    n_rows : int
        Number of rows of all ranks together.
    """

    def __init__(self, comm: Any, folder: Path, n_rows: int) -> None:
        self.comm = comm
        self.n_rows = n_rows
        bounds = np.linspace(0, n_rows, comm.size + 1).astype(int)
        first, end = bounds[comm.rank], bounds[comm.rank + 1]
        self.X: NDArray[Any] = np.array(np.load(folder / "X.npy", mmap_mode="r")[first:end])
        self.y: NDArray[Any] = np.array(np.load(folder / "y.npy", mmap_mode="r")[first:end])
        path = folder / "map.features"
        self.features: FeatureMap | None = load(path) if path.exists() else None

    def wait(self) -> None:
        """Wait for all ranks without using the core, which the barrier of MPI does and other ranks may need."""
        request = self.comm.Ibarrier()
        while not request.Test():
            time.sleep(POLL_SECONDS)

    def alone(self) -> tuple[Knowledge, float]:
        """Learn the own rows of this rank; returns their knowledge and the CPU seconds."""
        self.wait()
        with Threads.single_threaded_blas():
            began = time.process_time()
            known = learn(self.X, self.y, features=self.features, n_jobs=1)
            return known, time.process_time() - began

    def together(self, engine: MPI) -> tuple[Any, float]:
        """Learn and solve with all ranks; returns the model, at the root, and the seconds."""
        self.wait()
        self.comm.Barrier()
        began = time.perf_counter()
        known = learn(self.X, self.y, features=self.features, engine=engine)
        if not engine.ranks.receives:
            return None, 0.0
        with Threads.single_threaded_blas():
            model = solve(known, 1.0, CLASS_WEIGHT)
        return model, time.perf_counter() - began

    def solving(self, known: Knowledge, repeats: int) -> float:
        """CPU seconds for solving, which only the root does."""
        with Threads.single_threaded_blas():
            return min_cpu_seconds(repeats, solve, known, 1.0, CLASS_WEIGHT)

    def link(self, size: int) -> Link | None:
        """Latency and bandwidth between the first two ranks, with messages as in the cascade, while the others wait."""
        if self.comm.size == 1:
            return None
        self.wait()
        found = None
        if self.comm.rank < 2:
            numbers = np.zeros(size // 8)
            chunks = [numbers[at : at + CHUNK] for at in range(0, len(numbers), CHUNK)]
            latency = min(self._pass([numbers[:1]]) for _ in range(N_PINGS))
            seconds = min(self._pass(chunks) for _ in range(N_PINGS // 10))
            found = Link(latency, size / max(seconds - latency, 1e-9))
        self.wait()
        return found

    def _pass(self, chunks: list[NDArray[np.float64]]) -> float:
        """Seconds for sending messages one way: half of a round trip."""
        other = 1 - self.comm.rank
        began = time.perf_counter()
        for turn in (0, 1):
            for chunk in chunks:
                if self.comm.rank == turn:
                    self.comm.Send(chunk, dest=other)
                else:
                    self.comm.Recv(chunk, source=other)
        return (time.perf_counter() - began) / 2


def descriptions(known: Knowledge, rank: int = 0) -> list[bytes]:
    """Messages of a rank to all others: that its rows are valid, and a description of its knowledge."""
    ready, done = Attempt(rank), Attempt(rank)
    done.results = [Reducer(known.features).describe(PartialResult(known))]
    return [ready.message(), done.message()]


def measure_handling(known: Knowledge, repeats: int) -> tuple[Handling, int]:
    """Time the packing and adding of knowledge as a rank does it; returns the times, and the bytes of its sums."""
    join, partial = Reducer(known.features), PartialResult(known)
    plan = join.agree([join.describe(partial)])
    blocks = [np.zeros(block.size) for block in join.blocks(plan)]
    spare, total = np.zeros(CHUNK), join.total(plan, partial)
    size = sum(block.nbytes for block in blocks)
    messages = N_TIMED_DESCRIPTIONS * descriptions(known)

    def pack() -> None:
        for index, block in enumerate(blocks):
            join.pack(partial, plan, index, block)

    def add() -> None:
        for index, block in enumerate(blocks):
            for at in range(0, len(block), CHUNK):
                total.add(index, at, spare[: min(CHUNK, len(block) - at)], last=False)

    def agree() -> None:
        attempts = [pickle.loads(message) for message in messages]
        join.blocks(join.agree([attempt.results[0] for attempt in attempts if attempt.results]))

    packing, adding, agreeing = (min_cpu_seconds(repeats, work) for work in (pack, add, agree))
    return Handling(packing / size, adding / size, agreeing / N_TIMED_DESCRIPTIONS), size


def main(folder: Path, n_rows: int, repeats: int) -> None:
    """Measure, and print the measurements at the first rank."""
    import mpi4py.MPI

    comm = mpi4py.MPI.COMM_WORLD
    rank = Rank(comm, folder, n_rows)
    precompile()
    learning, walls = [], []
    with MPI(comm, root=0) as engine:
        for _ in range(repeats + 1):  # the first is a warm-up
            known, busy = rank.alone()
            learning.append(max(comm.allgather(busy)))
            before = engine.traffic
            model, wall = rank.together(engine)
            walls.append(wall)
        sent = engine.traffic
    described = sum(comm.allgather(sum(map(len, descriptions(known, comm.rank)))))
    handling, size = measure_handling(known, repeats)
    link = rank.link(size)
    if comm.rank == 0:
        found = {
            "ranks": comm.size,
            "rows": n_rows,
            "width": known.width,
            "n_classes": len(model.classes_),
            "walls": walls[1:],
            "learning": learning[1:],
            "solving": rank.solving(known, repeats),
            "handling": asdict(handling),
            "link": None if link is None else asdict(link),
            "described": described,
            "sent": sent.total - before.total,
            "messages": sent.messages - before.messages,
            "rounds": sent.rounds - before.rounds,
            "coefficients": [*np.ravel(model.coef_).tolist(), *np.ravel(model.intercept_).tolist()],
        }
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
