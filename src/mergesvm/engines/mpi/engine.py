"""The engine of MPI: every rank runs the same program, and results are merged along a tree of ranks."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mergesvm.engines.base import Actors, Engine
from mergesvm.engines.mpi.ranks import MPIRanks
from mergesvm.engines.mpi.spec import SPEC
from mergesvm.engines.reduce import Addition, Join
from mergesvm.engines.threads import LocalActors
from mergesvm.engines.traffic import Traffic
from mergesvm.engines.work import Work
from mergesvm.errors import ParameterError

Result = TypeVar("Result")
State = TypeVar("State")

TIMEOUT_VARIABLE = "MERGESVM_MPI_TIMEOUT"


class MPI(Engine):
    """Processes started by ``mpiexec``, possibly on many machines.

    All ranks run the same program and make the same calls. Each runs a part of the tasks, with a single-threaded BLAS;
    results are merged along a binomial tree, and all ranks get them. An error in a task on one rank is raised on all.
    An error on one rank outside of this engine leaves the others waiting, unless the program was started by
    ``mpiexec -n 8 python -m mpi4py program.py``: run what may fail on one rank in :meth:`map`, :meth:`merge`,
    ``ranks.on_root`` or ``ranks.on_all``. If a rank dies, ``mpiexec`` ends the others.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm, optional
        The ranks that take part; all by default. It is duplicated, so that messages of other work do not interfere.
    root : int, optional
        The only rank that gets the result of :meth:`merge`, which saves sending it back; the others get None.
    local : bool
        Whether each rank reads the files that it names, instead of a part of the files of all.
    timeout : float, optional
        Abort the job when a rank has waited this many seconds for others, for example because a machine hangs. The
        slowest rank has to finish its tasks within this time. Default: the environment variable MERGESVM_MPI_TIMEOUT,
        or no limit.

    Examples
    --------
    With ``mpiexec -n 8 python program.py``, every rank may have rows of its own:

    >>> import mergesvm as ms
    >>> with ms.engines.MPI() as engine:
    ...     knowledge = ms.learn([[0.0, 1.0], [1.0, 1.0]], ["cat", "dog"], engine=engine)
    ...     engine, knowledge
    (MPI(1 rank), Knowledge of 2 rows x 2 features in 2 classes: cat 1, dog 1)
    """

    ranks: MPIRanks

    def __init__(
        self, comm: Any = None, *, root: int | None = None, local: bool = False, timeout: float | None = None
    ) -> None:
        super().__init__()
        library = _library()
        comm = library.COMM_WORLD if comm is None else comm
        if not isinstance(comm, library.Intracomm):
            raise ParameterError(f"comm must be an mpi4py intracommunicator, not {comm!r}.")
        if root is not None and root not in range(comm.size):
            raise ParameterError(f"root must be a rank from 0 to {comm.size - 1} or None (all ranks), not {root!r}.")
        self.ranks = MPIRanks(comm, root, local, _seconds(timeout), self._count)

    def _count(self, traffic: Traffic) -> None:
        self.traffic += traffic

    @property
    def workers(self) -> int:
        """Number of ranks."""
        return self.ranks.size

    def _map(self, work: Work[Result]) -> list[Result]:
        ranks = self.ranks
        progress = _Progress(work, self.workers)
        with ranks.attempt() as attempt:
            for index in ranks.assigned(len(work.tasks)):
                attempt.index = index
                attempt.results.append(work.run(index))
                progress.step()
            progress.finish()
        return [result for part in ranks.exchange(attempt) for result in part]

    def _merge(self, work: Work[Result], join: Join[Result], *, own: bool) -> Result | None:
        ranks, count = self.ranks, len(work.tasks)
        progress = _Progress(work, 1 if own else self.workers)
        held: list[Result] = []
        with ranks.attempt() as attempt:
            for index in range(count) if own else ranks.assigned(count):
                attempt.index = ranks.rank if own else index  # indices of own tasks mean nothing to other ranks
                held = [*held, work.run(index)]
                progress.step()
                held = [join(held)] if len(held) > 1 else held
            attempt.results = [join.describe(held[0]) if isinstance(join, Addition) else None] if held else []
            progress.finish()
        found = ranks.exchange(attempt)
        holders = [rank for rank, part in enumerate(found) if part]
        if not holders:
            return None
        if self.workers == 1:
            return held[0]
        if isinstance(join, Addition):
            return self._add(held, join, join.agree([found[rank][0] for rank in holders]), holders)
        return self._join(held, join)

    def _add(self, held: list[Result], join: Addition[Result], plan: Any, holders: list[int]) -> Result | None:
        """Add the numbers of all ranks, block by block."""
        ranks = self.ranks
        cascade = ranks.cascade()
        arrivals = ranks.each_uninterrupted(cascade.arrivals(held, join, plan, holders, everywhere=ranks.everywhere))
        with ranks.attempt() as attempt:
            if ranks.receives:
                # Sums for all ranks include this rank's own; at a single root, those of the others are added to it.
                total = join.total(plan, held[0] if held and not ranks.everywhere else None)
                for index, first, numbers, last in arrivals:
                    total.add(index, first, numbers, last=last)
                held = [total.finish()]
        for _ in arrivals:  # also after an error: the other ranks go on to the end
            pass
        ranks.settle(cascade, attempt)
        return held[0] if ranks.receives else None

    def _join(self, held: list[Result], join: Join[Result]) -> Result | None:
        """Join the results of all ranks as objects."""
        ranks = self.ranks
        cascade = ranks.cascade()
        with ranks.uninterrupted():
            held = cascade.join(held, join)
        with ranks.attempt() as attempt:
            if cascade.error is not None:
                raise cascade.error
            message = pickle.dumps(held, pickle.HIGHEST_PROTOCOL) if ranks.is_root and ranks.everywhere else b""
        if ranks.everywhere:
            with ranks.uninterrupted():
                message = cascade.hand_out(message if attempt.error is None else pickle.dumps([]))
        ranks.settle(cascade, attempt)
        if ranks.everywhere and not ranks.is_root:
            held = pickle.loads(message)
        return held[0] if ranks.receives else None

    def actors(
        self, build: Callable[..., State], tasks: Sequence[Any], *, given: tuple[Any, ...] = ()
    ) -> Actors[State]:
        """Build one object per task, each at a rank, where it stays."""
        with self.ranks.attempt() as attempt:
            objects = {}
            for index in self.ranks.assigned(len(tasks)):
                attempt.index = index
                objects[index] = build(tasks[index], *given)
        self.ranks.exchange(attempt)
        return RankActors(self, objects, len(tasks))

    def close(self) -> None:
        """Free the duplicated communicator; all ranks do so together. The one that was given stays open."""
        self.ranks.close()

    def __repr__(self) -> str:
        return f"MPI({self.workers} rank{'' if self.workers == 1 else 's'})"


class RankActors(LocalActors[State]):
    """The objects of this rank."""

    _engine: MPI

    def consult(self, decide: Callable[[list[Any]], Result], method: str, *arguments: Any) -> Result:
        """Send results to the root alone, and its decision to all ranks."""
        ranks = self._engine.ranks
        with ranks.attempt() as attempt:
            for index in ranks.assigned(self._count):
                attempt.index = index
                attempt.results.append(getattr(self._objects[index], method)(*arguments))
        return ranks.decide(attempt, decide)


class _Progress:
    """Estimates the number of finished tasks on all ranks from those of this rank."""

    def __init__(self, work: Work[Any], ranks: int) -> None:
        self._work, self._ranks, self._count = work, ranks, 0

    def step(self) -> None:
        """Count a task on this rank, and one on each of the others, which probably are as far."""
        self._count = min(self._count + self._ranks, len(self._work.tasks))
        self._work.report(self._count)

    def finish(self) -> None:
        """Report that all tasks are finished, unless that was reported before."""
        if self._count < len(self._work.tasks):
            self._work.report(len(self._work.tasks))


def _seconds(timeout: float | None) -> float | None:
    """Return the time limit, by default that of the environment."""
    given = os.environ.get(TIMEOUT_VARIABLE) if timeout is None else timeout
    try:
        seconds = None if given is None else float(given)
    except ValueError:
        seconds = 0.0
    if seconds is not None and not 0 < seconds <= threading.TIMEOUT_MAX:
        name = TIMEOUT_VARIABLE if timeout is None else "timeout"
        raise ParameterError(f"{name} must be a positive number of seconds, not {given!r}.")
    return seconds


def _library() -> Any:
    """Import the module ``mpi4py.MPI``, which starts MPI."""
    try:
        import mpi4py.MPI
    except (ImportError, RuntimeError) as error:  # the package, or the library that it loads
        raise SPEC.missing(error) from error
    return mpi4py.MPI
