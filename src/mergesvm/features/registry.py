"""Discovery of the feature maps in :mod:`mergesvm.features.maps`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache

from mergesvm.features import maps
from mergesvm.features.base import FeatureMap
from mergesvm.features.random_map import RandomMap


@cache
def map_classes() -> tuple[type[FeatureMap], ...]:
    """Return all feature map classes, sorted by kind.

    >>> [each.kind for each in map_classes()]
    ['chain', 'correlogram', 'fourier', 'hidden', 'identity', 'nystroem', 'patches', 'pca', 'wrapped']
    """
    modules = [importlib.import_module(f"{maps.__name__}.{item.name}") for item in pkgutil.iter_modules(maps.__path__)]
    values = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    found = {value for value in values if issubclass(value, FeatureMap) and not inspect.isabstract(value)}
    return tuple(sorted(found, key=lambda each: each.kind))


def random_map_classes() -> dict[str, type[RandomMap]]:
    """Return the random maps by kind: those that have parameters and can be saved."""
    return {each.kind: each for each in map_classes() if issubclass(each, RandomMap)}
