"""Correlograms match a count of pairs by hand, also in all windows of a picture."""

from __future__ import annotations

import numpy as np
import pytest

import mergesvm as ms
from mergesvm.errors import DataError, FeatureMapError, ParameterError
from mergesvm.features import Correlogram
from mergesvm.features.ops.palette import colour_table, fixed_palette, grid_levels, sampled_palette

SHAPE = (12, 15, 3)


def pictures(n_rows=8, shape=SHAPE, seed=0):
    """Pictures of a few colours each, so that there are pairs."""
    generator = np.random.default_rng(seed)
    few = generator.integers(0, 256, size=(6, shape[2]))
    return few[generator.integers(0, 6, size=(n_rows, *shape[:2]))].astype(np.uint8)


def cells(image):
    """The place of each pixel in the grid of 32 levels per channel."""
    red, green, blue = np.moveaxis(image.astype(int) // 8, -1, 0)
    return (red * 32 + green) * 32 + blue


def counts_by_hand(colours, n_colours, down, across):
    pairs = [
        *colours[:, :-across][colours[:, :-across] == colours[:, across:]],
        *colours[:-down][colours[:-down] == colours[down:]],
    ]
    return np.bincount(np.array(pairs, dtype=int), minlength=n_colours)


@pytest.mark.parametrize("palette", ["fixed", "sample"])
@pytest.mark.parametrize("distance", [1, 5, (3, 2)])
def test_features_are_counts_of_pairs_or_roots_of_their_proportions(palette, distance):
    X = pictures()
    rows = X.reshape(len(X), -1)
    down, across = distance if isinstance(distance, tuple) else (distance, distance)
    plain = Correlogram(40, distance, palette, values="count", image=SHAPE, precision="float64").freeze(rows)
    table = colour_table(plain.arrays["colours"], 3)
    expected = np.array([counts_by_hand(table[cells(image)], 40, down, across) for image in X])
    assert expected.sum() > 100
    gain = plain.arrays["gain"][0]
    np.testing.assert_allclose(plain.transform(rows), expected * gain, rtol=1e-12)
    root = Correlogram(40, distance, palette, "root", image=SHAPE, precision="float64").freeze(rows)
    np.testing.assert_allclose(root.transform(rows), np.sqrt(expected) * root.arrays["gain"][0], rtol=1e-12)
    hellinger = Correlogram(40, distance, palette, image=SHAPE, precision="float64").freeze(rows)
    proportions = expected / expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        hellinger.transform(rows), np.sqrt(proportions) * hellinger.arrays["gain"][0], rtol=1e-12
    )


@pytest.mark.parametrize("step", [1, 4, 7, 40])
@pytest.mark.parametrize(("shape", "values"), [(SHAPE, "hellinger"), (SHAPE, "root"), ((12, 15, 1), "count")])
def test_windows_of_a_picture_are_counted_as_the_images_cut_from_it(step, shape, values):
    picture = pictures(1, (40, 51, shape[2]), seed=3)[0]
    image = shape if shape[2] > 1 else shape[:2]
    correlogram = Correlogram(30, (2, 5), values=values, image=image).freeze(picture[:12, :15].reshape(1, -1))
    counts = correlogram.window_counts(picture, step)
    assert counts.shape == (*correlogram.window_grid(40, 51, step), 30)
    assert counts.shape[:2] == ((40 - 12) // step + 1, (51 - 15) // step + 1)
    cut = [
        picture[line * step : line * step + 12, column * step : column * step + 15].reshape(-1)
        for line in range(counts.shape[0])
        for column in range(counts.shape[1])
    ]
    found = correlogram.features_of_counts(counts, counts.sum(axis=2, keepdims=True, dtype=np.float32))
    np.testing.assert_array_equal(found.reshape(-1, 30), correlogram.transform(np.array(cut)))


def test_a_picture_smaller_than_a_window_has_no_windows():
    correlogram = Correlogram(8, image=SHAPE).freeze(pictures().reshape(8, -1))
    assert correlogram.window_counts(np.zeros((11, 40, 3), np.uint8)).shape == (0, 4, 8)


def test_pixels_outside_of_the_range_have_the_colours_at_its_ends():
    correlogram = Correlogram(4, distance=1, image=(2, 2), values="count", precision="float64").freeze(
        [[0.0, 1.0, 2.0, 255.0]]
    )
    black, white = (np.argmax(correlogram.transform([[value] * 4])[0]) for value in (-1e300, 1e300))
    assert (black, white) == (0, 3)


def test_grids_and_palettes():
    for channels, levels in ((1, 256), (2, 181), (3, 32), (5, 8)):
        assert grid_levels(channels) == levels
    assert len(np.unique(fixed_palette(256, 3), axis=0)) == 252
    few = np.array([[1.0, 2.0, 3.0], [200.0, 100.0, 0.0]])
    found = sampled_palette(np.repeat(few, 50, axis=0), 10, np.random.default_rng(0))
    np.testing.assert_array_equal(found, few)


def test_a_palette_of_the_sample_is_nearer_to_its_pixels_than_a_fixed_one():
    X = np.random.default_rng(1).normal(120, 12, size=(50, 3 * 400)).clip(0, 255)
    pixels = X.reshape(-1, 3)

    def distortion(palette):
        near = ((pixels[:2000, None] - palette[None]) ** 2).sum(axis=2).min(axis=1)
        return near.mean()

    sampled = sampled_palette(pixels, 16, np.random.default_rng(0))
    assert distortion(sampled) < distortion(fixed_palette(16, 3)) / 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_colours": 1}, "n_colours must be an integer from 2"),
        ({"n_colours": 5000}, "n_colours must be at most 4,096"),
        ({"distance": 0}, "distance must be a positive integer"),
        ({"distance": (1, 2, 3)}, "distance must be a positive integer"),
        ({"palette": "web"}, "palette must be one of"),
        ({"values": "log"}, "values must be one of"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(ParameterError, match=message):
        Correlogram(**options)


def test_images_that_do_not_fit_are_refused():
    with pytest.raises(DataError, match=r"have 18000 columns, but the rows have 5"):
        Correlogram().freeze(np.zeros((2, 5)))
    with pytest.raises(ParameterError, match="no pairs at a vertical distance of 5"):
        Correlogram(8, image=(4, 9)).freeze(np.zeros((2, 36)))
    frozen = Correlogram(8, image=SHAPE).freeze(pictures().reshape(8, -1))
    with pytest.raises(DataError, match="The picture has 1 channels"):
        frozen.window_counts(np.zeros((40, 40)))
    scaled = Correlogram(8, image=SHAPE, scaling="columns").freeze(pictures().reshape(8, -1))
    with pytest.raises(ParameterError, match="by their place in an image"):
        scaled.window_counts(np.zeros((40, 40, 3)))
    with pytest.raises(FeatureMapError, match="not frozen"):
        Correlogram().window_counts(np.zeros((40, 40, 3)))


def test_correlograms_tell_blobs_from_scattered_pixels_of_the_same_colours():
    generator = np.random.default_rng(5)
    scattered = generator.permuted(np.tile(np.repeat([20, 220], 128), (200, 1)), axis=1)
    blobs = np.sort(scattered.reshape(200, 16, 16), axis=1).reshape(200, 256)
    X, y = np.concatenate([scattered, blobs]).astype(float), np.repeat([0, 1], 200)
    order = generator.permutation(400)
    plan = Correlogram(4, distance=3, values="root", image=(16, 16)).freeze(X)
    model = ms.solve(ms.learn(X[order[:200]], y[order[:200]], features=plan))
    assert model.score(X[order[200:]], y[order[200:]]) == 1.0
