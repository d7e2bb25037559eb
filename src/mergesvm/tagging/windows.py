"""Features of all windows of a picture, sparse, and kept on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.errors import MergeSVMError
from mergesvm.features.maps.correlogram import Correlogram
from mergesvm.files.atomic import write_atomically
from mergesvm.tagging.pictures import WORKING_SIDE, open_picture, thumbnail

THUMBNAIL_SIDE = 320
"""The longer side of reduced pictures, in pixels."""

STEP = 8
"""The distance of windows, in pixels."""

FILE_VERSION = 1


@dataclass(frozen=True)
class Windows:
    """The counts of all windows of a picture: few colours occur in each, so they are stored as a CSR matrix.

    Windows are ordered line by line. ``size`` is the size of the picture in pixels (height, width).
    """

    grid: tuple[int, int]
    size: tuple[int, int]
    indptr: NDArray[np.int32]
    colours: NDArray[np.uint16]
    counts: NDArray[np.uint16]

    @classmethod
    def of(cls, picture: NDArray[np.uint8], correlogram: Correlogram, step: int = STEP) -> Windows:
        """Count the pairs of colours in all windows of a picture (height, width, 3)."""
        counts = correlogram.window_counts(picture, step)
        lines, columns, n_colours = counts.shape
        compressed = sparse.csr_array(counts.reshape(-1, n_colours))
        size = (int(picture.shape[0]), int(picture.shape[1]))
        indptr, colours = compressed.indptr.astype(np.int32), compressed.indices.astype(np.uint16)
        return cls((lines, columns), size, indptr, colours, compressed.data)

    def features(self, correlogram: Correlogram) -> sparse.csr_array:
        """Return the features of all windows, (windows, colours)."""
        ends = np.concatenate([[0], self.counts.cumsum(dtype=np.int64)])[self.indptr]
        totals = np.repeat(np.diff(ends), np.diff(self.indptr)).astype(correlogram.dtype)
        values = correlogram.features_of_counts(self.counts, totals)
        shape = (len(self.indptr) - 1, correlogram.width)
        return sparse.csr_array((values, self.colours.astype(np.int32), self.indptr), shape=shape)

    def write(self, path: Path) -> None:
        """Write the windows to a file, atomically."""
        from safetensors.numpy import save

        arrays: dict[str, NDArray[Any]] = {"indptr": self.indptr, "colours": self.colours, "counts": self.counts}
        header = {"windows": json.dumps([FILE_VERSION, *self.grid, *self.size])}
        write_atomically(path, save(arrays, metadata=header))

    @classmethod
    def read(cls, path: Path, n_colours: int) -> Windows | None:
        """Read windows from a file; None if there is none, or it is damaged."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "numpy") as file:
                version, lines, columns, height, width = json.loads(file.metadata()["windows"])
                arrays = [file.get_tensor(name) for name in ("indptr", "colours", "counts")]
        except (OSError, SafetensorError, ValueError, KeyError, TypeError):
            return None
        indptr, colours, counts = arrays
        kinds = [(array.dtype.str[1:], array.ndim) for array in arrays]
        sound = (
            version == FILE_VERSION
            and kinds == [("i4", 1), ("u2", 1), ("u2", 1)]
            and len(indptr) == lines * columns + 1
            and len(colours) == len(counts) == indptr[-1]
            and indptr[0] == 0
            and bool((np.diff(indptr) >= 0).all())
            and (len(colours) == 0 or int(colours.max()) < n_colours)
        )
        return cls((lines, columns), (height, width), indptr, colours, counts) if sound else None


@dataclass(frozen=True)
class WindowCache:
    """Windows of the pictures of a folder, computed once and kept in files."""

    pictures: Path
    folder: Path
    correlogram: Correlogram
    side: int = WORKING_SIDE
    step: int = STEP

    def windows(self, name: str) -> Windows:
        """Return the windows of a picture, from the cache if the picture has not changed."""
        path = self.pictures / name
        file = self.folder / f"{self._key(name, path)}.windows"
        found = Windows.read(file, self.correlogram.width)
        if found is None:
            found = Windows.of(open_picture(path, self.side), self.correlogram, self.step)
            self._keep(partial(found.write, file))
        return found

    def thumbnail(self, name: str) -> bytes:
        """Return a reduced picture as a JPEG file, from the cache if the picture has not changed."""
        path = self.pictures / name
        file = self.folder / f"{self._key(name, path)}.jpg"
        with suppress(OSError):
            return file.read_bytes()
        made = thumbnail(path, THUMBNAIL_SIDE)
        self._keep(lambda: write_atomically(file, made))
        return made

    def _keep(self, write: Callable[[], None]) -> None:
        """Write to the cache; without a place for it, everything is computed again the next time."""
        with suppress(OSError, MergeSVMError):
            self.folder.mkdir(parents=True, exist_ok=True)
            write()

    def cached(self, name: str) -> bool:
        """Return whether the windows of a picture are in the cache."""
        return (self.folder / f"{self._key(name, self.pictures / name)}.windows").exists()

    def _key(self, name: str, path: Path) -> str:
        state = path.stat()
        parts = [name, state.st_size, state.st_mtime_ns, self._settings]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    @cached_property
    def _settings(self) -> list[Any]:
        return [self.correlogram.fingerprint, self.side, self.step, FILE_VERSION]
