"""Learning from files, beside other libraries and beside reading alone: ``make bench-files``.

Each measurement runs in its own process, so that peaks of memory are separate. Contenders run in turn; all files are in
the page cache. Heavy packages are imported inside functions, because they would count as memory of every contender.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STARTED = time.perf_counter()
BUFFER_BYTES = 2**24
CHUNK_ROWS = 100_000
MAX_CSV_ROWS, MAX_LIBSVM_ROWS, MAX_VW_ROWS = 2_000_000, 500_000, 1_000_000
VW_CONSTANT = 11_650_396  # index of the intercept in Vowpal Wabbit
PARTS = ("parquet", "csv", "libsvm", "memory")

Work = Callable[[], tuple[int, Callable[[Any], Any] | None]]
"""What is timed. Returns the number of rows, and a function that predicts."""


def read_bytes(path: str, _: int) -> Work:
    """Read the bytes of the file: the limit of the machine."""

    def work():
        buffer = bytearray(BUFFER_BYTES)
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 a path object would be no clearer
            while file.readinto(buffer):
                pass
        return 0, None

    return work


def scan_parquet(path: str, _: int) -> Work:
    import pyarrow.dataset as ds

    def work():
        return sum(batch.num_rows for batch in ds.dataset(path).to_batches()), None

    return work


def read_batches(path: str, _: int) -> Work:
    """Read Parquet as mergesvm does, and nothing else."""
    import pyarrow.parquet as pq

    def work():
        with pq.ParquetFile(path, pre_buffer=False) as file:
            return sum(batch.num_rows for batch in file.iter_batches(batch_size=2**18, use_threads=False)), None

    return work


def scan_csv(path: str, _: int) -> Work:
    from pyarrow import csv

    def work():
        return sum(batch.num_rows for batch in csv.open_csv(path)), None

    return work


def learn_table(path: str, _: int) -> Work:
    import mergesvm as ms

    ms.precompile()
    return lambda: _learned(ms, ms.scan(path, label="y"))


def learn_table_first(path: str, _: int) -> Work:
    """Learn without precompile(), as most programs do; timed from the start of the process."""

    def work():
        import mergesvm as ms

        return _learned(ms, ms.scan(path, label="y"))

    return work


def learn_libsvm(path: str, width: int) -> Work:
    import mergesvm as ms

    ms.precompile()
    return lambda: _learned(ms, ms.scan(path, width=width))


def _learned(ms, scan):
    model = ms.solve(ms.learn(scan))
    return scan.rows, model.predict


def sgd_by_scan(path: str, _: int) -> Work:
    from sklearn.linear_model import SGDClassifier

    import mergesvm as ms

    def work():
        machine, count = SGDClassifier(random_state=0), 0
        for part in ms.scan(path, label="y"):
            machine.partial_fit(part.rows.block(0, part.rows.n_rows), part.labels, classes=[0, 1])
            count += part.rows.n_rows
        return count, machine.predict

    return work


def sgd_by_pandas(path: str, _: int) -> Work:
    import pandas as pd
    from sklearn.linear_model import SGDClassifier

    def work():
        machine, count = SGDClassifier(random_state=0), 0
        for chunk in pd.read_csv(path, chunksize=CHUNK_ROWS):
            labels = chunk.pop("y").to_numpy()
            machine.partial_fit(chunk.to_numpy(), labels, classes=[0, 1])
            count += len(labels)
        return count, machine.predict

    return work


def vowpal_wabbit(path: str, width: int) -> Work:
    """One pass with logistic loss over text, or over the binary cache made of it."""
    import numpy as np
    import vowpalwabbit

    source = "--cache_file" if path.endswith("cache") else "--data"

    def work():
        machine = vowpalwabbit.Workspace(arg_list=[source, path, "--quiet", "--loss_function", "logistic"])
        if not machine.parser_ran:
            machine.run_parser()  # runs automatically only for text
        weights = np.array([machine.get_weight(column) for column in range(width)])
        constant, count = machine.get_weight(VW_CONSTANT), int(machine.get_weighted_examples())
        machine.finish()
        return count, lambda X: (X @ weights + constant > 0).astype(int)

    return work


def _loaded(machine: Callable[[Any], Any]) -> Callable[[str, int], Work]:
    """An estimator of scikit-learn that is fitted on all rows in memory, after reading them."""

    def prepare(path, width):
        from sklearn import linear_model
        from sklearn.datasets import load_svmlight_file

        def work():
            X, y = load_svmlight_file(path, n_features=width, zero_based=False)
            # SGDClassifier accepts only 32-bit indices.
            X.indices, X.indptr = X.indices.astype("int32"), X.indptr.astype("int32")
            return len(y), machine(linear_model).fit(X, y).predict

        return work

    return prepare


MEASURES: dict[str, Callable[[str, int], Work]] = {
    "read-bytes": read_bytes,
    "scan-parquet": scan_parquet,
    "read-batches": read_batches,
    "scan-csv": scan_csv,
    "learn-table": learn_table,
    "learn-table-first": learn_table_first,
    "learn-libsvm": learn_libsvm,
    "sgd-by-scan": sgd_by_scan,
    "sgd-by-pandas": sgd_by_pandas,
    "vowpal-wabbit": vowpal_wabbit,
    "load-ridge": _loaded(lambda models: models.RidgeClassifier()),
    "load-sgd": _loaded(lambda models: models.SGDClassifier(random_state=0)),
    "load-sgd-once": _loaded(lambda models: models.SGDClassifier(random_state=0, max_iter=1, tol=None)),
}


def measure(name: str, path: str, test: str | None, width: int) -> None:
    """Print one line of JSON: seconds, rows, peak bytes, seconds since the process started, and accuracy."""
    work = MEASURES[name](path, width)
    start = time.perf_counter()
    rows, predict = work()
    end = time.perf_counter()
    answer = {"seconds": end - start, "since_start": end - STARTED, "rows": rows, "peak": peak_bytes()}
    if predict is not None and test is not None:
        import numpy as np

        with np.load(test) as held_out:
            answer["accuracy"] = float((predict(held_out["X"]) == held_out["y"]).mean())
    print(json.dumps(answer))


def peak_bytes() -> int:
    """Peak resident memory of this process."""
    # On Linux, ru_maxrss includes the peak of the parent process.
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(status.read_text().split("VmHWM:")[1].split()[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


@dataclass(frozen=True)
class Contender:
    """One row of a table: a measurement, its file, and the number of rows."""

    title: str
    name: str
    path: Path
    rows: int
    width: int = 28
    ours: bool = False


@dataclass(frozen=True)
class Summary:
    """Summary of several runs of one contender."""

    best: float
    median: float
    peak: int
    accuracy: float | None
    load: float

    @classmethod
    def of(cls, answers: list[dict[str, Any]]) -> Summary:
        seconds = [answer["seconds"] for answer in answers]
        load = min(answer["since_start"] - answer["seconds"] for answer in answers)
        peak = max(answer["peak"] for answer in answers)
        return cls(min(seconds), statistics.median(seconds), peak, answers[0].get("accuracy"), load)


class FileBenchmark:
    """Runs contenders and prints tables."""

    def __init__(self, folder: Path, rows: int, repeats: int, data: Path | None) -> None:
        from rich.console import Console

        self.folder, self.rows, self.repeats, self.data = folder, rows, repeats, data
        self.console = Console(width=118)

    def run(self, contender: Contender, test: Path | None) -> dict[str, Any]:
        command = [sys.executable, __file__, "--measure", contender.name, "--path", str(contender.path)]
        command += ["--width", str(contender.width)] + (["--test", str(test)] if test else [])
        answer = json.loads(subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout)
        if answer["rows"] not in (0, contender.rows):
            raise RuntimeError(f"{contender.title} read {answer['rows']:,} rows, not {contender.rows:,}.")
        return answer

    def run_in_turn(self, contenders: list[Contender], test: Path | None) -> dict[str, Summary]:
        """Run contenders in turn, several times, so that slow phases of the machine affect all alike."""
        self.warm({contender.path for contender in contenders})
        answers: dict[str, list[dict[str, Any]]] = {contender.title: [] for contender in contenders}
        for _ in range(self.repeats):
            for contender in contenders:
                answers[contender.title].append(self.run(contender, test))
        return {title: Summary.of(found) for title, found in answers.items()}

    def warm(self, paths: set[Path]) -> None:
        """Read files into the page cache."""
        import psutil

        total, free = sum(path.stat().st_size for path in paths), psutil.virtual_memory().available
        if total > 0.8 * free:
            self.console.print(f"{total / 1e9:.1f} GB of files, {free / 1e9:.1f} GB of memory: not all stay cached.")
        for path in paths:
            read_bytes(str(path), 0)()

    def compare(self, title: str, contenders: list[Contender], test: Path) -> tuple[dict[str, Summary], dict]:
        """Print a table; return the summaries, and the speedups of mergesvm over each contender."""
        from rich.table import Table

        found = self.run_in_turn(contenders, test)
        ours = next(contender for contender in contenders if contender.ours)
        headings = ("best s", "median s", "rows/s", "GB/s of file", "accuracy", "peak MB", "speedup")
        table = Table("", *headings, title=title)
        ratios = {}
        for contender in contenders:
            summary, scale = found[contender.title], ours.rows / contender.rows
            ratios[contender.title] = scale * summary.best / found[ours.title].best
            table.add_row(
                f"[bold]{contender.title}[/]" if contender.ours else contender.title,
                f"{scale * summary.best:.3f}",
                f"{scale * summary.median:.3f}",
                f"{contender.rows / summary.best:,.0f}",
                f"{contender.path.stat().st_size / summary.best / 1e9:.2f}",
                "" if summary.accuracy is None else f"{summary.accuracy:.2%}",
                f"{summary.peak / 1e6:.0f}",
                "" if contender.ours else f"{ratios[contender.title]:.2f}",
            )
        self.console.print(table)
        return found, ratios


def parquet(bench: FileBenchmark) -> None:
    import make_files

    path, test = make_files.parquet(bench.folder, bench.rows), make_files.held_out(bench.folder)
    fewer = min(bench.rows, MAX_VW_ROWS)
    text = make_files.vowpal_wabbit_text(bench.folder, fewer)
    ours = Contender("mergesvm", "learn-table", path, bench.rows, ours=True)
    found, _ = bench.compare(
        f"Parquet, {bench.rows:,} x {make_files.WIDTH} float32, {path.stat().st_size / 1e9:.2f} GB, 2 classes",
        [
            Contender("bytes of the file, reading only", "read-bytes", path, bench.rows),
            Contender("pyarrow.parquet, iter_batches only", "read-batches", path, bench.rows),
            Contender("pyarrow.dataset, reading only", "scan-parquet", path, bench.rows),
            ours,
            Contender("ms.scan + SGDClassifier.partial_fit", "sgd-by-scan", path, bench.rows),
            Contender("Vowpal Wabbit, text *", "vowpal-wabbit", text, fewer),
            Contender("Vowpal Wabbit, binary cache *", "vowpal-wabbit", make_files.vowpal_wabbit_cache(text), fewer),
        ],
        test,
    )
    first = bench.run(Contender("", "learn-table-first", path, bench.rows), None)
    bench.console.print(
        f"* measured on the first {fewer:,} rows in the format of Vowpal Wabbit; seconds are scaled to {bench.rows:,} "
        f"rows.\nmergesvm from the start of a process, with imports and loading of compiled functions: "
        f"{first['since_start']:.2f} s; imports and ms.precompile() alone: {found[ours.title].load:.2f} s\n",
        highlight=False,
    )


def csv(bench: FileBenchmark) -> None:
    import make_files

    rows = min(bench.rows, MAX_CSV_ROWS)
    plain, test = make_files.csv(bench.folder, rows), make_files.held_out(bench.folder)
    for path, kind in ((plain, "CSV"), (make_files.gzipped(plain), "CSV, gzipped")):
        scan = "pyarrow.csv, reading only"
        _, ratios = bench.compare(
            f"{kind}, {rows:,} x {make_files.WIDTH}, {path.stat().st_size / 1e9:.2f} GB, 2 classes",
            [
                Contender(scan, "scan-csv", path, rows),
                Contender("mergesvm", "learn-table", path, rows, ours=True),
                Contender(f"pandas by {CHUNK_ROWS:,} + SGD.partial_fit", "sgd-by-pandas", path, rows),
            ],
            test,
        )
        bench.console.print(f"{ratios[scan]:.0%} of the speed of pyarrow.csv\n", highlight=False)


def libsvm(bench: FileBenchmark) -> None:
    import make_files

    rows, width = min(bench.rows, MAX_LIBSVM_ROWS), make_files.SPARSE_WIDTH
    test = make_files.libsvm_held_out(bench.folder)
    about = f"{rows:,} x {width}, {make_files.STORED} values per row"
    for decimals, digits in ((4, "4 decimals"), (None, "all digits of float64")):
        path = make_files.libsvm(bench.folder, rows, decimals)
        _against_loading(bench, f"libsvm, {digits}", about, path, rows, width, test)
    if bench.data is not None:
        path = make_files.a9a_libsvm(bench.folder, bench.data)
        rows, width = 32_561 * make_files.A9A_TIMES, make_files.A9A_WIDTH
        about = f"{rows:,} x {width}, a9a {make_files.A9A_TIMES} times"
        _against_loading(
            bench, "libsvm, a9a", about, path, rows, width, make_files.a9a_held_out(bench.folder, bench.data)
        )


def _against_loading(
    bench: FileBenchmark, kind: str, about: str, path: Path, rows: int, width: int, test: Path
) -> None:
    peers = {
        "load_svmlight_file + RidgeClassifier": "load-ridge",
        "load_svmlight_file + SGDClassifier": "load-sgd",
        "load_svmlight_file + SGD, one epoch": "load-sgd-once",
    }
    contenders = [Contender("mergesvm", "learn-libsvm", path, rows, width, ours=True)]
    contenders += [Contender(title, name, path, rows, width) for title, name in peers.items()]
    bench.compare(f"{kind}: {about}, {path.stat().st_size / 1e9:.2f} GB", contenders, test)
    bench.console.print()


def growth(bench: FileBenchmark) -> None:
    """Time and memory by the number of rows."""
    from rich.table import Table

    import make_files

    sizes = [bench.rows // 4, bench.rows // 2, bench.rows]
    contenders = [
        Contender(f"{rows:,}", "learn-table", make_files.parquet(bench.folder, rows), rows, ours=True) for rows in sizes
    ]
    found = bench.run_in_turn(contenders, None)
    first = found[contenders[0].title]
    table = Table(
        "rows of Parquet",
        "best s",
        "median s",
        "ns per row",
        "x time",
        "peak MB",
        "x peak",
        title="Time and memory by rows",
    )
    for contender in contenders:
        summary = found[contender.title]
        table.add_row(
            contender.title,
            f"{summary.best:.3f}",
            f"{summary.median:.3f}",
            f"{1e9 * summary.best / contender.rows:.1f}",
            f"{summary.best / first.best:.2f}",
            f"{summary.peak / 1e6:.0f}",
            f"{summary.peak / first.peak:.2f}",
        )
    bench.console.print(table)
    bench.console.print()


def describe_machine(console) -> None:
    from importlib.metadata import version

    from machine import describe

    console.print(describe(os.cpu_count() or 1), highlight=False)
    peers = ", ".join(f"{name} {version(name)}" for name in ("pyarrow", "pandas", "vowpalwabbit", "psutil", "rich"))
    console.print(f"{peers}; {platform.system()} {platform.release()}\n", highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--folder", type=Path, help="folder for generated files (default: temporary)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", help="folder of data sets, for a9a (default: MERGESVM_DATA, else without a9a)")
    parser.add_argument("--measure", choices=MEASURES, help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    parser.add_argument("--test", help=argparse.SUPPRESS)
    parser.add_argument("--width", type=int, default=28, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure, arguments.path, arguments.test, arguments.width)
        return
    if arguments.folder is None:
        with tempfile.TemporaryDirectory() as folder:
            run_all(arguments, Path(folder))
    else:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        run_all(arguments, arguments.folder)


def run_all(arguments: argparse.Namespace, where: Path) -> None:
    from datasets import folder

    bench = FileBenchmark(where, arguments.rows, arguments.repeats, folder(arguments.data))
    describe_machine(bench.console)
    parts = {"parquet": parquet, "csv": csv, "libsvm": libsvm, "memory": growth}
    for name, run in parts.items():
        if name in arguments.only:
            run(bench)


if __name__ == "__main__":
    main()
