"""Names of the schemes for several classes: class weights, decompositions and rules for ties. Does not import numpy.

Checks, error messages and the command line's help follow from these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mergesvm.checks import check_choice


@dataclass(frozen=True)
class ClassWeightScheme:
    """A rule for the weight of a side of a binary problem.

    Attributes
    ----------
    weight : function
        The weight of a side, from its own count and that of the other side. Both are positive.
    formula : str
        The same as text, with n_c the count of the side, n_other that of the other and n their sum.
    source : str
        Where the rule comes from.
    """

    weight: Callable[[float, float], float]
    formula: str
    source: str


CLASS_WEIGHT_SCHEMES = {
    "inverse": ClassWeightScheme(lambda own, other: 1 / own, "1/n_c", "Liu"),  # noqa: ARG005
    "complement": ClassWeightScheme(lambda own, other: other / (own + other), "n_other/n", "PIPLSVM, eq. 3"),
    "balanced": ClassWeightScheme(lambda own, other: (own + other) / (2 * own), "n/(2 n_c)", "scikit-learn"),
}
"""All schemes by name.

These three have the same ratio between the sides and so differ only in scale, which acts as a factor on C: ``inverse``
with C is ``complement`` with C n / (n+ n-), and ``balanced`` with 2 C / n.
"""

MULTICLASS_SCHEMES = {"ovr": "one-vs-rest", "ovo": "one-vs-one"}
"""All decompositions by name, with their usual term."""

TIE_RULES = {
    "sequential": "each tied class in turn against the best so far, as in the paper",
    "recount": "count votes again among the tied classes until nothing changes, then by margin",
    "margin": "the largest sum of margins among the tied classes",
    "confidence": "the largest sum of margins against all classes, as SVC with break_ties=True",
    "first": "the first of the tied classes, as LIBSVM",
}
"""All rules that break ties between classes with the same number of votes, by name, with a description."""


def check_class_weight(class_weight: Any, name: str = "class_weight") -> None:
    """Raise an error for anything but None, the name of a scheme or a mapping of class to weight.

    >>> check_class_weight("heavy")
    Traceback (most recent call last):
    ...
    mergesvm.errors.ParameterError: class_weight must be one of 'inverse', 'complement', 'balanced', a mapping of class
    to weight or None, not 'heavy'.
    """
    if class_weight is not None and not isinstance(class_weight, Mapping):
        check_choice(name, class_weight, CLASS_WEIGHT_SCHEMES, ", a mapping of class to weight or None")


def check_multiclass(multiclass: Any) -> None:
    """Raise an error for a decomposition that does not exist.

    >>> check_multiclass("all")
    Traceback (most recent call last):
    ...
    mergesvm.errors.ParameterError: multiclass must be one of 'ovr', 'ovo' (one-vs-rest, one-vs-one), not 'all'.
    """
    check_choice("multiclass", multiclass, MULTICLASS_SCHEMES, f" ({', '.join(MULTICLASS_SCHEMES.values())})")


def check_ties(ties: Any) -> None:
    """Raise an error for a tie rule that does not exist.

    >>> check_ties("coin")
    Traceback (most recent call last):
    ...
    mergesvm.errors.ParameterError: ties must be one of 'sequential', 'recount', 'margin', 'confidence', 'first',
    not 'coin'.
    """
    check_choice("ties", ties, TIE_RULES)
