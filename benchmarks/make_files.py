"""Files for the benchmarks, written once, block by block, and renamed when they are complete."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from datasets import a9a

WIDTH = 28
NOISE = 4
GROUP_ROWS = 262_144
HELD_OUT_ROWS = 200_000
SPARSE_WIDTH, STORED = 200, 20
A9A_WIDTH, A9A_TIMES = 123, 10

HELD_OUT_BLOCK = 2**32  # a block number that no file contains
VW_LINE = "%s |" + "".join(f" {column}:%s" for column in range(WIDTH)) + "\n"
VW_LABELS = {"0": "-1", "1": "1"}


def once(path: Path, write: Callable[[Path], object]) -> Path:
    """Write a file if it does not exist. Files of interrupted runs are not mistaken for it."""
    if not path.exists():
        unfinished = path.with_name(f"unfinished-{path.name}")
        write(unfinished)
        unfinished.rename(path)
    return path


def narrow_weights():
    """Weights w of the narrow rows: the class is 1 if w.x + NOISE z > 0, with z standard normal."""
    return np.random.default_rng(0).normal(size=WIDTH).astype(np.float32)


def narrow_block(number: int, rows: int):
    """Two overlapping classes, as in datasets.five_million. A block is the same for all sizes of files."""
    weights = narrow_weights()
    generator = np.random.default_rng([1, number])
    X = generator.standard_normal((rows, WIDTH), dtype=np.float32)
    noise = generator.standard_normal(rows, dtype=np.float32)
    return X, (X @ weights + NOISE * noise > 0).astype(np.int8)


def narrow_batches(rows: int) -> Iterator[pa.RecordBatch]:
    names = [*(f"x{column}" for column in range(WIDTH)), "y"]
    for start in range(0, rows, GROUP_ROWS):
        # Always generate a whole block, so that a small file is the beginning of a larger one.
        X, y = narrow_block(start // GROUP_ROWS, GROUP_ROWS)
        stop = min(rows - start, GROUP_ROWS)
        yield pa.record_batch([*(pa.array(column[:stop]) for column in X.T), pa.array(y[:stop])], names=names)


def parquet(folder: Path, rows: int) -> Path:
    def write(path):
        batches = narrow_batches(rows)
        first = next(batches)
        with pa.parquet.ParquetWriter(path, first.schema, compression="none", use_dictionary=False) as writer:
            writer.write_batch(first, row_group_size=GROUP_ROWS)
            for batch in batches:
                writer.write_batch(batch, row_group_size=GROUP_ROWS)

    return once(folder / f"narrow-{rows}.parquet", write)


def csv(folder: Path, rows: int) -> Path:
    def write(path):
        batches = narrow_batches(rows)
        first = next(batches)
        with pa.csv.CSVWriter(path, first.schema) as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)

    return once(folder / f"narrow-{rows}.csv", write)


def gzipped(path: Path) -> Path:
    def write(target):
        with path.open("rb") as source, gzip.open(target, "wb", compresslevel=6) as sink:
            shutil.copyfileobj(source, sink, 2**20)

    return once(path.with_name(f"{path.name}.gz"), write)


def vowpal_wabbit_text(folder: Path, rows: int) -> Path:
    """The rows of the CSV file, digit by digit. Features have numbers for names, which are not hashed."""

    def write(path):
        with csv(folder, rows).open() as source, path.open("w") as sink:
            next(source)
            for line in source:
                *values, label = line.rstrip().split(",")
                sink.write(VW_LINE % (VW_LABELS[label], *values))

    return once(folder / f"narrow-{rows}.vw", write)


def vowpal_wabbit_cache(text: Path) -> Path:
    """The binary cache that Vowpal Wabbit makes of a text for further passes."""

    def write(path):
        import vowpalwabbit

        vowpalwabbit.Workspace(arg_list=["--data", str(text), "--cache_file", str(path), "--quiet"]).finish()

    return once(text.with_suffix(".vwcache"), write)


def held_out(folder: Path) -> Path:
    def write(path):
        X, y = narrow_block(HELD_OUT_BLOCK, HELD_OUT_ROWS)
        np.savez(path, X=X, y=y)

    return once(folder / "narrow-test.npz", write)


def sparse_block(seed: int, rows: int, decimals: int | None):
    """Sparse rows of two classes, with one value in each group of ten columns; rounded, or with all digits."""
    weights = np.random.default_rng(2).normal(size=SPARSE_WIDTH)
    generator = np.random.default_rng([3, seed])
    apart = SPARSE_WIDTH // STORED
    columns = np.arange(0, SPARSE_WIDTH, apart) + generator.integers(0, apart, size=(rows, STORED))
    # dump_svmlight_file accepts only 32-bit indices.
    columns, starts = columns.astype(np.int32).ravel(), np.arange(rows + 1, dtype=np.int32) * STORED
    values = generator.normal(size=rows * STORED)
    values = values if decimals is None else np.round(values, decimals)
    X = sparse.csr_array((values, columns, starts.astype(np.int32)), shape=(rows, SPARSE_WIDTH))
    return X, (X @ weights + 3 * generator.normal(size=rows) > 0).astype(np.int64)


def libsvm(folder: Path, rows: int, decimals: int | None) -> Path:
    def write(path):
        X, y = sparse_block(0, rows, decimals)
        dump_svmlight_file(X, y, str(path), zero_based=False)

    return once(folder / f"sparse-{rows}-{'all' if decimals is None else decimals}.libsvm", write)


def libsvm_held_out(folder: Path) -> Path:
    def write(path):
        X, y = sparse_block(1, HELD_OUT_ROWS // 4, None)
        np.savez(path, X=X.toarray(), y=y)

    return once(folder / "sparse-test.npz", write)


def a9a_libsvm(folder: Path, data: Path) -> Path:
    def write(path):
        text = gzip.decompress((data / "a9a" / "a9a.gz").read_bytes())
        path.write_bytes(text * A9A_TIMES)

    return once(folder / f"a9a-{A9A_TIMES}-times.libsvm", write)


def a9a_held_out(folder: Path, data: Path) -> Path:
    def write(path):
        _, _, test, truth = a9a(data)
        np.savez(path, X=test.toarray(), y=truth)

    return once(folder / "a9a-test.npz", write)
