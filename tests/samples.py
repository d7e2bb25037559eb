"""The same rows as files of every kind."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
from pyarrow import csv


def rows(n_rows=600, width=4, seed=0):
    """Rows of numbers with few digits, which text holds exactly, and whole-number labels."""
    generator = np.random.default_rng(seed)
    X = np.round(generator.normal(size=(n_rows, width)), 3)
    X[X == 0] = 0.5
    return X, generator.integers(0, 3, n_rows)


def table(X, y):
    return pa.table({**{f"x{i}": X[:, i] for i in range(X.shape[1])}, "y": y})


def parquet(folder, stem, X, y):
    pa.parquet.write_table(table(X, y), folder / f"{stem}.parquet", row_group_size=250)
    return folder / f"{stem}.parquet", "y"


def packed_parquet(folder, stem, X, y):
    pa.parquet.write_table(table(X, y), folder / f"{stem}.pq", compression="zstd", write_page_checksum=True)
    return folder / f"{stem}.pq", "y"


def feather(folder, stem, X, y):
    pa.feather.write_feather(table(X, y), folder / f"{stem}.feather", compression="lz4", chunksize=170)
    return folder / f"{stem}.feather", "y"


def arrow_stream(folder, stem, X, y):
    with pa.ipc.new_stream(folder / f"{stem}.arrows", table(X, y).schema) as writer:
        writer.write_table(table(X, y), max_chunksize=170)
    return folder / f"{stem}.arrows", "y"


def comma_separated(folder, stem, X, y):
    csv.write_csv(table(X, y), folder / f"{stem}.csv")
    return folder / f"{stem}.csv", "y"


def gzipped_csv(folder, stem, X, y):
    return _gzipped(*comma_separated(folder, stem, X, y))


def zstd_csv(folder, stem, X, y):
    path = folder / f"{stem}.csv.zst"
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        csv.write_csv(table(X, y), stream)
    return path, "y"


def libsvm(folder, stem, X, y):
    lines = [f"{label} " + " ".join(f"{j}:{v}" for j, v in enumerate(row, 1)) for label, row in zip(y, X, strict=True)]
    (folder / f"{stem}.libsvm").write_text("\n".join([*lines, ""]))
    return folder / f"{stem}.libsvm", None


def gzipped_libsvm(folder, stem, X, y):
    return _gzipped(*libsvm(folder, stem, X, y))


def npy(folder, stem, X, y):
    np.save(folder / f"{stem}.npy", X)
    (folder / "labels").mkdir(exist_ok=True)
    np.save(folder / "labels" / f"{stem}.npy", y)
    return folder / f"{stem}.npy", folder / "labels" / f"{stem}.npy"


def npz(folder, stem, X, y):
    np.savez_compressed(folder / f"{stem}.npz", X=X, y=y)
    return folder / f"{stem}.npz", "y"


def idx(folder, stem, X, y):
    """Two-dimensional rows of doubles, with labels beside them, named as MNIST's are."""
    images = b"\0\0\x0e\x03" + struct.pack(">III", len(X), X.shape[1] // 2, 2) + X.astype(">f8").tobytes()
    labels = b"\0\0\x08\x01" + struct.pack(">I", len(y)) + y.astype(np.uint8).tobytes()
    (folder / f"{stem}-images-idx3-ubyte").write_bytes(images)
    (folder / f"{stem}-labels-idx1-ubyte").write_bytes(labels)
    return folder / f"{stem}-images-idx3-ubyte", None


def gzipped_idx(folder, stem, X, y):
    path, _ = idx(folder, stem, X, y)
    _gzipped(Path(str(path).replace("images-idx3", "labels-idx1")), None)
    return _gzipped(path, None)


def _gzipped(path, label):
    target = path.with_name(path.name + ".gz")
    target.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return target, label


KINDS = {
    "parquet": (parquet, packed_parquet),
    "feather": (feather, arrow_stream),
    "csv": (comma_separated, gzipped_csv, zstd_csv),
    "libsvm": (libsvm, gzipped_libsvm),
    "npy": (npy,),
    "npz": (npz,),
    "idx": (idx, gzipped_idx),
}
"""Of every kind of file that is read, those who write it."""

WRITERS = tuple(writer for writers in KINDS.values() for writer in writers)
