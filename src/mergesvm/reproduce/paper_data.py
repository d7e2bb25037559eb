"""The data sets of the papers: from a folder of files, from OpenML, or stand-ins that come with scikit-learn."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from mergesvm.data.scan import scan
from mergesvm.errors import MissingFileError, MissingFolderError, ParameterError

FOLDER_VARIABLE = "MERGESVM_DATA"

QUICK_ROWS = 2_000
"""Rows of a data set, drawn at random, that a quick run uses."""


@dataclass(frozen=True)
class Source:
    """Where rows come from: a folder; without one, OpenML or, for a quick run, scikit-learn."""

    folder: Path | None
    quick: bool = False

    @property
    def bundled(self) -> bool:
        """Whether rows come with scikit-learn, in place of the data sets of the papers."""
        return self.quick and self.folder is None

    @classmethod
    def of(cls, given: Path | None, quick: bool) -> Source:
        """The folder given, else, unless the run is quick, that in the environment variable ``MERGESVM_DATA``."""
        name = given or (None if quick else os.environ.get(FOLDER_VARIABLE))
        if not name:
            return cls(None, quick)
        if not Path(name).is_dir():
            raise MissingFolderError(f"There is no data folder {name}.")
        return cls(Path(name), quick)


@dataclass(frozen=True)
class PaperData:
    """A data set of a paper."""

    title: str
    files: str  # pattern of its files in the folder
    label: str | None  # the array of labels in an .npz file; idx files have separate label files
    openml: str  # its name on OpenML
    train_fraction: float  # in the paper; the rest are test rows
    max_class_rows: int | None = None
    format: str | None = None  # if file names do not show it

    stand_in: str = "digits"  # of scikit-learn, for a quick run without a folder
    class_names: Sequence[str] = ()
    openml_version: int = 1

    def described(self, source: Source) -> str:
        """Its title, and what takes its place."""
        if not source.quick:
            return self.title
        if source.bundled:
            return f"{self.stand_in} of scikit-learn for {self.title}"
        return f"rows of {self.title}"

    def rows(self, source: Source, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
        """All rows and labels; those of a quick run are few, and drawn with the seed."""
        if source.folder is None:
            return BUNDLED[self.stand_in]() if source.quick else self._fetch()
        X, y = self._read(source.folder)
        if source.quick:
            chosen = np.random.default_rng(seed).permutation(len(y))[:QUICK_ROWS]
            X, y = X[chosen], y[chosen]
        return X, y

    def load(self, source: Source, seed: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Training rows and labels, and test rows and labels, split at random."""
        X, y = self.rows(source, seed)
        generator = np.random.default_rng(seed)
        chosen = np.arange(len(y))
        if self.max_class_rows is not None:
            parts = [generator.permutation(np.flatnonzero(y == label))[: self.max_class_rows] for label in np.unique(y)]
            chosen = np.concatenate(parts)
        chosen = generator.permutation(chosen)
        cut = round(self.train_fraction * len(chosen))
        return X[chosen[:cut]], y[chosen[:cut]], X[chosen[cut:]], y[chosen[cut:]]

    def _read(self, folder: Path) -> tuple[NDArray[Any], NDArray[Any]]:
        if not list(folder.glob(self.files)):
            raise MissingFileError(
                f"{self.title} is not in {folder}: there is no {self.files}. To download it from OpenML, leave out "
                f"--data and unset {FOLDER_VARIABLE}."
            )
        slices = list(scan(str(folder / self.files), label=self.label, format=self.format))
        X = np.concatenate([_dense(part.rows.block(0, part.rows.n_rows)) for part in slices])
        labels = [part.label_array() for part in slices]
        return X, np.concatenate(labels).astype(np.int64)

    def _fetch(self) -> tuple[NDArray[Any], NDArray[Any]]:
        from sklearn.datasets import fetch_openml

        try:
            X, y = fetch_openml(self.openml, version=self.openml_version, return_X_y=True, as_frame=False)
        except (OSError, ValueError) as error:
            raise MissingFileError(
                f"{self.openml} could not be downloaded from OpenML ({error}). Pass a folder containing the "
                f"data with --data, or set the environment variable {FOLDER_VARIABLE} to it."
            ) from None
        X = _dense(X)
        pixels = X.astype(np.uint8)
        return pixels if np.array_equal(pixels, X) else X, y.astype(np.float64).astype(np.int64)


def _dense(block: Any) -> NDArray[Any]:
    return np.asarray(block.toarray() if issparse(block) else block)


def _digits() -> tuple[NDArray[Any], NDArray[Any]]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return (X * (255 / X.max())).astype(np.uint8), y


def _breast_cancer() -> tuple[NDArray[Any], NDArray[Any]]:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return _standardised(X), np.where(y == 1, 1, -1)


def _wine() -> tuple[NDArray[Any], NDArray[Any]]:
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    return _standardised(X), y


def _standardised(X: NDArray[Any]) -> NDArray[Any]:
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


BUNDLED = {"digits": _digits, "breast cancer": _breast_cancer, "wine": _wine}
"""Data sets of scikit-learn: pixels from 0 to 255, and standardised columns."""

CLOTHES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt"
"""The classes of EMNIST; small letters that look like their capitals are joined with them."""

DATA = {
    "mnist": PaperData("MNIST", "mnist/*images-idx3-ubyte*", None, "mnist_784", 0.5),
    "fashion": PaperData(
        "Fashion-MNIST", "fashion-mnist/*images-idx3-ubyte*", None, "Fashion-MNIST", 0.7, class_names=CLOTHES
    ),
    "emnist": PaperData("EMNIST", "emnist/*.npz", "y", "EMNIST_Balanced", 0.6, 2800, class_names=CHARACTERS),
}

ADULT = PaperData("Adult", "a9a/*", None, "a9a", 1.0, format="libsvm", stand_in="breast cancer")
"""Census income, with 123 binary features."""


COVERTYPE = PaperData("Covertype", "covtype/*.npz", "y", "covertype", 1.0, stand_in="wine", openml_version=3)
"""Forest cover of seven kinds."""

STREAMS = {"adult": ADULT, "mnist": DATA["mnist"], "covertype": COVERTYPE}
"""Data sets that are cut into slices."""


def chosen_data(text: str | None, available: Mapping[str, PaperData] = DATA) -> dict[str, PaperData]:
    """Data sets by their names, separated by commas; all of them for None.

    >>> list(chosen_data("mnist,emnist"))
    ['mnist', 'emnist']
    """
    names = list(available) if text is None else [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in available]
    if unknown:
        raise ParameterError(f"Unknown data set {unknown[0]!r}. Choose from: {', '.join(available)}.")
    return {name: available[name] for name in names}
