"""Efficiency and overhead of MPI and Dask, and Spark beside MLlib: ``make bench-engines``.

Each worker is pinned to its own core. One and two workers run in turn, and efficiencies are medians over the
repetitions, because the speed of a shared machine varies over time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

import engine_work
import make_files
import mergesvm as ms
from datasets import folder as data_folder
from engine_work import WARM_UPS, Run
from hyperplanes import Hyperplane, compare
from machine import describe

HERE = Path(__file__).parent

# One thread per worker, and freed memory stays with the process: on machines that reclaim it, the page faults of 80 MB
# of sums take 20 to 150 ms, more than what is measured here.
SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**25),
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_ARENA_MAX": "1",
    "MIMALLOC_PURGE_DELAY": "-1",
}

ONE, TWO, SPARE = "1", "2", "1, spare core"
Repetitions = list[dict[str, Run]]
"""The runs of each repetition, by workers."""


def run_mpi(name: str, folder: Path, repeats: int) -> Repetitions:
    mpiexec = Path(sys.executable).parent / "mpiexec"
    command = [mpiexec, "-n", "2", sys.executable, HERE / "engine_work.py", name, folder, str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    repetitions = json.loads(done.stdout.splitlines()[-1])
    return [{workers: Run(*found) for workers, found in runs.items()} for runs in repetitions]


def run_dask(name: str, folder: Path, repeats: int) -> Repetitions:
    """Client and scheduler run on the cores of the workers; with SPARE, on both cores beside one worker."""
    import dask
    import distributed  # noqa: F401 - declares the settings that are changed here

    ms.precompile()
    scan, features = engine_work.work(name, folder)
    settings = {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in SETTINGS.items()}
    with dask.config.set(settings), ms.engines.Dask(workers=1) as alone, ms.engines.Dask(workers=2) as pair:
        for engine in (alone, pair):
            for core, address in enumerate(engine.client.nthreads()):
                engine.client.run(engine_work.pin, core, workers=[address])
            engine.client.run(ms.precompile)
        order = {ONE: (alone, 1), TWO: (pair, 2), SPARE: (alone, 2)}
        repetitions = []
        for number in range(repeats + WARM_UPS):
            runs: dict[str, Run] = {}
            for workers, (engine, cores) in sorted(order.items(), reverse=number % 2 == 1):
                engine_work.confine(cores)
                runs[workers] = dask_run(engine, scan, features)
            repetitions.append(runs)
    return repetitions[WARM_UPS:]


def dask_run(engine: ms.engines.Dask, scan: ms.Scan, features: ms.features.FeatureMap | None) -> Run:
    """Learn with the engine, and without."""
    before, start = engine.traffic, time.perf_counter()
    ms.learn(scan, features=features, engine=engine)
    seconds, sent = time.perf_counter() - start, engine_work.traffic_since(before, engine.traffic)
    parts = scan.parts(engine.workers)
    futures = [engine.client.submit(engine_work.learn_part, part, features, pure=False) for part in parts]
    return Run(seconds, max(engine.client.gather(futures)), *sent)


MEASURES: dict[str, Callable[..., Repetitions]] = {"MPI": run_mpi, "Dask": run_dask}


def efficiency(console: Console, folder: Path, repeats: int, engines: list[str], names: list[str]) -> None:
    """MPI and Dask: two workers against one, and the engine against the same work without it."""
    for name in names if engines else ():
        title = f"{engine_work.TITLES[name]}: medians of {repeats} repetitions"
        table = Table(title=title, title_justify="left")
        table.add_column("engine")
        for column in (
            "workers",
            "s",
            "without s",
            "engine / without",
            "efficiency",
            "best",
            "without",
            "MB",
            "messages",
        ):
            table.add_column(column, justify="right")
        for engine in engines:
            repetitions = MEASURES[engine](name, folder, repeats)
            for workers in (TWO, ONE, SPARE) if SPARE in repetitions[0] else (TWO, ONE):
                found = [runs[workers] for runs in repetitions]
                pairs = [(runs[workers], runs[TWO]) for runs in repetitions]
                efficiencies = (
                    median(one.engine / (2 * two.engine) for one, two in pairs),
                    min(one.engine for one, _ in pairs) / (2 * min(two.engine for _, two in pairs)),
                    median(one.without / (2 * two.without) for one, two in pairs),
                )
                table.add_row(
                    engine,
                    workers,
                    f"{median(each.engine for each in found):.3f}",
                    f"{median(each.without for each in found):.3f}",
                    f"{median(each.engine / each.without for each in found):.3f}",
                    *("" if workers == TWO else f"{value:.3f}" for value in efficiencies),
                    f"{found[-1].sent / 1e6:.2f}",
                    str(found[-1].messages),
                )
        console.print(table)


def spark(console: Console, folder: Path, repeats: int, rows: int, test_rows: int) -> None:
    """Spark: learning beside counting the rows of the same DataFrame, and beside MLlib's LinearSVC."""
    import pyarrow as pa
    from pyspark.ml.classification import LinearSVC
    from pyspark.ml.feature import VectorAssembler

    path = make_files.parquet(folder, rows)
    with ms.engines.Spark(workers=2) as engine:
        session = engine.session
        names = [f"x{column}" for column in range(make_files.WIDTH)]
        frame = session.read.parquet(str(path))
        chosen = frame.select(*names, "y")

        def only_count(batches):
            yield pa.record_batch([pa.array([sum(batch.num_rows for batch in batches)])], names=["rows"])

        def count() -> None:
            assert sum(row.rows for row in chosen.mapInArrow(only_count, "rows long").collect()) == rows

        knowledge = []

        def learn_table() -> None:
            knowledge[:] = [ms.learn(frame, label="y", columns=names, engine=engine)]

        def learn_files() -> None:
            ms.learn(ms.scan(path, label="y", features=names), engine=engine)

        times: dict[str, list[float]] = {"count": [], "table": [], "files": [], "solve": []}
        for _ in range(repeats + 1):
            for title, run in (("count", count), ("table", learn_table), ("files", learn_files)):
                start = time.perf_counter()
                run()
                times[title].append(time.perf_counter() - start)
            start = time.perf_counter()
            model = ms.solve(knowledge[0])
            times["solve"].append(time.perf_counter() - start)
        assembled = VectorAssembler(inputCols=names, outputCol="features").transform(frame).select("features", "y")
        start = time.perf_counter()
        machine = LinearSVC(labelCol="y", featuresCol="features").fit(assembled)
        peer = time.perf_counter() - start
        theirs = Hyperplane(machine.coefficients.toArray(), machine.intercept)
    ours = Hyperplane(model.coef_.ravel(), float(model.intercept_[0]))
    best = {title: min(found[1:]) for title, found in times.items()}
    found = compare(ours, theirs, test_rows)
    accuracy = {"ours": f"{100 * found.ours / found.rows:.4f}", "theirs": f"{100 * found.theirs / found.rows:.4f}"}
    expected = {"ours": f"{100 * ours.expected_accuracy():.6f}", "theirs": f"{100 * theirs.expected_accuracy():.6f}"}
    table = Table("", title=f"Spark, {rows:,} x {make_files.WIDTH}")
    for column in ("s", "/ counting", "accuracy %", "expected %"):
        table.add_column(column, justify="right")
    table.add_row("counting rows by mapInArrow", f"{best['count']:.2f}", "1.00", "", "")
    for title, source in (("table", "the DataFrame"), ("files", "ms.scan of the Parquet file")):
        ratio = f"{best[title] / best['count']:.2f}"
        table.add_row(f"mergesvm, {source}", f"{best[title]:.2f}", ratio, accuracy["ours"], expected["ours"])
    ratio = f"{peer / best['count']:.2f}"
    table.add_row("MLlib LinearSVC", f"{peer:.2f}", ratio, accuracy["theirs"], expected["theirs"])
    console.print(table)
    points, error = 100 * found.difference, 100 * found.error
    above = 100 * (ours.expected_accuracy() - theirs.expected_accuracy())
    console.print(
        f"accuracy: on {found.rows:,} test rows, of which {found.ours_alone:,} are correct by mergesvm alone and "
        f"{found.theirs_alone:,} by LinearSVC alone: {points:+.5f} points, standard error {error:.5f}.\n"
        f"expected: over the distribution of the rows, {above:+.6f} points.",
        highlight=False,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of data sets (default: MERGESVM_DATA, else OpenML)")
    parser.add_argument("--folder", type=Path, help="folder for generated files (default: temporary)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=[*MEASURES, "Spark"], default=[*MEASURES, "Spark"])
    parser.add_argument("--workloads", nargs="+", choices=list(engine_work.TITLES), default=list(engine_work.TITLES))
    parser.add_argument("--spark-rows", type=int, default=5_000_000)
    parser.add_argument("--test-rows", type=int, default=20_000_000, help="rows to compare accuracies on, for Spark")
    arguments = parser.parse_args()
    console = Console(width=120)
    console.print(describe(2), highlight=False)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        engines = [name for name in MEASURES if name in arguments.only]
        if engines:
            engine_work.prepare(folder, data_folder(arguments.data))
        efficiency(console, folder, arguments.repeats, engines, arguments.workloads)
        if "Spark" in arguments.only:
            spark(console, folder, arguments.repeats, arguments.spark_rows, arguments.test_rows)


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in SETTINGS.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **SETTINGS})  # read when a process starts
    main()
