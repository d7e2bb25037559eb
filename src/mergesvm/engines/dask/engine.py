"""The engine of a Dask cluster."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from importlib import metadata
from importlib.util import find_spec
from typing import Any, TypeVar

from mergesvm.engines.base import Actors, Engine, PartitionedRows
from mergesvm.engines.dask.actors import DaskActors
from mergesvm.engines.dask.collections import DaskRows, is_collection
from mergesvm.engines.dask.run import Run, check_connected, watched
from mergesvm.engines.dask.spec import SPEC
from mergesvm.engines.dask.sums import add_up
from mergesvm.engines.reduce import Addition, Join
from mergesvm.engines.threads import worker_count
from mergesvm.engines.traffic import Traffic
from mergesvm.engines.version import PACKAGE, check_versions
from mergesvm.engines.work import Work
from mergesvm.errors import EngineError, ParameterError

Result = TypeVar("Result")
State = TypeVar("State")

ANSWER_SECONDS = 10
"""How long to wait for a scheduler."""

QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.worker.memory.monitor-interval": "500ms",
}
"""Less frequent self-monitoring for clusters that are started here: Dask's defaults, meant for the dashboard, cost
about 5 % of the CPU time. Memory is still checked twice per second."""


class Dask(Engine):
    """The workers of a Dask cluster. Files and collections are processed by the workers; only results are sent.

    If a worker dies, the others compute its results again. BLAS uses one thread per task.

    Parameters
    ----------
    client : distributed.Client, str, cluster or None
        A client, the address of a scheduler such as ``"tcp://host:8786"``, or a cluster object. None starts processes
        on this machine when they are first needed; they end with :meth:`close`, a ``with`` block, or the program. As
        with :mod:`multiprocessing`, a script that does so has to start below ``if __name__ == "__main__":``.
    workers : int, optional
        Number of processes to start (default: one per core); only without a client.

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
            raise SPEC.missing()
        if workers is not None and client is not None:
            raise ParameterError("workers is the number of processes to start: leave it out when a client is given.")
        self._to_start = worker_count(workers)
        self._owned, self._closed = client is None, False
        self._client: Any = None
        self._checked: set[str] = set()  # workers of this version
        self._closer: weakref.finalize[..., Any] | None = None
        if client is not None:
            self._client, self._closer = self._connected(client)

    def _connected(self, client: Any) -> tuple[Any, weakref.finalize[..., Any] | None]:
        """Return a client, and a finalizer if it was opened here."""
        from distributed import Client
        from distributed.deploy import Cluster

        if isinstance(client, Client):
            if client.asynchronous:
                raise ParameterError(
                    "The client is asynchronous. Pass one without asynchronous=True, or the address of its scheduler."
                )
            return client, None
        if not isinstance(client, (str, Cluster)):
            raise ParameterError(
                f"client must be a dask.distributed Client, a scheduler address, a cluster or None, not {client!r}."
            )
        try:
            connected = Client(client, timeout=ANSWER_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:  # time-outs are OSErrors
            raise EngineError(
                f"No Dask scheduler answers at {client}. Check the address, and that the scheduler is running."
            ) from error
        return connected, weakref.finalize(self, _close, connected)

    @property
    def client(self) -> Any:
        """The client of the cluster; a local cluster is started if none was given."""
        if self._client is None:
            import dask
            from distributed import Client, LocalCluster

            if self._closed:
                raise EngineError("This engine is closed.")
            try:
                with dask.config.set(QUIET):
                    cluster = LocalCluster(
                        n_workers=self._to_start,
                        threads_per_worker=1,
                        processes=True,
                        dashboard_address="127.0.0.1:0",  # any free port
                        silence_logs=logging.CRITICAL,
                    )
            except RuntimeError as error:
                raise EngineError(
                    f"Dask could not start its workers ({error}). Put the main code of the script below "
                    f'if __name__ == "__main__":.'
                ) from error
            self._client = Client(cluster, timeout=ANSWER_SECONDS, set_as_default=False, direct_to_workers=True)
            self._closer = weakref.finalize(self, _close, self._client, cluster)
        return self._client

    @property
    def workers(self) -> int:
        """Number of threads of all workers."""
        return max(1, sum(self._threads().values()))

    def _threads(self) -> dict[str, int]:
        check_connected(self.client)
        with watched():
            threads: dict[str, int] = self.client.nthreads()
        if not self._owned:
            self._check_versions(threads.keys() - self._checked)
        return threads

    def _check_versions(self, new: set[str]) -> None:
        """Raise an error if a worker that has come since the last check has another version of this package."""
        if new:
            with watched():  # a function of the standard library, which workers without this package have too
                found = self.client.run(metadata.version, PACKAGE, workers=sorted(new), on_error="return")
            check_versions({f"The Dask worker {address}": version for address, version in found.items()})
            self._checked |= found.keys()

    def _map(self, work: Work[Result]) -> list[Result]:
        if not len(work.tasks):
            return []
        few = len(work.tasks) <= len(self._threads())
        with Run(self.client, work.function, work.given) as run:
            leaves = run.leaves(work.tasks, work.names, few=few)
            run.wait(leaves, work.done)
            results: list[Result] = run.gather(leaves)
        self.traffic += Traffic(run.sent, run.messages, 1)
        return results

    def _merge(self, work: Work[Result], join: Join[Result], *, own: bool) -> Result | None:  # noqa: ARG002
        if not len(work.tasks):
            return None
        few = len(work.tasks) <= len(self._threads())
        with Run(self.client, work.function, work.given, join) as run:
            results = run.leaves(work.tasks, work.names, few=few)
            if few:
                run.wait(results, work.done)
            else:
                results = run.folded(results, work.done)
                run.wait(results)
            result: Result
            result, rounds = add_up(run, join, results) if isinstance(join, Addition) else run.joined(results)
        self.traffic += Traffic(run.sent, run.messages, rounds)
        return result

    def actors(
        self, build: Callable[..., State], tasks: Sequence[Any], *, given: tuple[Any, ...] = ()
    ) -> Actors[State]:
        """Build one object per task as a Dask actor, spread evenly over the workers."""
        self._threads()
        with Run(self.client, build, given) as run:
            return DaskActors(self, run, tasks)

    def partitioned(self, rows: Any) -> PartitionedRows | None:
        """Return a Dask Array, DataFrame or Series, or a tuple of those, as partitions; None for anything else."""
        found = is_collection(rows) or (isinstance(rows, tuple) and any(is_collection(each) for each in rows))
        return DaskRows(rows, lambda: self.client) if found else None

    def close(self) -> None:
        """Stop the processes that this engine started. A cluster that it was given goes on."""
        if self._closer is not None:
            self._closer()
        self._client = self._closer = None
        self._closed = True

    def __repr__(self) -> str:
        if self._owned:
            return f"Dask(workers={self._to_start})"
        return "Dask(closed)" if self._client is None else f"Dask({self._client.scheduler.address!r})"


def _close(*closeables: Any) -> None:
    for each in closeables:
        each.close()
