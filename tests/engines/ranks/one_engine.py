"""Start the engine on all ranks."""

from __future__ import annotations

from mergesvm.engines import MPI

if __name__ == "__main__":
    with MPI() as engine:
        engine.map(abs, [-1, 2])
