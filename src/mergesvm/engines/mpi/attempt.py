"""What one of many ranks has done, or why it has not."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

from mergesvm.errors import EngineError, MergeSVMError


class Attempt:
    """What a rank has done, or why it has not; all ranks show theirs to each other, and raise the first error of any.

    Parameters
    ----------
    rank : int

    Attributes
    ----------
    index : int
        Of the task that is under way: the first of all tasks that fail is the one that is spoken of.
    results : list
    error : BaseException or None
    """

    def __init__(self, rank: int) -> None:
        self.rank = self.index = rank
        self.results: list[Any] = []
        self.error: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        """Keep an error in place of results."""
        self.results, self.error = [], error

    def message(self) -> bytes:
        """The attempt as it travels. An error that cannot travel becomes one that can, here as elsewhere."""
        if self.error is None:
            try:
                return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)
            except Exception as error:  # noqa: BLE001 - raised by all ranks
                self.fail(EngineError(f"What rank {self.rank} has found cannot be sent to others: {error}"))
        cause = self.error
        assert cause is not None
        noted = any(note.startswith("at rank ") for note in getattr(cause, "__notes__", ()))
        if not (noted or isinstance(cause, MergeSVMError)):  # ours name the part
            cause.add_note(f"at rank {self.rank}")
        if not _travels(cause):
            said = "".join(traceback.format_exception_only(cause)).strip()
            self.error = EngineError(f"Rank {self.rank}: {said}")
            self.error.__cause__ = cause
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)


def opened(attempts: list[Attempt]) -> list[list[Any]]:
    """The results of all attempts, or the error of the first task that failed.

    >>> opened([Attempt(0), Attempt(1)])
    [[], []]
    """
    failed = [attempt for attempt in attempts if attempt.error is not None]
    if failed:
        first = min(failed, key=lambda attempt: (attempt.index, attempt.rank))
        assert first.error is not None
        raise first.error
    return [attempt.results for attempt in attempts]


def _travels(error: BaseException) -> bool:
    """Whether an error arrives as it was sent; many have constructors that pickle cannot call."""
    try:
        arrived = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - whatever it is, it does not travel
        return False
    return type(arrived) is type(error) and str(arrived) == str(error)
