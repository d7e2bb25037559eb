"""Small data files of every format."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

rng = np.random.default_rng(7)
X = np.round(rng.normal(size=(24, 3)), 2)
COLOURS = ["red", "green", "blue", "red"] * 6
ANSWERS = ["no", "yes", "no", "maybe", "yes", "no"] * 4
PIXELS = rng.integers(0, 256, size=(24, 2, 2), dtype=np.uint8)
DIGITS = np.array([0, 1, 2, 1] * 6, dtype=np.uint8)
IMAGES = rng.integers(0, 256, size=(24, 16), dtype=np.uint8)


def table() -> pa.Table:
    return pa.table(
        {
            "a": X[:, 0],
            "b": X[:, 1].astype(np.float32),
            "c": pa.array(COLOURS).dictionary_encode(),
            "n": pa.array([None, *range(1, 24)], pa.int16()),
            "y": pa.array(ANSWERS).dictionary_encode(),
        }
    )


def write_parquet(path: Path, **options: Any) -> None:
    pq.write_table(table(), path, row_group_size=12, write_page_checksum="checked" in path.name, **options)


def write_ipc(path: Path, open_it: Callable[..., Any], compression: str | None = None) -> None:
    with open_it(path, table().schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table(), max_chunksize=12)


def write_csv(path: Path) -> None:
    packing = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    with pa.output_stream(path, compression=packing) as stream:
        csv.write_csv(table().cast(_plain_schema()), stream)


def _plain_schema() -> pa.Schema:
    texts = {"c": pa.string(), "y": pa.string()}
    return pa.schema([(one.name, texts.get(one.name, one.type)) for one in table().schema])


def write_libsvm(path: Path) -> None:
    lines = [
        f"{label} qid:1 " + " ".join(f"{i}:{v!r}" for i, v in enumerate(row.tolist(), 1) if v > -0.5) + " # why\n"
        for label, row in zip(DIGITS, X, strict=True)
    ]
    text = "".join(lines).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def write_npy(path: Path) -> None:
    np.save(path, np.column_stack([X, DIGITS]))


def write_npz(path: Path, write: Callable[..., None] = np.savez_compressed) -> None:
    write(path, X=X.astype(np.float32), y=np.array(ANSWERS))


def write_idx(path: Path) -> None:
    labels = path.with_name(path.name.replace("images-idx3", "labels-idx1"))
    for file, array in ((path, PIXELS), (labels, DIGITS)):
        data = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()
        file.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
