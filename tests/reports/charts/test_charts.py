from __future__ import annotations

import re

import numpy as np

from mergesvm.reports.charts.bars import bar_chart, signed_bar_chart
from mergesvm.reports.charts.cells import cell_map, heat_map
from mergesvm.reports.charts.line_chart import column_chart, line_chart
from mergesvm.reports.charts.svg import Series
from reports.pages import Page


def test_simplified_lines_keep_their_ends_and_shape():
    x = np.linspace(0, 1, 5_000)
    chart = line_chart([Series(x**2, "square", x=x)], "x", "y", label="Square")
    (path,) = re.findall(r'd="M([^"]+)"', chart)
    points = np.array([point.split() for point in path.split("L")], dtype=float)
    assert len(points) < 100
    np.testing.assert_allclose(points[[0, -1], 0], [46, 370])
    across, up = (points[:, 0] - 46) / 324, (points[0, 1] - points[:, 1]) / np.ptp(points[:, 1])
    np.testing.assert_allclose(up, across**2, atol=2e-3)


def test_empty_charts_are_drawn():
    assert "nothing to draw" in line_chart([], "x", "y", label="None")
    assert "nothing to draw" in line_chart([Series([np.nan], "none", x=[0.5])], "x", "y", label="None")
    Page(column_chart([0.0, 0.0], ["a", "b"], label="None", y_name="rows"))
    Page(bar_chart(["a"], [Series([0.0], "true")], label="None"))
    Page(heat_map(np.zeros((2, 2)), ["a", "b"], ["a", "b"], label="None"))


def test_empty_cell_maps_and_bars_are_drawn():
    Page(cell_map(np.full((1, 2), np.nan), ["a"], ["x", "y"], label="None"))
    assert "∞" in cell_map(np.array([[np.inf, 0.0]]), ["a"], ["x", "y"], label="Far")
    Page(signed_bar_chart([], [], label="None"))
    Page(signed_bar_chart(["a", "b"], [np.nan, 0.0], label="None"))
