"""Feature maps, which are applied to rows before they are summed. Knowledge records the frozen map."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mergesvm.features.base import FeatureMap
    from mergesvm.features.format import load
    from mergesvm.features.maps.chain import Chain
    from mergesvm.features.maps.components import Components
    from mergesvm.features.maps.correlogram import Correlogram
    from mergesvm.features.maps.fourier import Fourier
    from mergesvm.features.maps.hidden_layer import HiddenLayer
    from mergesvm.features.maps.identity import Identity
    from mergesvm.features.maps.nystroem import Nystroem
    from mergesvm.features.maps.patches import Patches
    from mergesvm.features.maps.wrapped import Wrapped
    from mergesvm.features.spec import as_map

__all__ = [
    "Chain",
    "Components",
    "Correlogram",
    "FeatureMap",
    "Fourier",
    "HiddenLayer",
    "Identity",
    "Nystroem",
    "Patches",
    "Wrapped",
    "as_map",
    "load",
]

MAP_NAMES = ("correlogram", "fourier", "hidden", "nystroem", "patches", "pca")
"""The ``kind`` of each random map, for help that does not import the maps."""

_MODULES = {
    "Chain": "maps.chain",
    "Components": "maps.components",
    "Correlogram": "maps.correlogram",
    "FeatureMap": "base",
    "Fourier": "maps.fourier",
    "HiddenLayer": "maps.hidden_layer",
    "Identity": "maps.identity",
    "Nystroem": "maps.nystroem",
    "Patches": "maps.patches",
    "Wrapped": "maps.wrapped",
    "as_map": "spec",
    "load": "format",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
