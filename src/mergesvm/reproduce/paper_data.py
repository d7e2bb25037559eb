"""The data sets of the papers: from a folder of files, or from OpenML."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from mergesvm.data.labels import Coded
from mergesvm.data.scan import scan
from mergesvm.errors import MissingFileError, MissingFolderError, ParameterError

FOLDER_VARIABLE = "MERGESVM_DATA"


@dataclass(frozen=True)
class PaperData:
    """One data set.

    Attributes
    ----------
    title : str
    files : str
        Where it lies in the folder.
    label : str or None
        The array of labels of an ``.npz``; idx files have theirs beside them.
    openml : str
        Its name at OpenML.
    share : float
        What share of the rows the paper learns from; the rest are for the test.
    most : int or None
        So many rows of a class are used at most.
    format : str or None
        The kind of the files, where their names do not tell.
    """

    title: str
    files: str
    label: str | None
    openml: str
    share: float
    most: int | None = None
    format: str | None = None

    def rows(self, folder: Path | None) -> tuple[NDArray[Any], NDArray[Any]]:
        """All rows and labels."""
        return self._read(folder) if folder is not None else self._fetch()

    def load(self, folder: Path | None, seed: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Rows and labels to learn from, and rows and labels to test on, split at random."""
        X, y = self.rows(folder)
        generator = np.random.default_rng(seed)
        chosen = np.arange(len(y))
        if self.most is not None:
            parts = [generator.permutation(np.flatnonzero(y == label))[: self.most] for label in np.unique(y)]
            chosen = np.concatenate(parts)
        chosen = generator.permutation(chosen)
        cut = round(self.share * len(chosen))
        return X[chosen[:cut]], y[chosen[:cut]], X[chosen[cut:]], y[chosen[cut:]]

    def _read(self, folder: Path) -> tuple[NDArray[Any], NDArray[Any]]:
        if not list(folder.glob(self.files)):
            raise MissingFileError(
                f"{self.title} is not in {folder}: there is no {self.files}. Without --data, and without "
                f"{FOLDER_VARIABLE} in the environment, it is fetched from OpenML."
            )
        slices = list(scan(str(folder / self.files), label=self.label, format=self.format))
        X = np.concatenate([_dense(part.rows.block(0, part.rows.n_rows)) for part in slices])
        labels = [part.labels.to_array() if isinstance(part.labels, Coded) else part.labels for part in slices]
        return X, np.concatenate(labels).astype(np.int64)

    def _fetch(self) -> tuple[NDArray[Any], NDArray[Any]]:
        from sklearn.datasets import fetch_openml

        try:
            X, y = fetch_openml(self.openml, version=1, return_X_y=True, as_frame=False)
        except (OSError, ValueError) as error:
            raise MissingFileError(
                f"{self.openml} could not be fetched from OpenML ({error}). Give a folder of data with --data, or with "
                f"the environment variable {FOLDER_VARIABLE}."
            ) from None
        return _dense(X).astype(np.uint8), y.astype(np.float64).astype(np.int64)


def _dense(block: Any) -> NDArray[Any]:
    return np.asarray(block.toarray() if issparse(block) else block)


DATA = {
    "mnist": PaperData("MNIST", "mnist/*images-idx3-ubyte*", None, "mnist_784", 0.5),
    "fashion": PaperData("Fashion-MNIST", "fashion-mnist/*images-idx3-ubyte*", None, "Fashion-MNIST", 0.7),
    "emnist": PaperData("EMNIST", "emnist/*.npz", "y", "EMNIST_Balanced", 0.6, 2800),
}

ADULT = PaperData("Adult", "a9a/*", None, "a9a", 1.0, format="libsvm")
"""Census income, binarised: 123 features that are 0 or 1."""


def data_folder(given: Path | None) -> Path | None:
    """The folder that is asked for, or that of the environment."""
    name = given or os.environ.get(FOLDER_VARIABLE)
    if not name:
        return None
    if not Path(name).is_dir():
        raise MissingFolderError(f"There is no folder {name} of data.")
    return Path(name)


def chosen_data(text: str | None) -> dict[str, PaperData]:
    """The data sets of a list of names, all by default.

    >>> list(chosen_data("mnist,emnist"))
    ['mnist', 'emnist']
    """
    names = list(DATA) if text is None else [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in DATA]
    if unknown:
        raise ParameterError(f"There is no data set {unknown[0]!r} here. There are: {', '.join(DATA)}.")
    return {name: DATA[name] for name in names}
