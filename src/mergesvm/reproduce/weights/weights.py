"""Table 1 of Zhang and Zhu: accuracy of three weightings of unbalanced classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mergesvm.reproduce.paper_data import ADULT, Source
from mergesvm.reproduce.reproduction import Reproduction
from mergesvm.reproduce.tables import ResultTable, Status
from mergesvm.reproduce.weights.draws import WEIGHTINGS, Draw

PAPER = {100_000: (87.92, 82.91, 89.77), 120_000: (87.89, 82.56, 88.96), 140_000: (87.80, 82.89, 89.54)}
"""Table 1 of the paper: accuracy in per cent of each weighting, by the number of rows."""


@dataclass(frozen=True)
class Sizes:
    """Numbers of rows that are drawn."""

    rare: int  # rows of the rare class
    frequent: tuple[int, ...]  # numbers of rows of the frequent class, one after another
    test: int  # test rows of each class
    draws: int  # random draws over which accuracies are averaged


FULL = Sizes(20_000, (80_000, 100_000, 120_000), 5_000, 5)
QUICK = Sizes(200, (800, 1_000, 1_200), 50, 2)


@dataclass
class Weights(Reproduction):
    """Accuracy of each weighting as rows of the frequent class are added."""

    name: ClassVar[str] = "weights"

    source: Source
    seed: int
    sizes: Sizes
    found: list[dict[str, Any]] = field(init=False, default_factory=list)

    def tables(self, status: Status) -> Iterator[ResultTable]:
        """Table 1."""
        sizes = self.sizes
        frequent = sorted(set(sizes.frequent))
        X, y = ADULT.rows(self.source, self.seed)
        X = X.astype(np.float64)
        with status(f"{sizes.draws} draws of {sizes.rare + frequent[-1]:,} rows"):
            draws = [
                Draw.of(X, y, sizes.rare, frequent[-1], sizes.test, self.seed + number) for number in range(sizes.draws)
            ]
            accuracies = 100 * np.array([draw.accuracies(frequent, C=1.0) for draw in draws])
        for at, count in enumerate(frequent):
            for index, name in enumerate(WEIGHTINGS):
                self.found.append(_figures(name, index, sizes.rare, count, accuracies[:, at, index]))
        yield self._table(X.shape[1])

    def _table(self, width: int) -> ResultTable:
        sizes = self.sizes
        return ResultTable(
            f"{ADULT.described(self.source)}, {width} features, {sizes.rare:,} rows of the rare class, C = 1; accuracy "
            f"in per cent on {sizes.test:,} + {sizes.test:,} held-out rows, {sizes.draws} draws",
            ("rows", "weighting", "class_weight", "accuracy", "±", "paper", "rare class", "frequent", "as learned"),
            [
                (
                    f"{row['rows']:,}",
                    row["weighting"],
                    str(row["class_weight"]),
                    *(f"{row[name]:.2f}" for name in ("accuracy", "deviation")),
                    "" if row["paper"] is None else f"{row['paper']:.2f}",
                    *(f"{row[name]:.2f}" for name in ("rare", "frequent", "as_learned")),
                )
                for row in self.found
            ],
            ("weighting", "class_weight"),
            "as learned: accuracy if the classes of the test rows had the proportions of the training rows",
        )

    def figures(self) -> dict[str, Any]:
        """The rows of the table."""
        return {"table": self.found}

    def remarks(self) -> list[str]:
        """What differs from the paper."""
        return [
            "The paper learns more rows than Adult has; here they are drawn with replacement from rows that are not "
            "tested, and columns are encoded as in a9a, because the paper does not say how.",
            "The test rows are half of each class, as in the paper. There, unweighted classes hardly suffer from more "
            "rows of the frequent class; here only their accuracy as learned does not.",
        ]

    def draw(self, *axes: Any) -> None:
        """Accuracy by the number of rows, ours and the paper's, and that of each class."""
        both, by_class = axes
        for number, name in enumerate(WEIGHTINGS):
            rows = [row for row in self.found if row["weighting"] == name]
            at, colour = [row["rows"] for row in rows], f"C{number}"
            both.plot(
                at,
                [row["accuracy"] for row in rows],
                "o-",
                color=colour,
                label=f"{name}, class_weight={rows[0]['class_weight']}",
            )
            paper = [row for row in rows if row["paper"] is not None]
            both.plot(
                [row["rows"] for row in paper],
                [row["paper"] for row in paper],
                "*--",
                color=colour,
                mfc="white",
                markersize=11,
            )
            by_class.plot(at, [row["rare"] for row in rows], "v-", color=colour, label=f"{name}: rare class")
            by_class.plot(at, [row["frequent"] for row in rows], "^--", color=colour, label=f"{name}: frequent class")
        title, label = "Both classes in equal numbers (stars: table 1 of the paper)", "accuracy in per cent"
        both.set(title=title, ylabel=label, ylim=(50, 100))
        by_class.set(title="Each class", ylabel=label, ylim=(0, 105))
        for each in axes:
            each.set_xlabel(f"training rows, {self.sizes.rare:,} of which are of the rare class")
            each.set_xticks(sorted({row["rows"] for row in self.found}))
            each.legend(fontsize="small")


def _figures(name: str, index: int, rare: int, frequent: int, by_class: np.ndarray[Any, Any]) -> dict[str, Any]:
    """One row of the table from the accuracies of each draw and class, the rare one first."""
    n_rows = rare + frequent
    balanced = by_class.mean(axis=1)
    return {
        "rows": n_rows,
        "weighting": name,
        "class_weight": WEIGHTINGS[name],
        "accuracy": float(balanced.mean()),
        "deviation": float(balanced.std()),
        "rare": float(by_class[:, 0].mean()),
        "frequent": float(by_class[:, 1].mean()),
        "as_learned": float((by_class @ [rare / n_rows, frequent / n_rows]).mean()),
        "paper": PAPER[n_rows][index] if n_rows in PAPER else None,
    }
