"""A function and the tasks that it is applied to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mergesvm.errors import MergeSVMError

Result = TypeVar("Result")

Progress = Callable[[int, int], None]
"""Called with the number of finished tasks and the number of all tasks."""


@dataclass(frozen=True)
class Work(Generic[Result]):
    """The arguments of :meth:`Engine.map`."""

    function: Callable[..., Result]
    tasks: Sequence[Any]
    given: tuple[Any, ...] = ()
    names: Sequence[str] | None = None
    done: Progress | None = None

    def run(self, index: int) -> Result:
        """Run one task in this process; errors name it."""
        with naming(self.names[index] if self.names else None):
            return self.function(self.tasks[index], *self.given)

    def report(self, count: int) -> None:
        """Report the number of finished tasks."""
        if self.done is not None:
            self.done(count, len(self.tasks))


@contextmanager
def naming(name: str | None) -> Iterator[None]:
    """Add the name of a task to errors raised in the block."""
    try:
        yield
    except Exception as error:
        named = named_error(error, name)
        if named is error:
            raise
        raise named from error.__cause__


def named_error(error: BaseException, name: str | None) -> BaseException:
    """Return the error with the name of the task in which it occurred.

    >>> from mergesvm.errors import EngineError
    >>> named_error(EngineError("no rows"), "day1.csv")
    EngineError('day1.csv: no rows')
    >>> named_error(KeyError("x"), "day1.csv").__notes__
    ['in day1.csv']
    """
    if name is None or name in str(error) or f"in {name}" in getattr(error, "__notes__", ()):
        return error
    if isinstance(error, MergeSVMError):
        return type(error)(f"{name}: {error}").with_traceback(error.__traceback__)
    error.add_note(f"in {name}")
    return error
