"""Cost model of many workers: measured constants, comparison with MPI ranks, and a simulation: ``make bench-scaling``.

Also draws the picture of docs/scaling.md.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import mergesvm as ms
from machine import describe
from mergesvm.engines import Threads
from mergesvm.engines.machine import cores
from mergesvm.reproduce.cascade.cost import (
    Handling,
    Link,
    Load,
    Measured,
    joining_seconds,
    scattered_seconds,
    sum_bytes,
    tree_depth,
)
from mergesvm.reproduce.cascade.launch import measure, put_rows
from mergesvm.reproduce.cascade.ranks import descriptions, measure_handling
from mergesvm.reproduce.timing import min_cpu_seconds
from tables import table

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "scaling.png"
WIDTHS = {28: 1_000_000, 123: 200_000, 500: 40_000, 1_000: 20_000, 2_000: 8_000}
"""Widths, and the number of rows that are timed."""

CHECKED = (123, 1_000)
RANKS = (1, 2, 4, 8)
NETWORKS = {"10 Gbit/s, 50 µs": Link(50e-6, 10e9 / 8), "100 Gbit/s, 5 µs": Link(5e-6, 100e9 / 8)}
"""Typical values, not measured."""

WORKERS = 2 ** np.arange(11)
MAX_WORKERS, ALL_ROWS = 1_024, 10**12

console = Console(width=118)


@dataclass(frozen=True)
class Constants:
    """Costs of one core for rows of one width and two classes."""

    width: int
    start: float
    row: float
    load: Load
    handling: Handling

    def learning(self, rows: float) -> float:
        return self.start + rows * self.row


def made(rows: int, width: int):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((rows, width))
    return X, (X[:, 0] + generator.standard_normal(rows) > 0).astype(np.int64)


def constants_of(width: int, rows: int, repeats: int) -> Constants:
    """Measure the time per call and per row on one core, from runs with two numbers of rows."""
    X, y = made(rows, width)
    few = rows // 16
    with Threads.single_threaded_blas():
        long, short = (min_cpu_seconds(repeats, partial(ms.learn, n_jobs=1), X[:n], y[:n]) for n in (rows, few))
        known = ms.learn(X[:few], y[:few], n_jobs=1)
    row = (long - short) / (rows - few)
    handling, size = measure_handling(known, repeats)
    assert size == sum_bytes(width, 2)
    return Constants(width, max(short - few * row, 0.0), row, Load(sum(map(len, descriptions(known))), size), handling)


def show_constants(found: dict[int, Constants]) -> None:
    units = ("call ms", "row µs", "description bytes", "sums bytes", "pack ns/B", "add ns/B", "agree µs")
    shown = table("Constants of one core, 2 classes, dense float64 rows", "width", *units)
    for width, at in found.items():
        handling = at.handling
        per_byte = (handling.packing, handling.adding)
        shown.add_row(
            f"{width:,}",
            f"{1e3 * at.start:.2f}",
            f"{1e6 * at.row:.3f}",
            f"{at.load.described:,}",
            f"{at.load.size:,}",
            *(f"{1e9 * value:.2f}" for value in per_byte),
            f"{1e6 * handling.agreeing:.0f}",
        )
    console.print(shown)


def check(at: Constants, repeats: int) -> None:
    """Compare the model with times and traffic of MPI ranks."""
    rows = WIDTHS[at.width]
    with tempfile.TemporaryDirectory() as folder:
        put_rows(Path(folder), *made(rows, at.width))
        runs = [measure(Path(folder), rows, ranks, repeats) for ranks in RANKS]
    links = [run.link for run in runs if run.link is not None]
    link = Link(min(each.latency for each in links), max(each.bandwidth for each in links))
    shown = table(
        f"{rows:,} rows x {at.width:,}: model and MPI ranks (link: {1e6 * link.latency:.1f} µs, "
        f"{link.bandwidth / 1e9:.1f} GB/s), in milliseconds",
        *("ranks", "CPU, model", "measured", "error", "tree, model", "wall, model", "measured", "bytes, model"),
        "counted",
    )
    for run in runs:
        add_run(at, run, link, shown)
    console.print(shown)


def bytes_by_model(at: Constants, ranks: int) -> int:
    """Bytes sent: each rank describes its knowledge to all others, and all but the root send their sums once."""
    return (ranks - 1) * (ranks * at.load.described + at.load.size)


def add_run(at: Constants, run: Measured, link: Link, shown: Table) -> None:
    """Add one number of ranks to the table."""
    learning, busy = at.learning(run.rows / run.ranks), min(run.learning)
    joining = joining_seconds(at.load, run.ranks, link, at.handling)
    wall = f"{1e3 * run.wall:,.1f}" if run.ranks <= cores() else ""
    shown.add_row(
        str(run.ranks),
        f"{1e3 * learning:,.1f}",
        f"{1e3 * busy:,.1f}",
        f"{busy / learning - 1:+.1%}",
        f"{1e3 * joining:.2f}",
        f"{1e3 * (learning + joining + run.solving):,.1f}",
        wall,
        f"{bytes_by_model(at, run.ranks):,}",
        f"{run.sent:,}",
    )


def show_simulation(found: dict[int, Constants]) -> None:
    shown = table(
        f"SIMULATION: 10^12 rows on {MAX_WORKERS:,} workers with one such core each",
        *("width", "learning", "tree (10)", "tree (100)", "break-even rows per worker (10)", "(100)"),
    )
    for width, at in found.items():
        trees = [joining_seconds(at.load, MAX_WORKERS, link, at.handling) for link in NETWORKS.values()]
        shown.add_row(
            f"{width:,}",
            duration(at.learning(ALL_ROWS / MAX_WORKERS)),
            *(duration(tree) for tree in trees),
            *(f"{tree / at.row:,.0f}" for tree in trees),
        )
    console.print(shown)


def show_remedies(at: Constants, half: Constants) -> None:
    """Ways to shorten the merge, by the model."""
    pooled = Load(at.load.described, sum_bytes(at.width, 2, per_class=False))
    shown = table(
        f"SIMULATION: merging the knowledge of {MAX_WORKERS:,} workers, {at.width:,} features and 2 classes",
        *("method", "(10)", "(100)", "break-even rows per worker (10)", "(100)"),
    )
    ways = {
        "tree": lambda link: joining_seconds(at.load, MAX_WORKERS, link, at.handling),
        "tree, pooled form": lambda link: joining_seconds(pooled, MAX_WORKERS, link, at.handling),
        "tree, half the features": lambda link: joining_seconds(half.load, MAX_WORKERS, link, half.handling),
        "tree of 64 nodes, 16 threads each": lambda link: joining_seconds(
            at.load, MAX_WORKERS // 16, link, at.handling
        ),
        "reduce-scatter, gather (not in MPI)": lambda link: scattered_seconds(at.load, MAX_WORKERS, link, at.handling),
    }
    for name, way in ways.items():
        seconds = [way(link) for link in NETWORKS.values()]
        row = half.row if "half" in name else at.row
        shown.add_row(name, *(duration(each) for each in seconds), *(f"{each / row:,.0f}" for each in seconds))
    console.print(shown)


def duration(seconds: float) -> str:
    for unit, scale in (("days", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= scale:
            return f"{seconds / scale:.1f} {unit}"
    return f"{1e3 * seconds:.1f} ms"


def draw(found: dict[int, Constants]) -> None:
    figure = Figure(figsize=(15, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    whole, efficiency, even = figure.subplots(1, 3)
    styles = dict(zip(NETWORKS, ("--", "-"), strict=True))
    for number, (width, at) in enumerate(found.items()):
        for name, link in NETWORKS.items():
            trees = np.array([joining_seconds(at.load, int(p), link, at.handling) for p in WORKERS])
            learning = np.array([at.learning(ALL_ROWS / p) for p in WORKERS])
            style = {"color": f"C{number}", "linestyle": styles[name]}
            whole.loglog(
                WORKERS,
                (learning + trees) / 3600,
                **style,
                label=f"{width:,} features" if styles[name] == "-" else None,
            )
            even.loglog(WORKERS[1:], trees[1:] / at.row, **style)
    at = found[CHECKED[-1]]
    for number, rows in enumerate((10**6, 10**7, 10**8, 10**9, ALL_ROWS)):
        for name, link in NETWORKS.items():
            times = [at.learning(rows / p) + joining_seconds(at.load, int(p), link, at.handling) for p in WORKERS]
            label = f"$10^{{{len(str(rows)) - 1}}}$ rows" if styles[name] == "-" else None
            efficiencies = times[0] / np.array(times) / WORKERS
            efficiency.semilogx(WORKERS, efficiencies, color=f"C{number}", linestyle=styles[name], label=label)
    whole.set(title="Hours to learn $10^{12}$ rows", xlabel="workers", ylabel="hours")
    efficiency.set(title=f"Efficiency, {at.width:,} features", xlabel="workers", ylim=(0, 1.05))
    even.set(title="Break-even rows per worker", xlabel="workers")
    for axes in (whole, efficiency):
        axes.legend()
    figure.suptitle(
        "SIMULATION by the cost model, one core per worker, 2 classes; dashed: " + ", solid: ".join(NETWORKS)
    )
    figure.savefig(PICTURE, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    console.print(describe(1), highlight=False)
    ms.precompile()
    found = {width: constants_of(width, rows, options.repeats) for width, rows in WIDTHS.items()}
    show_constants(found)
    for width in CHECKED:
        check(found[width], options.repeats)
    show_simulation(found)
    show_remedies(found[2_000], found[1_000])
    console.print(
        f"(10): {', (100): '.join(NETWORKS)}. Break-even: merging takes as long as learning. A tree of {MAX_WORKERS:,} "
        f"workers has {tree_depth(MAX_WORKERS)} levels.\nPicture: docs/pictures/{PICTURE.name}",
        highlight=False,
    )
    draw(found)


if __name__ == "__main__":
    main()
