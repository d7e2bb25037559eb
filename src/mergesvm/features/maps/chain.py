"""Several maps applied one after another."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.layout import Layout
from mergesvm.data.rows.dense import DenseRows
from mergesvm.errors import ParameterError
from mergesvm.features.base import FeatureMap, FileParts
from mergesvm.features.pilot import Pilot
from mergesvm.features.random_map import RandomMap
from mergesvm.features.scratch import Scratch
from mergesvm.files.content import Content
from mergesvm.files.header import Header

MAX_STAGES = 4

SCRATCH = Scratch()


@dataclass(frozen=True, eq=False, repr=False)
class Chain(FeatureMap):
    """Maps applied in sequence, each to the features of the one before: for example patches, then cosines of them.

    Parameters
    ----------
    stages : sequence of maps
        At least two, all of the same precision. If all are "auto", the chain is computed in float64 if all its maps
        would be.

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
        if not 2 <= len(stages) <= MAX_STAGES or not all(isinstance(stage, RandomMap) for stage in stages):
            raise ParameterError(f"A chain needs 2 to {MAX_STAGES} random maps, not {self.stages!r}.")
        if len({stage.precision for stage in stages} - {"auto"}) > 1:
            raise ParameterError(f"The maps of a chain must have the same precision, not {stages!r}.")
        if len({stage.frozen for stage in stages}) > 1:
            raise ParameterError("Some maps of the chain are frozen, others are not. Freeze the chain as a whole.")
        object.__setattr__(self, "stages", stages)

    @property
    def frozen(self) -> bool:
        """Whether all maps are frozen."""
        return self.stages[0].frozen

    @property
    def layout(self) -> Layout:
        """The columns that the first map accepts."""
        return self.stages[0].layout

    @property
    def width(self) -> int:
        """The number of features of the last map."""
        return self.stages[-1].width

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of mapped rows."""
        return self.stages[-1].dtype

    @property
    def default_anchor(self) -> NDArray[np.float64]:
        """The mean of the last map's features over the pilot sample."""
        return self.stages[-1].default_anchor

    @property
    def needs_sample(self) -> bool:
        """Whether any of the maps depends on the rows on which the chain is frozen."""
        return any(stage.needs_sample for stage in self.stages)

    @property
    def error_amplification(self) -> float:
        """The largest of the maps."""
        return max(stage.error_amplification for stage in self.stages)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the fingerprints of all maps."""
        return hashlib.sha256(" ".join(["chain", *(stage.fingerprint for stage in self.stages)]).encode()).hexdigest()

    def freeze(self, X: Any, y: Any = None) -> Self:
        """Return the chain with each map frozen on the pilot sample as mapped by those before it."""
        if self.frozen:
            return self
        min_rows = max(stage.min_pilot_rows() for stage in self.stages)
        pilot = Pilot.of(X, y, self.stages[0].seed, min_rows)
        stages: list[RandomMap] = []
        for stage in self._with_one_precision(pilot.rows.shape[1]):
            if stages:
                rows = stages[-1].mapped(DenseRows(pilot.rows)).astype(np.float64)
                pilot = replace(pilot, rows=rows, layout=Layout(rows.shape[1]), sparse=False, mapped=True)
            stages.append(stage.frozen_on(replace(pilot, generator=np.random.default_rng(stage.seed))))
        return replace(self, stages=tuple(stages))

    def _with_one_precision(self, inputs: int) -> list[RandomMap]:
        """Return the maps with the precision of those that have one, or with the one that all prefer."""
        chosen = {stage.precision for stage in self.stages} - {"auto"}
        float64 = chosen != {"float32"}
        for stage in self.stages if not chosen else ():
            float64 = float64 and stage.prefers_float64(inputs)
            inputs = stage.most_outputs(inputs)
        return [stage.with_precision(float64) for stage in self.stages]

    def map_block(self, rows: Any, out: NDArray[Any]) -> None:
        """Apply all maps to a block of rows."""
        *first, last = self.stages
        for index, stage in enumerate(first):
            mapped = SCRATCH.take(f"chain {index}", (rows.shape[0], stage.width), stage.dtype)
            stage.map_block(rows, mapped)
            rows = mapped
        last.map_block(rows, out)

    def block_rows(self) -> int:
        """Return the rows per block of the widest map."""
        return min(stage.block_rows() for stage in self.stages)

    def file_parts(self, first_stage: int = 0) -> FileParts:
        """Return the header fields and arrays of all maps."""
        header: list[dict[str, Any]] = []
        arrays: dict[str, NDArray[Any]] = {}
        for index, stage in enumerate(self.stages, first_stage):
            more_header, more_arrays = stage.file_parts(index)
            header += more_header
            arrays |= more_arrays
        return header, arrays

    def read_again(self, header: Header, content: Content) -> FeatureMap:
        """Read maps of the same kinds from the header and arrays of a file, and check them."""
        parts = enumerate(zip(self.stages, header.parts("features"), strict=True))
        return Chain(tuple(stage.read_stage(part, content, index) for index, (stage, part) in parts))

    def __repr__(self) -> str:
        return f"Chain([{', '.join(map(repr, self.stages))}])"
