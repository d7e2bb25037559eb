"""Exceptions and warnings of mergesvm.

::

    MergeSVMError
    ├── DataError               invalid values, columns, labels or weights
    │   └── LabelKindError        text labels of another type than the first ones
    ├── ParameterError          an invalid argument
    ├── FeatureMapError         a feature map that is not frozen, or cannot be frozen or saved
    ├── EngineError             an engine that cannot start, or has lost workers
    ├── FileError               a missing or invalid file
    │   ├── MissingFileError      the file does not exist
    │   ├── MissingFolderError    the folder to write to does not exist
    │   ├── ExistingFileError     the file would be overwritten
    │   ├── IrregularFileError    a folder, device, pipe or socket would be overwritten
    │   ├── CutError              a file that was divided among workers turned out not to be divisible
    │   ├── MalformedFileError    data that violate the file format
    │   ├── ForeignFileError      not a mergesvm file, or truncated
    │   ├── NewerFormatError      a mergesvm file of a newer version
    │   ├── WrongKindError        a mergesvm file of a different kind, such as a model instead of knowledge
    │   ├── DamagedFileError      content that does not match its digest
    │   ├── InvalidHeaderError    a header with a missing or invalid field
    │   └── InvalidContentError   arrays that do not match the header
    └── KnowledgeError          an operation that the knowledge does not support
        ├── SignatureError        pieces that cannot be added or subtracted, such as of different features
        ├── DuplicatePieceError   merging a piece that is inside already
        ├── SubtractionError      subtracting rows that were never added, or are no longer inside
        ├── FormError             the form, per class or pooled, does not support the operation
        └── IndefiniteError       Gram matrices that are not positive semi-definite

    SolverWarning               a solution is less exact than usual, or another solver was used;
                                a ConvergenceWarning of scikit-learn
    FrozenHereWarning           a feature map was frozen on the rows at hand instead of a shared sample
    CacheWarning                compiled functions are not cached where later runs find them
    OneClassWarning             a feature map was frozen on rows of one class, and the files have others
    IgnoredColumnsWarning       a file has columns that the first one does not have
    FoldWarning                 a class is in only one fold, so models that hold it out do not know the class

All errors are also :class:`ValueError`, as in scikit-learn.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any


class MergeSVMError(ValueError):
    """Base class of all errors of mergesvm.

    >>> import mergesvm as ms
    >>> try:
    ...     ms.learn([[1.0], [float("nan")]], ["a", "b"])
    ... except ms.errors.MergeSVMError as error:
    ...     print(error)
    Input X contains NaN: row 1, column 0. Remove or impute missing values before learning.
    """


class DataError(MergeSVMError):
    """Invalid rows, labels or weights; names the column and the first invalid row."""


class LabelKindError(DataError):
    """Labels of text files turned out to be of another type than the first ones: ``scan.settle_labels()`` decides."""


class ParameterError(MergeSVMError):
    """An invalid argument; names the value and the choices."""


class FeatureMapError(MergeSVMError):
    """A feature map that is not frozen, cannot be frozen on these rows, or cannot be saved."""


class EngineError(MergeSVMError):
    """An engine cannot run: a package is missing, a cluster does not respond, or workers are lost."""


class FileError(MergeSVMError):
    """A missing or invalid file; names the file."""


class MissingFileError(FileError, FileNotFoundError):
    """The file does not exist."""


class MissingFolderError(FileError, FileNotFoundError):
    """The folder to write to does not exist."""


class ExistingFileError(FileError, FileExistsError):
    """The file exists, and would be overwritten."""


class IrregularFileError(FileError, OSError):
    """The file to write is a folder, device, pipe, socket or a link to itself, none of which is replaced."""


class MalformedFileError(FileError):
    """Data that violate the file format; names the file and, if known, the row."""


class CutError(FileError):
    """A file that was divided among workers turned out not to be divisible."""


class ForeignFileError(FileError):
    """Not a mergesvm file, or a truncated one."""


class NewerFormatError(FileError):
    """A mergesvm file in a format of a newer version."""


class WrongKindError(FileError):
    """A mergesvm file of a different kind than expected."""


class DamagedFileError(FileError):
    """A mergesvm file whose content does not match its digest."""


class InvalidHeaderError(FileError):
    """A header field is missing, of the wrong type, or out of range."""


class InvalidContentError(FileError):
    """Arrays do not match the header."""


class KnowledgeError(MergeSVMError):
    """The knowledge does not support the operation."""


class SignatureError(KnowledgeError):
    """Two pieces cannot be added or subtracted because they differ; names both sides."""


class DuplicatePieceError(KnowledgeError):
    """Merging a piece that is inside already, so that its rows would count twice; names the piece."""


class SubtractionError(KnowledgeError):
    """Subtracting rows that were never added, or are no longer inside; nothing was changed."""


class FormError(KnowledgeError):
    """The form of the knowledge or model does not support the operation; names the form that does."""


class IndefiniteError(KnowledgeError):
    """A Gram matrix is not positive semi-definite: rows were subtracted that were never added."""


if TYPE_CHECKING:

    class SolverWarning(UserWarning):
        """A solution that is less exact than usual, or not found by the usual solver; names the cause."""


class FrozenHereWarning(UserWarning):
    """A feature map was frozen on the rows at hand; pieces can only be added if they share the map."""


class CacheWarning(UserWarning):
    """Compiled functions are cached in a temporary folder or not at all, so that later runs may compile them again."""


class OneClassWarning(UserWarning):
    """A feature map was frozen on rows of one class, although the files contain others."""


class IgnoredColumnsWarning(UserWarning):
    """A file has columns that the first one does not have; they are not learned."""


class FoldWarning(UserWarning):
    """All rows of a class are in one fold, so the model trained on the other folds does not know the class."""


def warn_caller(message: str, category: type[Warning]) -> None:
    """Issue a warning that points to the calling line outside of this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("mergesvm."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)


def warn_solver(message: str) -> None:
    """Issue a :class:`SolverWarning` that points to the calling line outside of this package."""
    warn_caller(message, _solver_warning())


def __getattr__(name: str) -> Any:
    if name == "SolverWarning":
        return _solver_warning()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _solver_warning() -> type[UserWarning]:
    """The class ``SolverWarning``, made when it is first used: scikit-learn, of its base class, is slow to import."""
    if "SolverWarning" not in globals():
        from sklearn.exceptions import ConvergenceWarning

        doc = "A solution that is less exact than usual, or not found by the usual solver; names the cause."
        members = {"__doc__": doc, "__module__": __name__}
        # Of two threads that get here at once, both take the class of the first.
        globals().setdefault("SolverWarning", type("SolverWarning", (ConvergenceWarning,), members))
    found: type[UserWarning] = globals()["SolverWarning"]
    return found
