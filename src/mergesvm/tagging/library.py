"""A model of a tag, applied to all pictures of a folder."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import MergeSVMError, ParameterError
from mergesvm.features.maps.correlogram import Correlogram
from mergesvm.features.ops.image import Image
from mergesvm.files.atomic import write_atomically
from mergesvm.models.base import Model
from mergesvm.models.kernel import KernelModel
from mergesvm.models.linear import LinearModel
from mergesvm.tagging.heat_map import HeatMap
from mergesvm.tagging.learners import KernelScorer, LinearScorer, WindowScorer
from mergesvm.tagging.pictures import WORKING_SIDE, list_pictures, open_picture, pillow
from mergesvm.tagging.windows import STEP, Windows


@dataclass(frozen=True)
class Finding:
    """What a model found in one picture: a heat map, or why the picture could not be read."""

    picture: str
    heat_map: HeatMap | None
    error: str | None = None


@dataclass(frozen=True)
class LibraryScorer:
    """A model of a tag that is applied to the pictures of a folder, in parallel."""

    scorer: WindowScorer
    correlogram: Correlogram

    @classmethod
    def of(cls, model: Model, correlogram: Correlogram | None = None) -> LibraryScorer:
        """Take a model that was exported by the tagging application; kernel models need their map as well."""
        own = model.signature.features
        if isinstance(model, LinearModel) and isinstance(own, Correlogram) and len(model.classes_) == 2:
            return cls(LinearScorer(model, 0), own)
        if isinstance(model, KernelModel) and len(model.classes_) == 2 and correlogram is not None:
            if model.signature.width != correlogram.width:
                raise ParameterError(
                    f"The model has {model.signature.width} features, but {correlogram!r} has {correlogram.width}. Use "
                    f"the map with which the model was trained."
                )
            return cls(KernelScorer(model), correlogram)
        raise ParameterError(
            f"{model!r} is not a model of a tag: it does not tell two classes apart by correlograms. Export one from "
            f"the page of `mergesvm tag`."
        )

    def heat_map(self, picture: Path) -> HeatMap:
        """Return where the tag is in a picture."""
        windows = Windows.of(open_picture(picture, WORKING_SIDE), self.correlogram, STEP)
        scores = self.scorer.scores(windows.features(self.correlogram)).reshape(windows.grid)
        image = Image.of(self.correlogram.image, self.correlogram.layout.width)
        return HeatMap(scores, windows.size, (image.height // 2, image.width // 2), STEP)

    def find(self, folder: Path, workers: int) -> Iterator[Finding]:
        """Yield what was found in each picture of a folder and its sub-folders, in the order of their names."""

        def finding(name: str) -> Finding:
            try:
                return Finding(name, self.heat_map(folder / name))
            except (MergeSVMError, OSError) as error:
                return Finding(name, None, str(error))

        with ThreadPoolExecutor(workers) as pool:
            try:
                yield from pool.map(finding, list_pictures(folder))
            finally:
                pool.shutdown(cancel_futures=True)


FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""Text that begins so would be run by spreadsheets."""


def plain_cell(text: str) -> str:
    """Return text for a cell of a CSV file, after an apostrophe if a spreadsheet would run it.

    >>> plain_cell("=1+1"), plain_cell("cat")
    ("'=1+1", 'cat')
    """
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def mask_name(picture: str) -> str:
    """Return the name of the mask of a picture: pictures that differ in their ending only have masks of their own.

    >>> mask_name("cats/tom.jpg")
    'cats/tom.jpg.png'
    """
    return f"{picture}.png"


def write_mask(folder: Path, picture: str, heat_map: HeatMap, threshold: float) -> None:
    """Write the mask of a picture as a PNG file of 0 and 255, atomically."""
    path = folder / mask_name(picture)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, mask_png(heat_map.mask(threshold)))


def mask_png(mask: NDArray[np.bool_]) -> bytes:
    """Return a mask as a PNG file of 0 and 255."""
    out = io.BytesIO()
    pillow().Image.fromarray(np.where(mask, np.uint8(255), np.uint8(0))).save(out, "PNG")
    return out.getvalue()


def write_scores(path: Path, findings: list[tuple[str, float | None, float | None]]) -> None:
    """Write a table of pictures, scores and fractions of pixels as CSV, the best pictures first."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["picture", "score", "fraction"])
    ordered = sorted(findings, key=lambda each: -np.inf if each[1] is None else each[1], reverse=True)
    for name, score, fraction in ordered:
        known = score is not None and np.isfinite(score)
        writer.writerow([plain_cell(name), f"{score:.6g}" if known else "", fraction])
    write_atomically(path, out.getvalue().encode())
