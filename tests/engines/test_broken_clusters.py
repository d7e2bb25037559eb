"""Clusters that have died, hang, or have another version of this package: errors that say so."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mergesvm as ms
from mergesvm.errors import EngineError, ParameterError
from ranks import mpiexec

STEPS = Path(__file__).parent / "ranks"


@pytest.fixture
def other_version(tmp_path):
    """Environment variables of a process that has version 9.9 installed."""
    folder = tmp_path / "other" / "mergesvm-9.9.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: mergesvm\nVersion: 9.9\n")
    path = os.pathsep.join(filter(None, [str(folder.parent), os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": path}


@pytest.fixture
def dask_processes(tmp_path):
    """Start a Dask scheduler, or a worker of it, as a process of its own."""
    started, file = [], tmp_path / "scheduler.json"

    def start(kind, *options, env=None):
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--scheduler-file", str(file), *options]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen([*command, "--no-dashboard"], env=env, cwd=tmp_path, **quiet)
        started.append(process)
        end = time.monotonic() + 60
        while not file.exists() and time.monotonic() < end:
            time.sleep(0.05)
        return process

    yield start, file
    for process in started:
        process.kill()
        process.wait()


def dask_client(file, n_workers):
    from distributed import Client

    client = Client(scheduler_file=str(file), timeout=60, set_as_default=False)
    client.wait_for_workers(n_workers, timeout=60)
    return client


@pytest.mark.xdist_group("dask")
def test_a_dask_worker_of_another_version_is_not_used(dask_processes, other_version):
    start, file = dask_processes
    start("scheduler", "--port", "0")
    start("worker", "--no-nanny", env=other_version)
    refused = pytest.raises(EngineError, match=r"The Dask worker tcp://\S+ has mergesvm 9\.9, .* Install the same")
    with dask_client(file, 1) as client, ms.engines.Dask(client) as engine, refused:
        engine.map(abs, [-1, 2])


@pytest.mark.xdist_group("dask")
@pytest.mark.filterwarnings("ignore")  # the client complains in its own way
def test_a_dead_dask_scheduler_is_an_error(dask_processes):
    start, file = dask_processes
    scheduler = start("scheduler", "--port", "0")
    start("worker", "--no-nanny")
    client = dask_client(file, 1)
    try:
        with ms.engines.Dask(client) as engine:
            assert engine.map(abs, [-1, 2]) == [1, 2]
            scheduler.kill()
            scheduler.wait()
            while client.status == "running":
                time.sleep(0.05)
            with pytest.raises(EngineError, match="connection to the Dask scheduler is lost"):
                engine.map(abs, [-1, 2])
    finally:
        client.close(timeout=2)


DEAD_JVM = """
import os, signal, sys
import mergesvm as ms
if __name__ == "__main__":
    engine = ms.engines.Spark("local[1]")
    assert engine.map(abs, [-1, 2]) == [1, 2]
    os.kill(engine.session.sparkContext._gateway.proc.pid, signal.SIGKILL)
    engine.session.sparkContext._gateway.proc.wait()
    try:
        engine.map(abs, [-1, 2])
    except ms.errors.EngineError as error:
        print(error, flush=True)
    os._exit(0)
"""


@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("spark_session")  # skips where there is no Java
def test_a_dead_java_process_is_an_error(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(DEAD_JVM)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=240, check=False)
    assert "Java process of the Spark session has ended" in done.stdout, done.stdout + done.stderr


@pytest.mark.xdist_group("spark")
def test_a_spark_worker_of_another_version_is_not_used(spark_session, monkeypatch):
    monkeypatch.setattr("mergesvm.engines.spark.engine.installed_version", lambda: "9.9")  # of the driver, not a worker
    with pytest.raises(EngineError, match=r"A Spark worker has mergesvm .* the driver has 9\.9"):
        ms.engines.Spark(spark_session).map(abs, [-1, 2])


@pytest.mark.xdist_group("mpi")
def test_a_rank_of_another_version_is_not_used(other_version):
    program = str(STEPS / "one_engine.py")
    other = ["env", f"PYTHONPATH={other_version['PYTHONPATH']}", sys.executable, program]
    command = [*mpiexec(1, program, guarded=False), ":", "-n", "1", *other]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert re.search(r"EngineError: Rank 1 has mergesvm 9\.9, but this process has", done.stderr), done.stderr


@pytest.mark.xdist_group("mpi")
def test_ranks_do_not_wait_for_a_stopped_rank_beyond_the_timeout():
    began = time.monotonic()
    command = mpiexec(3, STEPS / "stopped_rank.py", guarded=False)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert re.search(r"Rank [02] has waited for other ranks for more than 2 s; aborting", done.stderr), done.stderr
    assert time.monotonic() - began < 100
    assert not _alive(int(re.search(r"stopped (\d+)", done.stdout)[1]))


def _alive(process):
    for _ in range(50):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    os.kill(process, signal.SIGKILL)
    return True


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), "soon"])
def test_invalid_timeouts_are_refused(timeout, monkeypatch):
    pytest.importorskip("mpi4py")
    with pytest.raises(ParameterError, match="timeout must be a positive number of seconds"):
        ms.engines.MPI(timeout=timeout)
    monkeypatch.setenv("MERGESVM_MPI_TIMEOUT", str(timeout))
    with pytest.raises(ParameterError, match="MERGESVM_MPI_TIMEOUT must be a positive number of seconds"):
        ms.engines.MPI()
