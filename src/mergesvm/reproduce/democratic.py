"""Tables of the papers, with our figures beside theirs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from mergesvm.cli.console import Console
from mergesvm.cli.options import AsJson, Debug, Quiet
from mergesvm.engines.threads import Threads
from mergesvm.estimators.pegasos_svc import PegasosSVC
from mergesvm.knowledge.learning.learn import learn
from mergesvm.methods.proximal.solve import solve
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.multiclass.votes import TIE_RULES, count_votes, winners
from mergesvm.reproduce.cascade import cascade_command
from mergesvm.reproduce.paper_data import PaperData, chosen_data, data_folder
from mergesvm.reproduce.shared import WIDTH, waiting, whole_numbers

reproduce = typer.Typer(
    no_args_is_help=True, help="Produce the tables of the papers anew, with their figures beside ours."
)

reproduce.command("cascade", epilog="Example: `mergesvm reproduce cascade --data folder --ranks 1,2,4,8`")(
    cascade_command
)

VARIANCE = 0.9999

STEPS = {
    "mnist": (1_000, 10_000, 50_000, 100_000, 1_000_000),
    "fashion": (1_000, 10_000, 50_000, 100_000, 1_000_000),
    "emnist": (1_000, 10_000, 50_000, 100_000),
}

PAPER = {
    "mnist": {1_000: (0.69, 0.07, 86.05), 10_000: (5.3, 0.78, 89.8), 50_000: (25.99, 3.47, 91.06),
              100_000: (51.6, 7.14, 91.09)},
    "fashion": {1_000: (1.12, 0.16, 75.56), 10_000: (4.5, 0.7, 82.54), 50_000: (19.3, 2.53, 84.34),
                100_000: (37.9, 4.97, 83.92), 1_000_000: (372.6, 46.8, 84.9)},
    "emnist": {1_000: (17.3, 3.1, 64.7), 10_000: (132.8, 17.8, 67.07), 50_000: (646.0, 87.2, 67.45)},
}  # fmt: skip
"""Of each number of steps the paper's serial and parallel seconds, on 8 threads, and its accuracy in per cent."""


@dataclass(frozen=True)
class Split:
    """Rows as principal components, to learn from and to test on."""

    X: NDArray[Any]
    y: NDArray[Any]
    test: NDArray[Any]
    truth: NDArray[Any]

    @classmethod
    def of(cls, data: PaperData, folder: Path | None, seed: int) -> Split:
        """Load a set, and keep 99.99 % of the variance of its training rows, found from their sums alone."""
        X, y, test, truth = data.load(folder, seed)
        components = learn(X, y).pca(VARIANCE, precision="float32")
        unit = np.float32(255)  # pixels as shares of white, so that one lambda suits all sets
        return cls(components.transform(X) / unit, y, components.transform(test) / unit, truth)


@reproduce.command(epilog="Example: `mergesvm reproduce democratic --data folder --only mnist`")
def democratic(
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with mnist, fashion-mnist and emnist; MERGESVM_DATA by default, else OpenML."),
    ] = None,
    only: Annotated[str | None, typer.Option(help="mnist, fashion or emnist, several with commas.")] = None,
    steps: Annotated[
        str | None, typer.Option(help="Steps a pair, several with commas; by default the paper's.")
    ] = None,
    strength: Annotated[
        float, typer.Option("--lambda", help="Weight of the coefficients, which the paper keeps to itself.")
    ] = 1e-4,
    C: Annotated[float, typer.Option("--C", "-C", help="Of the closed form.")] = 1.0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Threads of the parallel run; one a core by default.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the split and of the steps.")] = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Parallel democratic support vector machines: Pegasos one-vs-one by vote, serial and parallel, and closed form."""
    talk, folder, chosen = Console(quiet, as_json), data_folder(data), chosen_data(only)
    wanted = None if steps is None else whole_numbers(steps, "--steps")
    engine = Threads(workers)
    results: dict[str, Any] = {}
    _warm_up()
    for name, paper_data in chosen.items():
        split = Split.of(paper_data, folder, seed)
        closed = _closed_form(split, C)
        rows = []
        for n_iter in wanted or STEPS[name]:
            with waiting(talk, f"{paper_data.title}, {n_iter:,} steps a pair"):
                rows.append(_run(split, n_iter, strength, engine.workers, seed))
        results[name] = {
            "closed_form": closed,
            "runs": [{k: v for k, v in row.items() if k != "model"} for row in rows],
        }
        _show(talk, name, paper_data, split, rows, closed, engine.workers)
        if len(np.unique(split.y)) > 10:
            ties = _ties(split, rows[-1]["model"]), _ties(split, closed.pop("model"))
            results[name]["ties"] = dict(zip(("pegasos", "closed_form"), ties, strict=True))
            _show_ties(talk, rows[-1]["steps"], *ties)
        closed.pop("model", None)
    talk.result(variance=VARIANCE, strength=strength, C=C, workers=engine.workers, seed=seed, sets=results)


def _warm_up() -> None:
    """Load the compiled kernels, so that the first of the runs does not pay for all."""
    PegasosSVC(n_iter=1, n_jobs=1).fit(np.zeros((2, 1), dtype=np.float32), [0, 1])


def _closed_form(split: Split, C: float) -> dict[str, Any]:
    start = time.perf_counter()
    model = solve(learn(split.X, split.y), C, multiclass="ovo")
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "accuracy": 100 * model.score(split.test, split.truth), "model": model}


def _run(split: Split, n_iter: int, strength: float, workers: int, seed: int) -> dict[str, Any]:
    """As in the paper, with the last step's planes, no intercept and its tie rule, serial and parallel; and ours."""
    terms: dict[str, Any] = {"lambda_": strength, "n_iter": n_iter, "random_state": seed, "fit_intercept": False}
    seconds = {}
    for name, jobs in (("serial", 1), ("parallel", workers)):
        start = time.perf_counter()
        machine = PegasosSVC(**terms, average=0.0, ties="sequential", n_jobs=jobs).fit(split.X, split.y)
        seconds[name] = time.perf_counter() - start
    averaged = PegasosSVC(**terms, n_jobs=workers).fit(split.X, split.y)
    return {
        "steps": n_iter,
        **seconds,
        "accuracy": 100 * machine.score(split.test, split.truth),
        "averaged": 100 * averaged.score(split.test, split.truth),
        "model": machine.model_,
    }


def _show(
    talk: Console,
    name: str,
    data: PaperData,
    split: Split,
    rows: list[dict[str, Any]],
    closed: dict[str, Any],
    workers: int,
) -> None:
    n_classes = len(np.unique(split.y))
    table = Table(
        title=f"{data.title}: {len(split.y):,} rows to learn, {len(split.truth):,} to test, "
        f"{split.X.shape[1]} components, {n_classes} classes, {n_classes * (n_classes - 1) // 2:,} pairs",
        title_justify="left",
    )
    for column in (
        "T",
        "serial s",
        "paper",
        f"parallel s ({workers})",
        "paper (8)",
        "accuracy %",
        "paper",
        "averaged %",
        "closed form %",
    ):
        table.add_column(column, justify="right")
    for row in rows:
        serial, parallel, accuracy = PAPER[name].get(row["steps"], (None, None, None))
        table.add_row(
            f"{row['steps']:,}",
            f"{row['serial']:.2f}",
            _figure(serial),
            f"{row['parallel']:.2f}",
            _figure(parallel),
            f"{row['accuracy']:.2f}",
            _figure(accuracy),
            f"{row['averaged']:.2f}",
            f"{closed['accuracy']:.2f}",
        )
    talk.table(table, WIDTH)
    talk.out.print(f"closed form, learned and solved in {closed['seconds']:.2f} s on all cores")


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _ties(split: Split, model: PairwiseModel) -> dict[str, Any]:
    """How often the most votes are shared, and how accurate each rule is, on all test rows and on those."""
    n_classes = len(model.classes_)
    tied: list[NDArray[np.bool_]] = []
    right: dict[str, list[NDArray[np.bool_]]] = {rule: [] for rule in TIE_RULES}
    for start in range(0, len(split.test), 4096):
        scores = model.scores(split.test[start : start + 4096])
        truth = split.truth[start : start + 4096]
        votes = count_votes(scores, n_classes)
        tied.append((votes == votes.max(axis=1, keepdims=True)).sum(axis=1) > 1)
        for rule in TIE_RULES:
            right[rule].append(model.classes_[winners(scores, n_classes, rule)] == truth)
    shared = np.concatenate(tied)
    correct = {rule: np.concatenate(found) for rule, found in right.items()}
    return {
        "tied": 100 * float(shared.mean()),
        **{rule: 100 * float(found.mean()) for rule, found in correct.items()},
        **{f"{rule}_when_tied": 100 * float(found[shared].mean()) for rule, found in correct.items() if shared.any()},
    }


def _show_ties(talk: Console, n_iter: int, pegasos: dict[str, Any], closed: dict[str, Any]) -> None:
    table = Table(title="Ties: rows on which several classes share the most votes", title_justify="left")
    for column in ("model", "tied rows %", *(f"{rule} %" for rule in TIE_RULES)):
        table.add_column(column, justify="left" if column == "model" else "right")
    for title, found in ((f"Pegasos, {n_iter:,} steps", pegasos), ("closed form", closed)):
        table.add_row(title, f"{found['tied']:.2f}", *(f"{found[rule]:.2f}" for rule in TIE_RULES))
        table.add_row(
            "  on the tied rows alone", "", *(f"{found.get(f'{rule}_when_tied', 0.0):.2f}" for rule in TIE_RULES)
        )
    talk.table(table, WIDTH)
