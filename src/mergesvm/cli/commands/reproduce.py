"""``mergesvm reproduce``: the tables and figures of the papers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mergesvm.cli.console import AsJson, Console, Debug, Quiet
from mergesvm.cli.outputs import check_output
from mergesvm.errors import ParameterError
from mergesvm.reports.figures import SUFFIXES

if TYPE_CHECKING:
    from mergesvm.reproduce.tables import ResultTable

TABLE_WIDTH = 118
"""Width of the tables in characters."""

MIN_CLASSES_FOR_TIES = 11
"""Ties are reported for data sets with at least this many classes."""

reproduce_command = typer.Typer(no_args_is_help=True, help="Reproduce the tables and figures of the papers.")


@reproduce_command.command("cascade", epilog="Example: `mergesvm reproduce cascade --data folder --ranks 1,2,4,8`")
def cascade_command(
    data: Annotated[Path | None, typer.Option(help="Folder with a9a; default: MERGESVM_DATA, else OpenML.")] = None,
    ranks: Annotated[str, typer.Option(help="Numbers of ranks, separated by commas; 1 is always used.")] = "1,2,4,8",
    positives: Annotated[
        str, typer.Option(help="Numbers of rows of the frequent class, separated by commas.")
    ] = "80000,100000,120000",
    negatives: Annotated[int, typer.Option(min=1, help="Number of rows of the rare class.")] = 20_000,
    test: Annotated[int, typer.Option(min=1, help="Number of test rows of each class.")] = 5_000,
    draws: Annotated[int, typer.Option(min=1, help="Number of random draws over which accuracies are averaged.")] = 5,
    hidden: Annotated[
        int, typer.Option(min=0, help="Width of the hidden layer of an additional workload; 0 for none.")
    ] = 1_000,
    repeat: Annotated[int, typer.Option(min=1, help="Repetitions of each timing; the best one counts.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    picture: Annotated[Path, typer.Option(help="File for the picture.")] = Path("mergesvm-cascade.png"),
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Parallel incremental proximal SVM (Zhang and Zhu): class weights, speedup and efficiency of a cascade."""
    import numpy as np
    from rich.markup import escape

    from mergesvm.engines.machine import cores
    from mergesvm.reproduce import cascade
    from mergesvm.reproduce.cascade_picture import save_cascade_picture
    from mergesvm.reproduce.cascade_times import find_mpiexec
    from mergesvm.reproduce.paper_data import ADULT, data_folder
    from mergesvm.reproduce.unbalanced import Draw

    console, counts = Console(quiet, as_json), sorted({1, *_positive_integers(ranks, "--ranks")})
    frequents = sorted(set(_positive_integers(positives, "--positives")))
    check_output(picture, True, *SUFFIXES)
    find_mpiexec()  # raises an error before the work if there is none
    X, y = ADULT.rows(data_folder(data))
    X = X.astype(np.float64)
    drawn = [Draw.of(X, y, negatives, frequents[-1], test, seed + number) for number in range(draws)]
    with _status(console, f"{draws} draws of {negatives + frequents[-1]:,} rows"):
        figures = cascade.weighting_figures(drawn, frequents)
    _print_table(console, cascade.weighting_table(figures, drawn))
    curves, runs, n_cores = {}, {}, cores()
    timed = sorted({frequents[0], frequents[-1]})
    for workload in cascade.measure_workloads(
        drawn[0], timed, hidden, counts, repeat, lambda text: _status(console, text)
    ):
        curves[workload.name], runs[workload.name] = workload.curve(n_cores), workload.figures(n_cores)
        _print_table(console, workload.table(n_cores))
    saved = save_cascade_picture(picture, curves)
    console.out.print(
        f"The picture is in {escape(str(picture))}."
        if saved
        else "No picture: matplotlib is not installed. Install it with: pip install 'mergesvm\\[plots]'"
    )
    console.result(table=figures, cores=n_cores, runs=runs, picture=str(picture) if saved else None, seed=seed)


@reproduce_command.command("democratic", epilog="Example: `mergesvm reproduce democratic --data folder --only mnist`")
def democratic_command(
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with mnist, fashion-mnist and emnist; default: MERGESVM_DATA, else OpenML."),
    ] = None,
    only: Annotated[str | None, typer.Option(help="mnist, fashion or emnist, separated by commas.")] = None,
    steps: Annotated[
        str | None, typer.Option(help="Numbers of steps per pair, separated by commas; default: those of the paper.")
    ] = None,
    strength: Annotated[
        float, typer.Option("--lambda", help="Weight of the coefficients, which the paper does not state.")
    ] = 1e-4,
    C: Annotated[float, typer.Option("--C", "-C", help="C of the closed form.")] = 1.0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Threads of the parallel run; default: one per core.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the steps.")] = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Parallel democratic SVM (Vieira and Lerena): Pegasos one-vs-one by vote, beside the closed form."""
    from mergesvm.engines.threads import Threads
    from mergesvm.models.pairwise import PairwiseModel
    from mergesvm.reproduce import democratic
    from mergesvm.reproduce.paper_data import chosen_data, data_folder

    console, folder, chosen = Console(quiet, as_json), data_folder(data), chosen_data(only)
    requested = None if steps is None else _positive_integers(steps, "--steps")
    n_threads = Threads(workers).workers
    results: dict[str, Any] = {}
    democratic.warm_up()
    for name, paper_data in chosen.items():
        split = democratic.Split.of(paper_data, folder, seed)
        closed, runs = democratic.ClosedForm.of(split, C), []
        for n_steps in requested or democratic.STEPS[name]:
            with _status(console, f"{paper_data.title}, {n_steps:,} steps per pair"):
                runs.append(democratic.PegasosRun.of(split, n_steps, strength, n_threads, seed))
        results[name] = {"closed_form": closed.figures(), "runs": [run.figures() for run in runs]}
        _print_table(console, democratic.accuracy_table(name, paper_data, split, runs, closed, n_threads))
        last = runs[-1]
        if split.n_classes >= MIN_CLASSES_FOR_TIES:
            assert isinstance(last.model, PairwiseModel)
            assert isinstance(closed.model, PairwiseModel)
            ties = democratic.tie_figures(split, last.model), democratic.tie_figures(split, closed.model)
            results[name]["ties"] = dict(zip(("pegasos", "closed_form"), ties, strict=True))
            _print_table(console, democratic.tie_table(last.steps, *ties))
    variance = democratic.EXPLAINED_VARIANCE
    console.result(variance=variance, strength=strength, C=C, workers=n_threads, seed=seed, sets=results)


def _positive_integers(text: str, option: str) -> list[int]:
    """Parse positive integers separated by commas.

    >>> _positive_integers("1,2,4", "--ranks")
    [1, 2, 4]
    """
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise ParameterError(f"{option} must be positive integers separated by commas. Got {text!r}.")
    return numbers


def _status(console: Console, text: str) -> AbstractContextManager[Any]:
    from rich.console import Console as RichConsole

    return RichConsole(stderr=True, quiet=console.silent).status(text)


def _print_table(console: Console, table: ResultTable) -> None:
    from rich.table import Table

    shown = Table(title=table.title, title_justify="left")
    for column in table.columns:
        shown.add_column(column, justify="left" if column in table.text_columns else "right")
    for row in table.rows:
        shown.add_row(*row)
    console.table(shown, TABLE_WIDTH)
    if table.note:
        console.out.print(table.note, markup=False)
