"""Data sets of the benchmarks: from a folder (--data or MERGESVM_DATA), or from OpenML."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
from sklearn.datasets import fetch_covtype, fetch_openml, load_svmlight_file
from sklearn.model_selection import train_test_split


def folder(given: str | None) -> Path | None:
    name = given or os.environ.get("MERGESVM_DATA")
    return Path(name) if name else None


def mnist(where: Path | None):
    """60,000 + 10,000 rows x 784 pixels, 10 classes, as uint8."""
    if where is None:
        X, y = fetch_openml("mnist_784", version=1, return_X_y=True, as_frame=False)
        X, y = X.astype(np.uint8), y.astype(int)
        return X[:60_000], y[:60_000], X[60_000:], y[60_000:]

    return _idx(where / "mnist")


def fashion_mnist(where: Path | None):
    """60,000 + 10,000 rows x 784 pixels, 10 classes of clothing, as uint8."""
    if where is None:
        X, y = fetch_openml("Fashion-MNIST", version=1, return_X_y=True, as_frame=False)
        X, y = X.astype(np.uint8), y.astype(int)
        return X[:60_000], y[:60_000], X[60_000:], y[60_000:]
    return _idx(where / "fashion-mnist")


def _idx(where: Path):
    def read(name, header):
        with gzip.open(where / name) as file:
            return np.frombuffer(file.read(), dtype=np.uint8, offset=header)

    return (
        read("train-images-idx3-ubyte.gz", 16).reshape(-1, 784),
        read("train-labels-idx1-ubyte.gz", 8).astype(int),
        read("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 784),
        read("t10k-labels-idx1-ubyte.gz", 8).astype(int),
    )


def emnist(where: Path | None):
    """Letters and digits, 47 classes: by-merge test rows, at most 2,800 per class; a random 60/40 split."""
    if where is None:
        return None
    with np.load(where / "emnist" / "emnist_bymerge_test.npz") as file:
        X, y = file["X"].reshape(-1, 784), file["y"].astype(int)
    generator = np.random.default_rng(0)
    chosen = np.concatenate([generator.permutation(np.flatnonzero(y == label))[:2800] for label in np.unique(y)])
    chosen = generator.permutation(chosen)
    cut = round(0.6 * len(chosen))
    return X[chosen[:cut]], y[chosen[:cut]], X[chosen[cut:]], y[chosen[cut:]]


def covtype(where: Path | None):
    """581,012 rows x 54 columns, 7 classes of forest: a random 80/20 split."""
    if where is None:
        X, y = fetch_covtype(return_X_y=True)
    else:
        with np.load(where / "covtype" / "covtype.npz") as file:
            X, y = file["X"], file["y"].astype(int)
    X, test, y, truth = train_test_split(X, y, test_size=0.2, random_state=0)
    return X, y, test, truth


def a9a(where: Path | None):
    """32,561 + 16,281 sparse rows x 123 binary features, 2 classes."""
    if where is None:
        X, y = fetch_openml("a9a", version=1, return_X_y=True, as_frame=False)
        X, y = X.tocsr(), np.asarray(y, dtype=float)
        return X[:32_561], y[:32_561], X[32_561:], y[32_561:]
    parts = []
    for name in ("a9a.gz", "a9a.t.gz"):
        with gzip.open(where / "a9a" / name) as file:
            X, y = load_svmlight_file(file, n_features=123)
        # Some peers take 32-bit indices only.
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        parts += [X, y]
    return tuple(parts)


def letter(where: Path | None):
    """15,000 + 5,000 rows x 16 features of letters, from 0 to 1; 26 classes, as integers."""
    if where is None:
        X, y = fetch_openml("letter", version=1, return_X_y=True, as_frame=False)
        X, y = X.astype(float), y.astype(str)
    else:
        with gzip.open(where / "letter" / "letter-recognition.data.gz", "rt") as file:
            cells = np.array([line.strip().split(",") for line in file if line.strip()])
        X, y = cells[:, 1:].astype(float), cells[:, 0]
    X, y = X / 15, np.unique(y, return_inverse=True)[1]
    return X[:15_000], y[:15_000], X[15_000:], y[15_000:]


def pendigits(where: Path | None):
    """7,494 + 3,498 rows x 16 pen coordinates, 10 digits."""
    if where is None:
        X, y = fetch_openml("pendigits", version=1, return_X_y=True, as_frame=False)
        X, y = X.astype(float), y.astype(int)
        return X[:7_494], y[:7_494], X[7_494:], y[7_494:]
    with np.load(where / "pendigits" / "pendigits.npz") as file:
        return tuple(file[name] for name in ("X_train", "y_train", "X_test", "y_test"))


def spambase(where: Path | None):
    """4,601 rows x 57 word frequencies, 2 classes: a random 70/30 split."""
    if where is None:
        X, y = fetch_openml("spambase", version=1, return_X_y=True, as_frame=False)
        X, y = X.astype(float), y.astype(int)
    else:
        with gzip.open(where / "spambase" / "spambase.data.gz", "rt") as file:
            cells = np.array([line.strip().split(",") for line in file if line.strip()], dtype=float)
        X, y = cells[:, :-1], cells[:, -1].astype(int)
    X, test, y, truth = train_test_split(X, y, test_size=0.3, random_state=0)
    return X, y, test, truth


def five_million(rows: int = 5_000_000, width: int = 28):
    """Synthetic: two overlapping classes of normal rows, as wide as the HIGGS data set, and 200,000 test rows."""
    generator = np.random.default_rng(0)
    w = generator.normal(size=width)
    X = np.empty((rows + 200_000, width))
    y = np.empty(len(X), dtype=np.int64)
    for start in range(0, len(X), 1 << 18):
        part = X[start : start + (1 << 18)]
        generator.standard_normal(out=part)
        y[start : start + len(part)] = part @ w + 4 * generator.normal(size=len(part)) > 0
    return X[:rows], y[:rows], X[rows:], y[rows:]
