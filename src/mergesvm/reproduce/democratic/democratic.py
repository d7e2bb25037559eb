"""Parallel democratic support vector machines (Vieira and Lerena): Pegasos by vote, beside the closed form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np

from mergesvm.engines.threads import Threads
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.reproduce.democratic import tables
from mergesvm.reproduce.democratic.runs import ClosedForm, PegasosRun, choose_strength, warm_up
from mergesvm.reproduce.democratic.split import EXPLAINED_VARIANCE, Split
from mergesvm.reproduce.democratic.votes import ConfusedPair, confused_pairs, tie_figures
from mergesvm.reproduce.paper_data import PaperData, Source
from mergesvm.reproduce.reproduction import Reproduction
from mergesvm.reproduce.tables import ResultTable, Status

STEPS = {
    "mnist": (1_000, 10_000, 50_000, 100_000, 1_000_000),
    "fashion": (1_000, 10_000, 50_000, 100_000, 1_000_000),
    "emnist": (1_000, 10_000, 50_000, 100_000),
}
"""Numbers of steps in the tables of the paper."""

MIN_CLASSES_FOR_TIES = 11
"""Ties are reported for data sets with at least this many classes."""

N_CONFUSED = 8
"""Number of confused pairs that are shown."""


@dataclass(frozen=True)
class Sizes:
    """Numbers of steps."""

    steps: tuple[int, ...] | None  # None: those of the paper
    choosing: int  # steps with which lambda is chosen


FULL = Sizes(None, 10_000)
QUICK = Sizes((1_000, 10_000), 1_000)


@dataclass
class DataSetResult:
    """What was found for one data set."""

    title: str
    closed: ClosedForm
    strengths: dict[float, float] | None  # accuracy of each lambda on held-out training rows; None if it was given
    runs: list[PegasosRun] = field(default_factory=list)
    confused: list[ConfusedPair] = field(default_factory=list)
    ties: dict[str, Any] | None = None

    def figures(self) -> dict[str, Any]:
        """All numbers, for JSON."""
        found: dict[str, Any] = {"strengths": self.strengths, "closed_form": self.closed.figures()}
        found["runs"] = [run.figures() for run in self.runs]
        found["confused"] = [asdict(pair) for pair in self.confused]
        return found if self.ties is None else found | {"ties": self.ties}


@dataclass
class Democratic(Reproduction):
    """Times and accuracies of Pegasos one-vs-one with several numbers of steps."""

    name: ClassVar[str] = "democratic"
    size: ClassVar[tuple[float, float]] = (15, 4.6)
    n_axes: ClassVar[int] = 3

    source: Source
    seed: int
    sizes: Sizes
    chosen: Mapping[str, PaperData]
    strength: float | None  # lambda; None to choose it for each data set
    C: float  # of the closed form
    workers: int | None
    results: dict[str, DataSetResult] = field(init=False, default_factory=dict)

    def tables(self, status: Status) -> Iterator[ResultTable]:
        """The tables of each data set."""
        warm_up()
        for name, data in self.chosen.items():
            yield from self._data_set(name, data, status)

    def _data_set(self, name: str, data: PaperData, status: Status) -> Iterator[ResultTable]:
        title, workers = data.described(self.source), Threads(self.workers).workers
        split = Split.of(data, self.source, self.seed)
        strengths = None
        if self.strength is None:
            with status(f"{title}, choosing lambda"):
                strengths = choose_strength(split, self.sizes.choosing, self.seed)
            yield tables.strength_table(title, strengths, self.sizes.choosing)
        lambda_ = self.strength or next(iter(strengths or {}))
        result = self.results[name] = DataSetResult(title, ClosedForm.of(split, self.C), strengths)
        for steps in self.sizes.steps or STEPS[name]:
            with status(f"{title}, {steps:,} steps per pair"):
                result.runs.append(PegasosRun.of(split, steps, lambda_, workers, self.seed))
        yield tables.accuracy_table(name, title, split, result.runs, result.closed, workers)
        last, closed = result.runs[-1], result.closed
        predicted = np.asarray(last.model.predict(split.test))
        result.confused = confused_pairs(split.truth, predicted, N_CONFUSED)
        names = () if self.source.bundled else data.class_names
        yield tables.confusion_table(title, names, result.confused, name == "emnist" and not self.source.bundled)
        if split.n_classes >= MIN_CLASSES_FOR_TIES:
            assert isinstance(last.model, PairwiseModel)
            assert isinstance(closed.model, PairwiseModel)
            ties = tie_figures(split, last.model), tie_figures(split, closed.model)
            result.ties = dict(zip(("pegasos", "closed_form"), ties, strict=True))
            yield tables.tie_table(last.steps, *ties)

    def figures(self) -> dict[str, Any]:
        """The options, and what was found for each data set."""
        sets = {name: result.figures() for name, result in self.results.items()}
        workers = Threads(self.workers).workers
        return {
            "variance": EXPLAINED_VARIANCE,
            "strength": self.strength,
            "C": self.C,
            "workers": workers,
            "sets": sets,
        }

    def remarks(self) -> list[str]:
        """What differs from the paper."""
        return [
            "The paper does not state lambda. Here it is chosen on training rows that are held out, and the model is "
            "then trained on all of them; pixels are between 0 and 1.",
            "The paper shrinks the coefficients by 1 - eta; here it is 1 - eta lambda, as Pegasos needs.",
            "EMNIST is the balanced split only if it comes from OpenML; from a folder, it is the by-merge test rows, "
            "at most 2,800 per class. The paper's 46 classes and 990 pairs do not fit together; 47 classes have 1,081 "
            "pairs.",
            "The paper's times are of another computer, with 8 threads, and another language.",
        ]

    def draw(self, *axes: Any) -> None:
        """Accuracy against the number of steps, ours and the paper's, for each data set."""
        for each in axes[len(self.results) :]:
            each.set_visible(False)
        for each, (name, result) in zip(axes, self.results.items(), strict=False):
            steps = [run.steps for run in result.runs]
            each.semilogx(steps, [run.accuracy for run in result.runs], "o-", label="as in the paper")
            each.semilogx(steps, [run.averaged for run in result.runs], "s-", label="averaged coefficients")
            each.axhline(result.closed.accuracy, color="0.5", linestyle="--", label="closed form")
            if not self.source.quick:
                paper = tables.PAPER[name]
                each.semilogx(
                    list(paper), [row[2] for row in paper.values()], "k*:", markersize=10, label="the paper's"
                )
            title = f"{result.title}, lambda = {result.runs[0].lambda_:g}"
            each.set(title=title, xlabel="steps per pair", ylabel="accuracy in per cent")
            each.legend()
