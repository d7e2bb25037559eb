"""Photos of animals with masks: the Oxford-IIIT pets, or made pictures for a quick run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import MissingFileError
from mergesvm.reproduce.paper_data import FOLDER_VARIABLE, Source
from mergesvm.tagging.pictures import open_picture, pillow
from mergesvm.tagging.strokes import Stroke

ANIMAL, UNKNOWN = 1, 3
"""Values of a trimap; 2 is the background."""

STROKE_HEIGHTS = (0.3, 0.5, 0.7)
"""A stroke is drawn at each of these fractions of the height of an animal, through its widest part there."""

STROKE_INSET, STROKE_WIDTH = 0.15, 0.02


@dataclass(frozen=True)
class Photo:
    """A picture (height, width, 3) and its trimap (height, width)."""

    name: str
    pixels: NDArray[np.uint8]
    trimap: NDArray[np.uint8]

    def strokes(self) -> list[Stroke]:
        """Return horizontal strokes over the animal, as a person would draw them."""
        animal = self.trimap == ANIMAL
        height, width = animal.shape
        lines, strokes = np.flatnonzero(animal.any(axis=1)), []
        for fraction in STROKE_HEIGHTS:
            line = lines[int(fraction * (len(lines) - 1))]
            edges = np.flatnonzero(np.diff(np.concatenate([[0], animal[line].astype(int), [0]]))).reshape(-1, 2)
            left, right = edges[np.argmax(edges[:, 1] - edges[:, 0])]
            inset = STROKE_INSET * (right - left)
            ends = ((left + inset) / width, line / height), ((right - inset) / width, line / height)
            strokes.append(Stroke(tuple((float(x), float(y)) for x, y in ends), STROKE_WIDTH))
        return strokes


def load_photos(source: Source, seed: int) -> dict[str, list[Photo]]:
    """Return the photos of each kind of animal."""
    if source.folder is None:
        if not source.quick:
            raise MissingFileError(
                f"The pictures cannot be downloaded. Give the folder that holds pets/images and pets/trimaps with "
                f"--data or the environment variable {FOLDER_VARIABLE}, or use --quick for made pictures."
            )
        return {kind: [made_photo(kind, number, seed) for number in range(5)] for kind in COATS}
    folder = source.folder / "pets"
    files = sorted((folder / "images").glob("*.jpg"))
    if not files:
        raise MissingFileError(f"There are no pictures in {folder / 'images'}. Put the Oxford-IIIT pets there.")
    photos: dict[str, list[Photo]] = {}
    for file in files:
        photos.setdefault(file.stem.rpartition("_")[0], []).append(_read(file, folder / "trimaps" / f"{file.stem}.png"))
    return dict(list(photos.items())[:2]) if source.quick else photos


def _read(file: Path, trimap: Path) -> Photo:
    pixels = open_picture(file)
    with pillow().Image.open(trimap, formats=["PNG"]) as image:
        values = np.asarray(image.resize(pixels.shape[1::-1], pillow().Image.Resampling.NEAREST))
    return Photo(file.name, pixels, values.astype(np.uint8))


COATS = {
    "tiger": [(230, 120, 20), (20, 15, 10), (250, 200, 150)],
    "zebra": [(250, 250, 250), (10, 10, 10), (120, 120, 130)],
}
GROUND = [(60, 140, 60), (90, 160, 210), (150, 110, 60), (80, 100, 40)]


def made_photo(kind: str, number: int, seed: int) -> Photo:
    """Return a made picture: an ellipse in stripes of a kind on a patchy ground."""
    generator = np.random.default_rng([seed, number, *kind.encode()])
    height, width = 160, 240
    tiles = generator.integers(len(GROUND), size=(height // 20, width // 20))
    ground = np.array(GROUND)[np.kron(tiles, np.ones((20, 20), dtype=int))]
    y, x = np.mgrid[:height, :width]
    middle = generator.integers([70, 90], [90, 150])
    animal = ((y - middle[0]) / 55) ** 2 + ((x - middle[1]) / 85) ** 2 <= 1
    stripes = (x + generator.integers(12) + y // 4) // 7 % 3
    pixels = np.where(animal[..., None], np.array(COATS[kind])[stripes], ground)
    noisy = np.clip(pixels + generator.normal(scale=6, size=pixels.shape), 0, 255).astype(np.uint8)
    return Photo(f"{kind} {number}", noisy, np.where(animal, ANIMAL, 2).astype(np.uint8))
