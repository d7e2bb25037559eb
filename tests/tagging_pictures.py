"""Made pictures of two kinds of animal, with masks of where they are."""

from __future__ import annotations

import numpy as np
from PIL import Image

from mergesvm.tagging.strokes import Stroke

HEIGHT, WIDTH = 200, 280
COATS = {
    "tiger": [(230, 120, 20), (20, 15, 10), (250, 200, 150)],
    "zebra": [(250, 250, 250), (10, 10, 10), (120, 120, 130)],
}
GROUNDS = [(60, 140, 60), (90, 160, 210), (150, 110, 60), (80, 100, 40)]


def picture(kind, seed):
    """Pixels, and the mask of an animal of this kind: an ellipse of stripes on a patchy ground."""
    generator = np.random.default_rng(seed)
    tiles = generator.integers(len(GROUNDS), size=(HEIGHT // 20, WIDTH // 20))
    pixels = np.array(GROUNDS)[np.kron(tiles, np.ones((20, 20), dtype=int))]
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    middle = generator.integers([80, 110], [120, 170])
    mask = ((y - middle[0]) / 60) ** 2 + ((x - middle[1]) / 95) ** 2 <= 1
    stripes = (x + generator.integers(12) + y // 4) // 7 % 3
    pixels = np.where(mask[..., None], np.array(COATS[kind])[stripes], pixels)
    noise = generator.normal(scale=6, size=pixels.shape)
    return np.clip(pixels + noise, 0, 255).astype(np.uint8), mask


def write_pictures(folder, count=4):
    """Write pictures of both kinds, and return their masks by name."""
    folder.mkdir(parents=True, exist_ok=True)
    masks = {}
    for kind in COATS:
        for number in range(count):
            name = f"{kind}{number}.png"
            pixels, masks[name] = picture(kind, 100 * len(kind) + number + (kind == "zebra"))
            Image.fromarray(pixels).save(folder / name)
    return masks


def stroke_over(mask, width=0.1):
    """A horizontal stroke through the middle of a mask."""
    lines, columns = np.nonzero(mask)
    y, left, right = lines.mean() / mask.shape[0], columns.min() / mask.shape[1], columns.max() / mask.shape[1]
    inset = (right - left) / 5
    return Stroke(((float(left + inset), float(y)), (float(right - inset), float(y))), width)
