"""Class weights: schemes against imbalance, and weights given class by class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.errors import ParameterError
from mergesvm.multiclass.schemes import CLASS_WEIGHT_SCHEMES


def side_weights(scheme: str | None, positive: float, negative: float) -> tuple[float, float]:
    """Weights of the positive and the negative side of a binary problem, from their counts.

    If a side is empty, both weigh 1.

    >>> side_weights("complement", 1.0, 3.0)
    (0.75, 0.25)
    """
    if scheme is None or positive <= 0 or negative <= 0:
        return 1.0, 1.0
    weight = CLASS_WEIGHT_SCHEMES[scheme].weight
    return weight(positive, negative), weight(negative, positive)


def given_weights(class_weight: Mapping[Any, float], labels: tuple[Label, ...]) -> NDArray[np.float64]:
    """Weights of a mapping in the order of the classes; a class that is not in it weighs 1.

    >>> given_weights({"spam": 5.0}, ("ham", "spam"))
    array([1., 5.])
    """
    missing = [label for label in labels if label not in class_weight]
    unknown = [label for label in class_weight if label not in labels]
    if missing and unknown:
        # Extra names alone are harmless: a fold of the data may lack a rare class. Both together suggest a typo.
        raise ParameterError(
            f"class_weight names the unknown class {unknown[0]!r} and leaves out {missing[0]!r}. "
            f"Classes: {', '.join(map(repr, labels))}."
        )
    try:
        given = {label: float(weight) for label, weight in class_weight.items()}
    except (TypeError, ValueError):
        raise ParameterError(f"class_weight must map each class to a number, not {dict(class_weight)!r}.") from None
    for label, weight in given.items():
        if not 0 <= weight < np.inf:
            raise ParameterError(f"The weight of class {label!r} must be finite and non-negative, not {weight}.")
    return np.array([given.get(label, 1.0) for label in labels])


def known_weights(class_weight: Mapping[Any, float] | str | None, labels: Iterable[Label]) -> Any:
    """Class weights as models keep them: the name of a scheme, or a dict of the classes that exist.

    >>> known_weights({"spam": 5.0, "never": 2.0}, ("ham", "spam"))
    {'spam': 5.0}
    """
    if not isinstance(class_weight, Mapping):
        return class_weight
    return {label: float(class_weight[label]) for label in labels if label in class_weight}
