"""A stress test of the command line: commands at random, several at once, interrupted at random.

After each round: outputs are whole or absent, inputs unchanged, no process is left, no message is a traceback, and
nothing is left in the folder of the outputs, in the temporary folder or in shared memory once the next run has written.

    python tests/stress.py --minutes 10
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import mergesvm as ms
from mergesvm.errors import ExistingFileError
from mergesvm.files.atomic import write_atomically

SCRIPT = "import os; from mergesvm.cli.main import main; os.write(1, b'.'); main()"
"""The command line, which tells when it begins: before that, signals have Python's usual effect."""

COMMANDS = {
    "map": "map day1.csv --label y --features fourier:20 -o {}/x.features",
    "learn": "learn day1.csv day2.csv --label y -o {}/x.knowledge",
    "learn folds": "learn day1.csv --label y --folds 3 -o {}/x.knowledge",
    "train": "train day1.csv --label y --method pegasos --steps 1000 -o {}/x.msvm",
    "train kernel": "train day1.csv --label y --method kernel -o {}/x.msvm",
    "merge": "merge day1.knowledge day2.knowledge -o {}/x.knowledge",
    "subtract": "subtract all.knowledge day1.knowledge -o {}/x.knowledge",
    "solve": "solve all.knowledge -o {}/x.msvm --onnx {}/x.onnx",
    "choose": "solve folds.knowledge --C auto --picture {}/x.png -o {}/x.msvm",
    "report": "report day1.knowledge day2.knowledge -o {}/x.html",
    "stream": "stream day1.csv --label y --picture {}/x.svg --knowledge {}/x.knowledge -o {}/x.msvm",
    "calibrate": "calibrate model.msvm day2.csv --label y -o {}/x.msvm",
    "predict": "predict model.msvm day2.csv -o {}/x.parquet",
    "evaluate": "evaluate model.msvm day2.csv --label y --report {}/x.json",
    "inspect": "inspect all.knowledge",
    "demo": "demo --picture {}/x.png",
}
"""All commands but reproduce, which needs data sets that it downloads."""

CLUSTER = {"learn on dask": "learn day1.csv --label y --engine dask --workers 2 -o {}/x.knowledge"}

SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}

DASK_FOLDER = "dask-scratch-space"
"""Dask keeps this folder, and removes from it what earlier workers have left when it starts new ones."""

PATIENCE_SECONDS = 120


@dataclass
class Round:
    """A command that several processes run at once, with the signals that they get and after how many seconds."""

    name: str
    words: list[str]
    outputs: list[Path]
    force: bool
    interrupts: list[tuple[float, int] | None]

    def __str__(self) -> str:
        return f"{' '.join(self.words)}, interrupts {self.interrupts}"


class Stress:
    """A folder with inputs, the outputs of the commands, and their temporary files."""

    def __init__(self, folder: Path, seed: int, commands: dict[str, str]) -> None:
        self.chance, self.commands = random.Random(seed), commands
        self.inputs, self.outputs, self.temporary = (folder / name for name in ("inputs", "outputs", "temporary"))
        for path in (self.inputs, self.outputs, self.temporary):
            path.mkdir()
        self._prepare()
        self.before = self._contents()

    def _prepare(self) -> None:
        for day in (1, 2):
            rows = [(self.chance.gauss(0, 1), self.chance.gauss(0, 1)) for _ in range(300)]
            text = "a,b,y\n" + "".join(f"{a},{b},{'yes' if a + b > 0 else 'no'}\n" for a, b in rows)
            (self.inputs / f"day{day}.csv").write_text(text)
        scans = [ms.scan(self.inputs / f"day{day}.csv", label="y") for day in (1, 2)]
        pieces = [ms.learn(scan) for scan in scans]
        for day, piece in enumerate(pieces, 1):
            piece.save(self.inputs / f"day{day}.knowledge")
        ms.merge(pieces).save(self.inputs / "all.knowledge")
        ms.learn(scans[0], folds=3).save(self.inputs / "folds.knowledge")
        ms.solve(pieces[0]).save(self.inputs / "model.msvm")

    def _contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.inputs.iterdir()}

    def drawn(self) -> Round:
        """A random round."""
        name, chance = self.chance.choice(list(self.commands)), self.chance
        words = self.commands[name].replace("{}", str(self.outputs)).split()
        force = chance.random() < 0.5 and name not in ("inspect", "demo")
        outputs = [Path(word) for word in words if word.startswith(str(self.outputs))]
        many = chance.choice([1, 1, 2, 3])
        interrupts = [
            None if chance.random() < 0.3 else (chance.uniform(0.1, 3), chance.choice(list(SIGNALS)))
            for _ in range(many)
        ]
        return Round(name, words + ["--force"] * force, outputs, force, interrupts)

    def play(self, this: Round) -> None:
        """Run the processes of a round and check what is left."""
        for path in this.outputs:
            if not this.force or self.chance.random() < 0.5:
                path.unlink(missing_ok=True)
        processes = [self._start(this.words) for _ in this.interrupts]
        with ThreadPoolExecutor(len(processes)) as pool:
            ended = list(pool.map(self._finish, processes, this.interrupts))
        self._check_ends(this, ended)
        self._check_files(this, any(code == 0 for code, _ in ended))
        self._check_leftovers(processes)

    def _start(self, words: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT, *words],
            cwd=self.inputs,
            env={**os.environ, "TMPDIR": str(self.temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def _finish(self, process: subprocess.Popen[bytes], interrupt: tuple[float, int] | None) -> tuple[int, str]:
        if interrupt is not None:
            seconds, number = interrupt
            assert process.stdout is not None
            process.stdout.read(1)
            time.sleep(seconds)
            process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
        return process.returncode, errors.decode(errors="replace")

    def _check_ends(self, this: Round, ended: list[tuple[int, str]]) -> None:
        for interrupt, (code, errors) in zip(this.interrupts, ended, strict=True):
            assert "Traceback" not in errors, errors
            assert "Exception ignored" not in errors, errors
            allowed = {0} | ({SIGNALS[signal.Signals(interrupt[1])]} if interrupt else set())
            if code == 2 and len(ended) > 1 and not this.force:
                assert "already exists" in errors, errors
            else:
                assert code in allowed, f"exit code {code}: {errors}"

    def _check_files(self, this: Round, done: bool) -> None:
        assert self._contents() == self.before, "an input has changed"
        for path in this.outputs:
            assert path.exists() or not done, f"{path} is missing"
            if path.exists():
                check_whole(path)

    def _check_leftovers(self, processes: list[subprocess.Popen[bytes]]) -> None:
        sessions, end = {process.pid for process in processes}, time.monotonic() + 30
        while (left := processes_of(sessions)) and time.monotonic() < end:
            time.sleep(0.2)
        assert not left, f"processes are left: {left}"
        write_atomically(self.outputs / "next", b"")  # the next run removes what killed ones have left
        hidden = [path.name for path in self.outputs.iterdir() if path.name.startswith(".")]
        assert not hidden, hidden
        own = re.compile(rf"(?<![0-9a-f])({'|'.join(map(str, sessions))})(?![0-9a-f])")
        shared = [path.name for path in Path("/dev/shm").iterdir() if own.search(path.name)]
        assert not shared, shared
        temporary = [path.name for path in self.temporary.iterdir() if path.name != DASK_FOLDER]
        assert not temporary, temporary


def processes_of(sessions: set[int]) -> list[str]:
    """The living processes of sessions."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) in sessions and fields[0] != "Z":
                    found.append((folder / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
    return found


def check_whole(path: Path) -> None:
    """Raise an error if a file is not complete."""
    held = path.read_bytes()
    if path.suffix in (".knowledge", ".msvm", ".features"):
        ms.load(path)
    elif path.suffix == ".parquet":
        import pyarrow.parquet as pq

        assert pq.read_table(path).num_rows == 300
    elif path.suffix == ".onnx":
        import onnx

        onnx.checker.check_model(onnx.load(path))
    else:
        ends = {".png": b"IEND\xaeB`\x82", ".svg": b"</svg>", ".html": b"</html>", ".json": b"}"}
        assert held.rstrip(b"\n").endswith(ends[path.suffix]), f"{path} is cut off"


def write_in_threads(stress: Stress) -> None:
    """Threads write, read and must not overwrite the same file."""
    path = stress.outputs / "threads.knowledge"
    path.unlink(missing_ok=True)
    pieces = [ms.Knowledge.load(stress.inputs / f"day{day}.knowledge") for day in (1, 2)]

    def work(number: int) -> bool:
        try:
            pieces[number % 2].save(path, overwrite=False)
        except ExistingFileError:
            assert ms.Knowledge.load(path).rows.sum() == 300
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(16))) == 1
        list(pool.map(lambda number: pieces[number % 2].save(path), range(16)))
    assert ms.Knowledge.load(path).rows.sum() == 300


def run(folder: Path, seed: int, seconds: float, *, cluster: bool) -> int:
    """Play rounds until the time is up; returns their number."""
    stress, end, rounds = Stress(folder, seed, COMMANDS | (CLUSTER if cluster else {})), time.monotonic() + seconds, 0
    write_in_threads(stress)
    while time.monotonic() < end:
        this = stress.drawn()
        try:
            stress.play(this)
        except BaseException:
            print(f"stress: seed {seed}, round {rounds}: {this}", flush=True)  # noqa: T201
            raise
        rounds += 1
        if rounds % 10 == 0:
            write_in_threads(stress)
    return rounds


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31), help="random by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rounds = run(Path(folder), arguments.seed, 60 * arguments.minutes, cluster=True)
    print(f"stress: nothing found in {rounds} rounds", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
