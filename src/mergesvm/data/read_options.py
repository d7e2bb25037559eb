"""Options for reading files and tables: each is declared, documented and checked here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypedDict, TypeVar

from mergesvm.checks import check_flag
from mergesvm.data.labels import Label
from mergesvm.data.layout import Layout
from mergesvm.errors import ParameterError

Function = TypeVar("Function", bound=Callable[..., Any])


class ReadKeywords(TypedDict, total=False):
    """The keyword arguments of functions that take ``**options``; see :class:`ReadOptions`."""

    categories: Mapping[str, Iterable[Label]] | str | None
    unknown: str
    missing: str
    header: bool
    width: int | None
    zero_based: bool
    keep: Iterable[str]


@dataclass(frozen=True)
class ReadOptions:
    """How to read files or tables: which columns, and how to interpret them.

    Parameters
    ----------
    label : str, int or path, optional
        The column of labels; for ``.npz`` the name of an array; for ``.npy`` the number of a column or another file;
        for idx another file, found automatically if named as in MNIST. Not used for libsvm text, which contains labels.
    features : list of str, optional
        The columns to learn from; all but ``label``, ``weight`` and ``keep`` by default.
    weight : str, optional
        The column of sample weights.
    categories : mapping of column to values, or "auto"
        Columns to one-hot encode, and their vocabularies: pieces learned with the same vocabularies can be added.
        "auto" finds the values of all text columns in an extra pass. Arrow dictionary columns are always categories.
    unknown : {"error", "zero"}
        How to treat a value outside of the vocabulary: raise an error, or encode it as zeros.
    missing : {"error", "drop"}
        How to treat missing values: raise an error, or drop the row and count it in :attr:`Scan.dropped`.
    header : bool
        Whether the first line of CSV names the columns; if not, they are f0, f1, ...
    width : int, optional
        Number of features of libsvm text; found in an extra pass by default.
    zero_based : bool
        Whether indices of libsvm text start at 0 instead of 1.
    keep : list of str
        Columns to carry along with predictions, such as an identifier; those of CSV as text, exactly as written.
    """

    label: Any = None
    features: tuple[str, ...] | None = None
    weight: str | None = None
    categories: Mapping[str, tuple[Label, ...]] | str = field(default_factory=dict)
    unknown: str = field(default="error", metadata={"choices": ("error", "zero")})
    missing: str = field(default="error", metadata={"choices": ("error", "drop")})
    header: bool = True
    width: int | None = None
    zero_based: bool = False
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for option in fields(self):
            value, choices = getattr(self, option.name), option.metadata.get("choices")
            if choices and value not in choices:
                raise ParameterError(f"{option.name} must be one of {', '.join(map(repr, choices))}, not {value!r}.")
        for name in ("header", "zero_based"):
            check_flag(name, getattr(self, name))
        if self.width is not None:
            check_positive("width", self.width)
        object.__setattr__(self, "features", None if self.features is None else _names(self.features))
        object.__setattr__(self, "keep", _names(self.keep))
        object.__setattr__(self, "categories", _categories(self.categories))

    @classmethod
    def of(cls, label: Any, features: Any = None, weight: str | None = None, **options: Any) -> ReadOptions:
        """Return options from arguments as users give them, which the constructor checks and converts."""
        return cls(label, features, weight, **options)

    def matching(self, layout: Layout) -> ReadOptions:
        """Return the options for rows of a given layout; raise an error if other columns or categories are chosen."""
        if layout.names is not None:
            if self.features is not None and set(self.features) != set(layout.columns):
                raise ParameterError(
                    f"features are {', '.join(self.features)}, but like has {', '.join(sorted(layout.columns))}. "
                    f"Omit features."
                )
            known = dict(layout.categories)
            if not isinstance(self.categories, str) and any(
                known.get(name) != values for name, values in self.categories.items()
            ):
                raise ParameterError("categories differ from those of like. Omit categories.")
        return replace(self, width=layout.width)


def layout_of(like: Any) -> Layout:
    """Return the layout of the rows that knowledge, a model or a frozen feature map was made of."""
    layout = getattr(like, "layout", None)
    if not isinstance(layout, Layout):
        raise ParameterError(f"like must be knowledge, a model or a frozen feature map, not {type(like).__name__}.")
    return layout


def check_positive(name: str, value: Any) -> None:
    """Raise an error if an argument is not a positive integer."""
    if not isinstance(value, int) or value < 1:
        raise ParameterError(f"{name} must be a positive integer, not {value!r}.")


def documents_read_options(function: Function) -> Function:
    """Replace ``**options`` in the signature and the docstring of a function by the fields of :class:`ReadOptions`."""
    signature = inspect.signature(function)
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    defaults = inspect.signature(ReadOptions).parameters
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name].default, annotation=annotation)
        for name, annotation in ReadKeywords.__annotations__.items()
    ]
    function.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    entries = "".join(re.findall(r"^    \w+ : .*\n(?:        .*\n)+", ReadOptions.__doc__ or "", re.MULTILINE))
    place = re.compile(r"^    .*\*\*options\n(?:        .*\n)+", re.MULTILINE)
    function.__doc__ = place.sub(lambda _: entries, function.__doc__ or "")
    return function


def _names(columns: str | Iterable[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _categories(given: Any) -> Mapping[str, tuple[Label, ...]] | str:
    if given is None or given == "auto":
        return given or {}
    if not isinstance(given, Mapping):
        raise ParameterError(f"categories must be a mapping of column to values, or 'auto', not {given!r}.")
    # A string would be taken for the list of its letters.
    return {column: (values,) if isinstance(values, str) else tuple(values) for column, values in given.items()}
