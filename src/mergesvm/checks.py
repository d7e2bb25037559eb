"""Checks of arguments: one of several names, or true or false."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mergesvm.errors import ParameterError


def listed(choices: Iterable[object]) -> str:
    """Names in quotes, separated by commas.

    >>> listed(["rbf", "poly"])
    "'rbf', 'poly'"
    """
    return ", ".join(map(repr, choices))


def check_choice(name: str, value: Any, choices: Iterable[str], otherwise: str = "") -> None:
    """Raise an error if an argument is not one of the given names.

    Parameters
    ----------
    name : str
        The argument.
    value : object
    choices : iterable of str
        The allowed values.
    otherwise : str
        What else is allowed, for the message only.

    Examples
    --------
    >>> check_choice("ties", "coin", ["recount", "margin"])
    Traceback (most recent call last):
    ...
    mergesvm.errors.ParameterError: ties must be one of 'recount', 'margin', not 'coin'.
    """
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(f"{name} must be one of {listed(choices)}{otherwise}, not {value!r}.")


def check_flag(name: str, value: Any) -> bool:
    """Return an argument that is true or false as a bool; raise an error if it is anything else.

    >>> check_flag("standardize", "nonsense")
    Traceback (most recent call last):
    ...
    mergesvm.errors.ParameterError: standardize must be True or False, not 'nonsense'.
    """
    import numpy as np  # not at the top, because the help of the command line needs other checks and should be fast

    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(f"{name} must be True or False, not {value!r}.")
    return bool(value)
