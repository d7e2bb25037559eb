"""What every engine is given to do, and the program that ranks of MPI run to do it.

mpiexec -n 2 python benchmarks/engine_work.py float64 FOLDER 3
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

import make_files
import mergesvm as ms
from datasets import mnist

NARROW_ROWS = 20_000_000
FEATURES = 1000
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
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[core % len(cores)]})


def learn_part(part: ms.Scan, features) -> float:
    """Learn by hand, on one thread; the seconds it took."""
    start = time.perf_counter()
    ms.learn(part, features=features, n_jobs=1)
    return time.perf_counter() - start


def ranks(name: str, folder: Path, repeats: int) -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    pin(comm.rank)
    ms.load_kernels()
    scan, features = work(name, folder)
    engine = ms.engines.MPI(comm, root=0)
    found: dict[str, list[float]] = {"engine": [], "by_hand": [], "cpu": []}
    for repeat in range(repeats + 1):
        comm.Barrier()
        start, busy = time.perf_counter(), time.process_time()
        before = engine.traffic
        ms.learn(scan, features=features, engine=engine)
        busy = time.process_time() - busy
        comm.Barrier()
        seconds = time.perf_counter() - start
        part = scan.parts(comm.size)[comm.rank]
        comm.Barrier()
        by_hand = max(comm.allgather(learn_part(part, features)))
        if repeat:  # the first is a warm-up
            found["engine"].append(seconds)
            found["by_hand"].append(by_hand)
            found["cpu"].append(max(comm.allgather(busy)))
    if comm.rank == 0:
        sent = engine.traffic
        said = {"total": sent.total - before.total, "messages": sent.messages - before.messages}
        print(json.dumps({**found, "traffic": {**said, "rounds": sent.rounds - before.rounds}}))


if __name__ == "__main__":
    ranks(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
