"""All kinds of files: how they are written, read and damaged, and what is asked of them."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from damage.data_files import write_csv, write_idx, write_ipc, write_libsvm, write_npy, write_npz, write_parquet
from damage.forged_uses import (
    use_forged_calibrated,
    use_forged_features,
    use_forged_folds,
    use_forged_kernel,
    use_forged_knowledge,
    use_forged_model,
)
from damage.mutations import forge, mutate
from damage.own_files import (
    write_calibrated,
    write_features,
    write_folds,
    write_kernel,
    write_knowledge,
    write_mapped,
    write_model,
    write_pegasos,
)
from damage.uses import use_data, use_sealed
from hunting import examples, seed

MUTATIONS = int(os.environ.get("MERGESVM_MUTATIONS", examples(80)))
"""Cases of each kind; of forged files half as many if there are few, because they are asked many questions."""

CUTS = 50 if MUTATIONS < 10_000 else 1 << 20


@dataclass(frozen=True)
class Kind:
    """One kind of files: how they are written, read, and what is asked of them."""

    file: str
    write: Callable[[Path], None]
    use: Callable[[Path, dict[str, Any]], None]
    terms: tuple[dict[str, Any], ...] = ({},)
    forged: bool = False
    within: bool = False
    """Whether what lies in an archive is damaged, and not the archive."""

    @property
    def mutations(self) -> int:
        """The number of cases beside cuts."""
        return MUTATIONS // 2 if self.forged and MUTATIONS < 10_000 else MUTATIONS

    def pristine(self, folder: Path) -> list[tuple[Path, bytes]]:
        """The files as they should be, the main one first."""
        for old in folder.iterdir():
            old.unlink()
        self.write(folder / self.file)
        first = folder / self.file
        found = sorted(folder.iterdir(), key=lambda path: path != first)
        return [(path, path.read_bytes()) for path in found]


TABLES: tuple[dict[str, Any], ...] = (
    {"label": "y", "features": ["a", "b", "c"], "categories": {"c": ["red", "green", "blue"]}},
    {"label": "y", "missing": "drop", "categories": "auto"},
    {"label": "y", "features": ["a", "b", "c"], "categories": {"c": ["red", "green"]}, "unknown": "zero"},
    {"label": "y", "features": ["a", "b"], "missing": "drop", "weight": "n", "keep": ["c"]},
)
SPARSE = ({"width": 3}, {"width": 3})
COLUMN = ({"label": 3}, {"label": -1})
ARRAYS = ({"label": "y"},)

KINDS: dict[str, Kind] = {
    "parquet": Kind(
        "t.parquet", lambda p: write_parquet(p, compression="none", use_dictionary=False), use_data, TABLES
    ),
    "parquet checked": Kind("checked.parquet", lambda p: write_parquet(p, compression="none"), use_data, TABLES),
    "parquet snappy": Kind("t.parquet", lambda p: write_parquet(p, compression="snappy"), use_data, TABLES),
    "parquet zstd pages 2": Kind(
        "t.pq", lambda p: write_parquet(p, compression="zstd", data_page_version="2.0"), use_data, TABLES
    ),
    "parquet gzip checked": Kind("checked.parquet", lambda p: write_parquet(p, compression="gzip"), use_data, TABLES),
    "feather": Kind("t.feather", lambda p: write_ipc(p, pa.ipc.new_file), use_data, TABLES),
    "feather lz4": Kind("t.feather", lambda p: write_ipc(p, pa.ipc.new_file, "lz4"), use_data, TABLES),
    "stream": Kind("t.arrows", lambda p: write_ipc(p, pa.ipc.new_stream), use_data, TABLES),
    "stream zstd": Kind("t.arrow", lambda p: write_ipc(p, pa.ipc.new_stream, "zstd"), use_data, TABLES),
    "csv": Kind("t.csv", write_csv, use_data, TABLES),
    "csv gzip": Kind("t.csv.gz", write_csv, use_data, TABLES),
    "csv zstd": Kind("t.csv.zst", write_csv, use_data, TABLES),
    "libsvm": Kind("t.libsvm", write_libsvm, use_data, SPARSE),
    "libsvm gzip": Kind("t.svm.gz", write_libsvm, use_data, SPARSE),
    "npy": Kind("t.npy", write_npy, use_data, COLUMN),
    "npz": Kind("t.npz", write_npz, use_data, ARRAYS),
    "npz stored": Kind("t.npz", lambda p: write_npz(p, np.savez), use_data, ARRAYS),
    "npz within": Kind("t.npz", write_npz, use_data, ARRAYS, within=True),
    "idx": Kind("t-images-idx3-ubyte", write_idx, use_data),
    "idx gzip": Kind("t-images-idx3-ubyte.gz", write_idx, use_data),
    "knowledge": Kind("k.knowledge", write_knowledge, use_sealed),
    "knowledge pooled": Kind("pooled.knowledge", write_knowledge, use_sealed),
    "folds": Kind("f.knowledge", write_folds, use_sealed),
    "folds as given": Kind("given.knowledge", write_folds, use_sealed),
    "forged folds": Kind("f.knowledge", write_folds, use_forged_folds, forged=True),
    "forged folds as given": Kind("given.knowledge", write_folds, use_forged_folds, forged=True),
    "model": Kind("m.msvm", write_model, use_sealed),
    "model of pairs": Kind("pairs.msvm", write_model, use_sealed),
    "forged knowledge": Kind("k.knowledge", write_knowledge, use_forged_knowledge, forged=True),
    "forged pooled knowledge": Kind("pooled.knowledge", write_knowledge, use_forged_knowledge, forged=True),
    "forged model": Kind("m.msvm", write_model, use_forged_model, forged=True),
    "forged model of pairs": Kind("pairs.msvm", write_model, use_forged_model, forged=True),
    "model by Pegasos": Kind("pegasos.msvm", write_pegasos, use_sealed),
    "forged model by Pegasos": Kind("pegasos.msvm", write_pegasos, use_forged_model, forged=True),
    "calibrated model": Kind("isotonic.msvm", write_calibrated, use_sealed),
    "forged calibrated model": Kind("isotonic.msvm", write_calibrated, use_forged_calibrated, forged=True),
    "forged calibrated model of pairs": Kind("platt-pairs.msvm", write_calibrated, use_forged_calibrated, forged=True),
    "forged calibrated kernel model": Kind("kernel.msvm", write_calibrated, use_forged_kernel, forged=True),
    "kernel model": Kind("kernel.msvm", write_kernel, use_sealed),
    "sparse kernel model": Kind("sparse.msvm", write_kernel, use_sealed),
    "forged kernel model": Kind("kernel.msvm", write_kernel, use_forged_kernel, forged=True),
    "forged kernel model of bytes": Kind("bytes.msvm", write_kernel, use_forged_kernel, forged=True),
    "forged sparse kernel model": Kind("sparse.msvm", write_kernel, use_forged_kernel, forged=True),
    "features": Kind("f.features", write_features, use_sealed),
    "features in a chain": Kind("chain.features", write_features, use_sealed),
    "mapped knowledge": Kind("f.knowledge", write_mapped, use_sealed),
    "mapped model": Kind("chain.msvm", write_mapped, use_sealed),
    "forged features": Kind("f.features", write_features, use_forged_features, forged=True),
    "forged features in a chain": Kind("chain.features", write_features, use_forged_features, forged=True),
    "forged mapped knowledge": Kind("f.knowledge", write_mapped, use_forged_knowledge, forged=True),
    "forged knowledge of a chain": Kind("chain.knowledge", write_mapped, use_forged_knowledge, forged=True),
    "forged mapped model": Kind("f.msvm", write_mapped, use_forged_model, forged=True),
    "forged model of a chain": Kind("chain.msvm", write_mapped, use_forged_model, forged=True),
}


def cuts(kind: Kind, length: int) -> list[int]:
    """The lengths to which a file is cut: all of them, or some with all at the beginning and at the end."""
    if kind.forged or kind.within:
        return []
    if length <= CUTS:
        return list(range(length))
    edge = CUTS // 4
    middle = np.linspace(edge, length - edge, CUTS - 2 * edge).astype(int).tolist()
    return sorted({*range(edge), *middle, *range(length - edge, length)})


def damage(kind: Kind, files: list[tuple[Path, bytes]], case: int) -> None:
    """Write the files of one case."""
    path, data = files[0]
    for other, content in files[1:]:
        other.write_bytes(content)
    lengths, random = cuts(kind, len(data)), np.random.default_rng(seed(case, len(data)))
    if kind.forged:
        forge(path.with_name("pristine"), path, random)
        return
    if case < len(lengths):
        path.write_bytes(data[: lengths[case]])
        return
    if kind.within:
        packed = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
            victim = str(random.choice(old.namelist()))
            for name in old.namelist():
                new.writestr(name, mutate(old.read(name), random) if name == victim else old.read(name))
        path.write_bytes(packed.getvalue())
        return
    victims = [(p, d) for p, d in files if p.name != "pristine"]
    path.write_bytes(data)
    victim, content = victims[int(random.integers(len(victims)))]
    victim.write_bytes(mutate(content, random))
