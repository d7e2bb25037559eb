"""The ranks of an MPI job: calls that all of them make together."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from mergesvm.engines.base import Ranks
from mergesvm.engines.mpi.cascade import Cascade, Tree
from mergesvm.engines.threads import Threads
from mergesvm.engines.traffic import Traffic
from mergesvm.engines.version import check_versions, installed_version
from mergesvm.errors import EngineError, MergeSVMError

Result = TypeVar("Result")


class Attempt:
    """The results of one rank, or its error. Ranks exchange attempts, and all raise the first error of any.

    ``index`` is that of the task being run: of several errors, the one of the first task is raised.
    """

    def __init__(self, rank: int) -> None:
        self.rank = self.index = rank
        self.results: list[Any] = []
        self.error: BaseException | None = None

    def message(self) -> bytes:
        """Pickle the attempt. An error that cannot be pickled is replaced by one that can, on this rank as well."""
        if self.error is None:
            try:
                return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)
            except Exception as error:  # noqa: BLE001 - raised on all ranks
                message = f"The results of rank {self.rank} cannot be sent to other ranks: {error}"
                self.results, self.error = [], EngineError(message)
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


class MPIRanks(Ranks):
    """The ranks of a communicator; ``count`` is called with the traffic of each exchange."""

    spmd = True

    def __init__(
        self,
        comm: Any,
        root: int | None,
        own_files: bool,
        timeout: float | None,
        count: Callable[[Traffic], None],
    ) -> None:
        self.rank, self.size = int(comm.rank), int(comm.size)
        self.root = root or 0
        self.everywhere = root is None
        self.is_root = self.rank == self.root
        self.receives = self.everywhere or self.is_root
        self.own_files = own_files
        self._count, self._timeout = count, timeout
        self._comm: Any = comm.Dup()  # messages of other work do not interfere
        with self.uninterrupted():
            versions = self._comm.allgather(installed_version())
        check_versions({f"Rank {rank}": version for rank, version in enumerate(versions)})

    @property
    def comm(self) -> Any:
        """The duplicated communicator."""
        if self._comm is None:
            raise EngineError("This engine has been closed. Create another: mergesvm.engines.MPI().")
        return self._comm

    def close(self) -> None:
        """Free the duplicated communicator; all ranks have to do so together."""
        if self._comm is not None:
            self._comm.Free()
            self._comm = None

    def on_root(self, function: Callable[[], Result]) -> Result:
        """Call a function on the root; its result is returned, or its error raised, on all ranks."""
        with self.attempt() as attempt:
            attempt.results = [function()] if self.is_root else []
        if self.size == 1:
            return results_of([attempt])[0][0]  # type: ignore[no-any-return]
        cascade = self.cascade()
        with self.uninterrupted():
            message = cascade.hand_out(attempt.message())
        trees = [Tree(rank, self.size, self.root) for rank in range(self.size)]
        self.count([len(message) * len(tree.children) for tree in trees], self.size - 1, trees[0].levels)
        return results_of([attempt if self.is_root else pickle.loads(message)])[0][0]  # type: ignore[no-any-return]

    def on_all(self, function: Callable[[], Result]) -> Result:
        """Call a function on every rank and return its result there; an error on one rank is raised on all."""
        value: list[Result] = []
        with self.attempt() as attempt:
            value.append(function())
        self.exchange(attempt)
        return value[0]

    def assigned(self, count: int) -> range:
        """The indices of this rank's tasks: contiguous, because neighbours are often parts of one file."""
        first, end = (-(-count * rank // self.size) for rank in (self.rank, self.rank + 1))
        return range(first, end)

    def cascade(self) -> Cascade:
        """A new pass along the tree of ranks."""
        return Cascade(self.comm, self.root)

    @contextmanager
    def attempt(self) -> Iterator[Attempt]:
        """Run a block that may fail on this rank; the error is kept until all ranks know about it.

        This includes interrupts: the other ranks would wait forever for a rank that has left.
        """
        attempt = Attempt(self.rank)
        _ = self.comm
        try:
            with Threads.single_threaded_blas():
                yield attempt
        except BaseException as error:  # noqa: BLE001
            attempt.results, attempt.error = [], error

    def exchange(self, attempt: Attempt) -> list[list[Any]]:
        """Return the results of all ranks in order, or raise the first error of any rank on all ranks."""
        if self.size == 1:
            return results_of([attempt])
        messages = self._gather(attempt)
        levels = Tree(0, self.size).levels
        self.count([(self.size - 1) * len(message) for message in messages], self.size * levels, levels)
        return self._read(messages, attempt)

    def decide(self, attempt: Attempt, decide: Callable[[list[Any]], Result]) -> Result:
        """Send the results of all ranks to the root, and its decision on them to all ranks."""
        if self.size == 1:
            return self.on_root(lambda: decide(results_of([attempt])[0]))
        with self.uninterrupted():
            messages = self.comm.gather(attempt.message(), self.root)

        def on_results() -> tuple[list[int], Result]:
            answers = [answer for part in self._read(messages, attempt) for answer in part]
            return [len(message) for message in messages], decide(answers)

        try:
            sizes, decision = self.on_root(on_results)
        except BaseException as error:
            if attempt.error not in (None, error):
                raise error from attempt.error  # this one has the traceback
            raise
        sent = [0 if rank == self.root else size for rank, size in enumerate(sizes)]
        self.count(sent, self.size - 1, Tree(0, self.size).levels)
        return decision

    def settle(self, cascade: Cascade, attempt: Attempt) -> None:
        """Tell all ranks what each has sent along the tree, and raise the first error of any rank."""
        attempt.results = [(cascade.sent, cascade.messages)]
        parts = self._read(self._gather(attempt), attempt)
        sent, counts = zip(*(part[0] for part in parts), strict=True)
        self.count(sent, sum(counts), (2 if self.everywhere else 1) * cascade.tree.levels)

    def count(self, sent: Sequence[int], messages: int, rounds: int) -> None:
        """Count bytes sent by each rank."""
        self._count(Traffic({f"rank {rank}": size for rank, size in enumerate(sent)}, messages, rounds))

    @contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Abort the job on an error or time-out within a message exchange: the other ranks could not learn about it."""
        try:
            with time_limit(self._timeout, self._abort_late):
                yield
        except BaseException:
            sys.stderr.write(f"Rank {self.rank} failed in a message exchange; aborting.\n{traceback.format_exc()}")
            sys.stderr.flush()
            self.comm.Abort(1)
            raise

    def _abort_late(self) -> None:
        sys.stderr.write(
            f"Rank {self.rank} has waited for other ranks for more than {self._timeout:g} s; aborting. A rank may have "
            f"stopped, or need longer: increase timeout.\n"
        )
        sys.stderr.flush()
        self.comm.Abort(1)
        os._exit(1)  # if the launcher does not end this process

    def each_uninterrupted(self, items: Iterator[Result]) -> Iterator[Result]:
        """Iterate with :meth:`uninterrupted` around each step."""
        while True:
            with self.uninterrupted():
                item = next(items, None)
            if item is None:
                return
            yield item

    def _gather(self, attempt: Attempt) -> list[bytes]:
        with self.uninterrupted():
            messages: list[bytes] = self.comm.allgather(attempt.message())
        return messages

    def _read(self, messages: list[bytes], attempt: Attempt) -> list[list[Any]]:
        attempts = [pickle.loads(message) for message in messages]
        if attempt.error is not None:
            attempts[self.rank] = attempt  # it has its traceback
        return results_of(attempts)


@contextmanager
def time_limit(seconds: float | None, late: Callable[[], None]) -> Iterator[None]:
    """Call a function in another thread if the block takes longer; None for no limit."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, late)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def results_of(attempts: list[Attempt]) -> list[list[Any]]:
    """Return the results of all attempts, or raise the error of the first task that failed."""
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
