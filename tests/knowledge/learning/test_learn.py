from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import mergesvm as ms
from mergesvm.knowledge.gram.jit_policy import GRAM_JIT
from reference import blobs


def test_no_copy_of_the_whole_is_made():
    X, y = np.random.default_rng(0).integers(0, 255, (60_000, 300), dtype=np.uint8), np.arange(60_000) % 3
    for columns in (300, 20):  # the wide and the narrow way
        part = X[:, :columns]
        ms.learn(part[:1000], y[:1000])
        tracemalloc.start()
        k = ms.learn(part, y, n_jobs=2)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < k.nbytes + 60e6
        assert peak < part.size * 8


def test_compiled_functions_are_loaded_only_when_they_pay():
    script = """
import sys
import numpy as np
from sklearn.datasets import load_iris
import mergesvm as ms
assert not {"numba", "polars", "matplotlib", "typer"} & set(sys.modules), "import is not lean"
X, y = load_iris(return_X_y=True)
ms.MergeSVC().fit(X, y).predict(X)
assert "numba" not in sys.modules, "loaded for a small set"
from mergesvm.knowledge.gram.jit_policy import GRAM_JIT, LOAD_SECONDS
GRAM_JIT.when_worth(LOAD_SECONDS - 1e-3)
assert "numba" not in sys.modules, "loaded before it pays"
ms.learn(np.tile(X, (200, 1)), np.tile(y, 200))
assert "numba" in sys.modules, "not loaded when it pays"
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_model_is_the_same_with_and_without_compiled_functions(monkeypatch):
    X, y = blobs(seed=1, n=5_000, d=12, classes=3, offset=1e4)
    GRAM_JIT.load()
    compiled = ms.solve(ms.learn(X, y)).scores(X)
    monkeypatch.setattr(GRAM_JIT, "enabled", False)
    np.testing.assert_allclose(ms.solve(ms.learn(X, y)).scores(X), compiled, atol=1e-10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"precision": "float16"}, "not 'float16'"),
        ({"feature_names": ["a"]}, "3 different names"),
        ({"feature_names": ["a", "b", "b"]}, "3 different names"),
        ({"n_jobs": 0}, "not 0"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, message):
    X, y = blobs(n=10)
    with pytest.raises(ms.errors.ParameterError, match=message):
        ms.learn(X, y, **arguments)


def test_values_too_large_to_be_squared_are_refused():
    with pytest.raises(ms.errors.DataError, match="too large to be squared"):
        ms.learn([[1e200], [-1e200]], ["a", "b"])
    X = np.full((4, 120), 1e30, dtype=np.float32)
    X[::2] = -1e30
    with pytest.raises(ms.errors.DataError, match="learn in float64"):
        ms.learn(X, list("aabb"), precision="float32")
    assert ms.learn(X, list("aabb")).labels == ("a", "b")
