"""Programs on the ranks of MPI."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def mpiexec(count, program, *arguments, guarded=True):
    """The command that runs a program of Python on so many ranks, by the mpiexec that came with the library.

    Guarded, an error that escapes at one rank, such as that of a test, ends the job; if not, others may wait for it.
    """
    start = [str(Path(sys.executable).with_name("mpiexec")), "-n", str(count), sys.executable, "-W", "error"]
    return [*start, *(["-m", "mpi4py"] if guarded else []), str(program), *map(str, arguments)]


def run_ranks(count, program, *arguments, timeout=120, guarded=True):
    """Run a program on so many ranks, and wait for all of them."""
    command = mpiexec(count, program, *arguments, guarded=guarded)
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
