"""Random streams, and live models of them."""

from __future__ import annotations

import numpy as np

import mergesvm as ms
from mergesvm.features import Identity
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.recursive.live import LiveModel
from mergesvm.methods.recursive.options import RecursiveOptions


def make_stream(n_rows, width, n_classes=3, seed=0, offset=0.0):
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(n_classes, width))
    y = generator.integers(0, n_classes, n_rows)
    return centres[y] + 1.5 * generator.normal(size=(n_rows, width)) + offset, y


def live_model(width, **options):
    return LiveModel(Signature(Identity(), width), RecursiveOptions(**options))


def relative_error(live, X, y, **options):
    """Largest difference from the coefficients of the closed form, relative to the largest of these."""
    expected = ms.solve(ms.learn(X, y), **options).coef_
    return np.abs(live.model(probabilities=False).coef_ - expected).max() / np.abs(expected).max()
