"""Options for reading data files and for feature maps, declared once; each command offers those it needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

import mergesvm as ms
from mergesvm.cli.command import Fields
from mergesvm.cli.open_files import open_any
from mergesvm.cli.parsing import as_categories, as_label, as_list
from mergesvm.errors import ParameterError

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

    def scan(self, *, like: Any = None, keep: Iterable[str] = ()) -> ms.Scan:
        """Open the files as a stream of rows, with the columns of ``like`` if given."""
        return ms.scan(
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


@dataclass(frozen=True)
class SecondPassOptions(DataOptions):
    """The files that the knowledge was learned from, to be read a second time."""

    PANEL: ClassVar[str] = "Second pass over the data"

    files: Annotated[
        Names, typer.Option("--data", help="Files the knowledge was learned from, to measure scores; may be repeated.")
    ] = None  # type: ignore[assignment]


NEW_DATA_FIELDS = ("files", "missing", "unknown", "format", "no_header", "zero_based", "batch_rows")
"""Options for data whose columns are known from a model."""

NEW_DATA = Fields(*NEW_DATA_FIELDS)
LABELLED_DATA = Fields("label", "weight", *NEW_DATA_FIELDS)

FEATURES_HELP = (
    "Feature map: a name and size such as fourier:4000, or a file: one written by mergesvm map, knowledge, or a model."
)
Features = Annotated[str | None, typer.Option(help=FEATURES_HELP)]


def chosen_map(given: str | None, like: Any = None) -> ms.features.FeatureMap:
    """The feature map of this name or file; if none is given, that of ``like``, or the identity."""
    from mergesvm.features.spec import is_map_name

    if given is None:
        return ms.features.Identity() if like is None else _map_of(like)
    if is_map_name(given):
        return ms.features.as_map(given)
    found = _map_of(open_any(Path(given)))
    if isinstance(found, ms.features.Identity):
        raise ParameterError(f"{given} was learned without a feature map. Omit --features, or use --like.")
    return found


def _map_of(content: Any) -> ms.features.FeatureMap:
    found: ms.features.FeatureMap = (
        content if isinstance(content, ms.features.FeatureMap) else content.signature.features
    )
    return found


def knows_columns(features: ms.features.FeatureMap) -> bool:
    """Whether a map determines which columns are read."""
    return features.frozen and not isinstance(features, ms.features.Identity)
