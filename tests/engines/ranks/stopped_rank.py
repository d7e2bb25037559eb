"""Ranks that wait for one that has stopped; the root prints its process."""

from __future__ import annotations

import os
import signal
import sys

import mpi4py.MPI

from mergesvm.engines import MPI

if __name__ == "__main__":
    comm = mpi4py.MPI.COMM_WORLD
    processes = comm.allgather(os.getpid())
    if comm.rank == 0:
        sys.stdout.write(f"stopped {processes[1]}\n")
        sys.stdout.flush()
    with MPI(timeout=2) as engine:
        engine.map(abs, [-1, 2])
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        engine.map(abs, [-1, 2])
