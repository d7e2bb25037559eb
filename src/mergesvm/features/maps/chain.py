"""Maps one after another."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.readers.base import Layout
from mergesvm.data.rows.dense import DenseRows
from mergesvm.errors import ParameterError
from mergesvm.features.base import FeatureMap
from mergesvm.features.pilot import Pilot
from mergesvm.features.random_map import RandomMap
from mergesvm.features.scratch import Scratch

MOST_STAGES = 4

SCRATCH = Scratch()


@dataclass(frozen=True, eq=False, repr=False)
class Chain(FeatureMap):
    """Features of features: each map takes what the one before it gives, for example patches, then cosines of them.

    Parameters
    ----------
    stages : sequence of maps
        At least two, all of one precision.

    Examples
    --------
    >>> import mergesvm as ms
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> two = ms.features.Chain([ms.features.Patches(16, size=3), ms.features.Fourier(200)])
    >>> two.freeze(X).transform(X[:5]).shape
    (5, 200)
    """

    kind: ClassVar[str] = "chain"

    stages: tuple[RandomMap, ...]

    def __post_init__(self) -> None:
        try:
            stages = tuple(self.stages)
        except TypeError:
            stages = ()
        if not 2 <= len(stages) <= MOST_STAGES or not all(isinstance(stage, RandomMap) for stage in stages):
            raise ParameterError(f"A chain is of 2 to {MOST_STAGES} maps that are drawn, not {self.stages!r}.")
        if len({stage.precision for stage in stages}) > 1:
            raise ParameterError(f"The maps of a chain have to be of one precision, not {stages!r}.")
        if len({stage.frozen for stage in stages}) > 1:
            raise ParameterError("Some maps of the chain are frozen, others not. Freeze the chain as a whole.")
        object.__setattr__(self, "stages", stages)

    @property
    def frozen(self) -> bool:
        """Whether everything is fixed, so that rows can be mapped."""
        return self.stages[0].frozen

    @property
    def layout(self) -> Layout:
        """The columns that the first map takes."""
        return self.stages[0].layout

    @property
    def width(self) -> int:
        """How many features the last map gives."""
        return self.stages[-1].width

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of mapped rows."""
        return self.stages[-1].dtype

    @property
    def middle(self) -> NDArray[np.float64]:
        """That of the last map."""
        return self.stages[-1].middle

    @property
    def roughness(self) -> float:
        """That of the roughest map."""
        return max(stage.roughness for stage in self.stages)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the fingerprints of all stages."""
        return hashlib.sha256(" ".join(["chain", *(stage.fingerprint for stage in self.stages)]).encode()).hexdigest()

    def freeze(self, X: Any, y: Any = None) -> Self:
        """The chain with every map frozen on the pilot sample as the maps before it give it."""
        if self.frozen:
            return self
        wanted = max(stage.wanted_rows() for stage in self.stages)
        pilot = Pilot.of(X, y, self.stages[0].seed, wanted)
        stages: list[RandomMap] = []
        for stage in self.stages:
            if stages:
                pilot = _after(stages[-1], pilot)
            stages.append(stage.frozen_on(replace(pilot, generator=np.random.default_rng(stage.seed))))
        return replace(self, stages=tuple(stages))

    def map_block(self, rows: Any, out: NDArray[Any]) -> None:
        """Map a block of rows by all maps in turn."""
        *first, last = self.stages
        for index, stage in enumerate(first):
            mapped = SCRATCH.take(f"chain {index}", (rows.shape[0], stage.width), stage.dtype)
            stage.map_block(rows, mapped)
            rows = mapped
        last.map_block(rows, out)

    def block_rows(self) -> int:
        """As few as the widest of the maps takes."""
        return min(stage.block_rows() for stage in self.stages)

    def __repr__(self) -> str:
        return f"Chain([{', '.join(map(repr, self.stages))}])"


def _after(stage: RandomMap, pilot: Pilot) -> Pilot:
    """The pilot sample as a map gives it."""
    rows = stage.mapped(DenseRows(pilot.rows)).astype(np.float64)
    return replace(pilot, rows=rows, layout=Layout(stage.width), sparse=False, features=True)
