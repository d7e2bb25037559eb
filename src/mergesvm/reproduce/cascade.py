"""The cascade of Zhang and Zhu: weightings of unbalanced classes, and the speedup of many ranks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from mergesvm.cli.console import Console, check_output
from mergesvm.cli.options import AsJson, Debug, Quiet
from mergesvm.features.maps.hidden_layer import HiddenLayer
from mergesvm.knowledge.learning.learn import learn
from mergesvm.methods.proximal.solve import solve
from mergesvm.report.charts.pictures import KINDS
from mergesvm.reproduce.cascade_cost import Measured
from mergesvm.reproduce.cascade_picture import Point, save_cascade_picture
from mergesvm.reproduce.cascade_times import core_count, find_mpiexec, measure, put_rows
from mergesvm.reproduce.paper_data import ADULT, data_folder
from mergesvm.reproduce.shared import WIDTH, waiting, whole_numbers
from mergesvm.reproduce.unbalanced import WEIGHTINGS, Draw

PAPER = {100_000: (87.92, 82.91, 89.77), 120_000: (87.89, 82.56, 88.96), 140_000: (87.80, 82.89, 89.54)}
"""Table 1: accuracy in per cent of each weighting, by the number of rows."""

Figures = list[dict[str, Any]]


def cascade_command(
    data: Annotated[Path | None, typer.Option(help="Folder with a9a; MERGESVM_DATA by default, else OpenML.")] = None,
    ranks: Annotated[str, typer.Option(help="Numbers of ranks, with commas; begins with 1.")] = "1,2,4,8",
    positives: Annotated[
        str, typer.Option(help="Rows of the frequent class, several with commas.")
    ] = "80000,100000,120000",
    negatives: Annotated[int, typer.Option(min=1, help="Rows of the rare class.")] = 20_000,
    test: Annotated[int, typer.Option(min=1, help="Rows of each class to test on, which are not learned.")] = 5_000,
    draws: Annotated[int, typer.Option(min=1, help="How many times rows are drawn; accuracies are averages.")] = 5,
    hidden: Annotated[
        int, typer.Option(min=0, help="Width of the hidden layer of a heavier workload; 0 for none.")
    ] = 1_000,
    repeat: Annotated[int, typer.Option(min=1, help="How many times each is timed; the best counts.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0,
    picture: Annotated[Path, typer.Option(help="Where to save the picture.")] = Path("mergesvm-cascade.png"),
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Parallel incremental proximal SVM: weightings of unbalanced classes, speedup and efficiency of a cascade."""
    talk, counts = Console(quiet, as_json), sorted(set(whole_numbers(ranks, "--ranks")) | {1})
    frequents = sorted(set(whole_numbers(positives, "--positives")))
    check_output(picture, True, *KINDS)
    find_mpiexec()  # says so now, if there is none
    X, y = ADULT.rows(data_folder(data))
    X = X.astype(np.float64)
    drawn = [Draw.of(X, y, negatives, frequents[-1], test, seed + number) for number in range(draws)]
    figures = _weigh(talk, drawn, frequents)
    curves, runs = {}, {}
    for name, measured, off in _runs(talk, drawn[0], sorted({frequents[0], frequents[-1]}), hidden, counts, repeat):
        curves[name] = curve(measured, core_count())
        runs[name] = [_said(run, point, off) for run, point in zip(measured, curves[name], strict=True)]
        _show_curve(talk, name, measured, curves[name], off)
    saved = save_cascade_picture(picture, curves)
    talk.out.print(
        f"The picture is in {escape(str(picture))}."
        if saved
        else "No picture: matplotlib is not installed. Install it with: pip install 'mergesvm\\[plots]'"
    )
    talk.result(table=figures, cores=core_count(), runs=runs, picture=str(picture) if saved else None, seed=seed)


def _weigh(talk: Console, drawn: Sequence[Draw], frequents: Sequence[int]) -> Figures:
    """Table 1: the accuracy of each weighting, averaged over draws."""
    with waiting(talk, f"{len(drawn)} draws of {drawn[0].n_rare + frequents[-1]:,} rows"):
        found = 100 * np.array([draw.accuracies(frequents, C=1.0) for draw in drawn])
    figures: Figures = []
    for at, count in enumerate(frequents):
        n_rows = drawn[0].n_rare + count
        shares = np.array([drawn[0].n_rare, count]) / n_rows
        for which, name in enumerate(WEIGHTINGS):
            halves = found[:, at, which]
            even = halves.mean(axis=1)
            paper = PAPER.get(n_rows)
            figures.append(
                {
                    "rows": n_rows,
                    "weighting": name,
                    "class_weight": WEIGHTINGS[name],
                    "accuracy": float(even.mean()),
                    "deviation": float(even.std()),
                    "rare": float(halves[:, 0].mean()),
                    "frequent": float(halves[:, 1].mean()),
                    "as_learned": float((halves @ shares).mean()),
                    "paper": None if paper is None else paper[which],
                }
            )
    _show_table(talk, figures, drawn[0], len(drawn))
    return figures


def _show_table(talk: Console, figures: Figures, draw: Draw, n_draws: int) -> None:
    table = Table(
        title=f"Adult, {draw.X.shape[1]} features, {draw.n_rare:,} rows of the rare class, C = 1; accuracy in per cent "
        f"on {len(draw.test) // 2:,} + {len(draw.test) // 2:,} others, {n_draws} draws",
        title_justify="left",
    )
    columns = ("rows", "weighting", "class_weight", "accuracy", "±", "paper", "rare class", "frequent", "as learned")
    for column in columns:
        table.add_column(column, justify="left" if column in ("weighting", "class_weight") else "right")
    for row in figures:
        table.add_row(
            f"{row['rows']:,}",
            row["weighting"],
            str(row["class_weight"]),
            *(f"{row[name]:.2f}" for name in ("accuracy", "deviation")),
            "" if row["paper"] is None else f"{row['paper']:.2f}",
            *(f"{row[name]:.2f}" for name in ("rare", "frequent", "as_learned")),
        )
    talk.table(table, WIDTH)
    talk.out.print("as learned: if test rows were of the two classes in the proportion of the rows that were learned")


def _runs(
    talk: Console, draw: Draw, frequents: Sequence[int], hidden: int, counts: Sequence[int], repeats: int
) -> Iterator[tuple[str, list[Measured], float]]:
    """Each workload by each number of ranks, and how far their models are off that of all rows at once."""
    workloads = [(count, 0) for count in frequents] + ([(frequents[-1], hidden)] if hidden else [])
    for count, width in workloads:
        n_rows = draw.n_rare + count
        X, y = draw.mixed(n_rows, seed=0)
        features = HiddenLayer(width, seed=0, precision="float64").freeze(X) if width else None
        name = f"{n_rows:,} rows x {width or X.shape[1]:,} {'hidden ' if width else ''}features"
        with tempfile.TemporaryDirectory() as folder:
            put_rows(Path(folder), X, y, features)
            measured = []
            for ranks in counts:
                with waiting(talk, f"{name}, {ranks} rank{'' if ranks == 1 else 's'}"):
                    measured.append(measure(Path(folder), n_rows, ranks, repeats))
        model = solve(learn(X, y, features=features), 1.0, "complement")
        batch = np.append(model.coef_, model.intercept_)
        off = max(float(np.abs(np.array(run.coefficients) - batch).max()) for run in measured)
        yield name, measured, off / float(np.abs(batch).max())


def curve(measured: Sequence[Measured], cores: int) -> list[Point]:
    """The speedup of each number of ranks: by wall time where there is a core for each rank, and as reckoned."""
    one = measured[0]
    return [
        Point(run.ranks, one.wall / run.wall if run.ranks <= cores else None, one.reckoned / run.reckoned)
        for run in measured
    ]


def _said(run: Measured, point: Point, off: float) -> dict[str, Any]:
    """A run for machines."""
    found = {**asdict(run), "expected": run.expected, "joining": run.joining, "reckoned": run.reckoned, "off": off}
    found.pop("coefficients")
    return {**found, "speedup_measured": point.measured, "speedup_reckoned": point.reckoned}


def _show_curve(talk: Console, name: str, measured: Sequence[Measured], points: Sequence[Point], off: float) -> None:
    table = Table(title=f"{name}: learned by ranks, added up a tree, and solved; in milliseconds", title_justify="left")
    parts = ("learning", "tree", "solving")
    for column in ("ranks", "wall", "speedup", "efficiency", "reckoned", *parts, "speedup", "efficiency", "sent"):
        table.add_column(column, justify="right")
    for run, point in zip(measured, points, strict=True):
        seconds = (run.reckoned, min(run.learning), run.joining, run.solving)
        measured_here = (
            [""] * 3 if point.measured is None else [f"{1e3 * run.wall:,.1f}", *_shares(point, point.measured)]
        )
        table.add_row(
            str(run.ranks),
            *measured_here,
            *(f"{1e3 * part:,.1f}" for part in seconds),
            *_shares(point, point.reckoned),
            f"{run.sent:,}",
        )
    talk.table(table, WIDTH)
    exact = all(run.sent == run.expected for run in measured)
    talk.out.print(
        f"reckoned: the CPU time of the busiest rank, and the tree from its bytes and rounds, and from latency and "
        f"bandwidth\nbetween two ranks. sent: bytes, {'exactly' if exact else 'NOT'} those of the model. Coefficients "
        f"off those of all rows at once by {off:.0e}."
    )


def _shares(point: Point, speedup: float) -> list[str]:
    return [f"{speedup:.2f}", f"{point.efficiency(speedup):.3f}"]
