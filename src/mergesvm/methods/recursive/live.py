"""A live model: rows are added and removed one at a time or in blocks, and the coefficients are exact after each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import RLock, get_ident
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label
from mergesvm.data.scan import Scan
from mergesvm.errors import KnowledgeError, MergeSVMError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.provenance.origin import MEMORY
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.recursive.checks import Check
from mergesvm.methods.recursive.live_state import LiveState
from mergesvm.methods.recursive.options import RecursiveOptions
from mergesvm.models.linear import LinearModel


class LiveModel:
    """A linear one-vs-rest model that is updated with every row instead of being solved.

    The signature tells the columns of the rows, and their frozen feature map.

    Several threads may use one live model. Updates are made one after the other. Predictions use the model of the last
    complete update, which is immutable, so they do not wait for an update that is running, except to compute that
    model: it is computed when it is first used, or by the update itself once another thread has used an earlier one.

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

    def __init__(self, signature: Signature, options: RecursiveOptions) -> None:
        self._begin(LiveState(signature, options))

    def _begin(self, state: LiveState) -> None:
        self._state, self._lock = state, RLock()
        self._model: LinearModel | None = None  # of the last complete update, once it is computed
        self._writer, self._wanted = get_ident(), False  # whether another thread than the writer uses the model

    @classmethod
    def of(cls, knowledge: Knowledge, options: RecursiveOptions) -> Self:
        """Create a live model that continues from knowledge."""
        live = cls.__new__(cls)
        live._begin(LiveState.of(knowledge, options))
        return live

    @property
    def options(self) -> RecursiveOptions:
        """The options it was created with."""
        return self._state.options

    @property
    def signature(self) -> Signature:
        """The columns of the rows, their feature map, and the kind of the labels."""
        return self._state.signature

    @property
    def rows_seen(self) -> int:
        """Number of rows learned, including those forgotten since."""
        return self._state.rows_seen

    @property
    def labels(self) -> list[Label]:
        """The classes in order of appearance; the index of a class is the code of its rows."""
        return self._state.labels

    def class_rows(self) -> list[int]:
        """Number of rows of each class, in the order of :attr:`labels`."""
        with self._lock:
            return self._state.class_rows()

    @property
    def classes(self) -> NDArray[Any]:
        """The classes with rows, sorted."""
        with self._lock:
            return self._state.classes

    @property
    def checks(self) -> list[Check]:
        """The last 1,000 checks against a fresh factorisation."""
        return self._state.checks

    def learn_one(self, row: Any, label: Any, weight: float = 1.0) -> None:
        """Learn one row, in O(width^2) and without allocations."""
        with self._lock:  # not _updating(), which takes longer
            try:
                self._state.learn_one(row, label, weight)
            finally:
                self._model = None
                self._writer = get_ident()
            if self._wanted:
                self._publish()

    def learn(self, batch: Batch) -> None:
        """Learn a batch of rows; on an error nothing is changed."""
        with self._updating():
            self._state.learn(batch)

    def predict_then_learn(self, batch: Batch) -> NDArray[np.int64]:
        """Learn rows one by one, each after it was predicted; returns indices into :attr:`labels`.

        The index is -1 if there was no class to predict yet, and for rows of weight zero, which are skipped.
        """
        with self._updating():
            return self._state.predict_then_learn(batch)

    def batches(self, scan: Scan) -> Iterator[Batch]:
        """Yield the batches of a scan for the caller to learn from; the rows of each file are one piece.

        Labels written as text are read twice: all of them decide which kind they are, before the first is learned.
        """
        scan.expect_labels(self.signature.labels)
        scan.settle_labels()
        source = None
        try:
            for part in scan:
                if part.rows.n_rows:
                    batch = part.batch()
                    if scan.source != source:
                        source = scan.source
                        self._close_origins(source)
                    yield batch
        finally:
            self._close_origins()

    def _close_origins(self, source: str = MEMORY) -> None:
        with self._lock:
            self._state.close_origins(source)

    def forget(self, batch: Batch) -> None:
        """Remove rows that were learned before; on an error nothing is changed."""
        with self._updating():
            self._state.forget(batch)

    def check(self) -> float:
        """Replace the coefficients by those of a fresh factorisation; returns the drift."""
        with self._updating():
            return self._state.check()

    @contextmanager
    def _updating(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            finally:
                self._model, self._writer = None, get_ident()
            if self._wanted:
                self._publish()

    def _publish(self) -> None:
        """Compute the model for readers in other threads, so that they need not wait for the next update."""
        self._wanted = False
        with suppress(MergeSVMError, Warning):  # whoever asks for the model is told
            self._model = self._state.model(probabilities=False)

    def knowledge(self) -> Knowledge:
        """Knowledge of all rows, or of those in the window, which can be merged, saved and solved.

        Rows that are learned later belong to a new piece of its provenance.
        """
        with self._lock:
            knowledge, origins = self._state.knowledge(), self._state.close_origins()
            if knowledge.labels:
                return replace(knowledge, provenance=origins)
            self._state.origins.clear()
            return knowledge

    def model(self, probabilities: bool = True) -> LinearModel:
        """The current model; without probabilities it costs little more than its coefficients."""
        self._wanted = self._wanted or self._writer != get_ident()
        model = self._model
        if model is None or (probabilities and model.moments is None):
            with self._lock:
                model = self._model = self._state.model(probabilities)
        return model

    def predict_one(self, row: Any) -> Label | None:
        """Predict the class of one row; None if nothing has been learned yet."""
        if self._lock.acquire(blocking=False):
            try:
                return self._state.predict_one(row)
            finally:
                self._lock.release()
        # Another thread is learning: use the model before that.
        features = self._state.features_of(row)
        try:
            model = self.model(probabilities=False)
        except KnowledgeError:
            return None
        return model.labels[int(model.winners((features - model.anchor_) @ model.coef_.T + model.offsets_)[0])]

    def __getstate__(self) -> dict[str, Any]:
        # A copy, because it is written after the lock is released.
        with self._lock:
            self._state.close_origins()  # both copies may go on learning, each its own rows
            return {"state": self._state.copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._begin(state["state"])
