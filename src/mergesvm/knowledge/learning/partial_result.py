"""What a worker brings in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from mergesvm.errors import DataError
from mergesvm.knowledge.gram.triangles import fill_lower
from mergesvm.knowledge.knowledge import Knowledge


@dataclass(frozen=True)
class PartialResult:
    """Knowledge, if there were rows, and where they came from.

    Attributes
    ----------
    knowledge : Knowledge or None
    counts : dict of source to int
        How many rows of each file were used.
    dropped : int
        How many were left out for missing values.
    halved : bool
        Whether its matrices are right in their upper triangles only, and nobody else's: they are about to be joined
        with others, and may be changed.
    """

    knowledge: Knowledge | None
    counts: dict[str, int] = field(default_factory=dict)
    dropped: int = 0
    halved: bool = False

    def __getstate__(self) -> dict[str, Any]:
        # Sums travel as triangles, and are whole when they arrive.
        return {**self.__dict__, "halved": False}

    def whole(self) -> PartialResult:
        """The same with whole matrices."""
        if self.halved and self.knowledge is not None:
            for gram in self.knowledge.grams:
                gram.flags.writeable = True
                fill_lower(gram)
                gram.flags.writeable = False
        return replace(self, halved=False)

    def nothing(self) -> DataError:
        """The error for a harvest without knowledge."""
        where = f" in {next(iter(self.counts))}" if self.counts else ""
        what = "all rows have missing values" if self.dropped else "there are no rows"
        return DataError(f"There is nothing to learn{where}: {what}.")
