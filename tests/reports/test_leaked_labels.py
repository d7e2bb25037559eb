"""Columns that give the label away: losses are zero up to rounding, and reports are written as for any other data."""

from __future__ import annotations

import numpy as np
import pytest

import mergesvm as ms
from mergesvm.analysis.importance import Elimination


@pytest.mark.filterwarnings("ignore::mergesvm.errors.SolverWarning")
@pytest.mark.parametrize("C", [1e9, "auto"])
@pytest.mark.parametrize(
    ("n_classes", "scale", "offset", "seed"), [(2, 1e3, 0.0, 1), (3, 1.0, 0.0, 0), (3, 1e3, 1e4, 0)]
)
def test_a_leaked_label_does_not_end_the_report(C, n_classes, scale, offset, seed, tmp_path):
    for each in range(seed + 1):
        rng = np.random.default_rng(each)
        y = rng.integers(0, n_classes, 60)
        leak = y[:, None] if n_classes == 2 else np.eye(n_classes)[y]
        X = np.column_stack([rng.normal(size=(60, 2)), leak]) * scale + offset
        ms.report(ms.learn(X, y, folds=3), tmp_path / "page.html", C=C)


def test_a_squared_loss_is_not_negative():
    """The true loss is about 1e-22; the sums that cancel have rounding errors of 1e-14."""
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(20):
        y = rng.integers(0, 2, 40)
        X = np.column_stack([rng.normal(size=(40, 3)), y])
        folds = ms.learn(X, y, folds=2)
        losses.append(-ms.validate(folds, Cs=[1e11], scoring="neg_squared_loss").mean())
    assert np.min(losses) >= 0
    assert np.max(losses) < 1e-9


@pytest.mark.parametrize("losses", [[0.0, 1e-16, 1e-15, 0.3], [-1e-16, 0.0, 1e-14, 1.0], [1e-17, np.nan, 0.0, 1.0]])
def test_losses_of_zero_up_to_rounding_are_equal(losses):
    found = Elimination(tuple("abc"), np.array([2, 1, 0]), np.zeros(4), np.zeros(4), np.array(losses))
    assert found.best == 1
