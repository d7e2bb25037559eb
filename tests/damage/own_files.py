"""Small files of knowledge, folds, models and feature maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import mergesvm as ms
from damage.data_files import ANSWERS, IMAGES, X
from mergesvm.features import Chain, FeatureMap, Fourier, Nystroem, Patches


def knowledge(per_class: bool = True) -> ms.Knowledge:
    weights = None if per_class else {"no": 1.0, "yes": 2.5, "maybe": 0.5}
    names = ["size", "côté", "[/]"]
    whole = ms.learn(X + 1e4, ANSWERS, feature_names=names, per_class=per_class, class_weight=weights)
    part = ms.learn(X[:6] + 1e4, ANSWERS[:6], feature_names=names, per_class=per_class, class_weight=weights)
    return ms.subtract(whole, part, force=True)


def write_knowledge(path: Path) -> None:
    knowledge("pooled" not in path.name).save(path)


def write_folds(path: Path) -> None:
    """Folds by rows, or as given, with rows that are never held out and pieces about anchors of their own."""
    rows, names = X + 1e4, ["size", "côté", "[/]"]
    whole = ms.learn(rows, ANSWERS, feature_names=names, folds=3)
    if "given" in path.name:
        numbers = np.arange(24) // 3 % 4 - 1
        whole = ms.learn(rows, ANSWERS, feature_names=names, folds=numbers)
        whole = whole + ms.learn(rows[:9] + 1e3, ANSWERS[:9], feature_names=names, folds=numbers[:9] * 0 + 2)
    else:
        part = ms.learn(rows[:6], ANSWERS[:6], feature_names=names, folds=3)
        whole = ms.subtract(whole, part, force=True)
    whole.save(path)


def write_model(path: Path) -> None:
    ms.solve(knowledge(), multiclass="ovo" if "pairs" in path.name else "ovr", class_weight="balanced").save(path)


def write_pegasos(path: Path) -> None:
    weights = {"no": 1.0, "yes": 2.5, "maybe": 0.5}
    ms.PegasosSVC(1e-2, 50, class_weight=weights, n_jobs=1).fit(X, ANSWERS).model_.save(path)


def write_calibrated(path: Path) -> None:
    """A model of planes or of support vectors, calibrated by the method in its name."""
    method = "platt" if "platt" in path.name else "isotonic"
    model: Any = ms.solve(knowledge(), multiclass="ovo" if "pairs" in path.name else "ovr")
    if "kernel" in path.name:
        model = ms.ParallelKernelSVC(gamma=0.1, n_jobs=1).fit(X, ANSWERS).model_
    model.calibrated(X if "kernel" in path.name else X + 1e4, ANSWERS, method=method).save(path)


def write_kernel(path: Path) -> None:
    """A kernel model, with support vectors that are sparse, bytes or of float64, as the name says."""
    rows: Any = IMAGES if "bytes" in path.name else X
    terms: dict[str, Any] = {"kernel": "poly", "degree": 2} if "bytes" in path.name else {"beta": 1.0, "units": 2}
    if "sparse" in path.name:
        rows = sparse.random_array((24, 30), density=0.1, rng=np.random.default_rng(7), format="csr")
        terms = {"precision": "float32", "class_weight": {"no": 1.0, "yes": 2.5, "maybe": 0.5}}
    ms.ParallelKernelSVC(gamma=0.1, n_jobs=1, **terms).fit(rows, ANSWERS).model_.save(path)
    # What float32 needs is compiled before any clock runs.
    ms.ParallelKernelSVC(precision="float32", n_jobs=1).fit(X, ANSWERS).predict(X)


def plan(name: str) -> FeatureMap:
    """A map of tiny images: of their patches, or of landmarks among them."""
    wanted = Chain([Patches(3, size=2, padding=1, pooling=2), Fourier(6)]) if "chain" in name else Nystroem(5)
    return wanted.freeze(IMAGES)


def write_features(path: Path) -> None:
    plan(path.name).save(path)


def write_mapped(path: Path) -> None:
    learned = ms.learn(IMAGES, ANSWERS, features=plan(path.name))
    if path.suffix == ".knowledge":
        part = ms.learn(IMAGES[:6], ANSWERS[:6], features=learned.features)
        ms.subtract(learned, part, force=True).save(path)
    else:
        ms.solve(learned, multiclass="ovo" if "chain" in path.name else "ovr").save(path)
