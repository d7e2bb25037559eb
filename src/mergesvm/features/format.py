"""Maps as files, and as parts of the files of knowledge and models: docs/file-format.md describes them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.readers.base import Layout
from mergesvm.data.schema_format import layout_fields, read_layout
from mergesvm.errors import FeatureMapError, MergeSVMError
from mergesvm.features.base import FeatureMap
from mergesvm.features.maps.chain import Chain
from mergesvm.features.maps.identity import Identity
from mergesvm.features.random_map import RandomMap, State
from mergesvm.features.spec import drawn_classes
from mergesvm.files.container import library_version, read_container, write_container
from mergesvm.files.content import Content, check_sizes
from mergesvm.files.header import Header

KIND = "features"

LONGEST_MESSAGE = 300
"""Messages quote values, which in a file may be of any length."""


def save_map(features: FeatureMap, path: str | os.PathLike[str]) -> None:
    """Write a frozen map to a file, which is replaced as a whole or not at all."""
    header, arrays = map_parts(features)
    check_sizes(arrays)
    write_container(path, KIND, {"features": header, "library": library_version()}, arrays)


def load(path: str | os.PathLike[str]) -> FeatureMap:
    """Read a frozen map from a file; everything is checked before anything is used.

    >>> import mergesvm as ms
    >>> ms.features.load("nowhere.features")
    Traceback (most recent call last):
    ...
    mergesvm.errors.MissingFileError: There is no file nowhere.features.
    """
    header, arrays = read_container(path, KIND)
    content = Content(arrays, str(path))
    features = read_map(header, content)
    content.done()
    return features


def map_parts(features: FeatureMap) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
    """A frozen map as plain values, one object for each map of a chain, and as arrays."""
    if isinstance(features, Identity):
        return [], {}
    stages = features.stages if isinstance(features, Chain) else (features,)
    header: list[dict[str, Any]] = []
    arrays: dict[str, NDArray[Any]] = {}
    for index, stage in enumerate(stages):
        if not isinstance(stage, RandomMap):
            raise FeatureMapError(
                f"{stage!r} cannot be written to a file: it is code, and files hold none. Use a map of "
                f"mergesvm.features ({', '.join(drawn_classes())}), or keep it within the process."
            )
        header.append(
            {
                "map": stage.kind,
                "parameters": [stage.parameters],
                "pilot_rows": stage.fixed.pilot_rows,
                **layout_fields(stage.layout),
            }
        )
        arrays |= {f"features.{index}.{name}": array for name, array in stage.arrays.items()}
    return header, arrays


def read_map(header: Header, content: Content) -> FeatureMap:
    """A map from plain values and arrays, each checked."""
    parts = header.parts("features")
    stages: list[RandomMap] = []
    for index, part in enumerate(parts):
        stage = _read_stage(part, content, index)
        if stages and stages[-1].width != stage.layout.width:
            header.refuse("has maps that do not follow one another")
        stages.append(stage)
    if len(stages) < 2:
        return stages[0] if stages else Identity()
    try:
        return Chain(tuple(stages))
    except MergeSVMError as error:
        header.refuse(f"has no valid chain of maps: {_brief(error)}")


def _read_stage(part: Header, content: Content, index: int) -> RandomMap:
    kinds = drawn_classes()
    kind = kinds[part.text("map", *kinds)]
    layout: Layout = read_layout(part)
    given = part.parts("parameters")
    if len(given) != 1 or set(given[0].fields) != set(kind.parameter_names()):
        part.refuse(f"has not the parameters of a map {kind.kind!r}")
    try:
        unfrozen = kind(**given[0].fields)
        unfrozen.count(layout.width)
        shapes = unfrozen.shapes(layout.width)
    except MergeSVMError as error:
        part.refuse(f"has no valid map: {_brief(error)}")
    arrays = {name: content.expect(f"features.{index}.{name}", (layout.width,)) for name in ("centre", "scale")}
    if not (arrays["scale"] >= np.finfo(np.float64).tiny).all():
        content.refuse("a scale that is not positive")
    arrays["middle"] = content.expect(f"features.{index}.middle", (unfrozen.count(layout.width),))
    for name, shape in {"gain": (1,), **shapes}.items():
        arrays[name] = content.expect(f"features.{index}.{name}", shape, unfrozen.dtype.newbyteorder("<").str)
    state = State(layout, arrays, part.whole("pilot_rows"))
    return kind(**given[0].fields, state=state)


def _brief(error: MergeSVMError) -> str:
    """What is wrong, without all of a value that may be as long as a file."""
    text = str(error).rstrip(".")
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}..."
