"""Pegasos and kernel machines under MPI: rows at the root only, and files. Argument: a folder."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from scipy import sparse

sys.path.insert(0, str(Path(__file__).parents[2]))

import mergesvm as ms
import samples
from engine_laws import raised
from mergesvm.engines import MPI
from mergesvm.errors import DataError, MergeSVMError, ParameterError
from ranks import run_checks

FOLDER = Path(sys.argv[-1])

OPTIONS = {"n_iter": 300, "random_state": 5}


def at_root(engine, *values):
    """Return the values at the root, and None instead of each at the other ranks."""
    return values if engine.ranks.is_root else (None,) * len(values)


def assert_identical(found, expected):
    """Assert that two estimators have the same model and the same input, bit for bit."""
    assert found.n_features_in_ == expected.n_features_in_
    np.testing.assert_array_equal(found.classes_, expected.classes_)
    assert found.classes_.dtype == expected.classes_.dtype
    assert list(getattr(found, "feature_names_in_", [])) == list(getattr(expected, "feature_names_in_", []))
    assert found.model_.signature == expected.model_.signature
    for name in ("coef_", "intercept_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for name, array in vars(found.model_.moments).items():
        np.testing.assert_array_equal(array, getattr(expected.model_.moments, name), err_msg=name)


def check_rows_of_the_root_train_the_model_of_a_single_process(engine):
    X, y = samples.rows(200)
    weights = np.where(np.arange(200) % 3, 1.0, 2.5)
    table = pd.DataFrame(X, columns=list("abcd"))
    kinds = [X, X.astype(np.float32), np.abs(100 * X).astype(np.uint8), sparse.csr_array(X * (X > 1)), table]
    for rows in kinds:
        for weight in (None, weights):
            there = ms.PegasosSVC(engine=engine, **OPTIONS)
            there.fit(*at_root(engine, rows, y, None, weight))
            here = ms.PegasosSVC(**OPTIONS).fit(rows, y, sample_weight=weight)
            assert_identical(there, here)
            there.partial_fit(*at_root(engine, rows[:50], y[:50]))
            assert_identical(there, here.partial_fit(rows[:50], y[:50]))


def check_maps_starts_seeds_and_schemes_of_the_root(engine):
    X, y = samples.rows(200)
    labels = np.array(["ash", "elm", "oak"])[y]
    start = ms.MergeSVC(multiclass="ovo").fit(X, labels)
    there = ms.PegasosSVC(engine=engine, **OPTIONS).fit(*at_root(engine, X, labels, start))
    assert_identical(there, ms.PegasosSVC(**OPTIONS).fit(X, labels, initial=start))
    mapped = {**OPTIONS, "features": "fourier", "n_features": 8, "multiclass": "ovr"}
    there = ms.PegasosSVC(engine=engine, **mapped).fit(*at_root(engine, X, labels))
    assert_identical(there, ms.PegasosSVC(**mapped).fit(X, labels))
    drawn = ms.PegasosSVC(engine=engine, n_iter=100, random_state=None).fit(*at_root(engine, X, labels))
    np.testing.assert_array_equal(drawn.coef_, engine.ranks.on_root(lambda: drawn.coef_))


def check_another_root(engine):
    X, y = samples.rows(120)
    with MPI(root=engine.workers - 1) as rooted:
        there = ms.PegasosSVC(engine=rooted, **OPTIONS).fit(*at_root(rooted, X, y))
    assert_identical(there, ms.PegasosSVC(**OPTIONS).fit(X, y))


def check_missing_or_different_rows_are_an_error_on_all_ranks(engine):
    X, y = samples.rows(60)
    machine = ms.PegasosSVC(engine=engine, **OPTIONS)
    message = raised(DataError, lambda: machine.fit(None, None))
    assert "no rank has rows: the root, rank 0, has none" in message
    bad = X.copy()
    bad[7, 1] = np.nan
    assert "row 7, column 1" in raised(DataError, lambda: machine.fit(*at_root(engine, bad, y)))
    assert "y is None" in raised(ValueError, lambda: machine.fit(*at_root(engine, X)))
    if engine.workers > 1:
        rank = engine.ranks.rank
        message = raised(DataError, lambda: machine.fit(*((X, y) if rank else (None, None))))
        assert "rank 1 has rows, but the root, rank 0, has none" in message
        message = raised(DataError, lambda: machine.fit(*((X + rank, y) if rank < 2 else (None, None))))
        assert "the same rows on all ranks" in message
    assert not hasattr(machine, "n_features_in_")
    assert_identical(machine.fit(*at_root(engine, X, y)), ms.PegasosSVC(**OPTIONS).fit(X, y))


def check_files_of_each_rank(engine):
    X, y = samples.rows(180)
    rank, parts = engine.ranks.rank, np.array_split(np.arange(180), engine.workers)
    pq.write_table(samples.table(X[parts[rank]], y[parts[rank]]), FOLDER / f"own{rank}.parquet")
    own = ms.scan(FOLDER / f"own{rank}.parquet", label="y")
    with MPI(local=True) as local:
        there = ms.ParallelKernelSVC(engine=local).fit(own)
        here = ms.ParallelKernelSVC().fit(X, y)
        np.testing.assert_allclose(there.dual_coef_, here.dual_coef_, atol=1e-4)
        np.testing.assert_array_equal(there.support_, here.support_)
        assert own.rows == 180
        message = raised(ParameterError, lambda: ms.PegasosSVC(engine=local, **OPTIONS).fit(own))
        assert "Leave out local=True" in message


def check_a_file_that_one_rank_cannot_read(engine):
    X, y = samples.rows(60)
    path = FOLDER / "shared.parquet"
    engine.ranks.on_root(lambda: pq.write_table(samples.table(X, y), path))
    seen = path if engine.ranks.is_root else FOLDER / "elsewhere.parquet"
    machine = ms.PegasosSVC(engine=engine, **OPTIONS)
    machine.fit(*at_root(engine, ms.scan(path, label="y")))
    assert_identical(machine, ms.PegasosSVC(**OPTIONS).fit(pd.DataFrame(X, columns=["x0", "x1", "x2", "x3"]), y))
    if engine.workers > 1:
        message = raised(MergeSVMError, lambda: engine.ranks.on_all(lambda: ms.scan(seen, label="y")))
        assert "elsewhere.parquet" in message


if __name__ == "__main__":
    with MPI() as engine:
        run_checks(engine, globals())
