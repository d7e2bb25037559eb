"""The results of one rank, or the error that prevented them."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

from mergesvm.errors import EngineError, MergeSVMError


class Attempt:
    """The results of one rank, or its error. Ranks exchange attempts, and all raise the first error of any.

    Parameters
    ----------
    rank : int

    Attributes
    ----------
    index : int
        The task being run: of several errors, the one of the first task is raised.
    results : list
    error : BaseException or None
    """

    def __init__(self, rank: int) -> None:
        self.rank = self.index = rank
        self.results: list[Any] = []
        self.error: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        """Store an error in place of results."""
        self.results, self.error = [], error

    def message(self) -> bytes:
        """Pickle the attempt. An error that cannot be pickled is replaced by one that can, on this rank as well."""
        if self.error is None:
            try:
                return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)
            except Exception as error:  # noqa: BLE001 - raised on all ranks
                self.fail(EngineError(f"The results of rank {self.rank} cannot be sent to other ranks: {error}"))
        cause = self.error
        assert cause is not None
        noted = any(note.startswith("at rank ") for note in getattr(cause, "__notes__", ()))
        if not (noted or isinstance(cause, MergeSVMError)):  # ours name the part
            cause.add_note(f"at rank {self.rank}")
        if not _can_be_pickled(cause):
            text = "".join(traceback.format_exception_only(cause)).strip()
            self.error = EngineError(f"Rank {self.rank}: {text}")
            self.error.__cause__ = cause
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)


def results_of(attempts: list[Attempt]) -> list[list[Any]]:
    """Return the results of all attempts, or raise the error of the first task that failed.

    >>> results_of([Attempt(0), Attempt(1)])
    [[], []]
    """
    failed = [attempt for attempt in attempts if attempt.error is not None]
    if failed:
        first = min(failed, key=lambda attempt: (attempt.index, attempt.rank))
        assert first.error is not None
        raise first.error
    return [attempt.results for attempt in attempts]


def _can_be_pickled(error: BaseException) -> bool:
    """Whether an error survives pickling: pickle cannot call the constructors of many."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - whatever the reason
        return False
    return type(copy) is type(error) and str(copy) == str(error)
