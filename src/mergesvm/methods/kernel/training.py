"""KernelTraining: trains a kernel model, and continues when rows are added or removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from secrets import token_bytes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label
from mergesvm.data.rows.convert import as_rows
from mergesvm.engines.base import Engine
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError, ParameterError, SubtractionError
from mergesvm.methods.kernel.forgetting import wanted_ids, wanted_rows
from mergesvm.methods.kernel.identity.distinct_rows import DistinctRows
from mergesvm.methods.kernel.identity.wanted_rows import WantedRows
from mergesvm.methods.kernel.messages import EMPTY
from mergesvm.methods.kernel.options import KernelOptions
from mergesvm.methods.kernel.trainer import KernelTrainer, Progress, TrainingResult
from mergesvm.methods.kernel.units import (
    Collection,
    RowIds,
    check_same_use,
    common_signature,
    make_units,
    own_values,
    parts_of,
    row_ids_are_hashes,
)
from mergesvm.models.domain import Domain
from mergesvm.models.expansion import Expansion
from mergesvm.models.kernel import KernelModel
from mergesvm.models.score_moments import symmetric_moments
from mergesvm.multiclass.class_weights import given_weights, known_weights


class KernelTraining:
    """Units that hold rows, and the model trained on those rows; rows can be added and removed.

    Call :meth:`close` to release the units; under MPI each rank does so on its own. If a change of the units fails,
    they are closed, because some of them may have changed and others not.

    Rows are distributed by :func:`~mergesvm.methods.kernel.units.make_units`. ``precision`` is that of predictions.
    Rows with the same id count once; ``row_ids`` are those of rows in memory, or "hash" for a keyed hash of each row.
    """

    model: KernelModel
    result: TrainingResult  # of the last training run
    support: NDArray[np.int64]  # indices of the support vectors, counted over all rows in the order they were given

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
        row_ids: RowIds = None,
    ) -> None:
        self._hashed = row_ids_are_hashes(rows, row_ids, engine)
        ids = None if isinstance(row_ids, str) else row_ids
        units, self.signature = make_units(rows, ids, options.method, n_units, engine)
        self.trainer = KernelTrainer(units, engine, options, threads)
        self.precomputed = options.kernel.kind == "precomputed"
        self._ties, self._precision = ties, precision
        self.n_iter, self.closed = 0, False  # n_iter counts the iterations of all training runs
        sizes: list[int] = units.call("size")
        self._n_given, self._given_sizes = sum(sizes), sizes
        if self.precomputed and self._n_given != self.signature.inputs:
            self.close()
            raise DataError(
                f"With kernel='precomputed', X must be the square matrix of the kernel values of all rows, not "
                f"{self._n_given} x {self.signature.inputs}."
            )
        units.call("renumber", each=(np.cumsum(sizes) - sizes).tolist())
        with self._closed_on_failure():
            self._count_once(staged=False)

    def set_options(self, options: KernelOptions) -> None:
        """Change how to train; options that define the model cannot change."""
        options.check_continues(self.trainer.options)
        self.trainer.options = options

    def start_from(self, initial: NDArray[np.float64] | None, active_set: NDArray[np.int64] | None) -> None:
        """Set where the first training run starts.

        ``initial`` are dual variables of the given rows, for method "gradient"; under MPI, of the rank's own.
        ``active_set`` are indices of rows that method "active-set" begins without; under MPI, those of all ranks.
        """
        engine, units, method = self.trainer.engine, self.trainer.units, self.trainer.options.method
        with self._closed_on_failure():
            spmd = engine.ranks.spmd
            given: list[Any] = own_values(initial, engine) if spmd else [initial]
            sets: list[Any] = own_values(active_set, engine) if spmd else [active_set]
            _check_start(method, given, sets, self._given_sizes if spmd else [self._n_given])
            if given[0] is not None:
                units.call("set_initial", np.concatenate(given))
                self.trainer.has_initial_alpha = True
            if sets[0] is not None:
                units.call("start_active", np.concatenate(sets))

    def train(self, progress: Progress | None = None) -> KernelModel:
        """Train to the optimum of the current rows."""
        with self._closed_on_failure():
            self.result = self.trainer.train(progress)
            self.n_iter += self.result.n_iter
            self.model = self._model()
        return self.model

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

    def add(self, batch: Batch, row_ids: RowIds = None) -> None:
        """Add rows: under MPI those of each rank to its own unit, else divided evenly."""
        engine, count = self.trainer.engine, len(self.trainer.units)
        joined = self.signature.joined(common_signature(batch, engine))
        check_same_use(row_ids_are_hashes(batch, row_ids, engine), self._hashed)
        ids = None if isinstance(row_ids, str) else row_ids
        each: list[Any] = [None] * count
        if engine.ranks.spmd:
            sizes = own_values(batch.rows.n_rows, engine)
            each[engine.ranks.rank] = batch, self._n_given + sum(sizes[: engine.ranks.rank]), ids
        else:
            parts = list(batch.slices(count))
            sizes = [part.rows.n_rows for part in parts]
            firsts = self._n_given + np.cumsum(sizes) - sizes
            each[: len(parts)] = zip(parts, firsts.tolist(), parts_of(ids, parts), strict=True)
        self.trainer.units.call("stage", each=each)  # invalid rows raise an error here, before any unit changes
        self._count_once(staged=True)
        with self._closed_on_failure():
            self.trainer.units.call("add")
            self.signature, self._n_given = joined, self._n_given + sum(sizes)

    def _count_once(self, *, staged: bool) -> None:
        """Drop new rows that are copies of others, by their ids; an error if rows with the same id differ."""
        if self._hashed is None:
            return
        units, distinct = self.trainer.units, DistinctRows(hashed=self._hashed)
        ids = units.consult(distinct.collect, "identities", self._key, self._hashed, staged)
        kept = units.consult(distinct.decide, "held_identities", self._key, ids, staged)
        units.call("select", staged, each=kept)

    @cached_property
    def _key(self) -> bytes:
        """The key of hashes of rows, the same at all units, and another for every training."""
        return self.trainer.engine.ranks.on_root(lambda: token_bytes(16))

    def remove(self, rows: Batch | Collection) -> None:
        """Remove rows from the units that hold them; under MPI the rows that any rank names."""
        engine = self.trainer.engine
        if isinstance(rows, Batch):
            self.signature.joined(common_signature(rows, engine), "subtract", "from")
        self._remove(wanted_rows(rows, engine, self._key, once=bool(self._hashed)), "find", self._key)

    def remove_ids(self, row_ids: NDArray[Any]) -> None:
        """Remove the rows with these ids; under MPI those that any rank names."""
        if self._hashed is not False:
            given = "by their content" if self._hashed else "without row_ids"
            raise ParameterError(f"Rows were learned {given}, so that none has an id. Call forget with X and y.")
        self._remove(wanted_ids(row_ids, self.trainer.engine), "find_ids")

    def _remove(self, wanted: WantedRows, method: str, *arguments: Any) -> None:
        units = self.trainer.units
        indices = wanted.matched(units.call(method, *arguments, wanted.keys))
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


def _check_start(method: str, initial: list[Any], active_sets: list[Any], sizes: list[int]) -> None:
    """Check where training is to start, as each rank says, which holds this number of rows."""
    for name, given, wanted in (("initial", initial, "gradient"), ("initial_active_set", active_sets, "active-set")):
        missing = [each is None for each in given]
        if any(missing) and not all(missing):
            raise ParameterError(f"{name} is missing on rank {missing.index(True)}. Pass it on all ranks, or on none.")
        if method != wanted and not any(missing):
            raise ParameterError(f"{name} needs method={wanted!r}, not {method!r}.")
    for rank, (alpha, size) in enumerate(zip(initial, sizes, strict=True)):
        if alpha is not None and len(alpha) != size:
            where = f" on rank {rank}" if len(sizes) > 1 else ""
            raise DataError(f"initial must contain one number per row{where}: {size} rows, {len(alpha)} numbers.")
    for indices in active_sets:
        outside = [] if indices is None else indices[(indices < 0) | (indices >= sum(sizes))]
        if len(outside):
            raise ParameterError(
                f"initial_active_set has the index {outside[0]}, but the {sum(sizes)} rows have indices from 0 to "
                f"{sum(sizes) - 1}."
            )


def check_rows(batch: Batch) -> Batch:
    """Return the batch; raise an error if all its rows have zero weight."""
    if not batch.labels.classes:
        raise DataError("All rows have zero weight. Give at least one row a positive sample_weight.")
    return batch
