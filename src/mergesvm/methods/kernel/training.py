"""From rows at units to a kernel model, and on from there when rows come and go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.labels import label_kind
from mergesvm.engines.base import Engine, Units
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError, ParameterError, SubtractionError
from mergesvm.features.maps.identity import Identity
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.kernel.gradient import GradientUnit
from mergesvm.methods.kernel.options import KernelOptions, Trained
from mergesvm.methods.kernel.trainer import KernelMachine, Progress
from mergesvm.methods.kernel.worker.unit import Unit
from mergesvm.models.base import Domain
from mergesvm.models.expansion import Expansion
from mergesvm.models.kernel import KernelModel
from mergesvm.models.score_moments import symmetric_moments
from mergesvm.multiclass.class_weights import known_weights


@dataclass(frozen=True)
class Collection:
    """Rows, labels and perhaps weights that lie on the workers of an engine, in partitions.

    Attributes
    ----------
    content : tuple of collections
    width : int
        How many features rows have.
    names : tuple of str, or None
        Of the features.
    """

    content: tuple[Any, ...]
    width: int
    names: tuple[str, ...] | None


class KernelTraining:
    """Units that hold rows, and the model that they have come to; more rows can be given to them, and taken away.

    Its units are to be closed, which under MPI each rank does by itself. What is broken off while they change closes
    them: they cannot be gone on from.

    Parameters
    ----------
    machine : KernelMachine
    signature : Signature
    ties : str
    precision : {"float64", "float32"}
        In which rows are predicted.

    Attributes
    ----------
    model : KernelModel
    trained : Trained
        The outcome of the last training.
    support : array of int, shape (vectors,)
        The numbers of the support vectors, counted over all rows in the order in which they were given.
    rounds : int
        Of all trainings together.
    """

    model: KernelModel
    trained: Trained
    support: NDArray[np.int64]

    def __init__(self, machine: KernelMachine, signature: Signature, ties: str, precision: str) -> None:
        self.machine, self.signature, self._ties, self._precision = machine, signature, ties, precision
        self.rounds, self.closed = 0, False
        sizes: list[int] = machine.units.call("size")
        self.given = sum(sizes)
        machine.units.call("number", each=(np.cumsum(sizes) - sizes).tolist())

    @classmethod
    def start(
        cls,
        rows: Batch | Collection,
        terms: KernelOptions,
        units: int | None,
        engine: Engine,
        threads: Threads,
        *,
        ties: str = "recount",
        precision: str = "float64",
    ) -> KernelTraining:
        """Deal rows out to units; where every worker runs the same program, each is a unit, with the rows it has.

        Of a collection each partition is a unit, where it lies.
        """
        build = GradientUnit if terms.method == "gradient" else Unit
        if isinstance(rows, Collection):
            held, signature = _there(rows, build, units, engine)
        elif engine.collective:
            if units not in (None, engine.workers):
                raise ParameterError(
                    f"Under MPI each rank is a unit, with the rows that it has: leave units={units} out, or start "
                    f"{units} ranks; here are {engine.workers}."
                )
            signature = _agreed_upon(rows, engine)
            held = engine.units(partial(_own, build, rows), range(engine.workers))
        else:
            count = units or (1 if engine.embedded else engine.workers)
            parts = list(rows.slices(count))
            parts += [Batch(rows.rows.alone(0, 0), rows.labels.part(0, 0), None)] * (count - len(parts))
            held, signature = engine.units(build, parts), _signature(rows)
        return cls(KernelMachine(held, engine, terms, threads), signature, ties, precision)

    def go_by(self, terms: KernelOptions) -> None:
        """Take on terms that say how to train, but not what: those have to stay what they were."""
        for name in ("kernel", "C", "class_weight", "beta", "method", "accelerated", "precision"):
            was, wanted = getattr(self.machine.terms, name), getattr(terms, name)
            if was != wanted:
                raise ParameterError(
                    f"{name} was {was!r} when fitting began, and cannot become {wanted!r}. Call fit anew."
                )
        self.machine.terms = terms

    def train(self, progress: Progress | None = None) -> KernelModel:
        """Train, from where the units are."""
        with self._changing():
            self.trained = self.machine.train(progress)
            self.rounds += self.trained.rounds
            self.model = self._model()
        return self.model

    def close(self) -> None:
        """Let go of the units, and the rows that they hold; the model stays."""
        self.closed = True
        self.machine.units.close()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Units change within; some have and others have not, if it is broken off, so that all are let go."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def add(self, batch: Batch) -> None:
        """Give rows to the units: under MPI those of each rank to its own, else in even shares."""
        engine, count = self.machine.engine, len(self.machine.units)
        signature = _agreed_upon(batch, engine)
        joined = self.signature.joined(signature)
        if engine.collective:
            sizes: list[int] = engine.map(partial(_mine, batch.rows.n_rows), range(count))
            parts: list[Batch | None] = [batch if index == engine.rank else None for index in range(count)]
        else:
            dealt: list[Batch | None] = list(batch.slices(count))
            parts = dealt + [None] * (count - len(dealt))
            sizes = [0 if part is None else part.rows.n_rows for part in parts]
        firsts = self.given + np.cumsum(sizes) - sizes
        each = [None if part is None else (part, first) for part, first in zip(parts, firsts.tolist(), strict=True)]
        self.machine.units.call("receive", each=each)  # rows that are wrong are found here
        with self._changing():
            self.machine.units.call("add")
            self.signature, self.given = joined, self.given + sum(sizes)

    def remove(self, batch: Batch) -> None:
        """Take rows away, each of which has to be at a unit: under MPI at that of the rank that names it."""
        engine, count = self.machine.engine, len(self.machine.units)
        self.signature.joined(_agreed_upon(batch, engine), "subtract", "from")
        if engine.collective:
            wanted = [batch if index == engine.rank else None for index in range(count)]
            found: list[list[list[int] | None]] = self.machine.units.call("find", each=wanted)
            numbers = np.concatenate([_chosen([places], f"rank {u}, row") for u, places in enumerate(found)])
        else:
            found = self.machine.units.call("find", batch)
            numbers = _chosen(found, "Row")
        if len(numbers) == sum(sum(counts.values()) for counts in self.machine.units.call("counts")):
            raise SubtractionError("These are all the rows that there are. Nothing would be left to learn from.")
        with self._changing():
            self.machine.forget(numbers)

    def _model(self) -> KernelModel:
        trained, terms, machine = self.trained, self.machine.terms, self.machine
        assert machine.ground is not None
        classes = tuple(sorted(trained.rows))
        rows = np.array([trained.rows[label] for label in classes], dtype=np.int64)
        kernel = machine.ground.kernel
        written = {
            "C": float(terms.C),
            "class_weight": known_weights(terms.class_weight, classes),
            "multiclass": "ovo",
            "beta": terms.beta,
            "units": len(machine.units),
        }
        domain = Domain(classes, np.zeros(self.signature.inputs), self.signature, rows, (), written)
        packet = trained.support
        codes = {label: code for code, label in enumerate(classes)}
        labels = np.array([] if packet is None else [codes[label] for label in packet.labels], dtype=np.int64)
        order = np.argsort(labels, kind="stable")
        vectors = np.zeros((0, self.signature.inputs)) if packet is None else packet.rows[order]
        self.support = np.zeros(0, np.int64) if packet is None else packet.numbers[order]
        coefs = np.zeros((max(len(classes) - 1, 1), len(order)))
        place = {number: at for at, number in enumerate(self.support.tolist())}
        sorted_labels = labels[order]
        for p, (one, other) in enumerate(trained.pairs):
            span = trained.coefs.span(p)
            at = np.array([place[number] for number in trained.coefs.keys[span].tolist()], dtype=np.int64)
            first, second = codes[one], codes[other]
            # Against each of the other classes in turn: the class itself is left out.
            line = np.where(sorted_labels[at] == first, second - 1, first)
            assert trained.coefs.values is not None
            coefs[line, at] = trained.coefs.values[span]
        counts = np.bincount(labels, minlength=len(classes))
        expansion = Expansion(kernel, vectors, counts, coefs, trained.intercepts, self._precision)
        return KernelModel(domain, expansion, symmetric_moments(trained.moments), self._ties, terms.method)


def _own(build: type[Unit], batch: Batch, _: int) -> Unit:
    return build(batch)


def _mine(value: Any, _: int) -> Any:
    return value


def _there(rows: Collection, build: type[Unit], units: int | None, engine: Engine) -> tuple[Units[Any], Signature]:
    """One unit for each partition of a collection, and what can be said of all their rows."""
    parts = engine.partitions(rows.content)
    if units not in (None, len(parts)):
        raise ParameterError(
            f"Each of the {len(parts)} partitions of X is a unit, where it lies: leave units={units} out, or "
            f"repartition X."
        )
    held = engine.units(partial(_of_block, build, rows.width, rows.names), parts)
    try:
        counts: list[list[Any]] = held.call("labels")
        kinds = [label_kind(labels[0]) if labels else None for labels in counts]
        signatures = [Signature(Identity(), rows.width, rows.names, labels=kind) for kind in kinds]
        return held, _agreed(signatures)
    except BaseException:
        held.close()
        raise


def _of_block(build: type[Unit], width: int, names: tuple[str, ...] | None, block: tuple[Any, ...]) -> Unit:
    batch = Batch.of(*block, empty=True)
    if batch.rows.width != width:
        raise DataError(f"X has {batch.rows.width} features here, but {width} elsewhere.")
    batch.rows.names = names
    return build(batch)


def _agreed_upon(batch: Batch, engine: Engine) -> Signature:
    """What can be said of the rows of this process, or, where many run the same program, of those of all."""
    signature = _signature(batch)
    if not engine.collective:
        return signature
    return _agreed(engine.map(partial(_mine, signature), range(engine.workers)))


def _signature(batch: Batch) -> Signature:
    return Signature(Identity(), batch.rows.width, batch.rows.names, labels=batch.labels.kind)


def _agreed(signatures: Sequence[Signature]) -> Signature:
    agreed = signatures[0]
    for signature in signatures[1:]:
        agreed = agreed.joined(signature)
    if agreed.labels is None:
        raise DataError("There is no row that counts at any unit.")
    return agreed


def _chosen(found: list[list[list[int] | None]], what: str) -> NDArray[np.int64]:
    """For each row wanted, the number of one that is the same, of all that units have found; each is taken once.

    Rows that weigh nothing are not looked for: they were never learned from.
    """
    taken: set[int] = set()
    for row, places in enumerate(zip(*found, strict=True)):
        if places[0] is None:
            continue
        number = next((number for place in places for number in place or () if number not in taken), None)
        if number is None:
            raise SubtractionError(
                f"{what} {row} is not among the rows that were learned, or not as often: same values, class and "
                f"weight. Nothing was changed."
            )
        taken.add(number)
    return np.array(sorted(taken), dtype=np.int64)


def check_rows(batch: Batch) -> Batch:
    """The batch, or an error if no row of it counts."""
    if not batch.labels.classes:
        raise DataError("No row counts: all have a weight of zero.")
    return batch
