"""Start the program of a reproduction on ranks of MPI."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mergesvm.errors import EngineError


def find_mpiexec() -> str:
    """Path of ``mpiexec``: the one beside this Python, or else the one on the path."""
    beside = Path(sys.executable).parent
    found = shutil.which("mpiexec", path=str(beside)) or shutil.which("mpiexec")
    if found is None or find_spec("mpi4py") is None:
        missing = "mpiexec" if found is None else "mpi4py"
        raise EngineError(f"This reproduction needs MPI, but there is no {missing}: pip install 'mergesvm[mpi]'.")
    return found


def run_ranks(program: str, ranks: int, *arguments: object) -> Any:
    """Run a module on several ranks; returns the JSON object in the last line that it prints."""
    # With -m mpi4py, an error on one rank terminates all of them.
    command = [find_mpiexec(), "-n", str(ranks), sys.executable, "-m", "mpi4py", "-m", program, *map(str, arguments)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        output = "\n".join(done.stderr.splitlines()[-20:]) or "There was no output."
        raise EngineError(f"{ranks} ranks failed with exit code {done.returncode}. {output}")
    return json.loads(lines[-1])
