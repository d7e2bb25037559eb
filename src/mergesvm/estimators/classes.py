"""The classes of estimators: their type as given in y, and classes that are declared before they are seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.label_encoding import EncodedLabels
from mergesvm.data.labels import Label, as_labels, label_array
from mergesvm.engines.registry import collection_spec
from mergesvm.errors import ParameterError

Numbers = NDArray[np.float64]

UNSEEN_SCORE = -1.0
"""The score of a class without rows, unless others score lower: the target of rows of other classes."""


@dataclass(frozen=True)
class LabelType:
    """The type of labels as they were given, in which classes and predictions are returned.

    >>> LabelType.of(np.array([0, 1], dtype=np.int8)).restored(np.array([1, 0]))
    array([1, 0], dtype=int8)
    >>> LabelType.of([b"no", b"yes"]).restored(np.array(["yes", "no"]))
    array([b'yes', b'no'], dtype='|S3')
    """

    dtype: np.dtype[Any] | None = None
    encoded: bool = False
    """Whether labels are bytes, which are learned as text."""

    @classmethod
    def of(cls, y: Any) -> LabelType:
        """The type of labels in an array, column or sequence; without a dtype it is chosen by numpy."""
        dtype = getattr(y, "dtype", None)
        if collection_spec(y) is not None:
            return cls(dtype if isinstance(dtype, np.dtype) else None)
        if not isinstance(dtype, np.dtype):
            # A column of pandas, polars or Arrow has the type of its values as an array.
            dtype = np.asarray(y).dtype if hasattr(y, "__array__") else None
        if dtype is None or dtype.kind == "O":
            values: Any = np.asarray(y).ravel() if hasattr(y, "__array__") else y
            return cls(dtype, np.iterable(values) and isinstance(next(iter(values), None), bytes))
        return cls(dtype, dtype.kind == "S")

    def joined(self, other: LabelType) -> LabelType:
        """The type of labels of both types."""
        if self.encoded != other.encoded:
            return LabelType()
        if self.dtype is None or other.dtype is None:
            return LabelType(None, self.encoded)
        return LabelType(np.promote_types(self.dtype, other.dtype), self.encoded)

    def restored(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Labels in this type, unless it cannot represent them."""
        restored = np.char.encode(labels, "utf-8") if self.encoded and labels.dtype.kind == "U" else labels
        # The metrics of scikit-learn refuse numbers as objects.
        if self.dtype is None or (self.dtype.kind == "O" and restored.dtype.kind not in "US"):
            return restored
        converted = restored.astype(self.dtype)
        return converted if (converted == restored).all() else restored


def decoded_labels(y: Any) -> Any:
    """Labels as they are, except bytes, which become text."""
    return as_labels(y) if LabelType.of(y).encoded else y


def declared_labels(classes: Any) -> tuple[Label, ...]:
    """The distinct classes of a list, sorted; raises an error if they are not labels of one kind."""
    if classes is None:
        return ()
    labels = EncodedLabels.encode(sorted(classes) if isinstance(classes, Set) else classes).classes
    if not labels:
        raise ParameterError("classes is empty. Give all classes, or leave it out.")
    return labels


def all_labels(seen: Sequence[Label], declared: Iterable[Label]) -> tuple[Label, ...]:
    """The classes that were seen, and those that were declared, sorted.

    >>> all_labels(("b", "d"), ("a", "b"))
    ('a', 'b', 'd')
    """
    return tuple(sorted({*seen, *declared}))


def scores_with_unseen(scores: Numbers, seen: Sequence[Label], declared: Iterable[Label]) -> Numbers:
    """Scores of all classes as ``decision_function`` returns them; a class that was not seen never has the highest.

    Its score is -1, or one below the lowest of the others. If only one class was seen, its score is 1.

    >>> scores_with_unseen(np.array([0.5, -2.0]), ("a", "b"), ("a", "b", "c"))
    array([[-0.5,  0.5, -1.5],
           [ 2. , -2. , -3. ]])
    >>> scores_with_unseen(np.array([0.9, 1.1]), ("no",), ("no", "yes"))
    array([-1., -1.])
    """
    labels = all_labels(seen, declared)
    if len(labels) == len(seen):
        return scores
    if len(seen) == 1:
        scores = np.ones((len(scores), 1))
    elif len(seen) == 2:
        # Of two scores of 0 argmax would name the first class, but the second is predicted.
        scores = np.column_stack([np.where(scores == 0, -np.finfo(np.float64).tiny, -scores), scores])
    lowest = np.minimum(UNSEEN_SCORE, scores.min(axis=1) - 1)
    full = _with_columns(scores, np.repeat(lowest[:, None], len(labels), axis=1), seen, labels)
    return full if len(labels) > 2 else full[:, 1]


def probabilities_with_unseen(probabilities: Numbers, seen: Sequence[Label], declared: Iterable[Label]) -> Numbers:
    """Probabilities of all classes; 0 for those that were not seen."""
    labels = all_labels(seen, declared)
    if len(labels) == len(seen):
        return probabilities
    return _with_columns(probabilities, np.zeros((len(probabilities), len(labels))), seen, labels)


def weights_of_seen(class_weight: Any, seen: Sequence[Label], declared: Iterable[Label]) -> Any:
    """Class weights without those of declared classes that have no rows yet; classes given as bytes become text.

    >>> weights_of_seen({b"a": 2.0, "b": 3.0}, ("a",), ("a", "b"))
    {'a': 2.0}
    """
    if not isinstance(class_weight, Mapping):
        return class_weight
    weights = {label.decode() if isinstance(label, bytes) else label: value for label, value in class_weight.items()}
    return {label: value for label, value in weights.items() if label in seen or label not in declared}


def _with_columns(values: Numbers, full: Numbers, seen: Sequence[Label], labels: tuple[Label, ...]) -> Numbers:
    full[:, [labels.index(label) for label in seen]] = values
    return full


def class_array(labels: Sequence[Label], kind: LabelType) -> NDArray[Any]:
    """Classes as an array of the type in which they were given."""
    return kind.restored(label_array(labels))
