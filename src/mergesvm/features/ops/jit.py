"""Compiled functions of :mod:`mergesvm.features.maps.patches`, which alone imports this module: it imports numba.

All release the GIL. Array indices are unsigned, which spares numba the test for negative indices.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from mergesvm.jit import compiled

FASTMATH = {"reassoc", "contract", "nsz"}
"""The compiler may reorder sums, but must preserve NaN and infinity."""


@compiled(fastmath=FASTMATH)
def unfold(images, channels, size, variance, patches):  # type: ignore[no-untyped-def] # pragma: no cover
    """Copy the patches of images (rows, height, width x channels) to lines, each centred and at unit contrast.

    ``variance`` is added to the variance of a patch before dividing.
    """
    count, height, length = images.shape
    run = uint64(size * channels)
    at = 0
    for image in range(count):
        for top in range(height - size + 1):
            for left in range(0, length - size * channels + 1, channels):
                patch = patches[at]
                at += 1
                total = patches.dtype.type(0)
                for i in range(size):
                    line, first = images[image, top + i, left:], uint64(i) * run
                    for j in range(run):
                        patch[first + j] = line[j]
                        total += line[j]
                mean = total / patch.size
                square = patches.dtype.type(0)
                for k in range(uint64(patch.size)):
                    patch[k] -= mean
                    square += patch[k] * patch[k]
                factor = patches.dtype.type(1) / np.sqrt(square / patch.size + variance)
                for k in range(uint64(patch.size)):
                    patch[k] *= factor


@compiled(fastmath=FASTMATH)
def pool(responses, offsets, rectifier, lines, columns, out):  # type: ignore[no-untyped-def] # pragma: no cover
    """Average rectified responses (rows, lines, columns, filters) over regions (rows, lines, columns, features).

    The rectifier is 0 for max(z, 0), 1 for max(z, 0) and max(-z, 0) as two features, 2 for |z|, where z is the
    response minus its offset.
    """
    filters = uint64(offsets.size)
    zero = responses.dtype.type(0)
    for image in range(len(responses)):
        for i in range(lines.size - 1):
            for j in range(columns.size - 1):
                region = out[image, i, j]
                region[:] = zero
                for line in range(lines[i], lines[i + 1]):
                    for column in range(columns[j], columns[j + 1]):
                        response = responses[image, line, column]
                        if rectifier == 2:
                            for k in range(filters):
                                region[k] += abs(response[k] - offsets[k])
                        else:
                            for k in range(filters):
                                region[k] += max(response[k] - offsets[k], zero)
                            if rectifier == 1:
                                for k in range(filters):
                                    region[filters + k] += max(offsets[k] - response[k], zero)
                size = (lines[i + 1] - lines[i]) * (columns[j + 1] - columns[j])
                factor = responses.dtype.type(1) / size
                for k in range(uint64(region.size)):
                    region[k] *= factor
