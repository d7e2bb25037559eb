"""Reading frozen maps from files; docs/file-format.md describes the format."""

from __future__ import annotations

import os

import numpy as np

from mergesvm.data.layout_format import read_layout
from mergesvm.errors import MergeSVMError
from mergesvm.features.base import FILE_KIND, FeatureMap
from mergesvm.features.maps.chain import Chain
from mergesvm.features.maps.identity import Identity
from mergesvm.features.random_map import RandomMap, State
from mergesvm.features.registry import random_map_classes
from mergesvm.files.container import read_container
from mergesvm.files.content import Content
from mergesvm.files.header import Header

MAX_MESSAGE_LENGTH = 300
"""Longer messages are cut: they quote values, which may have any length in a file."""


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
    stages: list[RandomMap] = []
    for index, part in enumerate(header.parts("features")):
        stage = _read_stage(part, content, index)
        if stages and stages[-1].width != stage.layout.width:
            header.refuse("has maps that do not follow one another")
        stages.append(stage)
    if len(stages) < 2:
        return stages[0] if stages else Identity()
    try:
        return Chain(tuple(stages))
    except MergeSVMError as error:
        header.refuse(f"has no valid chain of maps: {_shortened(error)}")


def _read_stage(part: Header, content: Content, index: int) -> RandomMap:
    kinds = random_map_classes()
    kind = kinds[part.text("map", *kinds)]
    layout = read_layout(part)
    given = part.parts("parameters")
    if len(given) != 1 or set(given[0].fields) != set(kind.parameter_names()):
        part.refuse(f"has not the parameters of a map {kind.kind!r}")
    try:
        unfrozen = kind(**given[0].fields)
        width = unfrozen.n_outputs(layout.width)
        shapes = unfrozen.shapes(layout.width)
    except MergeSVMError as error:
        part.refuse(f"has no valid map: {_shortened(error)}")
    arrays = {name: content.expect(f"features.{index}.{name}", (layout.width,)) for name in ("centre", "scale")}
    if not (arrays["scale"] >= np.finfo(np.float64).tiny).all():
        content.refuse("a scale that is not positive")
    arrays["middle"] = content.expect(f"features.{index}.middle", (width,))
    for name, shape in {"gain": (1,), **shapes}.items():
        arrays[name] = content.expect(f"features.{index}.{name}", shape, unfrozen.dtype.newbyteorder("<").str)
    state = State(layout, arrays, part.whole("pilot_rows"))
    return kind(**given[0].fields, state=state)


def _shortened(error: MergeSVMError) -> str:
    text = str(error).rstrip(".")
    return text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[:MAX_MESSAGE_LENGTH]}..."
