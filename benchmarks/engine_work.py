"""What every engine is given to do, and the program that ranks of MPI run to do it.

mpiexec -n 2 python benchmarks/engine_work.py float64 FOLDER 3
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import make_files
import mergesvm as ms
from datasets import mnist
from mergesvm.engines.traffic import Traffic

NARROW_ROWS = 20_000_000
ALL_CORES = sorted(os.sched_getaffinity(0))
FEATURES = 1000
WARM_UPS = 2
TITLES = {
    "float64": f"MNIST, {FEATURES:,} features in float64",
    "float32": f"MNIST, {FEATURES:,} features in float32",
    "narrow": f"{NARROW_ROWS:,} x {make_files.WIDTH}, Parquet",
}


def prepare(folder: Path, data: Path | None) -> None:
    """Make the files, once."""
    make_files.parquet(folder, NARROW_ROWS)
    if not (folder / "float32.features").exists():
        X, y, _, _ = mnist(data)
        np.save(folder / "digits.npy", X)
        np.save(folder / "answers.npy", y)
        for precision in ("float64", "float32"):
            plan = ms.features.HiddenLayer(FEATURES, seed=0, precision=precision).freeze(X)
            plan.save(folder / f"{precision}.features")


def work(name: str, folder: Path) -> tuple[ms.Scan, ms.features.FeatureMap | None]:
    """Rows to learn from, and the map to learn them by."""
    if name == "narrow":
        return ms.scan(folder / f"narrow-{NARROW_ROWS}.parquet", label="y"), None
    digits = ms.scan(folder / "digits.npy", label=folder / "answers.npy")
    return digits, ms.features.load(folder / f"{name}.features")


def pin(core: int) -> None:
    """Let this process run on one core only."""
    os.sched_setaffinity(0, {ALL_CORES[core % len(ALL_CORES)]})


def confine(cores: int) -> None:
    """Let all threads of this process run on so many cores only: Dask's client and scheduler have those of its workers.

    With a core of their own beside one worker, and none beside two, one worker would have had help.
    """
    allowed = ALL_CORES[:cores]
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), allowed)


class Turn(NamedTuple):
    """What was measured at one go: seconds, and what was sent."""

    engine: float
    by_hand: float
    sent: int
    messages: int


def traffic_since(before: Traffic, after: Traffic) -> tuple[int, int]:
    """Bytes and messages."""
    return after.total - before.total, after.messages - before.messages


def learn_part(part: ms.Scan, features) -> float:
    """Learn by hand, on one thread; the seconds it took."""
    start = time.perf_counter()
    ms.learn(part, features=features, n_jobs=1)
    return time.perf_counter() - start


def ranks(name: str, folder: Path, repeats: int) -> None:
    """One rank and two ranks in turns. While one works alone, the other sleeps."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    pin(comm.rank)
    ms.precompile()
    scan, features = work(name, folder)
    teams = [MPI.COMM_SELF, comm]
    engines = [ms.engines.MPI(team, root=0) for team in teams]
    turns = []
    for number in range(repeats + WARM_UPS):
        turn: dict[int, Turn] = {}
        for team, engine in list(zip(teams, engines, strict=True))[:: -1 if number % 2 else 1]:
            wait_quietly(comm)
            if comm.rank < team.size:
                turn[team.size] = rank_turn(engine, team, scan, features)
        turns.append(turn)
    if comm.rank == 0:
        print(json.dumps(turns[WARM_UPS:]))


def rank_turn(engine: ms.engines.MPI, team, scan: ms.Scan, features) -> Turn:
    """Learn with the engine, and by hand."""
    before = engine.traffic
    team.Barrier()
    start = time.perf_counter()
    ms.learn(scan, features=features, engine=engine)
    team.Barrier()
    seconds = time.perf_counter() - start
    part = scan.parts(team.size)[team.rank]
    team.Barrier()
    by_hand = max(team.allgather(learn_part(part, features)))
    return Turn(seconds, by_hand, *traffic_since(before, engine.traffic))


def wait_quietly(comm) -> None:
    """Wait for all ranks. MPI's own waiting keeps a core busy, and so slows the other one down."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(0.001)


if __name__ == "__main__":
    ranks(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
