"""Options that several commands share, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from mergesvm.data.labels import Label, Labels
from mergesvm.data.scan import Scan
from mergesvm.errors import ParameterError

debugging = False
quieted = False


def _debug(wanted: bool) -> None:
    global debugging
    debugging = debugging or wanted


def _hush(wanted: bool) -> bool:
    global quieted
    quieted = wanted
    return wanted


Model = Annotated[Path, typer.Argument(help="A model file.", metavar="MODEL")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it is there already.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", callback=_hush)]
AsJson = Annotated[bool, typer.Option("--json", help="Say one JSON object, for machines.")]
EngineName = Annotated[
    str, typer.Option("--engine", help="Where the work runs: threads, mpi (under mpiexec), dask or spark.")
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Threads, or processes of a cluster started for this; one a core by default."),
]
Address = Annotated[str | None, typer.Option(help="Of a Dask scheduler (tcp://...) or a Spark master (spark://...).")]
Local = Annotated[
    bool, typer.Option("--local", help="Under mpiexec: the files are each rank's own, and not dealt out.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say where the work ran, and what travelled.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.", callback=_debug)]


def as_label(label: str | None, files: Sequence[str]) -> Any:
    """A label as the command line gives it: for .npy files a number is that of a column.

    >>> as_label("-1", ["day.npy"]), as_label("-1", ["day.csv"])
    (-1, '-1')
    """
    numbered = (
        label is not None and label.removeprefix("-").isdecimal() and all(name.endswith(".npy") for name in files)
    )
    return int(label) if numbered and label is not None else label


def as_list(texts: Sequence[str] | None) -> list[str] | None:
    """Names given one by one, or several with commas.

    >>> as_list(["a,b", "c"])
    ['a', 'b', 'c']
    """
    return [name.strip() for text in texts for name in text.split(",") if name.strip()] if texts else None


def as_categories(texts: Sequence[str] | None) -> dict[str, list[str]] | str | None:
    """Categories as ``column=value,value``, or the one word "auto".

    >>> as_categories(["colour=red,blue"]), as_categories(["auto"])
    ({'colour': ['red', 'blue']}, 'auto')
    """
    if not texts or list(texts) == ["auto"]:
        return "auto" if texts else None
    found = {}
    for text in texts:
        column, equals, values = text.partition("=")
        if not equals or not values:
            raise ParameterError(f"A category is given as column=value,value,... or auto, not {text!r}.")
        found[column] = values.split(",")
    return found


def as_class_weight(text: str | None, classes: Sequence[Label]) -> str | Mapping[Label, float] | None:
    """A scheme of class weights by its name, or weights as ``class=weight,class=weight``.

    >>> as_class_weight("balanced", ["no", "yes"]), as_class_weight("no=1,yes=2.5", ["no", "yes"])
    ('balanced', {'no': 1.0, 'yes': 2.5})
    >>> as_class_weight("red, round=3,other=1", ["other", "red, round"])
    {'red, round': 3.0, 'other': 1.0}
    """
    if text is None or text == "none":
        return None
    if "=" not in text:
        return text
    known = {str(label): label for label in classes}
    weights: dict[Label, float] = {}
    rest = text
    while rest:
        # The longest that fits: there may be commas and equals signs within the name of a class.
        name = max((each for each in known if rest.startswith(f"{each}=")), key=len, default=None)
        if name is None:
            stranger = rest.split(",")[0].rpartition("=")[0]
            raise ParameterError(f"There is no class {stranger!r} to weigh. Classes are: {', '.join(known)}.")
        weight, comma, rest = rest[len(name) + 1 :].partition(",")
        try:
            weights[known[name]] = float(weight)
        except ValueError:
            raise ParameterError(f"The weight of class {name!r} has to be a number, not {weight!r}.") from None
        if comma and not rest:
            raise ParameterError(f"Class weights are class=weight,class=weight, and {text!r} ends with a comma.")
    return weights


def as_numbers(text: str, option: str) -> list[float]:
    """Numbers with commas between them.

    >>> as_numbers("1e-2,1,100", "--Cs")
    [0.01, 1.0, 100.0]
    """
    return [as_number(part.strip(), option) for part in text.split(",")]


def as_number(text: str, option: str) -> float:
    """A number as the command line gives it."""
    try:
        return float(text)
    except ValueError:
        raise ParameterError(f"{option} has to be a number, not {text!r}.") from None


def as_weights(text: str, kind: str | None, source: Scan) -> dict[Label, float] | None:
    """Class weights as ``class=weight,class=weight`` before all classes are known; their kind is that of the first."""
    if text == "none":
        return None
    if kind is None:
        first = next((part.labels for part in source.first_slices(1) if part.labels is not None), ())
        kind = Labels.encode(first).kind
    readers: dict[str, Callable[[str], Label]] = {"whole number": int, "decimal": float, "boolean": _truth}
    read = readers.get(kind or "text", str)
    weights: dict[Label, float] = {}
    for part in text.split(","):
        name, equals, weight = part.rpartition("=")
        try:
            weights[read(name)] = float(weight)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise ParameterError(
                f"Class weights of a stream are given as class=weight,class=weight, with {kind} labels here, "
                f"not {text!r}."
            )
    return weights


def _truth(name: str) -> bool:
    if name.lower() not in ("true", "false"):
        raise ValueError(f"{name!r} is neither true nor false")
    return name.lower() == "true"
