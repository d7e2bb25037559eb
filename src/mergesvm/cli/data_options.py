"""Options for reading data files, declared once; each command offers those it needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from mergesvm.cli.command import Fields
from mergesvm.cli.parsing import as_categories, as_label, as_list
from mergesvm.data.scan import Scan, scan

Names = list[str] | None


@dataclass(frozen=True)
class DataOptions:
    """Data files and how to read them."""

    PANEL: ClassVar[str] = "Reading data"

    files: Annotated[list[str], typer.Argument(help="Files, folders, quoted globs or URLs.", metavar="FILES...")]
    label: Annotated[
        str | None,
        typer.Option(help="Label column; for arrays a column index, the name of an array, or another file."),
    ] = None
    columns: Annotated[Names, typer.Option(help="Feature columns (default: all others).")] = None
    weight: Annotated[str | None, typer.Option(help="Column of sample weights.")] = None
    category: Annotated[
        Names, typer.Option(help="Column to one-hot encode, as column=value,value,..., or auto for all text columns.")
    ] = None
    missing: Annotated[str, typer.Option(help="Rows with missing values: error or drop.")] = "error"
    unknown: Annotated[str, typer.Option(help="Categories not listed: error, or zero to encode them as all zeros.")] = (
        "error"
    )
    format: Annotated[str | None, typer.Option(help="File format (default: from the file extension).")] = None
    no_header: Annotated[
        bool, typer.Option("--no-header", help="CSV files have no header line; columns are named f0, f1, ...")
    ] = False
    width: Annotated[int | None, typer.Option(min=1, help="Number of columns of libsvm files.")] = None
    zero_based: Annotated[bool, typer.Option("--zero-based", help="Indices in libsvm files start at 0.")] = False
    batch_rows: Annotated[int | None, typer.Option(min=1, help="Rows to read at a time (default: about 32 MB).")] = None

    def scan(self, *, like: Any = None, keep: Iterable[str] = ()) -> Scan:
        """Open the files as a stream of rows, with the columns of ``like`` if given."""
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


NEW_DATA_FIELDS = ("files", "missing", "unknown", "format", "no_header", "zero_based", "batch_rows")
"""Options for data whose columns are known from a model."""

NEW_DATA = Fields(*NEW_DATA_FIELDS)
LABELLED_DATA = Fields("label", "weight", *NEW_DATA_FIELDS)
