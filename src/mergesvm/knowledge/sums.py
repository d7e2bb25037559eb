"""The sums themselves, and the terms on which they are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.knowledge.gram.triangles import packed, unpacked
from mergesvm.knowledge.provenance import Provenance
from mergesvm.knowledge.signature import Signature

ROUNDING = {"float64": 2.0**-42, "float32": 2.0**-20}
"""What share of a sum of squares rounding may have touched, by the precision of the products."""


@dataclass(frozen=True, eq=False, repr=False)
class Sums:
    """Counts, sums and Gram matrices by class; immutable, with read-only arrays that pieces may share.

    Attributes
    ----------
    signature : Signature
        What other knowledge must share to be added.
    anchor : array of shape (width,)
        The point about which sums are kept.
    labels : tuple
        The classes as Python values, sorted. :attr:`classes` has them as an array.
    rows : array of int, shape (classes,)
        How many rows of positive weight each class has had.
    counts : array of shape (classes,)
        The sum of their weights.
    sums : array of shape (classes, width)
    grams : tuple of arrays of shape (width, width)
        One a class; in the pooled form one in all.
    peaks : array of shape (grams, width)
        The largest diagonal that each Gram matrix had before something was subtracted, or before the anchor moved and
        made it much smaller; zero if neither happened. The measure of how far rounding may have gone.
    precision : {"float64", "float32"}
        In which precision products were formed.
    provenance : tuple of Origin
        The files that were learned from, and those taken back.
    """

    signature: Signature
    anchor: NDArray[np.float64]
    labels: tuple[Label, ...] = ()
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    counts: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    grams: tuple[NDArray[np.float64], ...] = ()
    peaks: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    precision: str = "float64"
    provenance: Provenance = ()

    def __post_init__(self) -> None:
        for array in self.arrays():
            array.flags.writeable = False

    def __getstate__(self) -> dict[str, Any]:
        # Half of each matrix tells the other half, and what is pickled often travels.
        state = {name: value for name, value in self.__dict__.items() if name != "pooled_gram"}
        return state | {"grams": packed(self.grams, self.width)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"grams": unpacked(state["grams"], state["signature"].width)})
        self.__post_init__()

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All arrays of which the sums consist."""
        return (self.anchor, self.rows, self.counts, self.sums, self.peaks, *self.grams)

    @property
    def width(self) -> int:
        """The number of features."""
        return self.signature.width

    @cached_property
    def pooled_gram(self) -> NDArray[np.float64]:
        """The Gram matrix of all classes together."""
        if not self.per_class and self.grams:
            return self.grams[0]
        total = np.zeros((self.width, self.width))
        for gram in self.grams:
            total += gram
        total.flags.writeable = False
        return total

    @property
    def frequencies(self) -> NDArray[np.float64]:
        """The counts, without the class weights that the pooled form has fixed in them."""
        weights = dict(self.signature.class_weights)
        fixed = np.array([weights.get(label, 1.0) for label in self.labels])
        frequencies: NDArray[np.float64] = self.counts / fixed
        return frequencies

    @property
    def per_class(self) -> bool:
        """Whether each class has a Gram matrix of its own."""
        return self.signature.per_class
