"""The processes that run the caller's program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


class Ranks:
    """The processes that run the caller's program: this one alone, unless the engine overrides it.

    Under MPI every rank runs the program. All ranks make the same calls on the engine.

    Attributes
    ----------
    spmd : bool
        Whether every worker runs the caller's program (single program, multiple data).
    rank : int
        The number of this process.
    is_root : bool
        Whether this process talks to the user.
    receives : bool
        Whether :meth:`Engine.merge` returns its result in this process.
    own_files : bool
        Whether each rank reads the files that it names, instead of a part of the files of all.
    """

    spmd: bool = False
    rank: int = 0
    is_root: bool = True
    receives: bool = True
    own_files: bool = False

    def on_root(self, function: Callable[[], Result]) -> Result:
        """Call a function on the root; its result is returned, or its error raised, on all ranks."""
        return function()

    def on_all(self, function: Callable[[], Result]) -> Result:
        """Call a function on every rank and return its result there; an error on one rank is raised on all."""
        return function()
