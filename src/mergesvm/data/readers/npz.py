"""Archives of numpy arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from mergesvm.data.readers.arrays import ArrayReader, ArrayStream
from mergesvm.data.readers.npy_header import read_npy_header
from mergesvm.errors import DataError

MOST_SHOWN = 20


class NpzReader(ArrayReader):
    """``.npz``, decompressed row by row: the array X, or the only one beside the labels, and labels by their name."""

    suffixes = (".npz",)
    sought = False  # an array has one checksum, which is known to be right only when all of it has been read

    def rows(self) -> AbstractContextManager[ArrayStream]:
        """The array X, or the only one that is not the labels."""
        return self._member(None)

    def labels(self) -> AbstractContextManager[ArrayStream] | None:
        """The array named by the label."""
        return None if self.terms.label is None else self._member(self.terms.label)

    @contextmanager
    def _member(self, name: str | None) -> Iterator[ArrayStream]:
        with (
            self.file.open() as raw,
            zipfile.ZipFile(raw) as archive,
            archive.open(f"{name or self._name_of_rows(archive)}.npy") as stream,
        ):
            dtype, shape, fortran = read_npy_header(stream)
            if fortran and sum(size > 1 for size in shape) > 1:
                raise self.malformed("an array is stored by columns, and cannot be read row by row")
            yield ArrayStream(stream, dtype, shape)

    def _name_of_rows(self, archive: zipfile.ZipFile) -> str:
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        known = ", ".join(names[:MOST_SHOWN]) + (", ..." if len(names) > MOST_SHOWN else "")
        label = self.terms.label
        if label is not None and label not in names:
            raise DataError(f"{self.file.name}: there is no array {label!r} of labels. There are: {known}.")
        others = [name for name in names if name != label]
        if len(others) != 1 and "X" not in others:
            raise DataError(
                f"{self.file.name}: which array holds the rows? There are: {known}. Name it X, and name the "
                f"array of labels with label=."
            )
        return others[0] if len(others) == 1 else "X"
