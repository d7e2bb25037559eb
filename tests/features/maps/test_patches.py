from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from maps import COLOURED, PRECISIONS, X
from mergesvm.features import Patches
from mergesvm.features.maps.patches import RECTIFIERS

DIGITS, _ = load_digits(return_X_y=True)


def slow_patches(patches, images, shape):
    """Compute patch features one patch at a time."""
    height, width, channels = shape
    size, border, grid = patches.size, patches.padding, patches.pooling
    filters, offsets = patches.arrays["filters"], patches.arrays["offsets"]
    out = []
    for image in images / patches.arrays["scale"]:
        padded = np.pad(image.reshape(height, width, channels), ((border, border), (border, border), (0, 0)))
        lines, columns = padded.shape[0] - size + 1, padded.shape[1] - size + 1
        responses = np.empty((lines, columns, len(offsets)))
        for i in range(lines):
            for j in range(columns):
                patch = padded[i : i + size, j : j + size].ravel()
                patch = (patch - patch.mean()) / np.sqrt(patch.var() + 0.01)
                responses[i, j] = patch @ filters - offsets
        rectified = {
            "relu": np.maximum(responses, 0),
            "absolute": np.abs(responses),
            "split": np.concatenate([np.maximum(responses, 0), np.maximum(-responses, 0)], axis=2),
        }[patches.rectify]
        tops, lefts = (np.linspace(0, length, grid + 1).round().astype(int) for length in (lines, columns))
        out.append(
            [
                rectified[tops[i] : tops[i + 1], lefts[j] : lefts[j + 1]].mean(axis=(0, 1))
                for i in range(grid)
                for j in range(grid)
            ]
        )
    return np.array(out).reshape(len(images), -1) * patches.arrays["gain"]


@pytest.mark.parametrize("rectify", ["relu", "absolute", "split"])
@pytest.mark.parametrize("shape", [(8, 8, 1), (4, 8, 2)])
def test_patches_match_a_slow_loop(rectify, shape):
    patches = Patches(5, size=3, padding=1, pooling=2, rectify=rectify, image=shape, precision="float64")
    patches = patches.freeze(DIGITS[:200])
    expected = slow_patches(patches, DIGITS[:20], shape)
    np.testing.assert_allclose(patches.transform(DIGITS[:20]), expected, rtol=1e-9, atol=1e-9)
    assert patches.width == expected.shape[1]


def test_patches_of_bright_images_are_accurate():
    dark, bright = (Patches(8, size=3).freeze(DIGITS + offset).transform(DIGITS[:50] + offset) for offset in (0, 0.0))
    np.testing.assert_array_equal(dark, bright)
    fine = Patches(8, size=3, padding=0, precision="float64").freeze(DIGITS + 1000.0)
    coarse = Patches(8, size=3, padding=0).freeze(DIGITS + 1000.0)
    np.testing.assert_allclose(fine.transform(DIGITS[:50] + 1000.0), coarse.transform(DIGITS[:50] + 1000.0), atol=5e-3)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("rectify", RECTIFIERS)
@pytest.mark.parametrize(("padding", "pooling"), [(0, 1), (1, 2), (3, 3)])
def test_patches_of_coloured_images_match_a_slow_loop(padding, pooling, rectify, precision):
    patches = Patches(4, size=2, padding=padding, pooling=pooling, rectify=rectify, image=COLOURED, precision=precision)
    patches = patches.freeze(X)
    expected = slow_patches(patches, X[:15], COLOURED)
    tolerance = {"float64": 1e-12, "float32": 1e-5}[precision]
    np.testing.assert_allclose(patches.transform(X[:15]), expected, atol=tolerance)


@pytest.mark.parametrize("filters", ["data", "random"])
@pytest.mark.parametrize("whitening", [0.1, None])
def test_responses_have_unit_variance_and_unwhitened_filters_equal_lengths(filters, whitening):
    patches = Patches(50, size=3, padding=0, filters=filters, whitening=whitening, precision="float64", pooling=2)
    patches = patches.freeze(X)
    images = (X / patches.arrays["scale"]).reshape(-1, 6, 6)
    found = np.concatenate([images[:, i : i + 3, j : j + 3].reshape(-1, 9) for i in range(4) for j in range(4)])
    found = found - found.mean(axis=1, keepdims=True)
    found /= np.sqrt(np.mean(found**2, axis=1, keepdims=True) + 0.01)
    responses = found @ patches.arrays["filters"] - patches.arrays["offsets"]
    assert responses.std() == pytest.approx(1, rel=0.05)
    assert np.abs(responses.mean(axis=0)).max() < 0.1
    if whitening is None:
        lengths = np.linalg.norm(patches.arrays["filters"], axis=0)
        np.testing.assert_allclose(lengths, lengths[0], rtol=1e-5)


def test_brightness_and_contrast_of_a_patch_do_not_matter():
    patches = Patches(6, size=3, padding=0, pooling=2, precision="float64").freeze(X)
    before = patches.transform(X[:20])
    np.testing.assert_allclose(patches.transform(X[:20] + 5.0), before, atol=1e-9)
    # Contrast matters only in nearly blank patches, and bright images have none.
    np.testing.assert_allclose(patches.transform(X[:20] * 1e3), patches.transform(X[:20] * 1e4), atol=1e-3)
