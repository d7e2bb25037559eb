"""Class weights, by the counts of the two sides of a binary problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.errors import ParameterError

SCHEMES = ("inverse", "complement", "balanced")


def side_weights(scheme: str | None, positive: float, negative: float) -> tuple[float, float]:
    """Weights of the positive and the negative side, from the counts n+ and n- of a binary problem, n = n+ + n-.

    ========== =============== =============== =====================================
    scheme     positive        negative
    ========== =============== =============== =====================================
    None       1               1
    inverse    1 / n+          1 / n-          Liu
    complement n- / n          n+ / n          PIPLSVM, eq. 3
    balanced   n / (2 n+)      n / (2 n-)      scikit-learn
    ========== =============== =============== =====================================

    All three have the same ratio between the sides, and so differ only in scale, which is that of C: ``inverse`` with C
    is ``complement`` with C n / (n+ n-), and ``balanced`` with 2 C / n. A side without rows leaves nothing to balance.

    >>> side_weights("complement", 1.0, 3.0)
    (0.75, 0.25)
    """
    if scheme is None or positive <= 0 or negative <= 0:
        return 1.0, 1.0
    total = positive + negative
    if scheme == "inverse":
        return 1 / positive, 1 / negative
    if scheme == "complement":
        return negative / total, positive / total
    return total / (2 * positive), total / (2 * negative)


def given_weights(class_weight: Mapping[Any, float], labels: tuple[Label, ...]) -> NDArray[np.float64]:
    """Weights of a mapping, in the order of the classes; a class that is not in it weighs 1.

    >>> given_weights({"spam": 5.0}, ("ham", "spam"))
    array([1., 5.])
    """
    missing = [label for label in labels if label not in class_weight]
    unknown = [label for label in class_weight if label not in labels]
    if missing and unknown:
        # Extra names alone are harmless: a fold of the data may lack a rare class. Both together are a slip of the pen.
        raise ParameterError(
            f"class_weight names the unknown class {unknown[0]!r} and leaves out {missing[0]!r}. "
            f"Classes: {', '.join(map(repr, labels))}."
        )
    try:
        given = {label: float(weight) for label, weight in class_weight.items()}
    except (TypeError, ValueError):
        raise ParameterError(
            f"class_weight has to give a number for every class, not {dict(class_weight)!r}."
        ) from None
    for label, weight in given.items():
        if not 0 <= weight < np.inf:
            raise ParameterError(f"The weight of class {label!r} has to be finite and not negative, not {weight}.")
    return np.array([given.get(label, 1.0) for label in labels])


def known_weights(class_weight: Mapping[Any, float] | str | None, labels: Iterable[Label]) -> Any:
    """Class weights as models keep them: a scheme, or a dict of those classes that are there.

    >>> known_weights({"spam": 5.0, "never": 2.0}, ("ham", "spam"))
    {'spam': 5.0}
    """
    if not isinstance(class_weight, Mapping):
        return class_weight
    return {label: float(class_weight[label]) for label in labels if label in class_weight}


def check_scheme(class_weight: Any) -> None:
    """Raise an error for anything that is neither a scheme nor a mapping."""
    if not (
        class_weight is None
        or isinstance(class_weight, Mapping)
        or (isinstance(class_weight, str) and class_weight in SCHEMES)
    ):
        raise ParameterError(
            f"class_weight has to be None, a mapping of class to weight, or one of "
            f"{', '.join(map(repr, SCHEMES))}, not {class_weight!r}."
        )
