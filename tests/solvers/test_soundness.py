from __future__ import annotations

import numpy as np
import pytest

import mergesvm as ms
from mergesvm.solvers.soundness import check_sound
from reference import blobs


@pytest.mark.parametrize("per_class", [True, False])
def test_taking_back_other_rows_is_found_out_when_solving(per_class):
    X, y = blobs(n=50, classes=2)
    wrong = ms.learn(X, y, per_class=per_class) - ms.learn(X[:40] * 5, y[:40], per_class=per_class)
    with pytest.raises(ms.errors.IndefiniteError, match="had never been added"):
        ms.solve(wrong)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("width", [3, 120])
def test_honest_retirement_is_never_refused(precision, width):
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(30_000, width)).astype(precision) + 5, generator.integers(0, 2, 30_000)
    X[:, 0] *= 1e6
    X[:, 1] = X[:, 2]
    left = ms.learn(X, y, precision=precision)
    for start in range(0, 29_990, 2_999):
        part = slice(start, start + 2_999)
        left = left - ms.learn(X[part], y[part], precision=precision)
        check_sound(left)
    assert left.rows.sum() == 10
