"""Figures 3 and 4 of Alpcan and Bauckhage: finding animals by brush strokes on one picture, another, and both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.features.maps.correlogram import Correlogram
from mergesvm.reproduce.paper_data import Source
from mergesvm.reproduce.reproduction import Reproduction
from mergesvm.reproduce.tables import ResultTable, Status
from mergesvm.reproduce.tagging.photos import ANIMAL, load_photos
from mergesvm.reproduce.tagging.trials import TRAININGS, TaggedPhoto, run_trial, trained
from mergesvm.tagging.heat_map import HeatMap
from mergesvm.tagging.learners import KernelLearner
from mergesvm.tagging.sampling import SamplingOptions
from mergesvm.tagging.session import default_correlogram

PANELS = ("true positive", "false positive", "false negative", "true negative")
"""The panels of figure 4, clockwise from the upper left in the paper."""


@dataclass(frozen=True)
class Sizes:
    """What is run."""

    support_vectors: tuple[int, ...]  # sizes of reduced kernel machines
    pairs: int  # pairs of tagged pictures for each kind of animal
    sampling: SamplingOptions


FULL = Sizes((5, 10, 20, 40), 2, SamplingOptions())
QUICK = Sizes((5,), 1, SamplingOptions(inside=40, outside=80))


@dataclass
class Tagging(Reproduction):
    """Precision and recall against the number of support vectors, averaged over kinds of animal and pairs."""

    name: ClassVar[str] = "tagging"
    size: ClassVar[tuple[float, float]] = (22, 4.5)
    n_axes: ClassVar[int] = 6

    source: Source
    seed: int
    sizes: Sizes
    found: list[dict[str, Any]] = field(init=False, default_factory=list)
    panels: list[tuple[TaggedPhoto, HeatMap]] = field(init=False, default_factory=list)

    def tables(self, status: Status) -> Iterator[ResultTable]:
        """Figure 3 as a table."""
        correlogram, trials = default_correlogram(), []
        kinds = load_photos(self.source, self.seed)
        for kind, photos in kinds.items():
            with status(f"{kind}, {len(photos)} pictures"):
                tagged = [TaggedPhoto(photo, correlogram) for photo in photos]
                for pair in range(min(self.sizes.pairs, len(photos) // 2)):
                    two = tagged[2 * pair], tagged[2 * pair + 1]
                    others = [each for each in tagged if each not in two]
                    trials.append(run_trial(two, others, self.sizes.support_vectors, self.sizes.sampling))
                if not self.panels:
                    self.panels = self._find_panels(tagged, correlogram)
        self.found = _averages(trials)
        yield self._table(len(kinds), len(trials))

    def _table(self, n_kinds: int, n_trials: int) -> ResultTable:
        rows = [
            (
                row["learner"],
                "" if row["support_vectors"] is None else f"{row['support_vectors']:.0f}",
                *(f"{row[training][name]:.2f}" for training in TRAININGS for name in ("precision", "recall")),
            )
            for row in self.found
        ]
        columns = [f"{name} {short}" for short in ("1", "2", "1 + 2") for name in ("precision", "recall")]
        return ResultTable(
            f"{n_kinds} kinds of animal, {n_trials} pairs of tagged pictures; windows of the others of the kind",
            ("learner", "vectors", *columns),
            rows,
            ("learner",),
            "vectors: support vectors, on average over the trials of pictures 1 + 2",
        )

    def figures(self) -> dict[str, Any]:
        """The rows of the table."""
        return {"table": self.found}

    def remarks(self) -> list[str]:
        """What differs from the paper."""
        return [
            "The paper prints no numbers for figure 3. Its pictures of tigers are not available; here the results are "
            "averaged over kinds of pets, with strokes made from their masks: three lines through each animal.",
            "As in the paper, training on both pictures raises the recall of the kernel machine at a similar "
            "precision, and the number of support vectors matters little.",
            "A window counts as the animal if its centre does. The square root of the proportions of a correlogram is "
            "taken, which the paper does not; support vectors are reduced after training.",
        ]

    def draw(self, *axes: Any) -> None:
        """Figure 3: precision and recall; figure 4: pictures with what was found."""
        kernel = [row for row in self.found if row["learner"] == "kernel"]
        for name, axis in zip(("precision", "recall"), axes[:2], strict=True):
            for training in TRAININGS:
                line = [row[training][name] for row in kernel]
                axis.plot([row["support_vectors"] for row in kernel], line, "o-", label=f"kernel, {training}")
            for number, training in enumerate(TRAININGS):
                (merge,) = (row for row in self.found if row["learner"] == "merge")
                axis.axhline(merge[training][name], color=f"C{number}", ls=":", label=f"merge, {training}")
            axis.set(title=f"Figure 3: {name}", xlabel="support vectors", ylim=(0, 1))
        axes[0].legend(fontsize="small")
        for panel, axis, (tagged, heat_map) in zip(PANELS, axes[2:], self.panels, strict=False):
            axis.imshow(tagged.photo.pixels)
            axis.imshow(_tinted(heat_map.mask()))
            axis.set_title(f"Figure 4: {panel}")
        for axis in axes[2:]:
            axis.axis("off")

    def _find_panels(
        self, tagged: Sequence[TaggedPhoto], correlogram: Correlogram
    ) -> list[tuple[TaggedPhoto, HeatMap]]:
        """The pictures with the largest fraction of windows of each kind: true and false, positive and negative."""
        learner = KernelLearner(correlogram)
        pieces = [learner.piece(each.rows(self.sizes.sampling)) for each in tagged[:2]]
        scorer = trained(KernelLearner, pieces, correlogram)
        maps: list[tuple[TaggedPhoto, HeatMap]] = []
        chosen: list[tuple[TaggedPhoto, HeatMap]] = []
        for each in tagged[2:]:
            height, width = each.patch
            scores = scorer.scores(each.features).reshape(each.windows.grid)
            maps.append((each, HeatMap(scores, each.windows.size, (height // 2, width // 2), 8)))
        for positive, right in ((True, True), (True, False), (False, False), (False, True)):

            def fraction(item: tuple[TaggedPhoto, HeatMap], positive: bool = positive, right: bool = right) -> float:
                found, true = item[1].scores.ravel() > 0, item[0].truth == ANIMAL
                return float(np.mean((found == positive) & ((found == true) == right)))

            left = [item for item in maps if not any(item[0] is other[0] for other in chosen)] or maps
            chosen.append(max(left, key=fraction))
        return chosen


def _averages(trials: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Average precision and recall over trials: one row per learner and size, with all trainings."""
    rows: dict[tuple[str, int | None], dict[str, Any]] = {}
    for cells in zip(*trials, strict=True):
        first = cells[0]
        row = rows.setdefault((first["learner"], first["size"]), {"learner": first["learner"], "size": first["size"]})
        means = {}
        for name in ("precision", "recall"):
            values = [cell[name] for cell in cells if cell[name] is not None]
            means[name] = float(np.mean(values)) if values else 0.0
        row[first["training"]] = means
        vectors = [cell["support_vectors"] for cell in cells]
        row["support_vectors"] = None if vectors[0] is None else float(np.mean(vectors))
    return list(rows.values())


def _tinted(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return a mask as a translucent picture."""
    return np.where(mask[..., None], [1.0, 0.4, 0.0, 0.5], 0.0)
