"""Start ranks with ``mpiexec`` and collect their measurements."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import EngineError
from mergesvm.features.base import FeatureMap
from mergesvm.reproduce.cascade.cost import Measured

PROGRAM = "mergesvm.reproduce.cascade.ranks"


def find_mpiexec() -> str:
    """Path of ``mpiexec``: the one beside this Python, or else the one on the path."""
    beside = Path(sys.executable).parent
    found = shutil.which("mpiexec", path=str(beside)) or shutil.which("mpiexec")
    if found is None or find_spec("mpi4py") is None:
        missing = "mpiexec" if found is None else "mpi4py"
        raise EngineError(f"The cascade needs MPI, but there is no {missing}: pip install 'mergesvm[mpi]'.")
    return found


def put_rows(folder: Path, X: NDArray[Any], y: NDArray[Any], features: FeatureMap | None = None) -> Path:
    """Write rows, and an optional feature map, to the folder from which ranks read them."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    if features is not None:
        features.save(folder / "map.features")
    return folder


def measure(folder: Path, n_rows: int, ranks: int, repeats: int) -> Measured:
    """Learn the first rows of a folder with several ranks, each of which has its own part."""
    # With -m mpi4py, an error on one rank terminates all of them.
    program = [sys.executable, "-m", "mpi4py", "-m", PROGRAM, str(folder), str(n_rows), str(repeats)]
    command = [find_mpiexec(), "-n", str(ranks), *program]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        output = "\n".join(done.stderr.splitlines()[-20:]) or "There was no output."
        raise EngineError(f"{ranks} ranks failed with exit code {done.returncode}. {output}")
    return Measured.of(json.loads(lines[-1]))
