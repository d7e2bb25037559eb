"""The program of each rank: ``mpiexec -n 4 python -m mergesvm.reproduce.democratic.ranks FOLDER STEPS LAMBDA SEED``.

Algorithm 3 of the paper: only the first rank reads the rows, ``X.npy`` and ``y.npy``, and all ranks train some of the
pairs. It prints the measurements as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from mergesvm.engines.mpi.engine import MPI
from mergesvm.estimators.pegasos_svc import PegasosSVC
from mergesvm.reproduce.democratic.runs import AS_PRINTED, digest, shared_options, warm_up


def main(folder: Path, steps: int, lambda_: float, seed: int) -> None:
    """Train with all ranks, and print the seconds at the first."""
    warm_up()
    options = shared_options(steps, lambda_, seed) | AS_PRINTED
    with MPI() as engine:
        X, y = (np.load(folder / f"{name}.npy") if engine.ranks.is_root else None for name in "Xy")
        engine.ranks.on_all(lambda: None)  # all ranks have started
        began = time.perf_counter()
        machine = PegasosSVC(**options, engine=engine).fit(X, y)
        seconds = time.perf_counter() - began
        if engine.ranks.is_root:
            sys.stdout.write(json.dumps({"seconds": seconds, "digest": digest(machine)}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
