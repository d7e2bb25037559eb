"""Everything mergesvm raises on purpose.

::

    MergeSVMError
    ├── DataError             a value, a column, a label or a weight that cannot be learned from
    ├── ParameterError        an argument outside of what is allowed
    └── KnowledgeError        knowledge that does not allow what was asked of it
        ├── SignatureError    two pieces of unlike things were to be added or subtracted
        ├── SubtractionError  a piece was to be taken back that is not inside
        ├── FormError         the pooled form was asked for something only class-wise sums know
        └── IndefiniteError   the sums are no longer those of any set of rows

    SolverWarning             the usual solver could not be used; names the one that was

All are :class:`ValueError` too, because that is what scikit-learn's users catch.
"""

from __future__ import annotations


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


class KnowledgeError(MergeSVMError):
    """Knowledge that does not allow what was asked of it."""


class SignatureError(KnowledgeError):
    """Unlike pieces cannot be added or subtracted; names both sides."""


class SubtractionError(KnowledgeError):
    """A piece cannot be taken back because it is not inside; nothing was changed."""


class FormError(KnowledgeError):
    """The pooled form does not hold what was asked for; says which form does."""


class IndefiniteError(KnowledgeError):
    """The sums are not those of any set of rows: something was subtracted that had never been added."""


class SolverWarning(UserWarning):
    """The usual solver could not be used; names the one that was used instead."""
