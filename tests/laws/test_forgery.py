"""Forged files that the search of test_corruption.py has found, each with the question that failed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mergesvm as ms
from mergesvm.errors import DataError, ParameterError

rng = np.random.default_rng(3)
X, Y = rng.normal(size=(40, 3)), np.array(["a", "b"])[np.arange(40) % 2]


@pytest.mark.parametrize("per_class", [True, False])
def test_a_piece_that_outweighs_all_others_by_rounding_is_reported(per_class, tmp_path):
    """Without it no weight is left, although rows are: influence and drift divided by zero."""
    light = ms.learn(X, Y, per_class=per_class)
    heavy = ms.learn(X + 1, Y, np.full(40, 1e90), per_class=per_class)
    ms.report({"light": light, "heavy": heavy}, tmp_path / "page.html")


@pytest.mark.parametrize(("name", "value"), [("scale", 1e-60), ("middle", 1e60)])
def test_a_map_whose_numbers_overflow_in_float32_is_not_used(name, value, tmp_path):
    frozen = ms.features.Fourier(4).freeze(X)
    arrays = {**frozen.arrays, name: np.full(len(frozen.arrays[name]), value)}
    with pytest.raises(DataError, match="for a map of float32"):
        replace(frozen, state=replace(frozen.fixed, arrays=arrays)).save(tmp_path / "m")


def test_large_weights_of_float32_products_are_written(tmp_path):
    learned = ms.learn(X, Y, np.full(40, 1e50))
    replace(learned, precision="float32").save(tmp_path / "k")
    assert ms.Knowledge.load(tmp_path / "k").precision == "float32"


def test_labels_that_are_not_unicode_are_not_exported(tmp_path):
    model = ms.solve(ms.learn(X, ["\ud800" if label == "a" else label for label in Y]))
    with pytest.raises(ParameterError, match="is not valid Unicode"):
        model.to_onnx(tmp_path / "m.onnx")
