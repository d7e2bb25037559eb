"""How commands read files: the options are declared once, and each command takes those that it needs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, get_type_hints

import typer

from mergesvm.cli.options import as_categories, as_label, as_list
from mergesvm.data.scan import Scan, scan

Names = list[str] | None


@dataclass(frozen=True)
class Reading:
    """Files, and how they are to be read, as the command line asks for it."""

    files: Annotated[
        list[str], typer.Argument(help="Files, folders, globs in quotes, or addresses.", metavar="FILES...")
    ]
    label: Annotated[str | None, typer.Option(help="The column of labels; for arrays a number, a name or a file.")] = (
        None
    )
    columns: Annotated[Names, typer.Option(help="Columns to learn from; all others by default.")] = None
    weight: Annotated[str | None, typer.Option(help="The column of sample weights.")] = None
    category: Annotated[
        Names, typer.Option(help="A column to be one-hot: column=value,value,... or auto for all text.")
    ] = None
    missing: Annotated[str, typer.Option(help="Missing values: error, or drop the row.")] = "error"
    unknown: Annotated[
        str, typer.Option(help="A category never seen before: error, or zero for an all-zero block.")
    ] = "error"
    format: Annotated[str | None, typer.Option(help="Kind of the files, where their names do not tell.")] = None
    no_header: Annotated[
        bool, typer.Option("--no-header", help="CSV has no line of names; columns are f0, f1, ...")
    ] = False
    width: Annotated[int | None, typer.Option(min=1, help="Number of columns of libsvm text.")] = None
    zero_based: Annotated[bool, typer.Option("--zero-based", help="Indices of libsvm text begin with 0.")] = False
    batch_rows: Annotated[int | None, typer.Option(min=1, help="Rows to read at a time; by default about 32 MB.")] = (
        None
    )

    def scan(self, *, like: Any = None, keep: Iterable[str] = ()) -> Scan:
        """The files as a stream of rows."""
        return scan(
            self.files,
            as_label(self.label, self.files),
            as_list(self.columns),
            self.weight,
            self.batch_rows,
            categories=as_categories(self.category),
            unknown=self.unknown,
            missing=self.missing,
            header=not self.no_header,
            width=self.width,
            zero_based=self.zero_based,
            keep=keep,
            like=like,
            format=self.format,
        )


KNOWN = ("weight", "missing", "unknown", "format", "no_header", "zero_based", "batch_rows")
"""The options for files whose columns a model knows already; of predictions, all but the weight."""


def reads(
    *options: str, kind: type[Reading] = Reading, **defaults: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of :class:`Reading` in the place of its parameter ``reading``.

    All of them, unless some are named; with other defaults, where given.
    """
    hints = get_type_hints(kind, include_extras=True)
    wanted = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=defaults.get(field.name, inspect.Parameter.empty if field.default is MISSING else field.default),
            annotation=hints[field.name],
        )
        for field in fields(kind)
        if not options or field.name in ("files", *options)
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            reading = kind(**{parameter.name: given.pop(parameter.name) for parameter in wanted})
            command(reading=reading, **given)

        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            own = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            parameters += wanted if parameter.name == "reading" else [own]
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate
