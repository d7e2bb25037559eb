"""The data of knowledge: counts, sums and Gram matrices by class."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.knowledge.gram.triangles import packed, unpacked
from mergesvm.knowledge.provenance.origin import Provenance
from mergesvm.knowledge.signature import Signature

ROUNDING = {"float64": 2.0**-42, "float32": 2.0**-20}
"""Bound on the relative rounding error of a sum of squares, by the precision of the products."""


MAX_ROWS = 2**63 - 1
"""The largest number of rows: they are counted by 64-bit integers."""


@dataclass(frozen=True, eq=False, repr=False)
class Sums:
    """Counts, sums and Gram matrices by class. Immutable; arrays are read-only, and pieces may share them.

    Attributes
    ----------
    signature : Signature
        The properties that two pieces must have in common to be added.
    anchor : array of shape (width,)
        The point about which sums are kept.
    labels : tuple
        The classes as Python values, sorted.
    rows : array of int, shape (classes,)
        The number of rows of positive weight of each class.
    counts : array of shape (classes,)
        The sum of the weights of each class.
    sums : array of shape (classes, width)
        The weighted sum of the rows of each class, minus the anchor.
    grams : tuple of arrays of shape (width, width)
        One Gram matrix per class; in the pooled form a single one.
    peaks : array of shape (grams, width)
        The largest diagonal of each Gram matrix before a subtraction, or before a move of the anchor that made it
        much smaller; zero if neither happened. Bounds the rounding errors that are left.
    precision : {"float64", "float32"}
        The precision of the products.
    provenance : tuple of Origin
        The files whose rows were added, or subtracted.
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
        # Pickles are often sent: leave out the lower triangles.
        state = {name: value for name, value in self.__dict__.items() if name != "pooled_gram"}
        return state | {"grams": packed(self.grams, self.width)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"grams": unpacked(state["grams"], state["signature"].width)})
        self.__post_init__()

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return all arrays."""
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
        """The counts without the class weights that the pooled form includes."""
        weights = dict(self.signature.class_weights)
        fixed = np.array([weights.get(label, 1.0) for label in self.labels])
        return np.asarray(self.counts / fixed)

    @property
    def per_class(self) -> bool:
        """Whether each class has its own Gram matrix."""
        return self.signature.per_class
