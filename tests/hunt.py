"""Search for counterexamples: a stress test of the command line, then property tests with new seeds, until time is up.

The stress test takes ten minutes, or half of the time if that is less (``tests/stress.py --seed`` repeats it). Then
every property that hypothesis checks, with ten times the examples, and damaged files, with ten times the damage. A
failure prints the seed; ``MERGESVM_HUNT=seed pytest ...`` repeats it. Pin what is found as an example in the tests.

    python tests/hunt.py --minutes 60
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parent
SECONDS_PER_TEST = 3600
STRESS_MINUTES = 10.0


def property_tests() -> list[str]:
    """The test files that have properties or random damage."""
    return sorted(
        str(path.relative_to(TESTS.parent))
        for path in TESTS.rglob("test_*.py")
        if "from hunting import" in path.read_text() or "@given" in path.read_text()
    )


def hunt(seed: int, files: list[str], seconds: float) -> bool | None:
    """Run all property tests with one seed; False if one failed, None if the time was up first."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-n",
        "2",
        "--dist",
        "loadgroup",
        f"--timeout={SECONDS_PER_TEST}",
        *files,
    ]
    environment = os.environ | {"MERGESVM_HUNT": str(seed)}
    try:
        return subprocess.run(command, cwd=TESTS.parent, env=environment, timeout=seconds, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return None


def stress(seed: int, minutes: float) -> bool:
    """Run the stress test of the command line; False if it failed."""
    command = [sys.executable, str(TESTS / "stress.py"), "--minutes", str(minutes), "--seed", str(seed)]
    return subprocess.run(command, check=False).returncode == 0


def main() -> int:
    """Hunt until the time is up or something is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, help="the first seed; random by default")
    arguments = parser.parse_args()
    files, end = property_tests(), time.monotonic() + 60 * arguments.minutes
    seed, runs = arguments.seed or random.randrange(1, 2**31), 0
    if not stress(seed, min(STRESS_MINUTES, arguments.minutes / 2)):
        print(f"hunt: found something; repeat it with python tests/stress.py --seed {seed}", flush=True)  # noqa: T201
        return 1
    while (left := end - time.monotonic()) > 0:
        print(f"hunt: seed {seed}, {left / 60:.0f} minutes left", flush=True)  # noqa: T201
        passed = hunt(seed, files, left)
        if passed is False:
            print(f"hunt: found something; repeat it with MERGESVM_HUNT={seed} pytest FILE::TEST", flush=True)  # noqa: T201
            return 1
        runs, seed = runs + bool(passed), seed + 1
    print(f"hunt: nothing found; {runs} whole runs of {len(files)} files", flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
