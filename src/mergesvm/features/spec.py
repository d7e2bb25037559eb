"""Feature maps from text such as ``fourier:4000,gamma=0.5``, as the command line and estimators accept it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mergesvm.errors import ParameterError
from mergesvm.features.base import FeatureMap
from mergesvm.features.maps.chain import Chain
from mergesvm.features.maps.identity import Identity
from mergesvm.features.random_map import RandomMap
from mergesvm.features.registry import random_map_classes


def as_map(features: Any, n_features: int | None = None, seed: int | None = None) -> FeatureMap:
    """Return the feature map that a user names: None, a map, or a name with parameters.

    Parameters
    ----------
    features : None, FeatureMap or str
        ``name``, ``name:size`` or ``name:size,parameter=value,...``; several joined by ``+`` form a chain.
    n_features : int, optional
        The size if the name gives none.
    seed : int, optional
        The seed if the name gives none.

    Examples
    --------
    >>> as_map("fourier:4000,gamma=0.5")
    Fourier(4000, gamma=0.5)
    >>> as_map("patches:64,size=5+hidden:2000,activation=tanh", seed=3)
    Chain([Patches(64, size=5, seed=3), HiddenLayer(2000, activation='tanh', seed=3)])
    """
    if features is None:
        return Identity()
    if isinstance(features, FeatureMap):
        return features
    if not isinstance(features, str):
        raise ParameterError(f"features must be a map, the name of one, or None, not {features!r}.")
    if features.strip() == "identity":
        return Identity()
    stages = [_stage(text, n_features, seed) for text in features.split("+")]
    return stages[0] if len(stages) == 1 else Chain(tuple(stages))


def is_map_name(text: str) -> bool:
    """Return whether a text names a map rather than a file.

    >>> is_map_name("patches:64+nystroem:2000,detail=0.25"), is_map_name("plan.features")
    (True, False)
    """
    word = text.partition("+")[0].partition(":")[0].strip()
    return word in {"identity", *random_map_classes()} or (":" in text and not Path(text).exists())


def _stage(text: str, n_features: int | None, seed: int | None) -> RandomMap:
    name, colon, rest = text.strip().partition(":")
    kinds = random_map_classes()
    if name not in kinds:
        raise ParameterError(
            f"There is no feature map {name!r}. Available: {', '.join(kinds)}; for example fourier:4000 or "
            f"hidden:1000,activation=tanh."
        )
    kind = kinds[name]
    allowed = kind.parameter_names()
    given: dict[str, Any] = {} if seed is None else {"seed": seed}
    seen: set[str] = set()
    parts = [part.strip() for part in rest.split(",")] if colon else []
    size = kind.default_size if n_features is None else n_features
    for index, part in enumerate(parts):
        parameter, equals, value = part.partition("=")
        if not equals and index == 0:
            given[allowed[0]] = _value(part)
            seen.add(allowed[0])
        elif not equals or parameter.strip() not in allowed:
            raise ParameterError(f"{name} has no parameter {part!r}. It has: {', '.join(allowed)}.")
        elif parameter.strip() in seen:
            raise ParameterError(f"{name} has the parameter {parameter.strip()!r} twice.")
        else:
            seen.add(parameter.strip())
            given[parameter.strip()] = _value(value.strip())
    return kind.from_text(given, size)


def _value(text: str) -> Any:
    """Parse a number, a boolean, None or a shape such as 28x28; anything else stays text."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    sides = text.split("x")
    shape = len(sides) > 1 and all(side.isdecimal() and len(side) < 10 for side in sides)
    return tuple(map(int, sides)) if shape else text
