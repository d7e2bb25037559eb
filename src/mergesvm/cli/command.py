"""The decorator that makes a function a command, with groups of options shared between commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from typer.models import OptionInfo

Command = Callable[..., None]


class Fields:
    """Offer some options of a group, or all with other defaults: ``Annotated[Group, Fields("name", default=1)]``."""

    def __init__(self, *names: str, **defaults: Any) -> None:
        self.names = names
        self.defaults = defaults


def command(*examples: str) -> Callable[[Command], Command]:
    """Declare a command with examples for its help.

    A parameter annotated with a dataclass is an option group: the command line gets an option for each field, and the
    function gets an instance of the dataclass. If the dataclass has a class variable ``PANEL``, help shows its options
    under that heading.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Size:
    ...     width: int = 3
    ...     height: int = 4
    >>> @command("draw --width 5")
    ... def draw(name: str, size: Size) -> None:
    ...     print(name, size)
    >>> inspect.signature(draw)
    <Signature (*, name: str, width: int = 3, height: int = 4)>
    >>> draw(name="box", width=5, height=4)
    box Size(width=5, height=4)
    """

    def decorate(function: Command) -> Command:
        signature = inspect.signature(function, eval_str=True)
        groups = {name: _group(parameter.annotation) for name, parameter in signature.parameters.items()}

        def run(**given: Any) -> None:
            arguments = {}
            for name, group in groups.items():
                if group is None:
                    arguments[name] = given[name]
                else:
                    kind, options = group
                    arguments[name] = kind(**{option.name: given[option.name] for option in options})
            function(**arguments)

        parameters: list[inspect.Parameter] = []
        for name, parameter in signature.parameters.items():
            group = groups[name]
            parameters += [parameter.replace(kind=parameter.KEYWORD_ONLY)] if group is None else group[1]
        run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, function.__module__
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.examples = examples  # type: ignore[attr-defined]
        return run

    return decorate


def _group(annotation: Any) -> tuple[type, list[inspect.Parameter]] | None:
    """The class and options of an option group; None for an ordinary parameter."""
    kind, chosen = annotation, Fields()
    if get_origin(annotation) is Annotated:
        kind, first, *_ = get_args(annotation)
        chosen = first if isinstance(first, Fields) else chosen
    if not (isinstance(kind, type) and is_dataclass(kind)):
        return None
    hints = {name: _in_panel(hint, kind) for name, hint in get_type_hints(kind, include_extras=True).items()}
    defaults = {field.name: field.default for field in fields(kind)} | chosen.defaults
    return kind, [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is MISSING else default,
            annotation=hints[name],
        )
        for name, default in defaults.items()
        if not chosen.names or name in chosen.names
    ]


def _in_panel(hint: Any, kind: type) -> Any:
    """The annotation of an option, shown under the heading of its group."""
    panel = getattr(kind, "PANEL", None)
    if panel is None or get_origin(hint) is not Annotated:
        return hint
    base, info = get_args(hint)
    if isinstance(info, OptionInfo):
        info = copy(info)
        info.rich_help_panel = panel
    return Annotated[base, info]
