"""Stateful objects on the workers of a Dask cluster."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from mergesvm.engines.base import Actors
from mergesvm.engines.dask.parcel import Packed, Parcel, run_task, size_of
from mergesvm.engines.dask.run import CHECK_SECONDS, Run, large_graphs, watched
from mergesvm.engines.threads import Threads
from mergesvm.engines.traffic import Traffic
from mergesvm.errors import EngineError

if TYPE_CHECKING:
    from mergesvm.engines.dask.engine import Dask

State = TypeVar("State")


class Holder:
    """A Dask actor that holds an object, and returns the errors of its methods as results."""

    def __init__(self, shared: Parcel, task: Any, name: str | None = None) -> None:
        self._object = run_task(shared, "", task, name).value

    def call(self, packed: Packed) -> tuple[Any, Exception | None]:
        """Return the result of a method, or its error: other errors are then those of the cluster."""
        method, arguments = packed.unpacked()
        try:
            with Threads.single_threaded_blas():
                return getattr(self._object, method)(*arguments), None
        except Exception as error:  # noqa: BLE001 - raised by the caller
            return None, error


class DaskActors(Actors[State]):
    """One actor per task; those of partitions are built where the partitions are. Deleting this object ends them."""

    def __init__(self, engine: Dask, run: Run, tasks: Sequence[Any]) -> None:
        from dask.base import is_dask_collection

        self._engine, self._client, token = engine, run.client, uuid4().hex
        if tasks and all(is_dask_collection(task) for task in tasks):
            contents, places = run.computed(tasks)
            names: list[str | None] = [f"partition {index}" for index in range(len(tasks))]
        else:
            contents, places, names = [Packed(task) for task in tasks], [""] * len(tasks), [None] * len(tasks)
        with large_graphs():  # rows in memory are sent this way, once
            self._futures = [
                self._client.submit(
                    Holder,
                    run.shared,
                    content,
                    name,
                    actor=True,
                    key=f"actor-{token}-{index}",
                    pure=False,
                    workers=[place] if place else None,
                    allow_other_workers=bool(place),
                )
                for index, (content, place, name) in enumerate(zip(contents, places, names, strict=True))
            ]
        # Proxies of actors hold futures of their own in reference cycles: releasing ours is not enough.
        self._end = weakref.finalize(self, _drop, self._client, self._futures)
        self._end.atexit = False
        try:
            run.wait(self._futures)
            with watched():
                self._actors = self._client.gather(self._futures)
            self._places = run.places(self._futures)
        except BaseException:
            self._end()
            raise

    def __len__(self) -> int:
        return len(self._actors)

    def call(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> list[Any]:
        """Call a method of every object; results in order. Only what workers send is counted."""
        if each is None:
            packed = [Packed((method, arguments))] * len(self)
        else:
            packed = [Packed((method, (each[index], *arguments))) for index in range(len(self))]
        with self._client.as_current():
            calls = [self._called(*target) for target in zip(self._actors, packed, self._places, strict=True)]
            answers = [self._answer(call, place) for call, place in zip(calls, self._places, strict=True)]
        sent: dict[str, int] = {}
        for place, (result, _) in zip(self._places, answers, strict=True):
            sent[place] = sent.get(place, 0) + size_of(result)
        self._engine.traffic += Traffic(sent, len(answers), 1)
        failed = next((error for _, error in answers if error is not None), None)
        if failed is not None:
            raise failed
        return [result for result, _ in answers]

    @staticmethod
    def _called(actor: Any, packed: Packed, place: str) -> Any:
        try:
            return actor.call(packed)
        except RuntimeError as error:
            raise _lost(place, error) from error

    def _answer(self, call: Any, place: str) -> tuple[Any, Exception | None]:
        while True:
            try:
                answer: tuple[Any, Exception | None] = call.result(timeout=CHECK_SECONDS)
                return answer
            except TimeoutError:
                with watched():
                    if place not in self._client.nthreads():
                        raise _lost(place, "it died") from None
            except (OSError, RuntimeError) as error:
                raise _lost(place, error) from error

    def close(self) -> None:
        """Release the objects."""
        self._end()
        self._futures, self._actors, self._places = [], [], []


def _drop(client: Any, futures: list[Any]) -> None:
    """Cancel actors from any thread, without waiting."""
    if client.status == "running":
        client.loop.add_callback(client.cancel, futures, asynchronous=True, force=True)


def _lost(place: str, why: object) -> EngineError:
    return EngineError(f"The worker {place} is lost, with the objects it held: {why}")
