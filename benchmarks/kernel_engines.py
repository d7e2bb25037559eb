"""ParallelKernelSVC on threads, MPI and Dask. MPI ranks run this file."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import mergesvm as ms
from kernel_problem import Outcome, Problem, console, evaluated, seconds, three_or_eight
from tables import table

# One thread per worker, because there are no fewer workers than cores.
SETTINGS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def engines(where: Path | None, options: argparse.Namespace) -> None:
    """The same problem on threads, MPI and Dask."""
    problem = three_or_eight(where)
    if options.quick:
        problem = problem.first(2000, 500)
    shown = table(problem.title, "", "best s", "F", "F / F of threads - 1", "engine MB", "messages", "accuracy %")
    base = None
    for name, measure, workers in (
        ("threads, 1 unit", None, 1),
        ("threads, 4 units", None, 4),
        ("MPI, 2 ranks", by_mpi, 2),
        ("MPI, 4 ranks", by_mpi, 4),
        ("Dask, 2 workers", by_dask, 2),
    ):
        found = (measure or by_threads)(problem, workers, options.repeats)
        base = base or found
        off = found["objective"] / base["objective"] - 1
        sent = (f"{found['bytes'] / 1e6:.2f}", f"{found['messages']:,}") if measure else ("", "")
        difference = "" if found is base else f"{off:+.1e}"
        shown.add_row(
            name,
            f"{min(found['times']):.3f}",
            f"{found['objective']:.4f}",
            difference,
            *sent,
            f"{found['accuracy']:.2f}",
        )
    console.print(shown)


def repeated(problem: Problem, repeats: int, machine: Callable[[], ms.ParallelKernelSVC], engine: Any = None) -> Any:
    """Train once to warm up, then several times; traffic is that of the last run."""
    times = []
    for _ in range(repeats + 1):
        before = engine.traffic if engine is not None else None
        taken, fitted = seconds(lambda: machine().fit(problem.X, problem.y))
        times.append(taken)
    found = {"times": times[1:], "bytes": 0, "messages": 0}
    if engine is not None:
        after = engine.traffic
        found |= {"bytes": after.total - before.total, "messages": after.messages - before.messages}
    outcome = evaluated(fitted, problem, Outcome())
    return {**found, "objective": outcome.objective, "accuracy": 100 * outcome.accuracy}


def by_threads(problem: Problem, units: int, repeats: int) -> Any:
    return repeated(problem, repeats, lambda: problem.ours(units=units))


def by_dask(problem: Problem, workers: int, repeats: int) -> Any:
    import dask
    import distributed  # noqa: F401 - declares the settings that are changed here

    settings = {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in SETTINGS.items()}
    with dask.config.set(settings), ms.engines.Dask(workers=workers) as engine:
        return repeated(problem, repeats, lambda: problem.ours(engine=engine, n_jobs=None), engine)


def by_mpi(problem: Problem, ranks: int, repeats: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("X", "y", "test", "truth"):
            np.save(Path(folder) / f"{name}.npy", getattr(problem, name))
        mpiexec = Path(sys.executable).parent / "mpiexec"
        parameters = (str(problem.gamma), str(problem.C), str(repeats))
        command = [mpiexec, "-n", str(ranks), sys.executable, __file__, folder, *parameters]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **SETTINGS})
        return json.loads(done.stdout.splitlines()[-1])


def rank(folder: Path, gamma: float, C: float, repeats: int) -> None:
    """Train on this rank's part of the rows, together with the other ranks."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    loaded = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("X", "y", "test", "truth")}
    mine = slice(len(loaded["y"]) * comm.rank // comm.size, len(loaded["y"]) * (comm.rank + 1) // comm.size)
    X, y = np.array(loaded["X"][mine]), np.array(loaded["y"][mine])
    problem = Problem("", X, y, np.array(loaded["test"]), np.array(loaded["truth"]), gamma, C)
    engine = ms.engines.MPI(comm)

    def machine() -> ms.ParallelKernelSVC:
        comm.Barrier()
        return problem.ours(engine=engine, n_jobs=1)

    found = repeated(problem, repeats, machine, engine)
    if comm.rank == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    rank(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
