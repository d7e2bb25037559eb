"""The tables of the paper beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mergesvm.reproduce.democratic.runs import ClosedForm, PegasosRun
from mergesvm.reproduce.democratic.split import Split
from mergesvm.reproduce.democratic.votes import COMPARED_RULES, ConfusedPair
from mergesvm.reproduce.tables import ResultTable

PAPER = {
    "mnist": {1_000: (0.69, 0.07, 86.05), 10_000: (5.3, 0.78, 89.8), 50_000: (25.99, 3.47, 91.06),
              100_000: (51.6, 7.14, 91.09)},
    "fashion": {1_000: (1.12, 0.16, 75.56), 10_000: (4.5, 0.7, 82.54), 50_000: (19.3, 2.53, 84.34),
                100_000: (37.9, 4.97, 83.92), 1_000_000: (372.6, 46.8, 84.9)},
    "emnist": {1_000: (17.3, 3.1, 64.7), 10_000: (132.8, 17.8, 67.07), 50_000: (646.0, 87.2, 67.45)},
}  # fmt: skip
"""The paper's serial and parallel seconds, on 8 threads, and accuracy in per cent, by the number of steps."""

PAPER_CONFUSED = ("1IJL", "FP", "0O", "UV")
"""The characters of EMNIST that the paper lists as confused with one another."""


def strength_table(title: str, accuracies: Mapping[float, float], steps: int) -> ResultTable:
    """Accuracy of each lambda on held-out training rows."""
    strengths = sorted(accuracies)
    return ResultTable(
        f"{title}: lambda chosen on held-out training rows, {steps:,} steps per pair, trained as in the paper",
        ("lambda", *(f"{strength:g}" for strength in strengths), "chosen"),
        [("accuracy %", *(f"{accuracies[strength]:.2f}" for strength in strengths), f"{next(iter(accuracies)):g}")],
        ("lambda",),
    )


def accuracy_table(
    name: str, title: str, split: Split, runs: Sequence[PegasosRun], closed: ClosedForm, workers: int
) -> ResultTable:
    """Times and accuracies beside those of the paper."""
    rows = []
    for run in runs:
        paper = PAPER.get(name, {}).get(run.steps, (None, None, None))
        serial, parallel, accuracy = ("" if value is None else f"{value:g}" for value in paper)
        rows.append(
            (
                f"{run.steps:,}",
                f"{run.serial:.2f}",
                serial,
                f"{run.parallel:.2f}",
                parallel,
                f"{run.accuracy:.2f}",
                accuracy,
                f"{run.averaged:.2f}",
                f"{closed.accuracy:.2f}",
            )
        )
    columns = ("T", "serial s", "paper", f"parallel s ({workers})", "paper (8)", "accuracy %", "paper")
    return ResultTable(
        f"{title}: {len(split.y):,} training rows, {len(split.truth):,} test rows, {split.X.shape[1]} components, "
        f"{split.n_classes} classes, {split.n_classes * (split.n_classes - 1) // 2:,} pairs",
        (*columns, "averaged %", "closed form %"),
        rows,
        note=f"lambda = {runs[0].lambda_:g}. closed form: learned and solved in {closed.seconds:.2f} s on all cores",
    )


def tie_table(steps: int, pegasos: dict[str, Any], closed: dict[str, Any]) -> ResultTable:
    """Accuracy of each tie rule."""
    rows = []
    for title, found in ((f"Pegasos, {steps:,} steps", pegasos), ("closed form", closed)):
        when_tied = (f"{found.get(f'{rule}_when_tied', 0.0):.2f}" for rule in COMPARED_RULES)
        rows += [
            (title, f"{found['tied']:.2f}", *(f"{found[rule]:.2f}" for rule in COMPARED_RULES)),
            ("  on the tied rows alone", "", *when_tied),
        ]
    return ResultTable(
        "Ties: rows for which several classes have the most votes",
        ("model", "tied rows %", *(f"{rule} %" for rule in COMPARED_RULES)),
        rows,
        ("model",),
    )


def confusion_table(title: str, names: Sequence[str], pairs: Sequence[ConfusedPair], as_emnist: bool) -> ResultTable:
    """The most confused pairs; those of EMNIST beside the characters that the paper names."""
    rows = []
    for pair in pairs:
        first, second = (names[label] if label < len(names) else str(label) for label in (pair.first, pair.second))
        row = (f"{first} and {second}", f"{pair.rows:,}", f"{100 * pair.fraction:.1f}")
        rows.append((*row, "yes" if any({first, second} <= set(group) for group in PAPER_CONFUSED) else "no"))
    width = 4 if as_emnist else 3
    return ResultTable(
        f"{title}: the most confused pairs of classes, trained as in the paper",
        ("pair", "rows", "% of all errors", "named in the paper")[:width],
        [row[:width] for row in rows],
        ("pair", "named in the paper"),
    )
