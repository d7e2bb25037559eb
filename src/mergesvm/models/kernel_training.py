"""From rows at units to a kernel model, and on from there when rows come and go."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data import Batch
from mergesvm.engines import Threads
from mergesvm.engines.engine import Engine
from mergesvm.errors import DataError, ParameterError, SubtractionError
from mergesvm.features import Identity
from mergesvm.knowledge.signature import Signature
from mergesvm.models.expansion import Expansion
from mergesvm.models.kernel import KernelModel
from mergesvm.models.model import Domain
from mergesvm.models.pegasos_moments import even
from mergesvm.solvers.gradient import GradientUnit
from mergesvm.solvers.kernel_machine import KernelMachine, Progress, Terms, Trained
from mergesvm.solvers.unit import Unit
from mergesvm.solvers.weighting import known_weights


class KernelTraining:
    """Units that hold rows, and the model that they have come to; more rows can be given to them, and taken away.

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
        self.rounds = 0
        sizes: list[int] = machine.units.call("size")
        self.given = sum(sizes)
        machine.units.call("number", each=(np.cumsum(sizes) - sizes).tolist())

    @classmethod
    def start(
        cls,
        batch: Batch,
        terms: Terms,
        units: int | None,
        engine: Engine,
        threads: Threads,
        *,
        ties: str = "recount",
        precision: str = "float64",
    ) -> KernelTraining:
        """Deal rows out to units; where every worker runs the same program, each is a unit, with the rows it has."""
        build = GradientUnit if terms.method == "gradient" else Unit
        if engine.collective:
            if units not in (None, engine.workers):
                raise ParameterError(
                    f"Under MPI each rank is a unit, with the rows that it has: leave units={units} out, or start "
                    f"{units} ranks; here are {engine.workers}."
                )
            held = engine.units(partial(_own, build, batch), range(engine.workers))
        else:
            count = units or (1 if engine.embedded else engine.workers)
            parts = list(batch.slices(count))
            parts += [Batch(batch.rows.alone(0, 0), batch.labels.part(0, 0), None)] * (count - len(parts))
            held = engine.units(build, parts)
        signature = _signature(batch)
        if engine.collective:
            every = engine.map(partial(_mine, signature), range(engine.workers))
            signature = _agreed(every)
        return cls(KernelMachine(held, engine, terms, threads), signature, ties, precision)

    def train(self, progress: Progress | None = None) -> KernelModel:
        """Train, from where the units are."""
        self.trained = self.machine.train(progress)
        self.rounds += self.trained.rounds
        self.model = self._model()
        return self.model

    def add(self, batch: Batch) -> None:
        """Give rows to the units: under MPI those of each rank to its own, else in even shares."""
        engine, count = self.machine.engine, len(self.machine.units)
        signature = _signature(batch)
        if engine.collective:
            signature = _agreed(engine.map(partial(_mine, signature), range(engine.workers)))
            sizes: list[int] = engine.map(partial(_mine, batch.rows.n_rows), range(count))
            parts: list[Batch | None] = [batch if index == engine.rank else None for index in range(count)]
        else:
            dealt: list[Batch | None] = list(batch.slices(count))
            parts = dealt + [None] * (count - len(dealt))
            sizes = [0 if part is None else part.rows.n_rows for part in parts]
        self.signature = self.signature.joined(signature)
        firsts = self.given + np.cumsum(sizes) - sizes
        each = [None if part is None else (part, first) for part, first in zip(parts, firsts.tolist(), strict=True)]
        self.machine.units.call("add", each=each)
        self.given += sum(sizes)

    def remove(self, batch: Batch) -> None:
        """Take rows away, each of which has to be at a unit: under MPI at that of the rank that names it."""
        engine, count = self.machine.engine, len(self.machine.units)
        self.signature.joined(_signature(batch), "subtract", "from")
        if engine.collective:
            wanted = [batch if index == engine.rank else None for index in range(count)]
            found: list[list[list[int]]] = self.machine.units.call("find", each=wanted)
            numbers = np.concatenate([_chosen([places], f"rank {u}, row") for u, places in enumerate(found)])
        else:
            found = self.machine.units.call("find", batch)
            numbers = _chosen(found, "Row")
        if len(numbers) == sum(self.machine.units.call("size")):
            raise SubtractionError("These are all the rows that there are. Nothing would be left to learn from.")
        self.machine.forget(numbers)

    def _model(self) -> KernelModel:
        trained, terms, machine = self.trained, self.machine.terms, self.machine
        assert machine.kernel is not None
        classes = tuple(sorted(trained.rows))
        rows = np.array([trained.rows[label] for label in classes], dtype=np.int64)
        kernel = machine.kernel
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
        return KernelModel(domain, expansion, even(trained.moments), self._ties, terms.method)


def _own(build: type[Unit], batch: Batch, _: int) -> Unit:
    return build(batch)


def _mine(value: Any, _: int) -> Any:
    return value


def _signature(batch: Batch) -> Signature:
    return Signature(Identity(), batch.rows.width, batch.rows.names, labels=batch.labels.kind)


def _agreed(signatures: Sequence[Signature]) -> Signature:
    agreed = signatures[0]
    for signature in signatures[1:]:
        agreed = agreed.joined(signature)
    return agreed


def _chosen(found: list[list[list[int]]], what: str) -> NDArray[np.int64]:
    """For each row wanted, the number of one that is the same, of all that units have found; each is taken once."""
    taken: set[int] = set()
    for row, places in enumerate(zip(*found, strict=True)):
        number = next((number for place in places for number in place if number not in taken), None)
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
