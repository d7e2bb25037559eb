"""Strokes, the box around them, and the pixels that they cover."""

from __future__ import annotations

import numpy as np
import pytest

from mergesvm.errors import DataError
from mergesvm.tagging.strokes import Box, Stroke, stroked_pixels


def test_covered_pixels_are_those_near_the_line():
    stroke = Stroke(((0.2, 0.3), (0.7, 0.8), (0.9, 0.1)), width=0.08)
    covered = stroked_pixels([stroke], 60, 90)
    points = np.array(stroke.points) * [90, 60]
    # Sample the line densely: a pixel is covered if its centre is within the radius of a sample.
    line = np.concatenate([np.linspace(points[i], points[i + 1], 4000) for i in range(2)])
    y, x = np.mgrid[:60, :90] + 0.5
    distance = np.sqrt(((x[..., None] - line[::10, 0]) ** 2 + (y[..., None] - line[::10, 1]) ** 2).min(axis=-1))
    radius = 0.04 * 90
    clear = np.abs(distance - radius) > 0.05
    np.testing.assert_array_equal(covered[clear], (distance <= radius)[clear])


def test_the_box_contains_all_covered_pixels_and_no_more_than_needed():
    strokes = [Stroke(((0.3, 0.3), (0.5, 0.6)), 0.1), Stroke(((0.55, 0.5),), 0.1)]
    lines, columns = np.nonzero(stroked_pixels(strokes, 100, 200))
    box = Box.around(strokes, 100, 200)
    assert box.top <= lines.min() <= box.top + 1
    assert box.left <= columns.min() <= box.left + 1
    assert box.bottom - 1 >= lines.max() >= box.bottom - 2
    assert box.right - 1 >= columns.max() >= box.right - 2


@pytest.mark.parametrize("corner", [(0.0, 0.0), (1.0, 1.0), (0.0, 1.0)])
def test_strokes_at_the_edge_stay_inside(corner):
    box = Box.around([Stroke((corner,), 0.2)], 50, 50)
    assert 0 <= box.top < box.bottom <= 50
    assert 0 <= box.left < box.right <= 50


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "must have points"),
        ({"points": []}, "1 to 10,000 points, got 0"),
        ({"points": [[0.5]]}, "must have points"),
        ({"points": [[0.5, 1.5]]}, "from 0 to 1"),
        ({"points": [[0.5, float("nan")]]}, "from 0 to 1"),
        ({"points": [[0.5, 0.5]], "width": 0}, "above 0 and at most 1, got 0.0"),
        ({"points": [[0.5, 0.5]], "width": "wide"}, "must have points"),
        ({"points": [[0.5, 0.5]], "negative": "no"}, "true or false"),
        ({"points": [[0.5, 0.5]] * 10_001}, "got 10,001"),
    ],
)
def test_bad_strokes_are_refused(fields, message):
    with pytest.raises(DataError, match=message):
        Stroke.read(fields)


def test_strokes_survive_json():
    stroke = Stroke(((0.1, 0.2), (0.3, 0.4)), 0.05, negative=True)
    assert Stroke.read(stroke.as_json()) == stroke
