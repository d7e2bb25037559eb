"""Compiled functions of :mod:`mergesvm.features.maps.correlogram`, which alone imports this module: it imports numba.

All release the GIL. Pairs of pixels are stored by colour; ``n_colours`` stands for a pair of two different colours, so
that counting needs no branch.
"""

from __future__ import annotations

from mergesvm.jit import compiled


@compiled
def quantize(pixels, low, factor, levels, table, colours):  # type: ignore[no-untyped-def] # pragma: no cover
    """Look up the colour of each pixel of images (rows, pixels x channels): of its cell in a grid of ``levels``.

    A channel of value v lies in level (v - low) factor, clipped to the grid. NaN lies in level 0.
    """
    count, length = colours.shape
    channels = pixels.shape[1] // length
    top = pixels.dtype.type(levels - 1)
    zero = pixels.dtype.type(0)
    for image in range(count):
        at = 0
        for pixel in range(length):
            cell = 0
            for _ in range(channels):
                level = (pixels[image, at] - low) * factor
                at += 1
                if not level > zero:
                    level = zero
                elif level > top:
                    level = top
                cell = cell * levels + int(level)
            colours[image, pixel] = table[cell]


@compiled
def count_pairs(colours, across, down, counts):  # type: ignore[no-untyped-def] # pragma: no cover
    """Add to ``counts`` (rows, colours) the pairs of equal colour in images (rows, height, width)."""
    count, height, width = colours.shape
    for image in range(count):
        row = counts[image]
        for y in range(height):
            for x in range(width - across):
                colour = colours[image, y, x]
                if colour == colours[image, y, x + across]:
                    row[colour] += 1
        for y in range(height - down):
            for x in range(width):
                colour = colours[image, y, x]
                if colour == colours[image, y + down, x]:
                    row[colour] += 1


@compiled
def find_pairs(colours, across, down, n_colours, level, upright):  # type: ignore[no-untyped-def] # pragma: no cover
    """Store the colour of each pair in a picture (height, width), at its left or upper pixel."""
    height, width = colours.shape
    for y in range(height):
        for x in range(width):
            colour = colours[y, x]
            same = x + across < width and colours[y, x + across] == colour
            level[y, x] = colour if same else n_colours
            same = y + down < height and colours[y + down, x] == colour
            upright[y, x] = colour if same else n_colours


@compiled
def slide(level, upright, shape, distance, step, scratch, counts):  # type: ignore[no-untyped-def] # pragma: no cover
    """Count the pairs in all windows of a picture, each from the window to its left.

    ``level`` and ``upright`` are the pairs of :func:`find_pairs`; ``shape`` and ``distance`` are (vertical,
    horizontal); ``scratch`` has a place for each colour and one for pairs of different colours; ``counts`` is (lines,
    columns, colours).
    """
    height, width = shape
    down, across = distance
    lines, columns, n_colours = counts.shape
    for line in range(lines):
        top = line * step
        scratch[:] = 0
        for y in range(top, top + height):
            for x in range(width - across):
                scratch[level[y, x]] += 1
        for y in range(top, top + height - down):
            for x in range(width):
                scratch[upright[y, x]] += 1
        for column in range(columns):
            if column > 0:
                left = (column - 1) * step
                for y in range(top, top + height):
                    for x in range(left, left + step):
                        scratch[level[y, x]] -= 1
                        scratch[level[y, x + width - across]] += 1
                for y in range(top, top + height - down):
                    for x in range(left, left + step):
                        scratch[upright[y, x]] -= 1
                        scratch[upright[y, x + width]] += 1
            for colour in range(n_colours):
                counts[line, column, colour] = scratch[colour]
