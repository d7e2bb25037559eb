"""Objects that live at the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from mergesvm.engines.dask_parcel import Packed, Parcel, run_task, size_of
from mergesvm.engines.dask_run import CHECK_SECONDS, Run, watched
from mergesvm.engines.engine import Units
from mergesvm.engines.threads import Threads
from mergesvm.engines.traffic import Traffic
from mergesvm.errors import EngineError

if TYPE_CHECKING:
    from mergesvm.engines.dask import Dask

State = TypeVar("State")


class Unit:
    """What is made an actor: an object, and a way to call it that passes errors on as results."""

    def __init__(self, shared: Parcel, task: Any) -> None:
        self._object = run_task(shared, task, None).value

    def call(self, packed: Packed) -> tuple[Any, Exception | None]:
        """The result of a method, or its error: what else is raised is then the fault of the cluster."""
        method, arguments = packed.unpacked()
        try:
            with Threads.single_threaded_blas():
                return getattr(self._object, method)(*arguments), None
        except Exception as error:  # noqa: BLE001 - it is raised where it was called from
            return None, error


class DaskUnits(Units[State]):
    """Actors, one for each task."""

    def __init__(self, engine: Dask, run: Run, tasks: Sequence[Any]) -> None:
        self._engine, self._client, token = engine, run.client, uuid4().hex
        self._futures = [
            self._client.submit(Unit, run.shared, Packed(task), actor=True, key=f"unit-{token}-{index}", pure=False)
            for index, task in enumerate(tasks)
        ]
        run.wait(self._futures)
        with watched():
            self._actors = self._client.gather(self._futures)
            holders = self._client.who_has(self._futures)
        self._places = [next(iter(holders[future.key]), "") for future in self._futures]

    def __len__(self) -> int:
        return len(self._actors)

    def call(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> list[Any]:
        """Call a method of every object; results in order."""
        if each is None:
            packed = [Packed((method, arguments))] * len(self)
        else:
            packed = [Packed((method, (own, *arguments))) for own in each]
        with self._client.as_current():
            try:
                calls = [actor.call(content) for actor, content in zip(self._actors, packed, strict=True)]
                answers = [self._answer(call, place) for call, place in zip(calls, self._places, strict=True)]
            except (OSError, RuntimeError) as error:
                raise EngineError(f"A worker with objects on it is lost, and they with it: {error}") from error
        failed = next((error for _, error in answers if error is not None), None)
        if failed is not None:
            raise failed
        results = [result for result, _ in answers]
        sent: dict[str, int] = {}
        for place, result in zip(self._places, results, strict=True):
            sent[place] = sent.get(place, 0) + size_of(result)
        self._engine.traffic += Traffic(sent, len(results), 1)
        return results

    def _answer(self, call: Any, place: str) -> tuple[Any, Exception | None]:
        while True:
            try:
                answer: tuple[Any, Exception | None] = call.result(timeout=CHECK_SECONDS)
                return answer
            except TimeoutError:
                if place not in self._client.nthreads():
                    raise OSError(f"{place} has died.") from None

    def close(self) -> None:
        """Let go of the objects."""
        # Proxies of actors hold futures of their own, and an error's traceback holds proxies: releasing is not enough.
        if self._futures and self._client.status == "running":
            self._client.cancel(self._futures, force=True)
        self._futures, self._actors, self._places = [], [], []
