"""The state of a live model: rows are added and removed one at a time or in blocks, by one thread at a time."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label, label_array, label_kind, plain_label
from mergesvm.errors import DataError, FormError, KnowledgeError, ParameterError, SubtractionError
from mergesvm.knowledge.algebra import origins_of
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.provenance.origin import MEMORY, Provenance
from mergesvm.knowledge.provenance.running import RunningCounts
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.proximal.definiteness import check_sound
from mergesvm.methods.recursive.checks import Check, Checks
from mergesvm.methods.recursive.options import MAX_WEIGHT, MIN_WEIGHT, NUMBERS, RecursiveOptions, check_weight
from mergesvm.methods.recursive.reference_sums import ReferenceSums
from mergesvm.methods.recursive.rls import RecursiveLeastSquares
from mergesvm.methods.recursive.row_encoder import MAX_VALUE, EncodedRows, RowEncoder
from mergesvm.methods.recursive.snapshot import current_model
from mergesvm.models.linear import LinearModel

MAX_SHOWN_ROUNDING = 1e-10
"""Coefficients with a larger estimated relative rounding error are recomputed before they are returned."""

MAX_SINGLE_ROWS = 8
"""Batches of up to this many rows are learned row by row."""

MAX_ROWS = 2**62
"""A live model does not continue from more rows, so that counts never overflow."""

NO_PREDICTIONS = np.empty(0, dtype=np.int64)

NOT_FINITE_ROW = "The row contains NaN, infinity or a value too large to be squared. Remove or impute such values."


class LiveState:
    """The inverse, the coefficients, and the exact sums of all rows or, with a window, the rows themselves.

    The coefficients are checked against the sums, and these are the knowledge that can be merged. The signature tells
    the columns of the rows, and their frozen feature map. :class:`~mergesvm.methods.recursive.live.LiveModel` describes
    the methods, and lets several threads call them.
    """

    def __init__(self, signature: Signature, options: RecursiveOptions) -> None:
        if options.class_weight and not signature.per_class:
            if not all(weight > 0 for weight in options.class_weight.values()):
                raise ParameterError(f"With per_class=False class weights must be positive: {options.class_weight!r}.")
            weights = tuple(sorted(((plain_label(k), float(w)) for k, w in options.class_weight.items()), key=repr))
            signature = replace(signature, class_weights=weights)
        self.options = options
        self.rows_seen = 0
        self.origins = RunningCounts()
        self._checks = Checks(options.check_every, signature.width)
        self._encoder = RowEncoder(signature, options.class_weight)
        self._n_unapplied = 0  # rows at the end of the buffer that the coefficients do not include yet
        self._simple = not options.window and options.forgetting == 1
        self._reference = ReferenceSums(Knowledge.zero(signature), options.forgetting)
        self._rls = RecursiveLeastSquares(signature.width, options)
        self._one = EncodedRows(np.empty((1, signature.width)), np.empty(1, dtype=np.int64), np.empty(1))

    @classmethod
    def of(cls, knowledge: Knowledge, options: RecursiveOptions) -> LiveState:
        """Create a live model that continues from knowledge."""
        if options.window:
            raise ParameterError(
                f"A window of {options.window} rows must hold them, and knowledge holds sums only. Leave window out."
            )
        if not knowledge.per_class and dict(knowledge.signature.class_weights) != dict(options.class_weight or {}):
            raise FormError(
                f"With per_class=False class weights are fixed: {dict(knowledge.signature.class_weights)!r}. "
                f"Give the same class_weight, or learn with per_class=True."
            )
        if sum(knowledge.rows.tolist()) > MAX_ROWS:
            raise KnowledgeError(
                f"Knowledge of {sum(knowledge.rows.tolist()):,} rows cannot be continued by a stream: more than "
                f"{MAX_ROWS:,} cannot be counted."
            )
        live = cls(knowledge.signature, options)
        for label in knowledge.labels:
            live._add_class(label)
        live._reference.known, live.rows_seen = replace(knowledge, provenance=()), int(knowledge.rows.sum())
        live.origins = RunningCounts(origins_of(knowledge), live.rows_seen)
        live._rls.class_rows[:], live._rls.stale = knowledge.rows, True
        live._checks.schedule(live.rows_seen)
        return live

    @property
    def signature(self) -> Signature:
        """The columns of the rows, their feature map, and the kind of the labels."""
        return self._reference.known.signature

    @property
    def labels(self) -> list[Label]:
        """The classes in order of appearance; the index of a class is the code of its rows."""
        return self._encoder.labels

    def class_rows(self) -> list[int]:
        """Number of rows of each class, in the order of :attr:`labels`."""
        rows: list[int] = self._rls.class_rows.tolist()
        return rows

    @property
    def classes(self) -> NDArray[Any]:
        """The classes with rows, sorted."""
        return label_array([label for label, _ in self._present_classes()])

    def _present_classes(self) -> list[tuple[Label, int]]:
        if self.options.forgetting != 1:  # the weight of a class may have decayed to zero
            return [(label, self._encoder.codes[label]) for label in self.knowledge().labels]
        return sorted((self.labels[code], int(code)) for code in np.flatnonzero(self._rls.class_rows))

    def learn_one(self, row: Any, label: Any, weight: float = 1.0) -> None:
        """Learn one row, in O(width^2) and without allocations."""
        if not isinstance(weight, NUMBERS) or not (weight == 0 or MIN_WEIGHT <= weight <= MAX_WEIGHT):
            check_weight("a row", weight)
        encoder, one = self._encoder, self._one if self.options.window else self._reference.next_slot()
        encoder.encode_one(row, one.rows)
        code = encoder.code(label)
        if code is None:
            if not np.abs(one.rows).max() < MAX_VALUE:
                raise DataError(NOT_FINITE_ROW)
            code = self._add_class(plain_label(label))
        weight = float(weight * encoder.row_factors[code])
        one.codes[0], one.weights[0] = code, weight
        if not weight > 0:
            return
        if self._simple and not self._n_unapplied and not self._rls.stale and self.rows_seen + 1 < self._checks.due:
            self._learn_row(one, code, weight)
        else:
            self._learn_rows(one, NO_PREDICTIONS)

    def learn(self, batch: Batch) -> None:
        """Learn a batch of rows; on an error nothing is changed."""
        if batch.rows.n_rows > self._reference.capacity and not self.options.window:
            self._learn_large(batch)
        else:
            self._apply(batch, lambda part, _: self._learn_block(part))

    def predict_then_learn(self, batch: Batch) -> NDArray[np.int64]:
        """Learn rows one by one, each after it was predicted; returns indices into :attr:`labels`.

        The index is -1 if there was no class to predict yet, and for rows of weight zero, which are skipped.
        """
        predicted = np.full(batch.rows.n_rows, -1, dtype=np.int64)

        def run(part: EncodedRows, numbers: NDArray[np.intp]) -> None:
            out = np.empty(len(numbers), dtype=np.int64)
            self._learn_rows(part, out)
            predicted[numbers] = out

        self._apply(batch, run)
        return predicted

    def provenance(self) -> Provenance:
        """The origins of all rows, and of those that were forgotten or have left the window."""
        self.origins.note(self.rows_seen, int(self._rls.class_rows.sum()))
        return self.origins.provenance

    def close_origins(self, source: str = MEMORY) -> Provenance:
        """End the running piece; rows that are learned later belong to a new one, from this source."""
        provenance = self.provenance()
        self.origins.close(source)
        return provenance

    def forget(self, batch: Batch) -> None:
        """Remove rows that were learned before; on an error nothing is changed."""
        unknown = [label for label in batch.labels.classes if label not in self._encoder.codes]
        if unknown:
            raise SubtractionError(f"Class {unknown[0]!r} was never learned. Nothing was removed.")
        if self.options.forgetting != 1:
            raise FormError(
                "With a forgetting factor the weight of a row depends on its age, which is not known: rows cannot be "
                "removed. Use a window and no forgetting factor."
            )
        if self.options.window:
            self._remove_from_window(batch)
        else:
            self._apply(batch, lambda part, _: self._remove_block(part), removing=True)

    def _apply(
        self, batch: Batch, use: Callable[[EncodedRows, NDArray[np.intp]], None], removing: bool = False
    ) -> None:
        """Call ``use`` with all rows of a batch that have weight, in parts; on an error, undo all of them."""
        self._admit(batch)
        single = batch.rows.n_rows <= MAX_SINGLE_ROWS and not removing
        before = None if single else (self._reference.checkpoint(), self._rls.checkpoint(), self.rows_seen)
        try:
            for part, numbers in self._encoder.parts(batch):
                use(part, numbers)
        except BaseException:
            if before is not None:
                self._reference.rollback(before[0])
                self._rls.rollback(before[1])
                self.rows_seen, self._n_unapplied = before[2], 0
            raise

    def _learn_large(self, batch: Batch) -> None:
        """Sum a batch that exceeds the buffer directly, by all threads."""
        self._admit(batch)
        codes, weights = self._encoder.codes_and_weights(batch)
        self._reference.add_batch(batch, weights, self.labels)
        counted = codes[weights > 0]
        self._rls.decay(len(counted))
        self._rls.count(counted)
        self._rls.stale, self._n_unapplied = True, 0
        self._count(len(counted))

    def _learn_block(self, part: EncodedRows) -> None:
        rls, reference, window = self._rls, self._reference, self.options.window
        n_rows = len(part.rows)
        # One row that enters a window costs about as much as summing twenty rows of it.
        if n_rows <= (max(rls.max_update_rows, window // 20) if window else MAX_SINGLE_ROWS):
            self._learn_rows(part, NO_PREDICTIONS)
            return
        rls.decay(n_rows)
        if window:
            rls.window.push(part)
            rls.recount()
        else:
            rls.count(part.codes)
            if n_rows >= reference.free_rows or self.options.forgetting != 1:
                reference.add(part, self.labels)
                rls.stale = True
            else:
                # The coefficients are updated when they are next needed: larger updates are cheaper.
                reference.append(part, self.labels)
                self._n_unapplied += n_rows
        self._count(n_rows)

    def _learn_rows(self, part: EncodedRows, predicted: NDArray[np.int64]) -> None:
        """Learn rows one by one, in steps up to the next check or a full buffer."""
        rls, reference, windowed = self._rls, self._reference, bool(self.options.window)
        at, n_rows = 0, len(part.rows)
        if self._n_unapplied:
            self._apply_buffered()
        while at < n_rows:
            if rls.stale:
                self._restart()
            room = self._checks.due - self.rows_seen
            stop = min(n_rows, at + max(1, room if windowed else min(room, reference.free_rows)))
            step = part if stop - at == n_rows else part.slice(at, stop)
            try:
                learned, ok = rls.learn_rows(*step, predicted[at:stop] if len(predicted) else predicted)
                if not windowed:
                    reference.append(step if learned == stop - at else step.slice(0, learned), self.labels)
            except BaseException:
                rls.stale = True  # after an interrupt it may include rows that the sums do not
                raise
            at += learned
            self._count(learned)
            if not ok and not rls.stale:
                raise DataError(NOT_FINITE_ROW)

    def _learn_row(self, one: EncodedRows, code: int, weight: float) -> None:
        """Learn one row when nothing else is due: no check, no restart, no window, no forgetting."""
        try:
            finite = self._rls.learn_row(one.rows[0], code, weight)
            if finite:
                self._reference.append(one, self.labels)
                self.rows_seen += 1
        except BaseException:
            self._rls.stale = True  # after an interrupt it may include rows that the sums do not
            raise
        if not finite:
            raise DataError(NOT_FINITE_ROW)

    def _remove_block(self, part: EncodedRows) -> None:
        self._apply_buffered()
        self._reference.subtract(part, self.labels)
        self._rls.count(part.codes, -1)
        if not self._reference.known.labels:
            self._rls.stale = True
            return
        many = len(part.rows) > self._rls.max_update_rows
        self._rls.change_block(*part, -1)
        if many or self._rls.stale:
            check_sound(self._reference.known)  # raises an error for rows that were never added

    def _remove_from_window(self, batch: Batch) -> None:
        # Feature maps round rows differently depending on their place in a block.
        tolerance = 100 * np.finfo(self.signature.features.dtype).eps if self.signature.mapped else 0.0
        self._rls.window.remove(self._encoder.parts(batch), tolerance, self.labels)
        self._rls.recount()

    def _admit(self, batch: Batch) -> None:
        """Check a batch, and give its new classes codes."""
        self._encoder.check(batch)
        for label in batch.labels.classes:
            if label not in self._encoder.codes:
                self._add_class(label)

    def _add_class(self, label: Label) -> int:
        weight = self._encoder.add(label)
        in_order = sorted(self.labels)
        self._rls.add_class(weight, [in_order.index(each) for each in self.labels])
        self._reference.set_label_kind(label_kind(label))
        return self._encoder.codes[label]

    def _count(self, n_rows: int) -> None:
        self.rows_seen += n_rows
        if self.rows_seen >= self._checks.due:
            if not self._n_unapplied and not self._rls.stale:
                self.check()
            self._checks.schedule(self.rows_seen)

    @property
    def checks(self) -> list[Check]:
        """The last 1,000 checks against a fresh factorisation."""
        return self._checks.made

    def check(self) -> float:
        """Replace the coefficients by those of a fresh factorisation; returns the drift."""
        before = self._rls.coefficients()[0]
        expected = self._rls.rounding > MAX_SHOWN_ROUNDING  # they would have been recomputed before anyone saw them
        self._restart()
        return self._checks.record(self.rows_seen, before, self._rls.coefficients()[0], expected)

    def _settle(self) -> None:
        """Bring the coefficients up to date, and recompute them if rounding may show."""
        self._apply_buffered()
        if self._rls.stale or self._rls.rounding > MAX_SHOWN_ROUNDING:
            self._restart()

    def _apply_buffered(self) -> None:
        """Update the coefficients by rows that were buffered as blocks."""
        if self._n_unapplied and not self._rls.stale:
            self._rls.change_block(*self._reference.last_rows(self._n_unapplied), 1)
        self._n_unapplied = 0

    def _restart(self) -> None:
        knowledge = self.knowledge()
        self._rls.restart(knowledge, [self._encoder.codes[label] for label in knowledge.labels])

    def knowledge(self) -> Knowledge:
        """Knowledge of all rows, or of those in the window, which can be merged, saved and solved."""
        if not self.options.window:
            self._apply_buffered()  # before the buffer is emptied
            return self._reference.knowledge(self.labels)
        held = self._rls.window_rows()
        return self._reference.piece(held, self.labels) if len(held.rows) else Knowledge.zero(self.signature)

    def model(self, probabilities: bool = True) -> LinearModel:
        """The current model; without probabilities it costs little more than its coefficients."""
        self._settle()
        classes = self._present_classes()
        knowledge = self.knowledge() if probabilities else None
        return current_model(self._rls, self.signature, self.provenance(), classes, self.options, knowledge)

    def predict_one(self, row: Any) -> Label | None:
        """Predict the class of one row; None if nothing has been learned yet."""
        if self._n_unapplied or not self._rls.predicts:
            self._settle()
        self._encoder.encode_one(row, self._one.rows)
        code = self._rls.best_class(self._one.rows[0])
        if code < -1:
            raise DataError(NOT_FINITE_ROW)
        return None if code < 0 else self.labels[code]

    def features_of(self, row: Any) -> NDArray[np.float64]:
        """The features of one row, (1, width)."""
        features = np.empty_like(self._one.rows)
        self._encoder.encode_one(row, features)
        if not np.abs(features).max() < MAX_VALUE:
            raise DataError(NOT_FINITE_ROW)
        return features

    def copy(self) -> LiveState:
        """A copy that shares the sums, which are immutable."""
        known = self._reference.known
        return deepcopy(self, {id(known): known})

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Arrays of a memory-mapped file may be read-only.
        self.__dict__.update(state, _one=EncodedRows(*(array.copy() for array in state["_one"])))
