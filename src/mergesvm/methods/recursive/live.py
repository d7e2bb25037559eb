"""A live model: rows come one at a time or in blocks, and go again, and the coefficients are exact after each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label, label_array, label_kind, plain_label
from mergesvm.data.scan import Scan
from mergesvm.errors import DataError, FormError, KnowledgeError, ParameterError, SubtractionError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.local import batch_of
from mergesvm.knowledge.provenance import Origin, now
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.proximal.definiteness import check_sound
from mergesvm.methods.recursive.checks import Check, Checks
from mergesvm.methods.recursive.options import NUMBERS, RecursiveOptions
from mergesvm.methods.recursive.reference_sums import Part, ReferenceSums
from mergesvm.methods.recursive.rls import RecursiveLeastSquares
from mergesvm.methods.recursive.row_encoder import LARGEST, RowEncoder
from mergesvm.models.base import Domain
from mergesvm.models.linear import LinearModel
from mergesvm.models.score_moments import ClassMoments, SideMoments, class_moments, side_moments
from mergesvm.models.solution import Solution
from mergesvm.multiclass.class_weights import known_weights
from mergesvm.multiclass.decomposition import one_vs_rest

TRUSTED = 1e-10
"""Coefficients that rounding may have changed by more than this share are computed afresh before they are shown."""

FEW = 8
"""Up to so many rows are learned one by one."""

NONE = np.empty(0, dtype=np.int64)
"""Where no predictions are wanted."""

NO_NUMBERS = "The row contains NaN, infinity or a value too large to be squared. Remove or impute such values."


class LiveModel:
    """A linear model of one-vs-rest that is not solved, but followed row by row.

    Beside the inverse and coefficients of :class:`~mergesvm.methods.recursive.rls.RecursiveLeastSquares` it holds the
    truth: the knowledge of all rows that count or, with a window, the rows themselves. Against it the coefficients are
    checked, and it is what can be merged.

    Parameters
    ----------
    signature : Signature
        The columns of the rows, and their frozen feature map.
    terms : RecursiveOptions

    Attributes
    ----------
    rows_seen : int

    Examples
    --------
    >>> from mergesvm.features.maps.identity import Identity
    >>> from mergesvm.knowledge.signature import Signature
    >>> live = LiveModel(Signature(Identity(), 1), RecursiveOptions(C=100.0))
    >>> for x, y in [(0.0, "low"), (1.0, "low"), (2.0, "high"), (3.0, "high")]:
    ...     live.learn_one(np.array([x]), y)
    >>> live.predict_one(np.array([0.2])), live.model().coef_.round(2)
    ('low', array([[-0.79]]))
    """

    def __init__(self, signature: Signature, terms: RecursiveOptions) -> None:
        if terms.class_weight and not signature.per_class:
            if not all(weight > 0 for weight in terms.class_weight.values()):
                raise ParameterError(f"In the pooled form class weights have to be positive: {terms.class_weight!r}.")
            weights = tuple(sorted(((plain_label(k), float(w)) for k, w in terms.class_weight.items()), key=repr))
            signature = replace(signature, class_weights=weights)
        self.terms = terms
        self.rows_seen = 0
        self._checks = Checks(terms.check_every, signature.width)
        self._intake = RowEncoder(signature, terms.class_weight)
        self._behind = 0
        self._hurried = not terms.window and terms.forgetting == 1
        self._truth = ReferenceSums(Knowledge.zero(signature), terms.forgetting)
        self._recursion = RecursiveLeastSquares(
            signature.width,
            terms.C,
            forgetting=terms.forgetting,
            window=terms.window or 0,
            penalize_intercept=terms.penalize_intercept,
        )
        self._one = Part(np.empty((1, signature.width)), np.empty(1, dtype=np.int64), np.empty(1))

    @classmethod
    def of(cls, knowledge: Knowledge, terms: RecursiveOptions) -> LiveModel:
        """A live model that goes on from knowledge of rows that are gone."""
        if terms.window:
            raise ParameterError(
                f"A window of {terms.window} rows has to hold them, and knowledge holds sums only. Leave window out."
            )
        if not knowledge.per_class and dict(knowledge.signature.class_weights) != dict(terms.class_weight or {}):
            raise FormError(
                f"In the pooled form class weights are fixed: {dict(knowledge.signature.class_weights)!r}. "
                f"Give the same class_weight, or learn with per_class=True."
            )
        live = cls(knowledge.signature, terms)
        for label in knowledge.labels:
            live._add_class(label)
        live._truth.known, live.rows_seen = knowledge, int(knowledge.rows.sum())
        live._recursion.rows[:], live._recursion.stale = knowledge.rows, True
        live._checks.schedule(live.rows_seen)
        return live

    @property
    def signature(self) -> Signature:
        """The columns of the rows, their map, and the kind of the labels."""
        return self._truth.signature

    @property
    def labels(self) -> list[Label]:
        """The classes, in the order in which they came; their places here are the codes of rows."""
        return self._intake.labels

    def class_rows(self) -> list[int]:
        """How many rows each class has, in the order of :attr:`labels`."""
        rows: list[int] = self._recursion.rows.tolist()
        return rows

    @property
    def classes(self) -> NDArray[Any]:
        """The classes of which rows count, sorted."""
        return label_array([label for label, _ in self._alive()])

    def _alive(self) -> list[tuple[Label, int]]:
        if self.terms.forgetting != 1:  # a class may have faded away
            return [(label, self._intake.places[label]) for label in self.knowledge().labels]
        return sorted((self.labels[place], int(place)) for place in np.flatnonzero(self._recursion.rows))

    # Learning.

    def learn_one(self, row: Any, label: Any, weight: float = 1.0) -> None:
        """Learn one row, in O(width^2) with nothing allocated."""
        if not isinstance(weight, NUMBERS) or not 0 <= weight < LARGEST:
            raise DataError(f"The weight of a row has to be a number from 0 to {LARGEST:g}, not {weight!r}.")
        intake, one = self._intake, self._one if self.terms.window else self._truth.slot()
        intake.take_one(row, one.rows)
        place = intake.place(label)
        if place is None:
            if not np.abs(one.rows).max() < LARGEST:
                raise DataError(NO_NUMBERS)
            place = self._add_class(plain_label(label))
        weight = float(weight * intake.fixed[place])
        one.codes[0], one.weights[0] = place, weight
        if not weight > 0:
            return
        if self._hurried and not self._behind and not self._recursion.stale and self.rows_seen + 1 < self._checks.due:
            self._learn_row(one, place, weight)
        else:
            self._learn_rows(one, NONE)

    def learn(self, batch: Batch) -> None:
        """Learn a batch of rows; on any error nothing is changed."""
        if batch.rows.n_rows > self._truth.room and not self.terms.window:
            self._learn_whole(batch)
        else:
            self._take(batch, lambda part, _: self._learn_block(part))

    def predict_then_learn(self, batch: Batch) -> NDArray[np.int64]:
        """Learn rows one by one, each after it was predicted; returns places in :attr:`labels`.

        The place is -1 where there was no class to predict yet, and for rows of weight zero, which are not there.
        """
        predicted = np.full(batch.rows.n_rows, -1, dtype=np.int64)

        def run(part: Part, at: NDArray[np.intp]) -> None:
            out = np.empty(len(at), dtype=np.int64)
            self._learn_rows(part, out)
            predicted[at] = out

        self._take(batch, run)
        return predicted

    def batches(self, scan: Scan) -> Iterator[Batch]:
        """The slices of a scan as batches, to be learned one after another; at the end their origin is noted."""
        for part in scan:
            if part.rows.n_rows:
                yield batch_of(part)
        origins = (Origin(source, rows, now()) for source, rows in scan.counts.items())
        known = self._truth.known
        self._truth.known = replace(known, provenance=(*known.provenance, *origins))

    def forget(self, batch: Batch) -> None:
        """Take rows back that were learned before; on any error nothing is changed."""
        unknown = [label for label in batch.labels.classes if label not in self._intake.places]
        if unknown:
            raise SubtractionError(f"Class {unknown[0]!r} was never learned. Nothing was taken back.")
        if self.terms.forgetting != 1:
            raise FormError(
                "With a forgetting factor a row weighs less the older it is, and rows do not tell their age: they "
                "cannot be taken back. Use a window and no forgetting factor."
            )
        if self.terms.window:
            self._leave_window(batch)
        else:
            self._take(batch, lambda part, _: self._take_back(part), undo=True)

    def _take(self, batch: Batch, use: Callable[[Part, NDArray[np.intp]], None], undo: bool = False) -> None:
        """Do something with all rows of a batch that count, some at a time: all of it or nothing."""
        self._intake.check(batch)
        self._add_classes(batch)
        if batch.rows.n_rows <= FEW and not undo:
            for part, at in self._intake.parts(batch):
                use(part, at)
            return
        memory, seen, before = self._truth.remember(), self.rows_seen, self._recursion.remember()
        try:
            for part, at in self._intake.parts(batch):
                use(part, at)
        except BaseException:
            self._truth.go_back(memory)
            self._recursion.go_back(before)
            self.rows_seen, self._behind = seen, 0
            raise

    def _learn_whole(self, batch: Batch) -> None:
        """So many rows that they are best summed by themselves, in blocks and by all threads."""
        self._intake.check(batch)
        self._add_classes(batch)
        codes, weights = self._intake.codes_and_weights(batch)
        self._truth.add_rows(batch, weights, self.labels)
        counted = codes[weights > 0]
        self._recursion.fade(len(counted))
        self._recursion.count(counted)
        self._recursion.stale, self._behind = True, 0
        self._count(len(counted))

    def _learn_block(self, part: Part) -> None:
        recursion, truth = self._recursion, self._truth
        n_rows = len(part.rows)
        # Rows that enter a window one by one cost as much as some twenty of those that are in it, summed at once.
        few = max(recursion.worthwhile, self.terms.window // 20) if self.terms.window else FEW
        if n_rows <= few:
            self._learn_rows(part, NONE)
            return
        recursion.fade(n_rows)
        if self.terms.window:
            recursion.window.push(*part)
            recursion.recount()
        else:
            recursion.count(part.codes)
            if n_rows >= truth.free or self.terms.forgetting != 1:
                truth.add(part, self.labels)
                recursion.stale = True
            else:
                # What has come is worked in when it is next needed: many rows at once are cheaper.
                truth.wait(part, self.labels)
                self._behind += n_rows
        self._count(n_rows)

    def _learn_rows(self, part: Part, predicted: NDArray[np.int64]) -> None:
        """Rows one by one; as many at a time as can wait, and up to the next check."""
        recursion, truth, held = self._recursion, self._truth, bool(self.terms.window)
        at, n_rows = 0, len(part.rows)
        if self._behind:
            self._catch_up()
        while at < n_rows:
            if recursion.stale:
                recursion.restart(*self._known())
            room = self._checks.due - self.rows_seen
            stop = min(n_rows, at + max(1, room if held else min(room, truth.free)))
            these = part if stop - at == n_rows else part.cut(at, stop)
            try:
                taken, well = recursion.learn_rows(*these, predicted[at:stop] if len(predicted) else predicted)
                if not held:
                    truth.wait(these if taken == stop - at else these.cut(0, taken), self.labels)
            except BaseException:
                recursion.stale = True  # who was interrupted here may know rows that the truth does not
                raise
            at += taken
            self._count(taken)
            if not well and not recursion.stale:
                raise DataError(NO_NUMBERS)

    def _learn_row(self, one: Part, place: int, weight: float) -> None:
        """One row, as most of them come: nothing is to be done before, nor after."""
        try:
            if not self._recursion.learn_row(one.rows[0], place, weight):
                raise DataError(NO_NUMBERS)
            self._truth.wait(one, self.labels)
            self.rows_seen += 1
        except DataError:
            raise
        except BaseException:
            self._recursion.stale = True  # who was interrupted here may know rows that the truth does not
            raise

    def _take_back(self, part: Part) -> None:
        self._catch_up()
        self._truth.subtract(part, self.labels)
        self._recursion.count(part.codes, -1)
        if not self._truth.known.labels:
            self._recursion.stale = True
            return
        many = len(part.rows) > self._recursion.worthwhile
        self._recursion.change_block(*part, -1)
        if many or self._recursion.stale:
            check_sound(self._truth.known)  # an error for rows that had never been there

    def _leave_window(self, batch: Batch) -> None:
        rows, codes, weights = self._recursion.window.held()
        kept = np.ones(len(rows), dtype=bool)
        # A map rounds rows differently by their place in a block.
        near = 100 * np.finfo(self.signature.features.dtype).eps if self.signature.mapped else 0.0
        for part, at in self._intake.parts(batch):
            for row, place, weight, number in zip(*part, at, strict=True):
                distance = np.abs(rows - row).max(axis=1, initial=0.0)
                alike = kept & (codes == place) & (weights == weight) & (distance <= near * np.abs(row).max())
                found = np.flatnonzero(alike)
                if not len(found):
                    raise SubtractionError(
                        f"Row {number}, of class {self.labels[place]!r} and weight {weight:g}, is not among the "
                        f"{len(rows):,} rows in the window. Nothing was taken back."
                    )
                kept[found[distance[found].argmin()]] = False
        self._recursion.window.put(rows[kept], codes[kept], weights[kept])
        self._recursion.recount()

    def _add_classes(self, batch: Batch) -> None:
        for label in batch.labels.classes:
            if label not in self._intake.places:
                self._add_class(label)

    def _add_class(self, label: Label) -> int:
        self._recursion.add_class(self._intake.add(label))
        self._truth.know_labels(label_kind(label))
        return self._intake.places[label]

    # Checking.

    def _count(self, n_rows: int) -> None:
        self.rows_seen += n_rows
        if self.rows_seen >= self._checks.due:
            if not self._behind and not self._recursion.stale:
                self.check()
            self._checks.schedule(self.rows_seen)

    @property
    def checks(self) -> list[Check]:
        """The last 1,000 comparisons with a fresh factorisation."""
        return self._checks.made

    def check(self) -> float:
        """Compare the coefficients with a fresh factorisation, and repair them; returns how far they had drifted."""
        before = self._recursion.planes()[0]
        expected = self._recursion.loss > TRUSTED  # then they would have been repaired before anyone saw them
        self._recursion.restart(*self._known())
        return self._checks.note(self.rows_seen, before, self._recursion.planes()[0], expected)

    def _settle(self) -> None:
        """Bring the coefficients up to date, if something waits for it, or rounding may show."""
        self._catch_up()
        if self._recursion.stale or self._recursion.loss > TRUSTED:
            self._recursion.restart(*self._known())

    def _catch_up(self) -> None:
        """Work rows in that have come as blocks."""
        if self._behind and not self._recursion.stale:
            self._recursion.change_block(*self._truth.newest(self._behind), 1)
        self._behind = 0

    def _known(self) -> tuple[Knowledge, list[int]]:
        knowledge = self.knowledge()
        return knowledge, [self._intake.places[label] for label in knowledge.labels]

    # What is known.

    def knowledge(self) -> Knowledge:
        """The knowledge of all rows that count, which can be merged, saved and solved on other terms."""
        if not self.terms.window:
            self._catch_up()  # by the rows that still wait
            return self._truth.knowledge(self.labels)
        held = Part(*self._recursion.held())
        return self._truth.piece(held, self.labels) if len(held.rows) else Knowledge.zero(self.signature)

    def model(self, probabilities: bool = True) -> LinearModel:
        """The model of this moment; without probabilities it costs little more than its coefficients."""
        self._settle()
        terms, alive = self.terms, self._alive()
        if not alive or not self._recursion.weight > 0:
            raise KnowledgeError(
                "There is nothing to predict from: no rows count, or all weigh nothing. Learn some first."
            )
        at = [place for _, place in alive]
        coefs, offsets, mean = self._recursion.planes()
        planes = at if len(at) > 2 else at[-1:]  # two classes have one plane between them
        solution = Solution(coefs[planes], offsets[planes], ("recursive",) * len(planes))
        domain = Domain(
            tuple(label for label, _ in alive),
            mean,
            self.signature,
            self._recursion.rows[at],
            self._truth.known.provenance,
            {
                "C": float(terms.C),
                "class_weight": known_weights(terms.class_weight, [label for label, _ in alive]) or None,
                "multiclass": "ovr",
                "standardize": False,
                "penalize_intercept": terms.penalize_intercept,
            },
        )
        return LinearModel(domain, solution, self._moments(solution, mean) if probabilities else None)

    def _moments(self, solution: Solution, mean: NDArray[np.float64]) -> SideMoments | ClassMoments:
        knowledge = self.knowledge()
        solution = replace(solution, offsets=solution.offsets + solution.coefs @ (knowledge.anchor - mean))
        if len(knowledge.labels) > 2:
            return class_moments(knowledge, solution)
        return side_moments(knowledge, one_vs_rest(knowledge), solution)

    def predict_one(self, row: Any) -> Label | None:
        """The class of one row, or None if nothing has been learned yet."""
        if self._behind or self._recursion.stale:
            self._settle()
        self._intake.take_one(row, self._one.rows)
        place = self._recursion.best_class(self._one.rows[0])
        if place < -1:
            raise DataError(NO_NUMBERS)
        return None if place < 0 else self.labels[place]

    def __setstate__(self, state: dict[str, Any]) -> None:
        # What comes from a file that is mapped into memory may be read-only.
        self.__dict__.update(state, _one=Part(*(array.copy() for array in state["_one"])))
