from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import mergesvm as ms
from mergesvm.features.pilot import PILOT_ROWS, Pilot

DIGITS, _ = load_digits(return_X_y=True)
ROWS = np.random.default_rng(5).normal(size=(300, 4)) * [1, 10, 0.1, 3] + [0, 5, 1, -2]


def test_images_are_scaled_as_a_whole_and_tables_by_column():
    assert len(set(Pilot.of(DIGITS).centre_and_scale("auto")[1])) == 1
    np.testing.assert_allclose(Pilot.of(ROWS).centre_and_scale("auto")[1], ROWS.std(axis=0))
    np.testing.assert_allclose(Pilot.of(ROWS).centre_and_scale("range")[1], np.ptp(ROWS, axis=0))
    _, scale = Pilot.of(np.full((20, 3), 0.1)).centre_and_scale("columns")
    np.testing.assert_array_equal(scale, 1.0)


def test_the_pilot_is_sampled_from_all_rows_without_replacement():
    rows = np.arange(20_000.0)[:, None]
    pilot = Pilot.of(rows, seed=3)
    assert len(np.unique(pilot.rows)) == PILOT_ROWS
    assert abs(pilot.rows[:500].mean() - 10_000) < 1500
    np.testing.assert_array_equal(pilot.rows, Pilot.of(rows, seed=3).rows)


def test_a_pilot_sample_of_uneven_files_has_the_required_size(tmp_path):
    rng = np.random.default_rng(0)
    for index, count in enumerate([3000, 300, 10, 5, 5]):
        np.savetxt(
            tmp_path / f"{index}.csv",
            rng.normal(size=(count, 3)),
            delimiter=",",
            header="a,b,y",
            comments="",
            fmt="%.3f",
        )
    scan = ms.scan(tmp_path / "*.csv", label=None, features=["a", "b"])
    assert len(Pilot.of(scan).rows) == 3320
    assert len(Pilot.of(scan, min_rows=1000).rows) == 3320
    slices = ms.scan(tmp_path / "0.csv", label=None, features=["a", "b"], batch_rows=500)
    assert len(Pilot.of(slices).rows) == 500
    assert len(Pilot.of(slices, min_rows=1200).rows) >= 1200


def test_a_map_is_not_frozen_on_one_class_in_silence(tmp_path):
    for name, last in (("sorted", "b"), ("pure", "a")):
        lines = [f"{row % 7},{row % 3},{'a' if row < 6000 else last}" for row in range(6200)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,z,y", *lines, ""]))
    mapping = ms.features.Fourier(8)
    with pytest.warns(ms.errors.OneClassWarning, match=r"4,096 rows that are all of class 'a', but .*sorted\.csv"):
        mapping.freeze(ms.scan(tmp_path / "sorted.csv", "y", batch_rows=5000))
    # Warnings are errors here.
    mapping.freeze(ms.scan(tmp_path / "sorted.csv", "y", batch_rows=6200))
    mapping.freeze(ms.scan(tmp_path / "pure.csv", "y", batch_rows=5000))
    mapping.freeze(ms.scan(tmp_path / "sorted.csv", features=["x", "z"], batch_rows=5000))
