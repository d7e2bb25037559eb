"""The truth beside a live model: the knowledge of all rows that count, to which new rows are added many at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Coded, Label
from mergesvm.knowledge.algebra import faded
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.learn import learn
from mergesvm.knowledge.signature import Signature

WAITING_BYTES = 2**26
"""Rows wait in so much memory at most before they are summed."""

USUAL_ROWS, FEWEST_ROWS = 4096, 16


class Part(NamedTuple):
    """Some rows of features, (rows, width), with the places of their classes, and their weights."""

    rows: NDArray[np.float64]
    codes: NDArray[np.int64]
    weights: NDArray[np.float64]

    def cut(self, start: int, stop: int) -> Part:
        """Rows ``start`` to ``stop``."""
        return Part(self.rows[start:stop], self.codes[start:stop], self.weights[start:stop])


class ReferenceSums:
    """Knowledge of rows of features, and the rows that wait to be added to it.

    Parameters
    ----------
    known : Knowledge
        What is known to begin with.
    forgetting : float
        By what factor all rows weigh less when another comes.

    Examples
    --------
    >>> import mergesvm as ms
    >>> truth = ReferenceSums(ms.Knowledge.zero(ms.Signature(ms.features.Identity(), 1)))
    >>> truth.wait(Part(np.array([[1.0], [2.0]]), np.array([0, 1]), np.ones(2)), ["a", "b"])
    >>> truth.knowledge(["a", "b"])
    Knowledge of 2 rows x 1 feature in 2 classes: a 1, b 1
    """

    def __init__(self, known: Knowledge, forgetting: float = 1.0) -> None:
        self.known, self.forgetting = known, forgetting
        self._begin()

    def _begin(self) -> None:
        # As many rows wait as take the memory of the sums, to which adding them rarely is cheaper.
        width = self.known.width
        worth = max(USUAL_ROWS, len(self.known.grams) * width)
        self.room = max(FEWEST_ROWS, min(worth, WAITING_BYTES // (8 * width)))
        # Fresh memory each time, so that who remembers how many waited before finds those rows untouched.
        rows, codes = np.empty((self.room, self.known.width)), np.empty(self.room, dtype=np.int64)
        self._waiting, self._n_waiting = Part(rows, codes, np.empty(self.room)), 0

    def wait(self, part: Part, labels: list[Label]) -> None:
        """Let some rows wait, no more than there is :attr:`free` room for."""
        first, stop = self._n_waiting, self._n_waiting + len(part.rows)
        rows, codes, weights = self._waiting
        if part.rows.base is not rows:  # a row in the slot lies there already
            rows[first:stop], codes[first:stop], weights[first:stop] = part
        self._n_waiting = stop
        if stop == self.room:
            self.knowledge(labels)

    def slot(self) -> Part:
        """Where the next row will wait: who fills it in saves a copy."""
        return self._waiting.cut(self._n_waiting, self._n_waiting + 1)

    def newest(self, n_rows: int) -> Part:
        """The last rows of those that wait."""
        return self._waiting.cut(self._n_waiting - n_rows, self._n_waiting)

    @property
    def free(self) -> int:
        """How many rows more can wait."""
        return self.room - self._n_waiting

    def add(self, part: Part, labels: list[Label]) -> None:
        """Add rows, the last of which is the newest, at once."""
        self.known = self._with(self.knowledge(labels), part, labels)

    def add_rows(self, batch: Batch, weights: NDArray[np.float64], labels: list[Label]) -> None:
        """Add a batch of rows that are not mapped yet, the last of which is the newest."""
        known, signature = self.knowledge(labels), self.known.signature
        counted = weights > 0
        if self.forgetting != 1:
            weights = weights * self.forgetting ** (counted.sum() - np.cumsum(counted))
        piece = learn(
            batch.rows,
            Coded(np.maximum(batch.labels.codes, 0), batch.labels.classes),
            None if (weights == 1).all() else weights,
            features=signature.features,
            per_class=signature.per_class,
            anchor=known.anchor if known.labels else None,
            precision="float64",
        )
        factor = self.forgetting ** int(counted.sum())
        self.known = (known if factor == 1 else faded(known, factor)) + replace(piece, signature=signature)

    def subtract(self, part: Part, labels: list[Label]) -> None:
        """Take rows back."""
        self.known = self.knowledge(labels) - self.piece(part, labels)

    def knowledge(self, labels: list[Label]) -> Knowledge:
        """All that is known, with the rows that waited."""
        if self._n_waiting:
            self.known = self._with(self.known, self._waiting.cut(0, self._n_waiting), labels)
            self._begin()
        return self.known

    def _with(self, known: Knowledge, part: Part, labels: list[Label]) -> Knowledge:
        piece, factor = self.piece(self._aged(part), labels), self.forgetting ** len(part.rows)
        return (known if factor == 1 else faded(known, factor)) + piece

    def piece(self, part: Part, labels: list[Label]) -> Knowledge:
        """Knowledge of some rows alone."""
        signature = self.known.signature
        anchor = self.known.anchor if self.known.labels else None
        weights = None if (part.weights == 1).all() else part.weights
        piece = learn(
            part.rows, Coded(part.codes, tuple(labels)), weights, per_class=signature.per_class, anchor=anchor
        )
        return replace(piece, signature=signature)

    def _aged(self, part: Part) -> Part:
        if self.forgetting == 1:
            return part
        return part._replace(weights=part.weights * self.forgetting ** np.arange(len(part.rows) - 1, -1, -1.0))

    def know_labels(self, kind: str) -> None:
        """Remember of what kind the labels are."""
        self.known = replace(self.known, signature=replace(self.known.signature, labels=kind))

    @property
    def signature(self) -> Signature:
        """The terms on which sums are kept."""
        return self.known.signature

    def __getstate__(self) -> dict[str, Any]:
        waiting = tuple(self._waiting.cut(0, self._n_waiting))
        return {"known": self.known, "forgetting": self.forgetting, "waiting": waiting}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["known"], state["forgetting"])  # type: ignore[misc]
        self._n_waiting = len(state["waiting"][0])
        for mine, theirs in zip(self._waiting, state["waiting"], strict=True):
            mine[: self._n_waiting] = theirs

    def remember(self) -> tuple[Knowledge, Part, int]:
        """What :meth:`go_back` needs; nothing is copied."""
        return self.known, self._waiting, self._n_waiting

    def go_back(self, memory: tuple[Knowledge, Part, int]) -> None:
        """Make everything undone since it was remembered."""
        self.known, self._waiting, self._n_waiting = memory
        self.room = len(self._waiting.rows)
