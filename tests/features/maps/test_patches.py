from __future__ import annotations

import numpy as np
import pytest

from features.test_formulas import slow_patches
from maps import COLOURED, PRECISIONS, X
from mergesvm.features import Patches
from mergesvm.features.maps.patches import RECTIFIERS


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("rectify", RECTIFIERS)
@pytest.mark.parametrize(("padding", "pooling"), [(0, 1), (1, 2), (3, 3)])
def test_patches_of_coloured_images_are_what_a_slow_loop_gives(padding, pooling, rectify, precision):
    patches = Patches(4, size=2, padding=padding, pooling=pooling, rectify=rectify, image=COLOURED, precision=precision)
    patches = patches.freeze(X)
    expected = slow_patches(patches, X[:15], COLOURED)
    tolerance = {"float64": 1e-12, "float32": 1e-5}[precision]
    np.testing.assert_allclose(patches.transform(X[:15]), expected, atol=tolerance)


@pytest.mark.parametrize("filters", ["data", "random"])
@pytest.mark.parametrize("whitening", [0.1, None])
def test_responses_have_unit_variance_and_filters_one_length_where_patches_are_white(filters, whitening):
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


def test_the_brightness_and_contrast_of_a_patch_do_not_matter():
    patches = Patches(6, size=3, padding=0, pooling=2, precision="float64").freeze(X)
    before = patches.transform(X[:20])
    np.testing.assert_allclose(patches.transform(X[:20] + 5.0), before, atol=1e-9)
    # Contrast counts only in patches that are nearly blank, of which none is left once images are bright enough.
    np.testing.assert_allclose(patches.transform(X[:20] * 1e3), patches.transform(X[:20] * 1e4), atol=1e-3)
