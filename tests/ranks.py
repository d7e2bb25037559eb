"""Running programs on the ranks of MPI, and checks within such a program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def mpiexec(count, program, *arguments, guarded=True):
    """Return the command that runs a Python program on ``count`` ranks, by the mpiexec installed with the library.

    If guarded, an uncaught error on one rank, such as a failed check, ends the job; otherwise the others may wait.
    """
    start = [str(Path(sys.executable).with_name("mpiexec")), "-n", str(count), sys.executable, "-W", "error"]
    return [*start, *(["-m", "mpi4py"] if guarded else []), str(program), *map(str, arguments)]


def run_ranks(count, program, *arguments, timeout=240, guarded=True):
    """Run a program on ``count`` ranks and wait for all of them."""
    command = mpiexec(count, program, *arguments, guarded=guarded)
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def run_checks(engine, names):
    """Call all functions named ``check_...`` with an engine; the root prints their names, and every rank "done"."""
    for name, check in list(names.items()):
        if name.startswith("check_"):
            check(engine)
            if engine.ranks.is_root:
                sys.stdout.write(f"{name}\n")
                sys.stdout.flush()
    sys.stdout.write("done\n")
