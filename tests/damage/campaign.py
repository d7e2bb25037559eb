"""Run all cases of some kinds of files; a process that dies is followed by another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from damage.kinds import MUTATIONS

WORKERS = 2
PROCESS = Path(__file__).with_name("process.py")
HELPERS = os.environ | {
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
}


@dataclass
class Outcome:
    """What became of the cases of one kind: what is wrong, and how often each end was met."""

    failures: list[str] = field(default_factory=list)
    tally: dict[str, int] = field(default_factory=dict)


def campaign(folder: Path, names: list[str]) -> dict[str, Outcome]:
    """What became of all cases of some kinds of files; a process that dies is followed by another."""
    outcomes = {name: Outcome() for name in names}
    left = [(name, 0) for name in names]
    while left:
        arguments = [part for name, first in left for part in (name, str(first), str(1 << 40))]
        command = [sys.executable, str(PROCESS), str(folder), *arguments]
        done = subprocess.run(
            command, env=HELPERS, capture_output=True, text=True, timeout=60 + MUTATIONS * len(left), check=False
        )
        at = (left[0][0], left[0][1])
        for line in done.stdout.splitlines():
            what = json.loads(line)
            outcome = outcomes[what["kind"]]
            if "tally" in what:
                for key, count in what["tally"].items():
                    outcome.tally[key] = outcome.tally.get(key, 0) + count
                left = [item for item in left if item[0] != what["kind"]]
            elif "failure" in what:
                outcome.failures.append(f"case {what['case']}: {what['failure']}")
            else:
                at = (what["kind"], what["case"])
        if done.returncode == 0:
            break
        name, case = at
        outcomes[name].failures.append(f"case {case}: the process ended with {done.returncode}: {done.stderr[-1500:]}")
        others = [item for item in left if item[0] != name]
        given_up = len(others) == len(left) or "undamaged" in done.stderr or len(outcomes[name].failures) > 20
        left = others if given_up else [(name, case + 1), *others]
    return outcomes


def campaigns(folder: Path, names: list[str]) -> dict[str, Outcome]:
    """What became of all cases of some kinds of files, divided among processes."""
    parts = [names[start::WORKERS] for start in range(WORKERS)]
    folders = [folder / str(part) for part in range(WORKERS)]
    for each in folders:
        each.mkdir()
    with ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(campaign, folders, parts))
    return {name: outcome for part in found for name, outcome in part.items()}
