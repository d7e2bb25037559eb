"""Reading models, and any other file of this library."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from mergesvm.features.format import load as load_features
from mergesvm.files.container import read_container, read_kind
from mergesvm.files.content import Content
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.models.expansion import Expansion
from mergesvm.models.formats.native import FILE_KIND
from mergesvm.models.formats.reading import StoredModel, read_model
from mergesvm.models.kernel import KernelModel
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.models.score_moments import SideMoments

AnyModel = LinearModel | PairwiseModel | KernelModel


def load(path: str | os.PathLike[str]) -> Any:
    """Read the :class:`Knowledge`, :class:`Folds`, feature map or model in a file.

    >>> import mergesvm as ms, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "today.knowledge")
    ...     ms.learn([[0.0], [1.0]], ["a", "b"]).save(path)
    ...     ms.load(path).labels
    ('a', 'b')
    """
    readers: dict[str, Callable[[Any], Any]] = {
        "knowledge": Knowledge.load,
        "folds": Folds.load,
        "features": load_features,
    }
    return readers.get(read_kind(path), load_model)(path)


def load_model(path: str | os.PathLike[str]) -> AnyModel:
    """Read a model from a file, and check all of it.

    >>> import mergesvm as ms
    >>> ms.load_model("nowhere.msvm")
    Traceback (most recent call last):
    ...
    mergesvm.errors.MissingFileError: There is no file nowhere.msvm.
    """
    header, arrays = read_container(path, FILE_KIND)
    for array in arrays.values():
        array.flags.writeable = False
    stored = read_model(header, Content(arrays, str(path)))
    model = _built(stored)
    model.calibration_ = stored.calibration
    return model


def _built(stored: StoredModel) -> AnyModel:
    domain, moments, ties = stored.domain, stored.moments, stored.ties
    if isinstance(stored.scorer, Expansion):
        assert isinstance(moments, SideMoments)
        assert ties is not None
        return KernelModel(domain, stored.scorer, moments, ties, stored.solver)
    if stored.kind == "pairwise":
        assert isinstance(moments, SideMoments)
        assert ties is not None
        return PairwiseModel(domain, stored.scorer, moments, ties)
    return LinearModel(domain, stored.scorer, moments)
