"""Prequential evaluation: every row is predicted before it is learned."""

from __future__ import annotations

import numpy as np

from live_streams import live_model, make_stream
from mergesvm.data.batch import Batch
from mergesvm.methods.recursive.prequential import MAX_POINTS, Prequential


def test_every_row_with_weight_is_counted_once():
    X, y = make_stream(5000, 4)
    weights = np.ones(5000)
    weights[::7] = 0.0
    live = live_model(4)
    test = Prequential(live, every=3)
    for start in range(0, 5000, 640):
        part = slice(start, start + 640)
        test.update(Batch.of(X[part], y[part], weights[part]))
    counted = weights > 0
    predicted = live_model(4)
    places = predicted.predict_then_learn(Batch.of(X[counted], y[counted]))
    right = np.array(predicted.labels)[places] == y[counted]
    right[0] = False
    assert test.rows == counted.sum()
    assert test.correct == right.sum()
    usual, counts = 0, {}
    for label in y[counted].tolist():
        usual += bool(counts) and max(counts, key=lambda key: (counts[key], 0)) == label
        counts[label] = counts.get(label, 0) + 1
    assert abs(test.baseline_correct - usual) < 60  # ties are broken in another way
    assert len(test.points) < MAX_POINTS
    whole = len(test.points) * test.every
    np.testing.assert_allclose(np.mean([point[1] for point in test.points]), right[:whole].mean())
    assert [point[0] for point in test.points] == list(range(test.every, whole + 1, test.every))


def test_results_do_not_depend_on_the_size_of_batches():
    X, y = make_stream(600, 2)
    found = set()
    for step in (1, 7, 600):
        test = Prequential(live_model(2), every=50)
        for start in range(0, 600, step):
            test.update(Batch.of(X[start : start + step], y[start : start + step]))
        found.add((test.correct, test.baseline_correct))
    assert len(found) == 1
