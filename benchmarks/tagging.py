"""Pictures tagged by brush strokes: time, growth, and quality beside a random forest: ``make bench-tagging``.

The pictures are those of ``pets``, and strokes are made from their trimaps. CPU times are those of one core.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console
from sklearn.metrics import average_precision_score
from threadpoolctl import threadpool_limits

import datasets
import mergesvm as ms
from machine import describe
from mergesvm.reproduce.paper_data import Source
from mergesvm.reproduce.tagging.photos import ANIMAL, UNKNOWN, Photo, load_photos
from mergesvm.reproduce.tagging.trials import TaggedPhoto, trained
from mergesvm.tagging.learners import LEARNERS, KernelLearner, KernelScorer, MergeLearner
from mergesvm.tagging.sampling import SamplingOptions
from mergesvm.tagging.session import TaggingSession, default_correlogram
from mergesvm.tagging.truth import PixelCounts
from mergesvm.tagging.windows import Windows
from pixel_forest import PixelForest, PixelSample
from tables import table

REPEATS = 7
REDUCED_SIZES = (20, 40)
VISIBLE = 24
"""As many pictures are seen at once in a page."""

console = Console(width=118)


def cpu_ms(function: Callable[[], Any]) -> float:
    """Milliseconds of CPU time, the least of several calls, which other programs on the machine hardly change."""
    found = []
    for _ in range(REPEATS):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return 1000 * min(found)


# Times of one picture


def print_times(photos: list[Photo]) -> None:
    """Print how long mapping and scoring of one picture take."""
    correlogram, sampling = default_correlogram(), SamplingOptions()
    pixels = np.asarray(Image.fromarray(photos[-1].pixels).resize((512, 512)))
    features = Windows.of(pixels, correlogram).features(correlogram)
    rows = [TaggedPhoto(photo, correlogram).rows(sampling) for photo in photos[:4]]
    shown = table(f"One picture of 512 x 512 pixels, {features.shape[0]:,} windows", "", "support vectors", "CPU ms")
    shown.add_row("map, from pixels to counts", "", f"{cpu_ms(lambda: Windows.of(pixels, correlogram)):.1f}")
    windows = Windows.of(pixels, correlogram)
    shown.add_row("features of the counts", "", f"{cpu_ms(lambda: windows.features(correlogram)):.1f}")
    for kind in (MergeLearner, KernelLearner):
        learner = kind(correlogram)
        pieces = [learner.piece(each) for each in rows]
        for count in (1, 4):
            scorer = trained(kind, pieces[:count], correlogram)
            scorers = [scorer]
            if isinstance(scorer, KernelScorer):
                X = np.concatenate([piece[0] for piece in pieces[:count]])
                scorers += [
                    KernelScorer(scorer.model.reduced(size, X))
                    for size in REDUCED_SIZES
                    if size < len(scorer.model.support_vectors_)
                ]
            for each in scorers:
                name = "merge" if kind is MergeLearner else "kernel" if each is scorer else "kernel, reduced"
                vectors = str(each.facts().get("support_vectors", ""))
                spent = f"{cpu_ms(lambda each=each: each.scores(features)):.2f}"
                shown.add_row(f"score: {name}, {count} tagged", vectors, spent)
    console.print(shown)


# Growth with pictures and tags


@dataclass(frozen=True)
class Spent:
    """Milliseconds until the first heat map, those of the visible pictures, and all; and CPU time of all."""

    first: float
    visible: float
    all: float
    cpu: float

    def cells(self) -> list[str]:
        return [f"{value:,.0f}" for value in (self.first, self.visible, self.all, self.cpu)]


def find_all(session: TaggingSession, tag: str, method: str, change: Callable[[], Any]) -> Spent:
    """Change the strokes, and compute the heat maps of all pictures."""
    wall, cpu, moments = time.perf_counter(), time.process_time(), []
    change()
    scorer = session.scorer(tag, method)
    assert scorer is not None
    for name in session.names:
        session.heat_map(scorer, name)
        moments.append(1000 * (time.perf_counter() - wall))
    return Spent(moments[0], moments[min(VISIBLE, len(moments)) - 1], moments[-1], 1000 * (time.process_time() - cpu))


def measure_change(session: TaggingSession, photos: list[Photo], method: str, tagged: int) -> tuple[Spent, Spent]:
    """Tag the last of some pictures, then forget it; the least of the repetitions."""
    tag, added, removed = f"{method} {tagged}", [], []

    def add(photo: Photo, name: str) -> list[str]:
        keys = [f"{tag} {name} {number}" for number in range(len(photo.strokes()))]
        for key, stroke in zip(keys, photo.strokes(), strict=True):
            session.add(key, name, tag, stroke)
        return keys

    for photo in photos[: tagged - 1]:
        add(photo, f"00-{photo.name}")
    last, keys = photos[tagged - 1], []
    if tagged > 1:
        session.scorer(tag, method)
    for _ in range(2 if len(session.names) < 500 else 1):
        added.append(find_all(session, tag, method, lambda: keys.extend(add(last, f"00-{last.name}"))))
        if tagged > 1:
            removed.append(find_all(session, tag, method, lambda: session.remove(keys)))
        else:
            session.remove(keys)
            session.scorer(tag, method)  # nothing is learned from the picture any more
        keys.clear()
    least = min(added, key=lambda each: each.cpu)
    return least, min(removed, key=lambda each: each.cpu) if removed else least


def print_growth(source: Path, photos: list[Photo], sizes: list[int]) -> None:
    """Print times from a stroke to the heat maps of all pictures, with the windows cached."""
    originals = sorted((source / "pets" / "images").glob("*.jpg"))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(max(sizes)):
            copy, at = divmod(number, len(originals))
            shutil.copyfile(originals[at], Path(folder) / f"{copy:02d}-{originals[at].name}")
        with closing(TaggingSession(Path(folder))) as session:
            start = time.process_time()
            session.prepare(threading.Event())
            spent = time.process_time() - start
            console.print(f"{len(session.names):,} pictures mapped and cached in {spent:.0f} s of CPU", highlight=False)
            shown = table(
                "From a stroke to heat maps, windows cached, ms",
                "", "pictures", "tagged", "first", f"first {VISIBLE}", "all", "all, CPU", "forget: all", "CPU",
            )  # fmt: skip
            names = session.names
            for method in LEARNERS:
                for size in sizes:
                    session.names = names[:size]
                    for tagged in (1, 4, 8) if size == sizes[0] else (4,):
                        added, removed = measure_change(session, photos, method, tagged)
                        forgotten = removed.cells()[2:] if tagged > 1 else ["", ""]
                        shown.add_row(method, f"{size:,}", str(tagged), *added.cells(), *forgotten)
                    session.annotations.remove([each.key for each in session.annotations.of()])
            console.print(shown)


# Quality


def quality(scores: list[np.ndarray], truths: list[np.ndarray], threshold: float) -> list[float]:
    """Average precision, precision and recall of windows; those on the edge of the animal do not count."""
    score, truth = np.concatenate(scores), np.concatenate(truths)
    score, truth = score[truth != UNKNOWN], truth[truth != UNKNOWN] == ANIMAL
    counts = PixelCounts.of(score > threshold, truth)
    return [float(average_precision_score(truth, score)), counts.precision or 0.0, counts.recall or 0.0]


def ours(kind: Any, tagged: list[TaggedPhoto], tests: list[TaggedPhoto]) -> list[float]:
    """Quality of a learner, and seconds of CPU from the last stroke to the scores of one picture."""
    correlogram = tagged[0].correlogram
    learner = kind(correlogram)
    pieces = [learner.piece(each.rows(SamplingOptions())) for each in tagged[:-1]]
    start = time.process_time()
    pieces.append(learner.piece(tagged[-1].rows(SamplingOptions())))
    scorer = trained(kind, pieces, correlogram)
    scorer.scores(Windows.of(tests[0].photo.pixels, correlogram).features(correlogram))
    spent = time.process_time() - start
    return [*quality([scorer.scores(each.features) for each in tests], [each.truth for each in tests], 0.0), spent]


def forest(tagged: list[PixelSample], tests: list[TaggedPhoto], coarse: list[PixelSample]) -> list[float]:
    """Quality of a random forest on pixels, and seconds of CPU from the last stroke to the scores of one picture."""
    start = time.process_time()
    machine = PixelForest.fit(tagged)
    fitted = time.process_time() - start
    scores = [machine.window_scores(each.coarse, view) for each, view in zip(coarse, tests, strict=True)]
    spent = tagged[-1].seconds + fitted + machine.seconds_of(tests[0])
    return [*quality(scores, [view.truth for view in tests], 0.5), spent]


def print_quality(kinds: dict[str, list[Photo]], tagged_counts: list[int]) -> None:
    """Print the quality of windows and the time of one picture by learner and number of tagged pictures."""
    correlogram, shares = default_correlogram(), []
    found: dict[tuple[str, int], list[list[float]]] = {}
    for photos in kinds.values():
        views = [TaggedPhoto(photo, correlogram) for photo in photos]
        samples = [PixelSample.of(view) for view in views]
        tests, coarse = views[max(tagged_counts) :], samples[max(tagged_counts) :]
        truth = np.concatenate([view.truth for view in tests])
        shares.append((truth == ANIMAL).sum() / (truth != UNKNOWN).sum())
        for count in tagged_counts:
            for name, kind in LEARNERS.items():
                found.setdefault((name, count), []).append(ours(kind, views[:count], tests))
            found.setdefault(("random forest", count), []).append(forest(samples[:count], tests, coarse))
    title = (
        f"{len(kinds)} breeds, {len(tests)} pictures of each that are never tagged; {np.mean(shares):.0%} of windows"
    )
    shown = table(
        f"{title} show the animal", "", "tagged", "average precision", "worst breed", "precision", "recall", "CPU s",
    )  # fmt: skip
    for name in (*LEARNERS, "random forest"):
        for count in tagged_counts:
            rows = np.array(found[name, count])
            mean = rows.mean(axis=0)
            cells = (f"{mean[0]:.3f}", f"{rows[:, 0].min():.3f}", f"{mean[1]:.2f}", f"{mean[2]:.2f}", f"{mean[3]:.2f}")
            shown.add_row(name, str(count), *cells)
    console.print(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of data sets (default: MERGESVM_DATA)")
    parser.add_argument("--only", nargs="+", choices=("times", "growth", "quality"))
    parser.add_argument("--pictures", nargs="+", type=int, default=[120, 500, 2000], help="sizes of the library")
    parser.add_argument("--breeds", type=int, default=4, help="number of breeds whose quality is measured")
    parser.add_argument("--tagged", nargs="+", type=int, default=[1, 2, 4, 8], help="numbers of tagged pictures")
    options = parser.parse_args()
    chosen, folder = options.only or ("times", "growth", "quality"), datasets.folder(options.data)
    kinds = load_photos(Source(folder, quick=False), 0)
    console.print(describe(1), highlight=False)
    ms.precompile(estimators=True)
    first = next(iter(kinds.values()))
    with threadpool_limits(1):
        if "times" in chosen:
            print_times(first)
        if "growth" in chosen:
            print_growth(folder, first, options.pictures)
        if "quality" in chosen:
            print_quality(
                dict(list(kinds.items())[:: max(1, len(kinds) // options.breeds)][: options.breeds]), options.tagged
            )


if __name__ == "__main__":
    main()
