"""The workloads of the engine benchmark, and the program that MPI ranks run::

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
    """Write the files, once."""
    make_files.parquet(folder, NARROW_ROWS)
    if not (folder / "float32.features").exists():
        X, y, _, _ = mnist(data)
        np.save(folder / "digits.npy", X)
        np.save(folder / "labels.npy", y)
        for precision in ("float64", "float32"):
            layer = ms.features.HiddenLayer(FEATURES, seed=0, precision=precision).freeze(X)
            layer.save(folder / f"{precision}.features")


def work(name: str, folder: Path) -> tuple[ms.Scan, ms.features.FeatureMap | None]:
    """The rows of a workload, and its feature map."""
    if name == "narrow":
        return ms.scan(folder / f"narrow-{NARROW_ROWS}.parquet", label="y"), None
    digits = ms.scan(folder / "digits.npy", label=folder / "labels.npy")
    return digits, ms.features.load(folder / f"{name}.features")


def pin(core: int) -> None:
    """Pin this process to one core."""
    os.sched_setaffinity(0, {ALL_CORES[core % len(ALL_CORES)]})


def confine(cores: int) -> None:
    """Restrict all threads of this process, Dask's client and scheduler, to the first cores.

    If they had a core to themselves with one worker, and none with two, the comparison would favour one worker.
    """
    allowed = ALL_CORES[:cores]
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), allowed)


class Run(NamedTuple):
    """Seconds with the engine, seconds of the same work without it, and the traffic of the engine."""

    engine: float
    without: float
    sent: int
    messages: int


def traffic_since(before: Traffic, after: Traffic) -> tuple[int, int]:
    """Bytes and messages."""
    return after.total - before.total, after.messages - before.messages


def learn_part(part: ms.Scan, features) -> float:
    """Seconds for learning one part on one thread, without the engine."""
    start = time.perf_counter()
    ms.learn(part, features=features, n_jobs=1)
    return time.perf_counter() - start


def ranks(name: str, folder: Path, repeats: int) -> None:
    """Measure one rank and two ranks in turn. While one works alone, the other sleeps."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    pin(comm.rank)
    ms.precompile()
    scan, features = work(name, folder)
    teams = [MPI.COMM_SELF, comm]
    engines = [ms.engines.MPI(team, root=0) for team in teams]
    repetitions = []
    for number in range(repeats + WARM_UPS):
        runs: dict[int, Run] = {}
        for team, engine in list(zip(teams, engines, strict=True))[:: -1 if number % 2 else 1]:
            wait_quietly(comm)
            if comm.rank < team.size:
                runs[team.size] = rank_run(engine, team, scan, features)
        repetitions.append(runs)
    if comm.rank == 0:
        print(json.dumps(repetitions[WARM_UPS:]))


def rank_run(engine: ms.engines.MPI, team, scan: ms.Scan, features) -> Run:
    """Learn with the engine, and without."""
    before = engine.traffic
    team.Barrier()
    start = time.perf_counter()
    ms.learn(scan, features=features, engine=engine)
    team.Barrier()
    seconds = time.perf_counter() - start
    part = scan.parts(team.size)[team.rank]
    team.Barrier()
    without = max(team.allgather(learn_part(part, features)))
    return Run(seconds, without, *traffic_since(before, engine.traffic))


def wait_quietly(comm) -> None:
    """Wait for all ranks without polling at full speed, as MPI does, which would slow the other rank down."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(0.001)


if __name__ == "__main__":
    ranks(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
