"""A tagging session: pictures of a folder, the strokes on them, and what was learned from these."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import DataError, FileError, MissingFileError
from mergesvm.features.maps.correlogram import Correlogram
from mergesvm.features.ops.image import Image
from mergesvm.tagging.annotations import Annotation, Annotations
from mergesvm.tagging.heat_map import HeatMap
from mergesvm.tagging.learners import LEARNERS, PatchRows, TagLearner, WindowScorer
from mergesvm.tagging.pictures import find_picture, list_pictures, open_picture
from mergesvm.tagging.sampling import SamplingOptions, sample_patches
from mergesvm.tagging.strokes import Stroke
from mergesvm.tagging.truth import PixelCounts, TruthFolder
from mergesvm.tagging.windows import WindowCache, Windows

STATE_FOLDER = ".mergesvm"
"""The folder beside the pictures for strokes and the cache of windows."""

STROKES_FILE = "strokes.sqlite"


def default_correlogram() -> Correlogram:
    """Return the map of the paper: 256 colours at distance 5 in patches of 100 x 60 pixels, from 0 to 255 each."""
    ends = np.zeros((2, 60 * 100 * 3), dtype=np.uint8)
    ends[1] = np.arange(ends.shape[1]) % 256
    return Correlogram().freeze(ends)


@dataclass
class _Entry:
    """The learner of a tag, the strokes of each picture that it has learned, and a lock of both."""

    learner: TagLearner
    learned: dict[str, Any]
    borrowed: set[str]  # pictures whose counter-examples come from another picture
    lock: threading.RLock


class TaggingSession:
    """Pictures in a folder, tagged by strokes. The strokes are kept in a file; all else is computed from them.

    All methods may be called from several threads.

    Parameters
    ----------
    folder : Path
        The folder of the pictures. Strokes and cached features are kept in its sub-folder ``.mergesvm``.
    correlogram : Correlogram, optional
        The map of patches, frozen; by default that of the paper.
    sampling : SamplingOptions, optional
    truth : Path, optional
        A folder of masks, for :meth:`accuracy`.
    """

    def __init__(
        self,
        folder: Path,
        correlogram: Correlogram | None = None,
        sampling: SamplingOptions | None = None,
        truth: Path | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.names = list_pictures(self.folder)
        if not self.names:
            raise MissingFileError(
                f"There are no pictures in {folder}. Give a folder with JPEG, PNG, TIFF or WebP files."
            )
        self.correlogram = default_correlogram() if correlogram is None else correlogram
        self.truth = None if truth is None else TruthFolder(truth)
        self.sampling = SamplingOptions() if sampling is None else sampling
        state = self.folder / STATE_FOLDER
        state.mkdir(exist_ok=True)
        self.annotations = Annotations(state / STROKES_FILE)
        self.cache = WindowCache(self.folder, state / "windows", self.correlogram)
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._lock = threading.Lock()
        image = Image.of(self.correlogram.image, self.correlogram.layout.width)
        self._patch = (image.height, image.width)

    def close(self) -> None:
        """Close the file of strokes."""
        self.annotations.close()

    def prepare(self, stop: threading.Event) -> None:
        """Compute the windows of all pictures that are not in the cache yet, until stopped."""
        for name in self.names:
            if stop.is_set():
                return
            try:
                self.windows(name)
            except (FileError, OSError):
                continue  # a broken picture is shown as such where it is opened

    def check_name(self, name: str) -> Path:
        """Return the path of a picture of the folder; an error if there is none of this name."""
        return find_picture(self.folder, name)

    def add(self, key: str, picture: str, tag: str, stroke: Stroke, author: str = "") -> Annotation:
        """Keep a stroke; it is on disk when this returns."""
        self.check_name(picture)
        return self.annotations.add(key, picture, tag, stroke, author)

    def remove(self, keys: Sequence[str]) -> list[Annotation]:
        """Remove strokes, and forget what was learned from them."""
        return self.annotations.remove(keys)

    def facts(self, tag: str, method: str = "merge") -> dict[str, Any]:
        """Return what there is to say about the learner of a tag: its pictures, and the size of its model."""
        with self._up_to_date(tag, method) as learner:
            scorer = learner.scorer()
            size = {} if scorer is None else scorer.facts()
            return {"pictures": learner.pictures, "trained": scorer is not None, **size}

    def scorer(self, tag: str, method: str = "merge") -> WindowScorer | None:
        """Return the model of a tag as of now; None as long as there is nothing to tell the tag from."""
        with self._up_to_date(tag, method) as learner:
            return learner.scorer()

    def heat_map(self, scorer: WindowScorer, picture: str) -> HeatMap:
        """Return where a model finds its tag in a picture. A broken picture is a :class:`FileError`."""
        windows = self.windows(picture)
        scores = scorer.scores(windows.features(self.correlogram)).reshape(windows.grid)
        origin = (self._patch[0] // 2, self._patch[1] // 2)
        return HeatMap(scores, windows.size, origin, self.cache.step)

    def accuracy(self, tag: str, method: str = "merge", threshold: float = 0.0) -> PixelCounts:
        """Compare what is found in pictures that are not tagged with their true masks, pixel by pixel."""
        scorer, counts = self.scorer(tag, method), PixelCounts()
        if scorer is None or self.truth is None:
            return counts
        tagged = {annotation.picture for annotation in self.annotations.of(tag=tag)}
        for name in self.names:
            if name in tagged:
                continue
            try:
                counts += self.truth.counts(tag, name, self.heat_map(scorer, name), threshold)
            except (FileError, OSError):
                continue  # a broken picture
        return counts

    def windows(self, picture: str) -> Windows:
        """Return the windows of a picture, from the cache or computed now."""
        self.check_name(picture)
        return self.cache.windows(picture)

    def patch_rows(self, picture: str, tag: str, strokes: Sequence[Stroke], others: Sequence[Any] = ()) -> PatchRows:
        """Return the patches of a tagged picture; counter-examples for which it has no room come from another one."""
        pixels = open_picture(self.check_name(picture), self.cache.side)
        seed = f"{picture}\n{tag}"
        sample = sample_patches(strokes, _size(pixels), self._patch, self.sampling, seed, others)
        rows = [self._cut(pixels, sample.positions)]
        labels, weights = [sample.positive], [sample.weights]
        missing = self.sampling.outside - int((~sample.positive).sum()) if sample.positive.any() else 0
        if missing > 0:
            rows.append(self._background(picture, tag, seed, missing))
            labels.append(np.zeros(len(rows[-1]), dtype=bool))
            weights.append(np.ones(len(rows[-1])))
        return PatchRows(np.concatenate(rows), np.concatenate(labels), np.concatenate(weights), borrowed=missing > 0)

    def _background(self, picture: str, tag: str, seed: str, count: int) -> NDArray[np.uint8]:
        """Return patches of another picture that does not have the tag; none if there is no such picture."""
        tagged = {annotation.picture for annotation in self.annotations.of(tag=tag)} | {picture}
        generator = np.random.default_rng(list(seed.encode()))
        for at in generator.permutation(len(self.names)):
            if self.names[at] in tagged:
                continue
            try:
                pixels = open_picture(self.folder / self.names[at], self.cache.side)
            except (FileError, OSError):
                continue
            free = np.subtract(_size(pixels), self._patch)
            if (free >= 0).all():
                return self._cut(pixels, generator.integers(0, free + 1, size=(count, 2)).astype(np.intp))
        return np.empty((0, self.correlogram.layout.width), dtype=np.uint8)

    def _cut(self, pixels: NDArray[np.uint8], positions: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Return patches of a picture as rows."""
        height, width = self._patch
        windows = np.lib.stride_tricks.sliding_window_view(pixels, (height, width), axis=(0, 1))
        cut = windows[positions[:, 0], positions[:, 1]]  # (patches, channels, height, width)
        return np.ascontiguousarray(np.moveaxis(cut, 1, -1)).reshape(len(positions), -1)

    @contextmanager
    def _up_to_date(self, tag: str, method: str) -> Iterator[TagLearner]:
        """The learner of a tag, locked, after it has learned the strokes that are there now."""
        if method not in LEARNERS:
            raise DataError(f"There is no learner {method!r}. Available: {', '.join(LEARNERS)}.")
        with self._lock:
            entry = self._entries.get((tag, method))
            if entry is None:
                entry = _Entry(LEARNERS[method](self.correlogram), {}, set(), threading.RLock())
                self._entries[tag, method] = entry
        with entry.lock:
            self._update(entry, tag)
            yield entry.learner

    def _update(self, entry: _Entry, tag: str) -> None:
        """Learn, replace and forget pieces until they are those of the strokes in the file."""
        wanted: dict[str, list[Stroke]] = {}
        for annotation in self.annotations.of(tag=tag):
            wanted.setdefault(annotation.picture, []).append(annotation.stroke)
        for picture in set(entry.learned) - set(wanted):
            entry.learner.forget(picture)
            del entry.learned[picture]
        for picture, strokes in wanted.items():
            others = self._other_strokes(picture, tag) if self.sampling.other_tags else []
            # Which picture lends counter-examples depends on which ones are tagged.
            state = (strokes, others, frozenset(wanted) if picture in entry.borrowed else None)
            if entry.learned.get(picture) == state:
                continue
            entry.learner.forget(picture)
            entry.learned.pop(picture, None)
            try:
                rows = self.patch_rows(picture, tag, strokes, others)
            except OSError:
                continue  # try again the next time
            except (FileError, DataError):
                entry.learned[picture] = state  # a picture that is broken or too small
                continue
            entry.learner.learn(picture, rows)
            entry.borrowed.discard(picture)
            if rows.borrowed:
                entry.borrowed.add(picture)
            entry.learned[picture] = (strokes, others, frozenset(wanted) if rows.borrowed else None)

    def _other_strokes(self, picture: str, tag: str) -> list[list[Stroke]]:
        """The positive strokes of each other tag of a picture."""
        found: dict[str, list[Stroke]] = {}
        for annotation in self.annotations.of(picture=picture):
            if annotation.tag != tag and not annotation.stroke.negative:
                found.setdefault(annotation.tag, []).append(annotation.stroke)
        return list(found.values())


def _size(pixels: NDArray[np.uint8]) -> tuple[int, int]:
    return int(pixels.shape[0]), int(pixels.shape[1])
