from __future__ import annotations

import numpy as np
import pytest

from mergesvm.reports.charts.axis import Axis


@pytest.mark.parametrize(
    ("values", "log"),
    [
        ([0.2405, 0.71], False),
        ([-3.0, 1e6], False),
        ([0.5], False),
        ([0.0, 0.0], False),
        ([1e-12, 2e-12], False),
        ([np.nan, np.inf], False),
        ([1e-6, 1e6], True),
        ([3.0, 8.0], True),
        ([2.0], True),
        ([np.nan], True),
    ],
)
def test_an_axis_spans_its_values_with_round_ticks(values, log):
    axis = Axis.over(values, log)
    known = np.array([value for value in values if np.isfinite(value)])
    assert axis.low < axis.high
    assert not len(known) or (axis.low <= known.min() and known.max() <= axis.high)
    places, texts = zip(*axis.ticks(), strict=True)
    assert 2 <= len(places) <= 14
    assert np.all(np.diff(places) > 0)
    assert len(set(texts)) == len(texts)
    assert min(places) >= 0
    assert max(places) <= 1
    assert np.isnan(axis.place([np.nan]))[0]
    marks = [float(text) for text in texts]
    np.testing.assert_allclose(axis.place(marks), places, atol=2e-2)
