"""Read ``.npz`` archives."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from mergesvm.data.readers.arrays import ArrayReader, ArrayStream
from mergesvm.data.readers.npy_header import read_npy_header
from mergesvm.errors import DataError

MAX_NAMES_SHOWN = 20


class NpzReader(ArrayReader):
    """Reads ``.npz``: rows are the array X, or the only one besides the labels; labels are an array by name."""

    suffixes = (".npz",)
    seekable = False  # the checksum of an array is verified only when all of it is read

    def rows(self) -> AbstractContextManager[ArrayStream]:
        """Open the array X, or the only one besides the labels."""
        return self._member(None)

    def labels(self) -> AbstractContextManager[ArrayStream] | None:
        """Open the array of labels."""
        return None if self.options.label is None else self._member(self.options.label)

    @contextmanager
    def _member(self, name: str | None) -> Iterator[ArrayStream]:
        with (
            self.file.open() as raw,
            zipfile.ZipFile(raw) as archive,
            archive.open(f"{name or self._name_of_rows(archive)}.npy") as stream,
        ):
            dtype, shape, fortran = read_npy_header(stream)
            if fortran and sum(size > 1 for size in shape) > 1:
                array = stream.name.removesuffix(".npy")
                raise self.malformed(
                    f"array {array!r} is stored in Fortran order and cannot be read row by row. Save it in C order "
                    f"(np.ascontiguousarray)"
                )
            yield ArrayStream(stream, dtype, shape)

    def _name_of_rows(self, archive: zipfile.ZipFile) -> str:
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        known = ", ".join(names[:MAX_NAMES_SHOWN]) + (", ..." if len(names) > MAX_NAMES_SHOWN else "")
        label = self.options.label
        if label is not None and label not in names:
            raise DataError(f"{self.file.name}: there is no array {label!r} of labels, only {known}.")
        others = [name for name in names if name != label]
        if len(others) != 1 and "X" not in others:
            raise DataError(
                f"{self.file.name}: cannot tell which of the arrays {known} holds the rows. Save the rows under "
                f"the name X, and pass the name of the label array as label=."
            )
        return others[0] if len(others) == 1 else "X"
