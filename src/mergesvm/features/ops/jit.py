"""Compiled functions of patches. Importing this module loads numba: only ``features.maps.patches`` does so.

Both release the GIL. Array indices are unsigned because numba then need not test them for counting from the end.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

SUMS = {"reassoc", "contract", "nsz"}
"""What the compiler may assume: sums may change their order, but NaN and infinity have to pass."""


@njit(nogil=True, fastmath=SUMS, error_model="numpy", cache=True)
def unfold(images, channels, size, faint, patches):  # type: ignore[no-untyped-def] # pragma: no cover
    """Copy every patch of images (rows, height, width x channels), less its mean and at unit contrast, one a line."""
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
                    line, place = images[image, top + i, left:], uint64(i) * run
                    for j in range(run):
                        patch[place + j] = line[j]
                        total += line[j]
                mean = total / patch.size
                square = patches.dtype.type(0)
                for k in range(uint64(patch.size)):
                    patch[k] -= mean
                    square += patch[k] * patch[k]
                factor = patches.dtype.type(1) / np.sqrt(square / patch.size + faint)
                for k in range(uint64(patch.size)):
                    patch[k] *= factor


@njit(nogil=True, fastmath=SUMS, error_model="numpy", cache=True)
def pool(responses, offsets, rectifier, lines, places, out):  # type: ignore[no-untyped-def] # pragma: no cover
    """Average rectified responses (rows, lines, places, filters) over regions, into (rows, lines, places, features).

    The rectifier is 0 for max(z, 0), 1 for that and max(-z, 0) as two features, 2 for |z|, where z is the response
    less its offset.
    """
    filters = uint64(offsets.size)
    zero = responses.dtype.type(0)
    for image in range(len(responses)):
        for i in range(lines.size - 1):
            for j in range(places.size - 1):
                region = out[image, i, j]
                region[:] = zero
                for line in range(lines[i], lines[i + 1]):
                    for place in range(places[j], places[j + 1]):
                        response = responses[image, line, place]
                        if rectifier == 2:
                            for k in range(filters):
                                region[k] += abs(response[k] - offsets[k])
                        else:
                            for k in range(filters):
                                region[k] += max(response[k] - offsets[k], zero)
                            if rectifier == 1:
                                for k in range(filters):
                                    region[filters + k] += max(offsets[k] - response[k], zero)
                size = (lines[i + 1] - lines[i]) * (places[j + 1] - places[j])
                share = responses.dtype.type(1) / size
                for k in range(uint64(region.size)):
                    region[k] *= share
