from __future__ import annotations

import sys

import numpy as np
from numba.core.dispatcher import Dispatcher

import mergesvm as ms


def compiled_signatures():
    """The signatures of all compiled functions of the methods and maps."""
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith(("mergesvm.methods", "mergesvm.features"))
    ]
    return {
        (value.__module__, value.__name__): tuple(value.signatures)
        for module in modules
        for value in vars(module).values()
        if isinstance(value, Dispatcher)
    }


def test_precompiled_estimators_compile_nothing_when_they_are_fitted():
    ms.precompile(estimators=True)
    before = compiled_signatures()
    assert {name.split(".")[2] for name, _ in before} >= {"kernel", "pegasos", "recursive", "ops"}
    generator = np.random.default_rng(1)
    X, y = generator.normal(size=(90, 9)), np.arange(90) % 2
    ms.RecursiveSVC().fit(X, y).learn_one(X[0], y[0])
    ms.PegasosSVC(n_iter=20).fit(X, y)
    ms.ParallelKernelSVC().fit(X, y)
    ms.features.Patches(3, size=2, pooling=1).freeze(X).transform(X)
    assert compiled_signatures() == before
