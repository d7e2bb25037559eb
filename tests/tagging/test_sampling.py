"""Patches sampled from strokes."""

from __future__ import annotations

import numpy as np
import pytest

from mergesvm.errors import DataError, ParameterError
from mergesvm.tagging.sampling import MIN_WEIGHT, SamplingOptions, sample_patches
from mergesvm.tagging.strokes import Box, Stroke, stroked_pixels

PICTURE, PATCH = (300, 400), (60, 100)
STROKE = Stroke(((0.3, 0.3), (0.7, 0.7)), 0.05)


def sample(strokes=(STROKE,), picture=PICTURE, seed="a", others=(), **options):
    return sample_patches(list(strokes), picture, PATCH, SamplingOptions(**options), seed, others)


def centres(positions):
    return positions + np.array(PATCH) // 2


def test_patches_lie_inside_the_box_and_counter_examples_are_centred_outside():
    found, box = sample(), Box.around([STROKE], *PICTURE)
    assert found.positive.sum() == 100
    assert (~found.positive).sum() == 250
    inside, outside = found.positions[found.positive], found.positions[~found.positive]
    assert (inside >= [box.top, box.left]).all()
    assert (inside + PATCH <= [box.bottom, box.right]).all()
    at = centres(outside)
    within = (at >= [box.top, box.left]).all(axis=1) & (at < [box.bottom, box.right]).all(axis=1)
    assert not within.any()
    for positions in (inside, outside):
        assert (positions >= 0).all()
        assert (positions + PATCH <= PICTURE).all()
        assert len(np.unique(positions, axis=0)) > 0.8 * len(positions)


def test_a_box_smaller_than_a_patch_is_covered_by_all_patches():
    small = Stroke(((0.5, 0.5), (0.52, 0.5)), 0.02)
    box, inside = Box.around([small], *PICTURE), sample([small]).positions[:100]
    assert (inside <= [box.top, box.left]).all()
    assert (inside + PATCH >= [box.bottom, box.right]).all()


def test_the_same_strokes_and_seed_give_the_same_patches():
    np.testing.assert_array_equal(sample().positions, sample().positions)
    assert (sample(seed="b").positions != sample().positions).any()
    other = Stroke(STROKE.points, 0.0501)
    assert (sample([other]).positions != sample().positions).any()


def test_weights_are_the_covered_fractions():
    found = sample(weighted=True)
    covered = stroked_pixels([STROKE], *PICTURE)
    inside = found.positions[found.positive]
    fractions = np.array([covered[top : top + 60, left : left + 100].mean() for top, left in inside])
    expected = np.maximum(fractions / fractions.max(), MIN_WEIGHT)
    np.testing.assert_allclose(found.weights[found.positive], expected)
    assert (found.weights[~found.positive] == 1).all()


def test_negative_strokes_and_other_tags_give_counter_examples():
    negative = Stroke(((0.1, 0.9),), 0.1, negative=True)
    assert (~sample([STROKE, negative]).positive).sum() == 350
    found = sample(others=[[Stroke(((0.9, 0.1),), 0.1)]], other_tags=True)
    assert (~found.positive).sum() == 350
    assert (~sample(others=[[STROKE]]).positive).sum() == 250


def test_negative_strokes_alone_give_counter_examples_only():
    found = sample([Stroke(((0.5, 0.5),), negative=True)])
    assert len(found) == 100
    assert not found.positive.any()


def test_strokes_all_over_leave_no_counter_examples():
    everywhere = [Stroke(((0.0, 0.0), (1.0, 1.0)), 0.2)]
    assert sample(everywhere).positive.all()


def test_what_cannot_be_sampled_is_refused():
    with pytest.raises(DataError, match="smaller than the patches of 60 x 100"):
        sample(picture=(50, 400))
    with pytest.raises(ParameterError, match="inside must be an integer from 1"):
        SamplingOptions(inside=0)
