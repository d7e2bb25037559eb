"""The engine of a Dask cluster: work goes to where the partitions lie, and only results travel."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from numbers import Integral
from typing import Any, TypeVar

from mergesvm.engines.base import Done, Engine, Units
from mergesvm.engines.cores import cores
from mergesvm.engines.dask.actors import DaskUnits
from mergesvm.engines.dask.alone import FEW, add_here, pack_alone
from mergesvm.engines.dask.collections import as_delayed, is_collection, table_schema
from mergesvm.engines.dask.run import Run, watched
from mergesvm.engines.dask.sums import add_up
from mergesvm.engines.reduce import Addition, Join
from mergesvm.engines.traffic import Traffic
from mergesvm.errors import EngineError, ParameterError

Result = TypeVar("Result")
State = TypeVar("State")

ANSWER_SECONDS = 10
"""A scheduler that does not answer for so long is not there."""

QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.worker.memory.monitor-interval": "500ms",
}
"""How often the processes of a cluster that is started here look at themselves. As Dask has it, that is up to a hundred
times a second, for a dashboard that nobody watches, and takes a twentieth of the time of all cores. That memory runs
out is noticed twice, and not ten times, a second."""


class Dask(Engine):
    """The engine of a Dask cluster. Files and collections are learned where the workers are; only results travel.

    A worker that dies in the middle does no harm: what it held is computed again by the others. While a task runs,
    BLAS has one thread for it.

    Parameters
    ----------
    client : distributed.Client, str, cluster or None
        The cluster to work on: a client, the address of a scheduler such as ``"tcp://host:8786"``, or a cluster object.
        None starts processes on this machine when they are first needed; they end with :meth:`close`, or a ``with``
        block, or the program. Like all programs that start processes of Python, a script that does so keeps its work
        below ``if __name__ == "__main__":``.
    workers : int, optional
        How many processes to start, one a core by default; only without a client.

    Examples
    --------
    >>> from mergesvm.engines.dask.engine import Dask
    >>> with Dask(workers=1) as engine:
    ...     engine.map(abs, [-1, 2, -3])
    [1, 2, 3]
    """

    def __init__(self, client: Any = None, *, workers: int | None = None) -> None:
        super().__init__()
        if find_spec("distributed") is None:
            raise EngineError("The engine Dask needs a package that is missing: pip install 'mergesvm[dask]'.")
        if workers is not None and client is not None:
            raise ParameterError("workers is how many processes to start: leave it out with a cluster that is there.")
        if workers is not None and workers != -1 and (not isinstance(workers, Integral) or workers < 1):
            raise ParameterError(f"The number of workers must be positive, None or -1 (one a core), not {workers!r}.")
        self._to_start = cores() if workers in (None, -1) else int(workers or 0)
        self._owned, self._closed = client is None, False
        self._client: Any = None
        self._closer: weakref.finalize[..., Any] | None = None
        if client is not None:
            self._client, self._closer = self._connected(client)

    def _connected(self, client: Any) -> tuple[Any, weakref.finalize[..., Any] | None]:
        """A client of what was given, and what closes it, if it was not the client itself that was given."""
        from distributed import Client
        from distributed.deploy import Cluster

        if isinstance(client, Client):
            if client.asynchronous:
                raise ParameterError("The client is asynchronous. Give one without asynchronous=True, or its address.")
            return client, None
        if not isinstance(client, (str, Cluster)):
            raise ParameterError(f"client has to be a client, an address, a cluster or None, not {client!r}.")
        try:
            connected = Client(client, timeout=ANSWER_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:  # time-outs are errors of the system, too
            raise EngineError(
                f"There is no Dask scheduler that answers at {client}. Is it running, and is the address right?"
            ) from error
        return connected, weakref.finalize(self, _close, connected)

    @property
    def client(self) -> Any:
        """The client of the cluster; one is started where none was given."""
        if self._client is None:
            import dask
            from distributed import Client, LocalCluster

            if self._closed:
                raise EngineError("This engine is closed.")
            with dask.config.set(QUIET):
                cluster = self._started(LocalCluster)
            self._client = Client(cluster, timeout=ANSWER_SECONDS, set_as_default=False, direct_to_workers=True)
            self._closer = weakref.finalize(self, _close, self._client, cluster)
        return self._client

    def _started(self, kind: Any) -> Any:
        try:
            return kind(
                n_workers=self._to_start,
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",  # any port: the usual one may be taken
                silence_logs=logging.CRITICAL,
            )
        except RuntimeError as error:
            raise EngineError(
                f"Dask could not start its workers ({error}). Is the work of this script below "
                f'if __name__ == "__main__": as it has to be where processes are started?'
            ) from error

    @property
    def workers(self) -> int:
        """How many threads all workers together have now."""
        return max(1, sum(self._threads().values()))

    def _threads(self) -> dict[str, int]:
        if self._closed:
            raise EngineError("This engine is closed.")
        with watched():
            threads: dict[str, int] = self.client.nthreads()
        return threads

    def map(
        self,
        function: Callable[..., Result],
        tasks: Sequence[Any],
        *,
        given: tuple[Any, ...] = (),
        names: Sequence[str] | None = None,
        done: Done | None = None,
    ) -> list[Result]:
        """Apply a function to every task; results in the order of the tasks."""
        if not len(tasks):
            return []
        workers = self._threads()
        with Run(self.client, function, given) as run:
            leaves = run.leaves(tasks, names, dealt=len(tasks) <= len(workers))
            run.wait(leaves, done)
            results: list[Result] = run.gather(leaves)
        self._count(run, 1)
        return results

    def merge(
        self,
        function: Callable[..., Result],
        tasks: Sequence[Any],
        join: Join[Result],
        *,
        given: tuple[Any, ...] = (),
        names: Sequence[str] | None = None,
        done: Done | None = None,
        own: bool = False,  # noqa: ARG002
    ) -> Result | None:
        """Apply a function to every task, and join the results: first those of each worker there, then across them.

        Sums of numbers of up to two workers are added up by the client, those of more in shares, one a worker; other
        results are joined whole, in a tree.
        """
        if not len(tasks):
            return None
        dealt, adding = len(tasks) <= len(self._threads()), isinstance(join, Addition)
        with Run(self.client, function, given, join) as run:
            alone = pack_alone if adding and dealt and len(tasks) <= FEW else None
            results = run.leaves(tasks, names, dealt=dealt, last=alone)
            if not dealt:
                results, done = run.folded(results, done), None
                if adding and len(results) <= FEW:
                    results = run.start([run.call(pack_alone, each) for each in results])
            result: Result
            if isinstance(join, Addition) and len(results) <= FEW:
                result, rounds = add_here(run, join, results, done)
            else:
                run.wait(results, done)
                result, rounds = add_up(run, join, results) if isinstance(join, Addition) else run.joined(results)
        self._count(run, rounds)
        return result

    def units(self, build: Callable[..., State], tasks: Sequence[Any], *, given: tuple[Any, ...] = ()) -> Units[State]:
        """Objects that live at the workers as Dask's actors, about as many at each."""
        self._threads()
        with Run(self.client, build, given) as run:
            return DaskUnits(self, run, tasks)

    def holds(self, rows: Any) -> bool:
        """Whether rows are an array, a data frame or a series of Dask, or a tuple of those."""
        return is_collection(rows) or (isinstance(rows, tuple) and any(is_collection(each) for each in rows))

    def narrowed(self, table: Any, columns: Sequence[str]) -> Any:
        """The same table with these columns only: Dask does not read the others."""
        as_text = {str(column): column for column in table.columns}
        return table[[as_text[column] for column in columns]]

    def partitions(self, rows: Any) -> Sequence[Any]:
        """The partitions of a collection, not yet computed; those of a tuple side by side."""
        return as_delayed(rows)

    def schema(self, table: Any) -> Any:
        """The columns of a data frame of Dask, as an Arrow schema; known categories are told in its metadata."""
        self._threads()
        return table_schema(table, self.client)

    def _count(self, run: Run, rounds: int) -> None:
        self.traffic += Traffic(run.sent or {}, run.messages, rounds)

    def close(self) -> None:
        """Stop the processes that this engine has started. A cluster that it was given goes on."""
        if self._closer is not None:
            self._closer()
        self._client = self._closer = None
        self._closed = True

    def __repr__(self) -> str:
        if self._client is None:
            return f"Dask(workers={self._to_start})" if self._owned else "Dask(closed)"
        return f"Dask(workers={self._to_start})" if self._owned else f"Dask({self._client.scheduler.address!r})"


def _close(*things: Any) -> None:
    for thing in things:
        thing.close()
