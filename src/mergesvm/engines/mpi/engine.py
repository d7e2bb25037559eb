"""The engine of MPI: every rank runs the same program, and results are joined along a tree of ranks."""

from __future__ import annotations

import pickle
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from mergesvm.engines.base import Done, Engine, Units, naming
from mergesvm.engines.mpi.attempt import Attempt, opened
from mergesvm.engines.mpi.cascade import Cascade, Tree
from mergesvm.engines.reduce import Addition, Join
from mergesvm.engines.threads import Threads
from mergesvm.engines.traffic import Traffic
from mergesvm.errors import EngineError, ParameterError

Result = TypeVar("Result")
State = TypeVar("State")


class MPI(Engine):
    """The engine of MPI: processes started by ``mpiexec``, which may be on many machines.

    All ranks run the same program and make the same calls: each does its share of the tasks, with a BLAS of one thread,
    results are joined along a binomial tree, and all ranks get them. What goes wrong in a task at one rank is raised by
    all. An error of one rank outside of this engine leaves the others waiting, unless the program was started by
    ``mpiexec -n 8 python -m mpi4py program.py``: work that may fail at one rank belongs into :meth:`map`,
    :meth:`merge`, :meth:`once` or :meth:`together`. If a rank dies, ``mpiexec`` ends the others.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm, optional
        Whose ranks take part; all by default. It is duplicated, so that messages of other work do not get mixed up.
    root : int, optional
        The only rank that gets what :meth:`merge` gives, which saves the way back down; the others get None.
    local : bool
        Whether files that are named are each rank's own, and not dealt out.

    Examples
    --------
    With ``mpiexec -n 8 python program.py`` the program's rows may be others at every rank:

    >>> import mergesvm as ms
    >>> with ms.engines.MPI() as engine:
    ...     knowledge = ms.learn([[0.0, 1.0], [1.0, 1.0]], ["cat", "dog"], engine=engine)
    ...     engine, knowledge
    (MPI(1 rank), Knowledge of 2 rows x 2 features in 2 classes: cat 1, dog 1)
    """

    collective = True

    def __init__(self, comm: Any = None, *, root: int | None = None, local: bool = False) -> None:
        super().__init__()
        world = _library()
        comm = world.COMM_WORLD if comm is None else comm
        if not isinstance(comm, world.Intracomm):
            raise ParameterError(f"comm has to be an intracommunicator of mpi4py, not {comm!r}.")
        if root is not None and root not in range(comm.size):
            raise ParameterError(
                f"root has to be one of the ranks 0 to {comm.size - 1}, or None for all, not {root!r}."
            )
        self.root, self.local = root, local
        self._rank, self._workers = int(comm.rank), int(comm.size)
        self._own: Any = comm.Dup()

    @property
    def workers(self) -> int:
        """How many ranks there are."""
        return self._workers

    @property
    def rank(self) -> int:
        """The number of this rank."""
        return self._rank

    @property
    def is_root(self) -> bool:
        """Whether this is the rank that talks to the user: the root, or the first."""
        return self.rank == self._top

    @property
    def receives(self) -> bool:
        """Whether this rank gets what :meth:`merge` gives."""
        return self.root is None or self.rank == self.root

    def map(
        self,
        function: Callable[..., Result],
        tasks: Sequence[Any],
        *,
        given: tuple[Any, ...] = (),
        names: Sequence[str] | None = None,
        done: Done | None = None,
    ) -> list[Result]:
        """Apply a function to every task; each rank to its share, and all ranks get all results."""
        mine = self._share(len(tasks))
        work = _Work(function, tasks, given, names, done, self.workers)
        with self._trying() as attempt:
            for index in mine:
                attempt.index = index
                attempt.results.append(work(index))
            work.finish()
        return [result for share in self._exchange(attempt) for result in share]

    def merge(
        self,
        function: Callable[..., Result],
        tasks: Sequence[Any],
        join: Join[Result],
        *,
        given: tuple[Any, ...] = (),
        names: Sequence[str] | None = None,
        done: Done | None = None,
        own: bool = False,
    ) -> Result | None:
        """Apply a function to every task, and join the results: each rank its own as they come, then all in a tree."""
        work = _Work(function, tasks, given, names, done, 1 if own else self.workers)
        held: list[Result] = []
        with self._trying() as attempt:
            for index in range(len(tasks)) if own else self._share(len(tasks)):
                attempt.index = self.rank if own else index  # numbers of own tasks say nothing to other ranks
                held = [*held, work(index)]
                held = [join(held)] if len(held) > 1 else held
            attempt.results = [join.describe(held[0]) if isinstance(join, Addition) else None] if held else []
            work.finish()
        found = self._exchange(attempt)
        ranks = [rank for rank, share in enumerate(found) if share]
        if not ranks:
            return None
        if self.workers == 1:
            return held[0]
        if isinstance(join, Addition):
            return self._add(held, join, join.agree([found[rank][0] for rank in ranks]), ranks)
        return self._join(held, join)

    def units(self, build: Callable[..., State], tasks: Sequence[Any], *, given: tuple[Any, ...] = ()) -> Units[State]:
        """Objects that stay at the rank that builds them."""
        with self._trying() as attempt:
            objects = {}
            for index in self._share(len(tasks)):
                attempt.index = index
                objects[index] = build(tasks[index], *given)
        self._exchange(attempt)
        return _RankUnits(self, objects, len(tasks))

    def once(self, function: Callable[[], Result]) -> Result:
        """Call a function at the rank that is_root; all ranks get what it gives."""
        with self._trying() as attempt:
            attempt.results = [function()] if self.is_root else []
        if self.workers == 1:
            return opened([attempt])[0][0]  # type: ignore[no-any-return]
        cascade = Cascade(self._comm, self._top)
        with self._vital():
            message = cascade.hand_out(attempt.message())
        trees = [Tree(rank, self.workers, self._top) for rank in range(self.workers)]
        sent = [len(message) * len(tree.children) for tree in trees]
        self._tell(sent, self.workers - 1, trees[0].levels)
        return opened([attempt if self.is_root else pickle.loads(message)])[0][0]  # type: ignore[no-any-return]

    def _consult(self, ask: Callable[[int], Any], count: int, decide: Callable[[list[Any]], Result]) -> Result:
        """Ask for every number, each rank for its share, and decide on all answers at the rank that is_root."""
        with self._trying() as attempt:
            for index in self._share(count):
                attempt.index = index
                attempt.results.append(ask(index))
        if self.workers == 1:
            return self.once(lambda: decide(opened([attempt])[0]))
        with self._vital():
            messages = self._comm.gather(attempt.message(), self._top)

        def chosen() -> tuple[list[int], Result]:
            answers = [answer for share in self._read(messages, attempt) for answer in share]
            return [len(message) for message in messages], decide(answers)

        try:
            sizes, decision = self.once(chosen)
        except BaseException as error:
            if attempt.error not in (None, error):
                raise error from attempt.error  # which has the traceback
            raise
        sent = [0 if rank == self._top else size for rank, size in enumerate(sizes)]
        self._tell(sent, self.workers - 1, Tree(0, self.workers).levels)
        return decision

    def together(self, function: Callable[[], Result]) -> Result:
        """Call a function at every rank; where it fails at one, all raise its error."""
        value: list[Result] = []
        with self._trying() as attempt:
            value.append(function())
        self._exchange(attempt)
        return value[0]

    def close(self) -> None:
        """Give the duplicate of the communicator back; all ranks do so together. The one that was given stays."""
        if self._own is not None:
            self._own.Free()
            self._own = None

    def __repr__(self) -> str:
        return f"MPI({self.workers} rank{'' if self.workers == 1 else 's'})"

    @property
    def _comm(self) -> Any:
        if self._own is None:
            raise EngineError("This engine has been closed. Start another: mergesvm.engines.MPI().")
        return self._own

    @property
    def _top(self) -> int:
        return self.root or 0

    def _share(self, count: int) -> range:
        """The numbers of this rank's tasks: neighbours, which are often parts of one file."""
        first, end = (-(-count * rank // self.workers) for rank in (self.rank, self.rank + 1))
        return range(first, end)

    def _add(self, held: list[Result], join: Addition[Result], plan: Any, ranks: list[int]) -> Result | None:
        """Add the numbers of all ranks, block by block."""
        cascade = Cascade(self._comm, self._top)
        arrivals = self._vitally(cascade.arrivals(held, join, plan, ranks, everywhere=self.root is None))
        with self._trying() as attempt:
            if self.receives:
                # What goes down to everyone comes with one's own; at the root alone the others' is added to it.
                total = join.total(plan, held[0] if held and self.root is not None else None)
                for index, first, numbers, last in arrivals:
                    total.add(index, first, numbers, last=last)
                held = [total.finish()]
        for _ in arrivals:  # also after an error: the others go on to the end
            pass
        self._settle(cascade, attempt)
        return held[0] if self.receives else None

    def _join(self, held: list[Result], join: Join[Result]) -> Result | None:
        """Join the results of all ranks, whole."""
        cascade = Cascade(self._comm, self._top)
        with self._vital():
            held = cascade.join(held, join)
        with self._trying() as attempt:
            if cascade.error is not None:
                raise cascade.error
            message = pickle.dumps(held, pickle.HIGHEST_PROTOCOL) if self.is_root and self.root is None else b""
        if self.root is None:
            with self._vital():
                message = cascade.hand_out(message if attempt.error is None else pickle.dumps([]))
        self._settle(cascade, attempt)
        if self.root is None and not self.is_root:
            held = pickle.loads(message)
        return held[0] if self.receives else None

    @contextmanager
    def _trying(self) -> Iterator[Attempt]:
        """Work that may fail at this rank: the error is kept, until all ranks know of it.

        An interrupt, too: the others would wait for ever for a rank that has gone.
        """
        attempt = Attempt(self.rank)
        _ = self._comm
        try:
            with Threads.single_threaded_blas():
                yield attempt
        except BaseException as error:  # noqa: BLE001
            attempt.fail(error)

    def _exchange(self, attempt: Attempt) -> list[list[Any]]:
        """What all ranks have, in their order; or the first error of any, raised by all."""
        if self.workers == 1:
            return opened([attempt])
        messages = self._gather(attempt)
        levels = Tree(0, self.workers).levels
        self._tell([(self.workers - 1) * len(message) for message in messages], self.workers * levels, levels)
        return self._read(messages, attempt)

    def _settle(self, cascade: Cascade, attempt: Attempt) -> None:
        """Tell all ranks what each has sent along the tree, and whether all went well."""
        attempt.results = [(cascade.sent, cascade.messages)]
        shares = self._read(self._gather(attempt), attempt)
        sent, counts = zip(*(share[0] for share in shares), strict=True)
        self._tell(sent, sum(counts), (2 if self.root is None else 1) * cascade.tree.levels)

    def _gather(self, attempt: Attempt) -> list[bytes]:
        with self._vital():
            messages: list[bytes] = self._comm.allgather(attempt.message())
        return messages

    def _read(self, messages: list[bytes], attempt: Attempt) -> list[list[Any]]:
        attempts = [pickle.loads(message) for message in messages]
        if attempt.error is not None:
            attempts[self.rank] = attempt  # it has its traceback
        return opened(attempts)

    def _tell(self, sent: Sequence[int], messages: int, rounds: int) -> None:
        by_rank = {f"rank {rank}": size for rank, size in enumerate(sent)}
        self.traffic = self.traffic + Traffic(by_rank, messages, rounds)

    @contextmanager
    def _vital(self) -> Iterator[None]:
        """Within messages nothing may go wrong at one rank alone: the others could not know, so that the job ends."""
        try:
            yield
        except BaseException:
            sys.stderr.write(f"Rank {self.rank} cannot go on, and the job ends.\n{traceback.format_exc()}")
            sys.stderr.flush()
            self._comm.Abort(1)
            raise

    def _vitally(self, items: Iterator[Result]) -> Iterator[Result]:
        while True:
            with self._vital():
                item = next(items, None)
            if item is None:
                return
            yield item


class _Work:
    """A function of tasks by their numbers, which tells about how many of all are done."""

    def __init__(
        self,
        function: Callable[..., Any],
        tasks: Sequence[Any],
        given: tuple[Any, ...],
        names: Sequence[str] | None,
        done: Done | None,
        ranks: int,
    ) -> None:
        self._function, self._tasks, self._given, self._names = function, tasks, given, names
        self._done, self._ranks, self._count = done, ranks, 0

    def __call__(self, index: int) -> Any:
        with naming(self._names[index] if self._names else None):
            result = self._function(self._tasks[index], *self._given)
        self._say(min(self._count + self._ranks, len(self._tasks)))  # the others have probably come as far
        return result

    def finish(self) -> None:
        """Say that all is done, if it was not said."""
        if self._count < len(self._tasks):
            self._say(len(self._tasks))

    def _say(self, count: int) -> None:
        self._count = count
        if self._done is not None:
            self._done(count, len(self._tasks))


class _RankUnits(Units[State]):
    """Objects by their numbers, and how many there are at all ranks."""

    def __init__(self, engine: MPI, objects: dict[int, State], count: int) -> None:
        self._engine, self._objects, self._count = engine, objects, count

    def __len__(self) -> int:
        return self._count

    def call(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> list[Any]:
        def ask(index: int) -> Any:
            return getattr(self._objects[index], method)(*(() if each is None else (each[index],)), *arguments)

        return self._engine.map(ask, range(self._count))

    def consult(self, decide: Callable[[list[Any]], Result], method: str, *arguments: Any) -> Result:
        """Results go to the rank that is_root, and to no other; what it decides goes to all."""
        return self._engine._consult(
            lambda index: getattr(self._objects[index], method)(*arguments), self._count, decide
        )

    def close(self) -> None:
        # Each rank by itself, at any time: it may be called when an object that has units is let go of.
        self._objects, self._count = {}, 0


def _library() -> Any:
    """The module MPI of mpi4py; importing it starts MPI."""
    try:
        import mpi4py.MPI
    except (ImportError, RuntimeError) as error:  # the package, or the library that it loads
        raise EngineError(
            f"The engine MPI needs mpi4py and an MPI library: pip install 'mergesvm[mpi]'. {error}"
        ) from error
    return mpi4py.MPI
