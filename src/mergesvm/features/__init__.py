"""What a row becomes before it is remembered. A map is frozen, and its fingerprint is part of every signature."""

from mergesvm.features.chain import Chain
from mergesvm.features.components import Components
from mergesvm.features.file import load
from mergesvm.features.fourier import Fourier
from mergesvm.features.hidden_layer import HiddenLayer
from mergesvm.features.identity import Identity
from mergesvm.features.map import FeatureMap
from mergesvm.features.mapped import MappedRows
from mergesvm.features.naming import as_map, is_map_name, map_classes
from mergesvm.features.nystroem import Nystroem
from mergesvm.features.patches import Patches
from mergesvm.features.wrapped import Wrapped

__all__ = [
    "Chain",
    "Components",
    "FeatureMap",
    "Fourier",
    "HiddenLayer",
    "Identity",
    "MappedRows",
    "Nystroem",
    "Patches",
    "Wrapped",
    "as_map",
    "is_map_name",
    "load",
    "map_classes",
]
