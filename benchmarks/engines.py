"""The same learning on every engine: how well two workers share it, what the engine itself costs, and the peers.

Workers are pinned to one core each, so that one worker is one core and two are two. One and two workers take turns, and
efficiencies are medians over the turns: on a shared machine, minutes differ more than engines.
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
from engine_work import WARM_UPS, Turn
from machine import describe
from planes import Plane, beside
from targets import Targets

EFFICIENCY = {"float64": 0.95, "float32": 0.95, "narrow": 0.9}
HERE = Path(__file__).parent

# One thread a worker; and memory that is freed stays with the process, in pieces of any size, whoever allocates it. On
# a machine that takes free memory back and is slow to hand it out again, the first touch of 80 MB of sums takes longer
# than all else that is measured here: now 20 ms, now 150.
SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**25),
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_ARENA_MAX": "1",
    "MIMALLOC_PURGE_DELAY": "-1",
}


ONE, TWO, HELPED = "1", "2", "1 and a spare core"
Turns = list[dict[str, Turn]]
"""What each turn gave, by the workers."""


def turns_of_mpi(name: str, folder: Path, repeats: int) -> Turns:
    mpiexec = Path(sys.executable).parent / "mpiexec"
    command = [mpiexec, "-n", "2", sys.executable, HERE / "engine_work.py", name, folder, str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    turns = json.loads(done.stdout.splitlines()[-1])
    return [{workers: Turn(*found) for workers, found in turn.items()} for turn in turns]


def turns_of_dask(name: str, folder: Path, repeats: int) -> Turns:
    """Client and scheduler have the cores of the workers, and no other; or, beside one worker, the second one, too."""
    import dask
    import distributed  # noqa: F401 - it brings the settings that are changed here

    ms.precompile()
    scan, features = engine_work.work(name, folder)
    settings = {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in SETTINGS.items()}
    with dask.config.set(settings), ms.engines.Dask(workers=1) as alone, ms.engines.Dask(workers=2) as pair:
        for engine in (alone, pair):
            for core, address in enumerate(engine.client.nthreads()):
                engine.client.run(engine_work.pin, core, workers=[address])
            engine.client.run(ms.precompile)
        order = {ONE: (alone, 1), TWO: (pair, 2), HELPED: (alone, 2)}
        turns = []
        for number in range(repeats + WARM_UPS):
            turn: dict[str, Turn] = {}
            for workers, (engine, cores) in sorted(order.items(), reverse=number % 2 == 1):
                engine_work.confine(cores)
                turn[workers] = dask_turn(engine, scan, features)
            turns.append(turn)
    return turns[WARM_UPS:]


def dask_turn(engine: ms.engines.Dask, scan: ms.Scan, features: ms.features.FeatureMap | None) -> Turn:
    """Learn with the engine, and by hand."""
    before, start = engine.traffic, time.perf_counter()
    ms.learn(scan, features=features, engine=engine)
    seconds, sent = time.perf_counter() - start, engine_work.traffic_since(before, engine.traffic)
    parts = scan.parts(engine.workers)
    futures = [engine.client.submit(engine_work.learn_part, part, features, pure=False) for part in parts]
    return Turn(seconds, max(engine.client.gather(futures)), *sent)


MEASURES: dict[str, Callable[..., Turns]] = {"MPI": turns_of_mpi, "Dask": turns_of_dask}


def shared(console: Console, targets: Targets, folder: Path, repeats: int, wanted: list[str], names: list[str]) -> None:
    """MPI and Dask: two workers against one, and the engine against learning by hand."""
    for name in names if wanted else ():
        title = engine_work.TITLES[name]
        table = Table(title=f"{title}: medians of {repeats} turns", title_justify="left")
        table.add_column("engine")
        for column in (
            "workers",
            "s",
            "by hand s",
            "engine / by hand",
            "efficiency",
            "at best",
            "by hand",
            "MB",
            "messages",
        ):
            table.add_column(column, justify="right")
        for engine in wanted:
            turns = MEASURES[engine](name, folder, repeats)
            for workers in (TWO, ONE, HELPED) if HELPED in turns[0] else (TWO, ONE):
                found = [turn[workers] for turn in turns]
                cost = median(each.engine / each.by_hand for each in found)
                beside = [(turn[workers], turn[TWO]) for turn in turns]
                efficiency = median(one.engine / (2 * two.engine) for one, two in beside)
                by_hand = median(one.by_hand / (2 * two.by_hand) for one, two in beside)
                at_best = min(one.engine for one, _ in beside) / (2 * min(two.engine for _, two in beside))
                table.add_row(
                    engine,
                    workers,
                    f"{median(each.engine for each in found):.3f}",
                    f"{median(each.by_hand for each in found):.3f}",
                    f"{cost:.3f}",
                    *("" if workers == TWO else f"{value:.3f}" for value in (efficiency, at_best, by_hand)),
                    f"{found[-1].sent / 1e6:.2f}",
                    str(found[-1].messages),
                )
                what = f"{engine}, {title}"
                if workers != HELPED:
                    targets.at_most(f"{what}, workers: {workers}, engine / by hand", cost, 1.15)
                if workers != TWO:
                    beside_help = " beside one with a spare core" if workers == HELPED else ""
                    targets.at_least(f"{what}: efficiency{beside_help}", efficiency, EFFICIENCY[name], "{:.3f}")
        console.print(table)


def spark(console: Console, targets: Targets, folder: Path, repeats: int, rows: int, fresh: int) -> None:
    """Spark: beside a pass that only counts, and beside its own LinearSVC, on the same DataFrame."""
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

        def learn() -> None:
            knowledge[:] = [ms.learn(frame, label="y", columns=names, engine=engine)]

        times: dict[str, list[float]] = {"count": [], "arrow": [], "files": [], "solve": []}

        def learn_files() -> None:
            ms.learn(ms.scan(path, label="y", features=names), engine=engine)

        for _ in range(repeats + 1):
            for title, run in (("count", count), ("arrow", learn), ("files", learn_files)):
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
        theirs = Plane(machine.coefficients.toArray(), machine.intercept)
    ours = Plane(model.coef_.ravel(), float(model.intercept_[0]))
    best = {title: min(found[1:]) for title, found in times.items()}
    found = beside(ours, theirs, fresh)
    accuracy = {"ours": f"{100 * found.ours / found.rows:.4f}", "theirs": f"{100 * found.theirs / found.rows:.4f}"}
    expected = {"ours": f"{100 * ours.expected():.6f}", "theirs": f"{100 * theirs.expected():.6f}"}
    table = Table("on one DataFrame", title=f"Spark, {rows:,} x {make_files.WIDTH}")
    for column in ("s", "x", "accuracy %", "of all rows %"):
        table.add_column(column, justify="right")
    table.add_row("mapInArrow that only counts", f"{best['count']:.2f}", "1.00", "", "")
    for title, way in (("arrow", "by mapInArrow"), ("files", "of a scan of the files")):
        ratio = f"{best[title] / best['count']:.2f}"
        table.add_row(f"mergesvm, learn {way}", f"{best[title]:.2f}", ratio, accuracy["ours"], expected["ours"])
    ratio = f"{peer / best['count']:.2f}"
    table.add_row("MLlib LinearSVC, fit", f"{peer:.2f}", ratio, accuracy["theirs"], expected["theirs"])
    console.print(table)
    points, error = 100 * found.difference, 100 * found.error
    above = 100 * (ours.expected() - theirs.expected())
    console.print(
        f"Accuracy is that on {found.rows:,} fresh rows. {found.ours_alone:,} of them mergesvm alone tells rightly, "
        f"and {found.theirs_alone:,} LinearSVC alone: a difference of {points:+.5f} points, of a standard error of "
        f"{error:.5f}. Of all rows that there could be, by the formula for normal rows, it is {above:+.6f} points.",
        highlight=False,
    )
    targets.at_most("Spark: learning by mapInArrow / counting", best["arrow"] / best["count"], 1.5)
    for title, way in (("files", "from the files"), ("arrow", "by mapInArrow")):
        targets.at_least(f"Spark, {way}: x MLlib LinearSVC", peer / (best[title] + best["solve"]), 10)
    targets.at_least("Spark: points above LinearSVC on fresh rows, to a standard error", points, -error, "{:.5f}")
    targets.at_least("Spark: points above LinearSVC on all rows", above, 0, "{:.6f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of data sets; default MERGESVM_DATA, else OpenML")
    parser.add_argument("--folder", type=Path, help="where files are made, once; default a temporary folder")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=[*MEASURES, "Spark"], default=[*MEASURES, "Spark"])
    parser.add_argument("--on", nargs="+", choices=list(engine_work.TITLES), default=list(engine_work.TITLES))
    parser.add_argument("--spark-rows", type=int, default=5_000_000)
    parser.add_argument("--fresh-rows", type=int, default=20_000_000, help="to compare accuracy with LinearSVC on")
    arguments = parser.parse_args()
    console, targets = Console(width=120), Targets()
    console.print(describe(2), highlight=False)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        wanted = [name for name in MEASURES if name in arguments.only]
        if wanted:
            engine_work.prepare(folder, data_folder(arguments.data))
        shared(console, targets, folder, arguments.repeat, wanted, arguments.on)
        if "Spark" in arguments.only:
            spark(console, targets, folder, arguments.repeat, arguments.spark_rows, arguments.fresh_rows)
    targets.show(console)


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in SETTINGS.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **SETTINGS})  # read as a process starts
    main()
