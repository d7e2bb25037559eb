"""The result of one worker."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from mergesvm.errors import DataError
from mergesvm.knowledge.gram.triangles import fill_lower
from mergesvm.knowledge.knowledge import Knowledge


@dataclass(frozen=True)
class PartialResult:
    """The knowledge of some of the rows, and where they came from.

    Attributes
    ----------
    knowledge : Knowledge or None
        None if there were no rows.
    counts : dict of source to int
        Number of rows used from each file.
    dropped : int
        Number of rows left out because of missing values.
    upper_only : bool
        Whether only the upper triangles of the matrices are valid. Such matrices have no other owner and may be
        changed in place.
    """

    knowledge: Knowledge | None
    counts: dict[str, int] = field(default_factory=dict)
    dropped: int = 0
    upper_only: bool = False

    def __getstate__(self) -> dict[str, Any]:
        # Knowledge is pickled as upper triangles and is symmetric when unpickled.
        return {**self.__dict__, "upper_only": False}

    def symmetric(self) -> PartialResult:
        """Fill the lower triangles."""
        if self.upper_only and self.knowledge is not None:
            for gram in self.knowledge.grams:
                gram.flags.writeable = True
                fill_lower(gram)
                gram.flags.writeable = False
        return replace(self, upper_only=False)

    def required(self) -> Knowledge:
        """Return the knowledge, or raise an error if there were no rows."""
        if self.knowledge is None:
            raise self.empty()
        return self.knowledge

    def empty(self) -> DataError:
        """The error for a result without rows."""
        where = f" in {next(iter(self.counts))}" if self.counts else ""
        what = "all rows have missing values" if self.dropped else "there are no rows"
        return DataError(f"There is nothing to learn{where}: {what}.")
