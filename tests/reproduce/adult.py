"""A small data set like Adult, in the files that ``reproduce`` reads."""

from __future__ import annotations

import gzip

import numpy as np

WIDTH = 12


def rows():
    """Rows of zeros and ones; the frequent class is the one of label -1, as in a9a."""
    generator = np.random.default_rng(0)
    y = np.where(generator.random(1200) < 0.3, 1, -1)
    X = (generator.random((len(y), WIDTH)) < np.where(y[:, None] == 1, 0.6, 0.3)).astype(np.float64)
    X[:, -1] = 1.0  # so that both files have the same width
    return X, y


def write_rows(folder):
    """The folder, with the rows in two files."""
    (folder / "a9a").mkdir()
    X, y = rows()
    for name, part in (("a9a.gz", slice(0, 800)), ("a9a.t.gz", slice(800, None))):
        with gzip.open(folder / "a9a" / name, "wt") as file:
            for row, label in zip(X[part], y[part], strict=True):
                file.write(f"{label:+d} " + " ".join(f"{column + 1}:1" for column in np.flatnonzero(row)) + "\n")
    return folder
