"""KernelTraining: trains a kernel model, and continues when rows are added or removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label
from mergesvm.data.rows.convert import as_rows
from mergesvm.engines.base import Engine
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError, SubtractionError
from mergesvm.methods.kernel.messages import EMPTY
from mergesvm.methods.kernel.options import KernelOptions
from mergesvm.methods.kernel.reduction import UnitReduction
from mergesvm.methods.kernel.trainer import KernelTrainer, Progress, TrainingResult
from mergesvm.methods.kernel.units import Collection, common_signature, make_units, own_values
from mergesvm.models.domain import Domain
from mergesvm.models.expansion import Expansion
from mergesvm.models.kernel import KernelModel
from mergesvm.models.reduction.path import ReducedPath, path_limit
from mergesvm.models.score_moments import symmetric_moments
from mergesvm.multiclass.class_weights import given_weights, known_weights


class KernelTraining:
    """Units that hold rows, and the model trained on those rows; rows can be added and removed.

    Call :meth:`close` to release the units; under MPI each rank does so on its own. If a change of the units fails,
    they are closed, because some of them may have changed and others not.

    Rows are distributed by :func:`~mergesvm.methods.kernel.units.make_units`. ``precision`` is that of predictions.
    """

    model: KernelModel
    full_model: KernelModel  # the optimum, from which the model is reduced if max_support_vectors asks for fewer
    result: TrainingResult  # of the last training run
    support: NDArray[np.int64]  # indices of the model's vectors, counted over all rows in the order they were given

    def __init__(
        self,
        rows: Batch | Collection,
        options: KernelOptions,
        n_units: int | None,
        engine: Engine,
        threads: Threads,
        *,
        ties: str,
        precision: str,
    ) -> None:
        units, self.signature = make_units(rows, options.method, n_units, engine)
        self.trainer = KernelTrainer(units, engine, options, threads)
        self.precomputed = options.kernel.kind == "precomputed"
        self._ties, self._precision = ties, precision
        self.n_iter, self.closed = 0, False  # n_iter counts the iterations of all training runs
        sizes: list[int] = units.call("size")
        self._n_given = sum(sizes)
        if self.precomputed and self._n_given != self.signature.inputs:
            self.close()
            raise DataError(
                f"With kernel='precomputed', X must be the square matrix of the kernel values of all rows, not "
                f"{self._n_given} x {self.signature.inputs}."
            )
        units.call("renumber", each=(np.cumsum(sizes) - sizes).tolist())

    def set_options(self, options: KernelOptions) -> None:
        """Change how to train; options that define the model cannot change."""
        options.check_continues(self.trainer.options)
        self.trainer.options = options

    def train(self, progress: Progress | None = None) -> KernelModel:
        """Train to the optimum of the current rows."""
        with self._closed_on_failure():
            self.result = self.trainer.train(progress)
            self.n_iter += self.result.n_iter
            self.model = self.full_model = self._model()
            self._full_support, size = self.support, self.trainer.options.reduced_size
            if size is not None and size < len(self.support):
                self.model, self.support = self._reduction().reduced(size)
        return self.model

    def reduced_path(self, max_support_vectors: int | None = None) -> ReducedPath[KernelModel]:
        """Smaller models of up to this number of vectors, fitted and evaluated at the rows of all units."""
        size = path_limit(max_support_vectors, self.full_model)
        with self._closed_on_failure():
            return self._reduction().path(size)

    def _reduction(self) -> UnitReduction:
        trainer = self.trainer
        return UnitReduction(trainer.units, trainer.engine, self.full_model, self._full_support, self._n_given)

    @property
    def class_weights(self) -> NDArray[np.float64]:
        """Factors of C per class; those of a scheme depend on the pair: (pairs, 2) for three or more classes."""
        options, labels = self.trainer.options, self.model.labels
        if options.class_weight is None or isinstance(options.class_weight, Mapping):
            return given_weights(options.class_weight or {}, labels)
        factors = self.result.bounds / options.C
        return factors if len(labels) > 2 else factors[0] if len(labels) == 2 else np.ones(1)

    @property
    def n_rows(self) -> int:
        """Number of rows at all units."""
        return int(sum(self.trainer.units.call("size")))

    def close(self) -> None:
        """Release the units and their rows; the model remains."""
        self.closed = True
        self.trainer.units.close()

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def add(self, batch: Batch) -> None:
        """Add rows: under MPI those of each rank to its own unit, else divided evenly."""
        engine, count = self.trainer.engine, len(self.trainer.units)
        joined = self.signature.joined(common_signature(batch, engine))
        parts: list[Batch | None]
        if engine.ranks.spmd:
            sizes = own_values(batch.rows.n_rows, engine)
            parts = [batch if rank == engine.ranks.rank else None for rank in range(count)]
        else:
            slices = list(batch.slices(count))
            parts = [*slices, *[None] * (count - len(slices))]
            sizes = [0 if part is None else part.rows.n_rows for part in parts]
        firsts = self._n_given + np.cumsum(sizes) - sizes
        each = [None if part is None else (part, first) for part, first in zip(parts, firsts.tolist(), strict=True)]
        self.trainer.units.call("stage", each=each)  # invalid rows raise an error here, before any unit changes
        with self._closed_on_failure():
            self.trainer.units.call("add")
            self.signature, self._n_given = joined, self._n_given + sum(sizes)

    def remove(self, batch: Batch) -> None:
        """Remove rows from the units that hold them: under MPI from the unit of the rank that names them."""
        engine, units = self.trainer.engine, self.trainer.units
        self.signature.joined(common_signature(batch, engine), "subtract", "from")
        found: list[list[list[int] | None]]
        if engine.ranks.spmd:
            wanted = [batch if rank == engine.ranks.rank else None for rank in range(len(units))]
            found = units.call("find", each=wanted)
            indices = np.concatenate([_matched([rows], f"Rank {rank}, row") for rank, rows in enumerate(found)])
        else:
            found = units.call("find", batch)
            indices = _matched(found, "Row")
        if len(indices) == sum(sum(counts.values()) for counts in units.call("counts")):
            raise SubtractionError("Cannot forget all the rows: none would be left to learn from.")
        with self._closed_on_failure():
            self.trainer.forget(indices)

    def _model(self) -> KernelModel:
        """The model of the last training run; sets ``support``."""
        result, options = self.result, self.trainer.options
        assert self.trainer.numerics is not None
        classes = tuple(sorted(result.class_counts))
        rows = np.array([result.class_counts[label] for label in classes], dtype=np.int64)
        written = {
            "C": float(options.C),
            "class_weight": known_weights(options.class_weight, classes),
            "multiclass": "ovo",
            "beta": options.beta,
            "units": len(self.trainer.units),
        }
        domain = Domain(classes, np.zeros(self.signature.inputs), self.signature, rows, (), written)
        packet, codes = result.support, {label: code for code, label in enumerate(classes)}
        labels = np.array([] if packet is None else [codes[label] for label in packet.labels], dtype=np.int64)
        order = np.argsort(labels, kind="stable")
        vectors = np.zeros((0, self.signature.inputs)) if packet is None else packet.rows[order]
        self.support = EMPTY if packet is None else packet.indices[order]
        if self.precomputed:
            vectors = self.support[:, None]  # the columns of kernel values that predictions need
        coefs = _dual_coef(result, codes, self.support, labels[order])
        counts = np.bincount(labels, minlength=len(classes))
        numerics, intercepts = self.trainer.numerics, result.intercepts
        if numerics.centre is not None:
            alone = Expansion(numerics.kernel, vectors, counts, coefs, np.zeros(len(intercepts)))
            intercepts = intercepts - alone.scores(as_rows(numerics.centre[None]))[0]
        expansion = Expansion(numerics.kernel, vectors, counts, coefs, intercepts, self._precision)
        return KernelModel(domain, expansion, symmetric_moments(result.moments), self._ties, options.method)


def _dual_coef(
    result: TrainingResult, codes: dict[Label, int], support: NDArray[np.int64], labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Y alpha of the support vectors against each of the other classes, (classes - 1, vectors), as in ``SVC``."""
    assert result.coefs.values is not None
    coefs = np.zeros((max(len(codes) - 1, 1), len(support)))
    position = {index: at for at, index in enumerate(support.tolist())}
    for p, (one, other) in enumerate(result.pairs):
        span = result.coefs.span(p)
        at = np.array([position[index] for index in result.coefs.keys[span].tolist()], dtype=np.int64)
        first, second = codes[one], codes[other]
        line = np.where(labels[at] == first, second - 1, first)  # a class has no line against itself
        coefs[line, at] = result.coefs.values[span]
    return coefs


def _matched(found: list[list[list[int] | None]], where: str) -> NDArray[np.int64]:
    """For each wanted row, the index of an equal row at any unit; each index is used once."""
    taken: set[int] = set()
    for row, candidates in enumerate(zip(*found, strict=True)):
        if candidates[0] is None:  # a row of weight 0, which was never learned
            continue
        index = next((index for part in candidates for index in part or () if index not in taken), None)
        if index is None:
            raise SubtractionError(
                f"{where} {row} is not among the rows that were learned, or occurs more often here: values, class and "
                f"weight must be equal. Nothing was changed."
            )
        taken.add(index)
    return np.array(sorted(taken), dtype=np.int64)


def check_rows(batch: Batch) -> Batch:
    """Return the batch; raise an error if all its rows have zero weight."""
    if not batch.labels.classes:
        raise DataError("All rows have zero weight. Give at least one row a positive sample_weight.")
    return batch
