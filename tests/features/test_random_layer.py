from __future__ import annotations

import numpy as np
import pytest

from maps import COLOURED, X
from mergesvm.features import Fourier, HiddenLayer
from mergesvm.features.ops.projection import mean_squared_distance
from mergesvm.features.pilot import Pilot
from mergesvm.features.random_layer import MAX_COLUMN_FRACTION, MIN_COLUMN_FRACTION, MIN_SIDE_FRACTION


def draw_fields(fields, image, inputs, count):
    return Fourier(count, fields=fields, image=image).draw_mask(Pilot.of(np.zeros((1, inputs))))


@pytest.mark.parametrize(("image", "height", "width", "channels"), [(None, 6, 6, 1), (COLOURED, 4, 3, 3)])
def test_rectangles_have_every_size_and_position(image, height, width, channels):
    masks = draw_fields("rectangles", image, 36, 9000)
    assert masks.shape == (36, 9000)
    seen = set()
    for mask in masks.T.reshape(-1, height, width, channels):
        assert (mask == mask[:, :, :1]).all()  # all channels of a pixel
        lines, places = mask[:, :, 0].any(axis=1), mask[:, :, 0].any(axis=0)
        assert (mask[:, :, 0] == np.outer(lines, places)).all()
        ends = []
        for line in (lines, places):
            at = np.flatnonzero(line)
            assert len(at) == at[-1] - at[0] + 1
            ends.append((int(at[0]), int(at[-1]) + 1))
        seen.add(tuple(ends))
    least = [max(1, round(MIN_SIDE_FRACTION * side)) for side in (height, width)]
    spans = [
        {(a, b) for a in range(side) for b in range(a + low, side + 1)}
        for side, low in zip((height, width), least, strict=True)
    ]
    assert seen == {(one, other) for one in spans[0] for other in spans[1]}


def test_column_fields_have_every_allowed_size_and_cover_columns_evenly():
    masks = draw_fields("columns", None, 20, 4000)
    sizes = masks.sum(axis=0)
    assert set(sizes) == set(range(round(MIN_COLUMN_FRACTION * 20), round(MAX_COLUMN_FRACTION * 20) + 1))
    fraction = masks.mean(axis=1)
    expected = sizes.mean() / 20
    assert (np.abs(fraction - expected) < 5 * np.sqrt(expected * (1 - expected) / 4000)).all()
    assert draw_fields("columns", None, 1, 5).all()


def test_without_fields_a_unit_uses_all_columns():
    assert draw_fields(None, None, 36, 5) is None


def test_distances_within_a_field_match_the_mean_over_pairs():
    masks = draw_fields("columns", None, 36, 30)
    pairs = (X[:, None] - X[None]) ** 2
    np.testing.assert_allclose(mean_squared_distance(X), pairs.sum(axis=2).mean())
    np.testing.assert_allclose(mean_squared_distance(X, masks), (pairs.mean(axis=(0, 1)) @ masks))


@pytest.mark.parametrize("fields", ["rectangles", "columns"])
@pytest.mark.parametrize("make", [HiddenLayer, Fourier])
def test_a_unit_ignores_columns_outside_its_field(make, fields):
    features = make(40, fields=fields, precision="float64", scaling="none").freeze(X)
    inside = features.arrays["weights"] != 0
    assert 0 < inside.mean() < 1
    before = features.transform(X[:20])
    for column in range(36):
        changed = X[:20].copy()
        changed[:, column] += 0.5
        moved = np.abs(features.transform(changed) - before).max(axis=0) > 1e-12
        assert (moved == inside[column]).all()
