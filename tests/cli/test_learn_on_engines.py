"""``mergesvm learn`` on every engine, in processes and clusters of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mergesvm as ms
from engine_laws import assert_same

BIN = Path(sys.executable).parent
COMMAND, MPIEXEC = str(BIN / "mergesvm"), str(BIN / "mpiexec")


def run(*arguments, ranks=None, **options):
    start = [] if ranks is None else [MPIEXEC, "-n", str(ranks)]
    command = [*start, COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


@pytest.fixture
def days(tmp_path):
    """Three files, sorted by class, so that some workers see only some classes."""
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(900, 3)), np.sort(generator.choice(["cat", "dog", "fox"], 900))
    for day in range(3):
        rows = slice(300 * day, 300 * day + 300)
        table = pa.table({**{f"x{i}": X[rows, i] for i in range(3)}, "y": y[rows]})
        pq.write_table(table, tmp_path / f"day{day}.parquet", row_group_size=100)
    return tmp_path, ms.learn(X, y, feature_names=["x0", "x1", "x2"], folds=3)


@pytest.mark.parametrize(
    ("ranks", "options"),
    [
        pytest.param(None, ["--engine", "threads", "--workers", "2"], id="threads"),
        pytest.param(4, ["--engine", "mpi"], id="mpi", marks=pytest.mark.xdist_group("mpi")),
        pytest.param(None, ["--engine", "dask", "--workers", "2"], id="dask", marks=pytest.mark.xdist_group("dask")),
        pytest.param(None, ["--engine", "spark", "--workers", "2"], id="spark", marks=pytest.mark.xdist_group("spark")),
    ],
)
def test_learn_gives_the_same_folds_on_every_engine(ranks, options, days, request):
    if "spark" in options:
        request.getfixturevalue("java")
    folder, expected = days
    output = folder / "all.knowledge"
    wanted = ["--label", "y", "--folds", "3", "-o", output, "--verbose"]
    done = run("learn", f"{folder}/day*.parquet", *wanted, *options, ranks=ranks)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("written to") == 1
    assert "sent: " in done.stdout
    found = ms.Folds.load(output)
    assert_same(found.total, expected.total)
    for part, same in zip(found, expected, strict=True):
        assert_same(part, same)


@pytest.mark.xdist_group("mpi")
def test_ranks_with_local_files_share_a_map_frozen_by_the_root(days):
    folder, _ = days
    own = [folder / f"day{day}.parquet" for day in range(3)]
    options = ["--label", "y", "--engine", "mpi", "--local", "--json", "--features", "fourier:16", "-o", folder / "k"]
    command = [MPIEXEC]
    for path in own:
        command += ["-n", "1", COMMAND, "learn", str(path), *map(str, options), ":"]
    done = subprocess.run(command[:-1], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    message = json.loads(done.stdout)
    assert message["rows"] == 900
    assert message["traffic"]["rounds"] >= 2
    found = ms.Knowledge.load(folder / "k")
    assert_same_in_float32(found, ms.learn(ms.scan(own, label="y"), features=found.features))


def assert_same_in_float32(found, expected):
    assert found.labels == expected.labels
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_allclose(found.pooled_gram, expected.pooled_gram, atol=1e-4 * np.abs(expected.pooled_gram).max())


@pytest.mark.xdist_group("mpi")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--label", "nothing"], "there is no column 'nothing'"),
        (["--label", "y", "--workers", "3"], "mpiexec -n 3"),
        (["--label", "y", "--features", "wrong:4"], "wrong"),
    ],
)
def test_only_the_root_rank_prints_errors(options, message, days):
    folder, _ = days
    done = run("learn", folder / "day0.parquet", "--engine", "mpi", "-o", folder / "out", *options, ranks=4)
    assert done.returncode == 2
    assert done.stderr.count("Error:") == 1, done.stderr
    assert message in done.stderr
    assert not (folder / "out").exists()


@pytest.mark.xdist_group("mpi")
def test_a_rank_that_is_killed_ends_the_job_with_an_error_and_no_file(days):
    folder, _ = days
    rows = 3_000_000
    table = pa.table({**{f"x{i}": np.zeros(rows, np.float32) for i in range(8)}, "y": np.arange(rows) % 2})
    pq.write_table(table, folder / "large.parquet", row_group_size=100_000)
    output = folder / "all.knowledge"
    command = [MPIEXEC, "-n", "4", COMMAND, "learn", f"{folder}/large.parquet", "--label", "y", "--engine", "mpi"]
    job = subprocess.Popen(
        [*command, "--features", "fourier:500", "-o", str(output)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        victim = _busy_rank(job.pid)
        os.kill(victim, signal.SIGKILL)
        out, error = job.communicate(timeout=60)
    finally:
        job.kill()
    assert job.returncode != 0
    assert b"KILLED BY SIGNAL: 9" in out + error or b"signal 9" in out + error, out + error
    assert b"Traceback" not in error
    assert not [path for path in folder.iterdir() if path.suffix != ".parquet"]


def _busy_rank(parent: int) -> int:
    """A rank that has been learning for a while."""
    for _ in range(600):
        ranks = [pid for pid in _descendants(parent) if b"mergesvm" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        busy = [pid for pid in ranks if _seconds(pid) > 4]
        if len(ranks) >= 4 and busy:
            return busy[-1]
        time.sleep(0.1)
    raise AssertionError("no rank was ever busy")


def _descendants(parent: int) -> list[int]:
    found = []
    for path in Path(f"/proc/{parent}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            found += [child, *_descendants(child)]
    return found


def _seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "cloud"], "Unknown engine 'cloud'"),
        (["--address", "tcp://127.0.0.1:1"], "has no address"),
        (["--engine", "dask", "--address", "tcp://127.0.0.1:1"], "127.0.0.1:1"),
        (["--engine", "dask", "--address", "tcp://127.0.0.1:1", "--workers", "2"], "leave out workers=2"),
        (["--local"], "local is for mpi"),
    ],
)
def test_unavailable_engines_are_rejected(options, message, days):
    folder, _ = days
    done = run("learn", folder / "day0.parquet", "--label", "y", "-o", folder / "out", *options)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
