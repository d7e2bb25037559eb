"""Palettes: a few colours that stand for all others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

DEPTH = 256
"""Channels of palette colours are integers below this number."""

MAX_CELLS = 2**15
"""The largest number of cells in the grid that divides the space of colours."""

SAMPLE_PIXELS, ITERATIONS = 20_000, 10
"""The number of pixels, and of k-means iterations, by which a palette is found."""

CHUNK_CELLS = 4096
"""The number of cells whose nearest colours are found at a time."""


def grid_levels(channels: int) -> int:
    """Return the number of levels per channel of the grid: 256 for grey, 32 for three channels.

    >>> grid_levels(1), grid_levels(3)
    (256, 32)
    """
    levels = min(DEPTH, int(MAX_CELLS ** (1 / channels) + 1e-9))
    return max(2, levels)


def fixed_palette(n_colours: int, channels: int) -> NDArray[np.int64]:
    """Return at most ``n_colours`` colours on a regular grid: 7 x 6 x 6 levels for 256 colours of three channels.

    >>> fixed_palette(3, 1).ravel()
    array([ 43, 128, 213])
    >>> len(fixed_palette(256, 3))
    252
    """
    levels = np.ones(channels, dtype=int)
    while levels.prod() // levels.min() * (levels.min() + 1) <= n_colours:
        levels[levels.argmin()] += 1
    axes = [np.round((np.arange(count) + 0.5) * DEPTH / count).astype(np.int64) for count in levels]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, channels)


def sampled_palette(pixels: NDArray[np.float64], n_colours: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the centres of at most ``n_colours`` clusters of pixels (pixels, channels), by k-means."""
    if len(pixels) > SAMPLE_PIXELS:
        pixels = pixels[np.sort(generator.choice(len(pixels), SAMPLE_PIXELS, replace=False))]
    sample = np.clip(np.floor(pixels), 0, DEPTH - 1).astype(np.int64)
    different: NDArray[np.int64] = np.unique(sample, axis=0)
    if len(different) <= n_colours:
        return different
    centres = different[np.sort(generator.choice(len(different), n_colours, replace=False))]
    for _ in range(ITERATIONS):
        nearest = nearest_colours(sample, centres)
        sizes = np.bincount(nearest, minlength=len(centres))
        totals = np.stack([np.bincount(nearest, channel, len(centres)) for channel in sample.T], axis=1)
        filled = sizes > 0
        centres[filled] = np.round(totals[filled] / sizes[filled, None]).astype(np.int64)
    return np.asarray(np.unique(centres, axis=0), dtype=np.int64)


def nearest_colours(pixels: NDArray[np.int64], palette: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of the nearest colour of each pixel; the first one among equally near colours."""
    lengths = (palette**2).sum(axis=1)
    found = [
        np.argmin(lengths - 2 * (pixels[start : start + CHUNK_CELLS] @ palette.T), axis=1)
        for start in range(0, len(pixels), CHUNK_CELLS)
    ]
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def colour_table(palette: NDArray[Any], channels: int) -> NDArray[np.uint16]:
    """Return the index of the palette colour nearest to the centre of each cell of the grid."""
    levels = grid_levels(channels)
    centres = ((np.arange(levels) + 0.5) * DEPTH / levels).astype(np.int64)
    cells = np.stack(np.meshgrid(*[centres] * channels, indexing="ij"), axis=-1).reshape(-1, channels)
    integers = np.clip(palette, 0, DEPTH - 1).astype(np.int64)
    return nearest_colours(cells, integers).astype(np.uint16)
