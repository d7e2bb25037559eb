"""Files of every format that was ever written are read, and hold what they held."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mergesvm as ms
from mergesvm.files import FORMAT, read_format

RELEASED = Path(__file__).parent / "released"
X = [[1.0, 0.5], [2.0, 0.25], [3.0, 1.0], [4.0, -1.0], [0.0, 2.0], [1.5, 1.5]]
LABELS = ["a", "b", "c", "a", "b", "c"]
WEIGHTS = [1, 2, 1, 1, 1, 0.5]
NAMES = ["size", "weight"]


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_knowledge_and_models_of_every_format_are_read(number):
    stored = RELEASED / f"format-{number}.knowledge"
    assert read_format(stored) == number
    features = ms.features.load(RELEASED / f"format-{number}.features") if number > 1 else None
    today = ms.learn(X, LABELS, WEIGHTS, feature_names=NAMES, features=features)
    knowledge = ms.Knowledge.load(stored)
    assert knowledge.signature == today.signature
    for one, other in zip(knowledge.arrays(), today.arrays(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    model = ms.load_model(RELEASED / f"format-{number}.msvm")
    np.testing.assert_allclose(model.scores(X), ms.solve(today, C=2.0, multiclass="ovo").scores(X), atol=1e-10)


@pytest.mark.parametrize("number", range(3, FORMAT + 1))
def test_models_of_pegasos_are_read(number):
    model = ms.load_model(RELEASED / f"format-{number}-pegasos.msvm")
    assert (model.solver_, model.labels, model.feature_names_) == ("pegasos", ("a", "b", "c"), tuple(NAMES))
    assert model.domain.terms == {
        "lambda_": 0.1,
        "n_iter": 200,
        "batch_size": 2,
        "average": 0.5,
        "project": True,
        "fit_intercept": True,
        "intercept_scaling": pytest.approx(2.6080803924214706),
        "class_weight": {"a": 2.0, "b": 1.0, "c": 0.5},
        "multiclass": "ovo",
    }
    np.testing.assert_allclose(
        model.coef_,
        [[0.0650377462, 1.2185122864], [0.534212034, 1.5525298063], [0.835333013, 0.6620880732]],
    )
    np.testing.assert_allclose(model.intercept_, [-1.2058223647, -2.3542412404, -2.5153899438])
    machine = ms.PegasosSVC(0.1, 200, class_weight={"a": 2.0, "b": 1.0, "c": 0.5}, batch_size=2, project=True)
    np.testing.assert_allclose(machine.fit(X, LABELS).coef_, model.coef_, rtol=1e-9)
    np.testing.assert_allclose(machine.predict_proba(X), model.predict_proba(X), rtol=1e-9)
