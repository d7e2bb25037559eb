"""Reading frozen maps from files; docs/file-format.md describes the format."""

from __future__ import annotations

import os

from mergesvm.errors import MergeSVMError
from mergesvm.features.base import FILE_KIND, FeatureMap
from mergesvm.features.maps.chain import Chain
from mergesvm.features.maps.identity import Identity
from mergesvm.features.random_map import RandomMap, shortened
from mergesvm.features.registry import random_map_classes
from mergesvm.files.container import read_container
from mergesvm.files.content import Content
from mergesvm.files.header import Header


def load(path: str | os.PathLike[str]) -> FeatureMap:
    """Read a frozen map from a file. The whole file is checked first.

    >>> import mergesvm as ms
    >>> ms.features.load("nowhere.features")
    Traceback (most recent call last):
    ...
    mergesvm.errors.MissingFileError: There is no file nowhere.features.
    """
    header, arrays = read_container(path, FILE_KIND)
    content = Content(arrays, str(path))
    features = read_map(header, content)
    content.done()
    return features


def read_map(header: Header, content: Content) -> FeatureMap:
    """Build a map from the header and arrays of a file, and check them."""
    parts = header.parts("features")
    if not parts:
        return Identity()  # without importing all maps
    kinds, stages = random_map_classes(), list[RandomMap]()
    for index, part in enumerate(parts):
        stage = kinds[part.text("map", *kinds)].read_stage(part, content, index)
        if stages and stages[-1].width != stage.layout.width:
            header.refuse("has maps that do not follow one another")
        stages.append(stage)
    if len(stages) == 1:
        return stages[0]
    try:
        return Chain(tuple(stages))
    except MergeSVMError as error:
        header.refuse(f"has no valid chain of maps: {shortened(error)}")
