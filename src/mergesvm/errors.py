"""Everything mergesvm raises on purpose.

::

    MergeSVMError
    ├── DataError             a value, a column, a label or a weight that cannot be learned from
    ├── ParameterError        an argument outside of what is allowed
    ├── FeatureMapError       a feature map that cannot do what was asked of it
    ├── EngineError           an engine that cannot be started, or has lost its workers
    ├── FileError             a file that is not there, or not what it should be
    │   ├── MissingFileError    nothing of that name
    │   ├── MissingFolderError  no folder to write to
    │   ├── ExistingFileError   a file that would be overwritten
    │   ├── CutError            a file that was to be read in parts, and cannot be
    │   ├── MalformedFileError  data that break the rules of their format; names file and row
    │   ├── ForeignFileError    not a file of ours, or cut short
    │   ├── NewerFormatError    a file of ours, from a newer version
    │   ├── WrongKindError      a model where knowledge is wanted, or the other way round
    │   ├── DamagedFileError    content that does not match its digest
    │   ├── InvalidHeaderError  a header with a field missing or wrong
    │   └── InvalidContentError arrays that cannot be what the header says
    └── KnowledgeError        knowledge that does not allow what was asked of it
        ├── SignatureError    two pieces of unlike things were to be added or subtracted
        ├── SubtractionError  a piece was to be taken back that is not inside
        ├── FormError         something was asked of a form that does not hold it
        └── IndefiniteError   the sums are no longer those of any set of rows

    SolverWarning             the usual solver could not be used; names the one that was
    FrozenHereWarning         a feature map was frozen on the rows at hand, and not on an agreed sample

All are :class:`ValueError` too, because that is what scikit-learn's users catch.
"""

from __future__ import annotations

import sys
import warnings


class MergeSVMError(ValueError):
    """Base of all errors of this package.

    >>> import mergesvm as ms
    >>> try:
    ...     ms.learn([[1.0], [float("nan")]], ["a", "b"])
    ... except ms.errors.MergeSVMError as error:
    ...     print(error)
    Input X contains NaN: row 1, column 0. Remove or impute missing values before learning.
    """


class DataError(MergeSVMError):
    """Rows, labels or weights that cannot be learned from; names the column and the first offending row."""


class ParameterError(MergeSVMError):
    """An argument outside of what is allowed; names the value and the choices."""


class FeatureMapError(MergeSVMError):
    """A feature map that is not frozen yet, cannot be frozen on these rows, or cannot be written to a file."""


class EngineError(MergeSVMError):
    """Where work was to run it cannot: a package is missing, a cluster does not answer, workers are lost."""


class FileError(MergeSVMError):
    """A file that is not there, or not what it should be; names it."""


class MissingFileError(FileError, FileNotFoundError):
    """There is no file of that name."""


class MissingFolderError(FileError, FileNotFoundError):
    """There is no folder to write to."""


class ExistingFileError(FileError, FileExistsError):
    """A file would be overwritten that was not to be."""


class MalformedFileError(FileError):
    """Data that break the rules of their format; names the file and, where there are rows, the row."""


class CutError(FileError):
    """A file that was shared out between workers turns out to be one that cannot be; says what to do."""


class ForeignFileError(FileError):
    """Not a file of mergesvm, or one that is cut short."""


class NewerFormatError(FileError):
    """A file written by a newer version, in a format that this one does not know."""


class WrongKindError(FileError):
    """A file of mergesvm that holds something else than was asked for."""


class DamagedFileError(FileError):
    """A file of mergesvm whose content does not match its digest."""


class InvalidHeaderError(FileError):
    """A header with a field that is missing, of the wrong type, or out of range."""


class InvalidContentError(FileError):
    """Arrays that cannot be what the header says they are."""


class KnowledgeError(MergeSVMError):
    """Knowledge that does not allow what was asked of it."""


class SignatureError(KnowledgeError):
    """Unlike pieces cannot be added or subtracted; names both sides."""


class SubtractionError(KnowledgeError):
    """A piece cannot be taken back because it is not inside; nothing was changed."""


class FormError(KnowledgeError):
    """The form of knowledge, or of a model, does not hold what was asked for; says which does."""


class IndefiniteError(KnowledgeError):
    """The sums are not those of any set of rows: something was subtracted that had never been added."""


class SolverWarning(UserWarning):
    """The usual solver could not be used; names the one that was used instead."""


class FrozenHereWarning(UserWarning):
    """A feature map was frozen on the rows at hand: pieces that are to add have to share it."""


class FoldWarning(UserWarning):
    """Folds from which little can be told of rows not seen."""


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn, and name the line outside of this package from which it was called, however deep inside it came up."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("mergesvm."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)
