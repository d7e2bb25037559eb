"""All laws of engines on the ranks of MPI. The root prints the name of each law that holds."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import engine_laws
from mergesvm.engines import MPI

if __name__ == "__main__":
    with MPI() as engine:
        for name, law in engine_laws.LAWS.items():
            law(engine)
            if engine.ranks.is_root:
                sys.stdout.write(f"{name}\n")
