"""Scores of held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label, label_kind
from mergesvm.data.scan import Scan
from mergesvm.data.text_parser.label_kinds import fitting_kinds
from mergesvm.errors import DataError, FormError, ParameterError
from mergesvm.knowledge.learning.local import Progress

Numbers = NDArray[np.float64]
Result = TypeVar("Result")


class Scorer(Protocol):
    """A model that scores rows."""

    @property
    def labels(self) -> tuple[Label, ...]:
        """Its classes."""

    def decision_function(self, X: Any) -> Numbers:
        """Scores of rows."""


def heldout_scores(
    model: Scorer, X: Any, y: Any = None, sample_weight: Any = None, progress: Progress | None = None
) -> tuple[Numbers, NDArray[np.intp], Numbers]:
    """Decisions (rows, columns), class indices and weights of all rows with positive weight.

    >>> import mergesvm as ms
    >>> model = ms.solve(ms.learn([[0.0], [1.0]], ["a", "b"]))
    >>> scores, codes, weights = heldout_scores(model, [[0.0], [1.0], [2.0]], ["a", "b", "a"], [1, 2, 0])
    >>> scores.shape, codes, weights
    ((2, 1), array([0, 1]), array([1., 2.]))
    """
    if len(model.labels) < 2:
        raise FormError(f"{model!r} has one class and cannot be calibrated: its probability is always 1.")
    scores, codes, weights = [], [], []
    for batch in labelled_batches(X, y, sample_weight, progress):
        counted = np.flatnonzero(batch.labels.codes >= 0)
        found = model.decision_function(batch.rows)
        scores.append(found.reshape(len(found), -1)[counted])
        codes.append(class_indices(batch, model.labels)[batch.labels.codes[counted]])
        weights.append(np.ones(len(counted)) if batch.weights is None else batch.weights[counted])
    if not sum(map(len, codes)):
        raise DataError("Calibration needs at least one row with positive weight.")
    indices = np.concatenate(codes)
    missing = [label for index, label in enumerate(model.labels) if not (indices == index).any()]
    if missing:
        raise DataError(f"No row is of class {missing[0]!r}. Calibration needs held-out rows of every class.")
    return np.concatenate(scores), indices, np.concatenate(weights)


def read_labelled(X: Any, model: Scorer, read: Callable[[], Result]) -> Result:
    """Call a function that reads labelled rows; labels of text files are of the kind of the model's, if they fit it.

    If no class of the model looks like a number, labels that do are numbers: the column is probably the wrong one.
    """
    if not isinstance(X, Scan):
        return read()
    words = all(isinstance(label, str) and fitting_kinds([label]) == ("text",) for label in model.labels)
    X.expect_labels(None if words else label_kind(model.labels[0]))
    return X.settled(read)


def labelled_batches(X: Any, y: Any, sample_weight: Any, progress: Progress | None) -> Iterator[Batch]:
    """Rows in memory as one batch; the slices of a scan as one batch each, with the labels and weights of the scan."""
    if not isinstance(X, Scan):
        yield Batch.of(X, y, sample_weight)
        return
    if y is not None or sample_weight is not None:
        raise ParameterError("A scan provides labels and weights: leave out y and sample_weight.")
    for part in X:
        if part.rows.n_rows:
            yield part.batch()
        if progress is not None:
            progress(X)


def class_indices(batch: Batch, labels: tuple[Label, ...]) -> NDArray[np.intp]:
    """The position among these labels of each class of a batch; unknown classes raise an error."""
    known = {label: index for index, label in enumerate(labels)}
    unknown = [label for label in batch.labels.classes if label not in known]
    if unknown:
        shown = ", ".join(map(repr, labels[:10])) + (", ..." if len(labels) > 10 else "")
        raise DataError(
            f"{batch.rows.source} has rows of class {unknown[0]!r}, which the model does not know. Its classes are "
            f"{shown}. Leave these rows out, or learn them first."
        )
    return np.array([known[label] for label in batch.labels.classes], np.intp)
