"""The option that chooses a feature map."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mergesvm.cli.open_files import open_any
from mergesvm.errors import ParameterError
from mergesvm.features.base import FeatureMap
from mergesvm.features.maps.identity import Identity
from mergesvm.features.spec import as_map, is_map_name

Features = Annotated[
    str | None,
    typer.Option(
        help="Feature map: a name and size such as fourier:4000, or a file: one written by mergesvm map, knowledge, "
        "or a model."
    ),
]


def chosen_map(given: str | None, like: Any = None) -> FeatureMap:
    """The feature map of this name or file; if none is given, that of ``like``, or the identity."""
    if given is None:
        return Identity() if like is None else _map_of(like)
    if is_map_name(given):
        return as_map(given)
    found = _map_of(open_any(Path(given)))
    if isinstance(found, Identity):
        raise ParameterError(f"{given} was learned without a feature map. Omit --features, or use --like.")
    return found


def _map_of(content: Any) -> FeatureMap:
    found: FeatureMap = content if isinstance(content, FeatureMap) else content.signature.features
    return found


def knows_columns(features: FeatureMap) -> bool:
    """Whether a map determines which columns are read."""
    return features.frozen and not isinstance(features, Identity)
