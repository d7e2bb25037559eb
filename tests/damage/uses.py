"""What is done with a file; every way to fail but an error of ours is a finding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import mergesvm as ms
from mergesvm.files.container import read_container, read_kind


def use_data(path: Path, terms: dict[str, Any]) -> None:
    scan = ms.scan(path, **terms)
    learned = ms.learn(scan)
    assert all(np.isfinite(array).all() for array in learned.arrays()), "knowledge that is not finite"
    assert learned.width == scan.width == len(learned.anchor), "knowledge of a wrong width"
    assert learned.labels == tuple(sorted(set(learned.labels))), f"classes {learned.labels}"
    assert learned.rows.sum() == scan.rows or "weight" in terms, "rows that are not counted"
    like = terms.get("like")
    assert like is None or learned.signature.names == like.signature.names, "knowledge of other features"


def use_sealed(path: Path, _: dict[str, Any]) -> None:
    """A file of ours whose digest is as it was made: it fails, or its content is the same to the last bit."""
    kind = read_kind(path.with_name("pristine"))
    original = read_container(path.with_name("pristine"), kind)
    loaders = {"model": ms.load_model, "features": ms.features.load, "folds": ms.Folds.load}
    loaders.get(kind, ms.Knowledge.load)(path)
    header, arrays = read_container(path, read_kind(path))
    assert header.fields == original[0].fields, "another header"
    assert {k: v.tobytes() for k, v in arrays.items()} == {k: v.tobytes() for k, v in original[1].items()}, "arrays"
