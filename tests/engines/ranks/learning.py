"""Learning under MPI: all ranks get the knowledge of the rows of all. Argument: a folder."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

import mergesvm as ms
import samples
from engine_laws import assert_same_folds, raised
from mergesvm.engines import MPI
from mergesvm.errors import DataError, SignatureError
from ranks import run_checks
from reference import assert_same_knowledge

FOLDER = Path(sys.argv[-1])


def rank_rows(engine, seed=0, n_rows=240):
    """Return rows and the mask of those on this rank; one class is on a single rank only.

    The last of several ranks has a single row, of weight zero.
    """
    X, y = samples.rows(n_rows, seed=seed)
    owner = (np.arange(n_rows) + y) % max(1, engine.workers - 1)
    owner[y == 2] = 0
    weights = np.ones(n_rows)
    if engine.workers > 1:
        owner[0], weights[0] = engine.workers - 1, 0.0
    return X, y, weights, owner == engine.ranks.rank


def check_each_rank_learns_its_own_rows(engine):
    X, y, weights, mine = rank_rows(engine)
    fourier = ms.features.Fourier(16, seed=0, precision="float64").freeze(X[:50])
    pooled = {"per_class": False, "class_weight": {0: 2.0, 1: 0.5, 2: 1.0}}
    for options in ({}, {"features": fourier}, {"per_class": False}, pooled):
        found = ms.learn(X[mine], y[mine], weights[mine], engine=engine, **options)
        assert_same_knowledge(found, ms.learn(X, y, weights, **options))


def check_rows_of_weight_zero(engine):
    found = ms.learn(np.eye(3), [0, 1, 2], np.zeros(3), engine=engine)
    assert_same_knowledge(found, ms.learn(np.eye(3), [0, 1, 2], np.zeros(3)))
    assert found.width == 3


def check_distant_rows(engine):
    X, y = samples.rows(300)
    owner = np.arange(len(y)) % engine.workers
    X = X + np.where(owner == engine.workers - 1, 1e6, 0.0)[:, None]
    mine = owner == engine.ranks.rank
    assert_same_knowledge(ms.learn(X[mine], y[mine], engine=engine), ms.learn(X, y), tolerance=1e-9 * 1e12)
    # About the same distant point, no digits are lost.
    X = samples.rows(300)[0] + 1e6 + 3.0 * owner[:, None]
    found, expected = ms.learn(X[mine], y[mine], engine=engine), ms.learn(X, y)
    assert_same_knowledge(found, expected, tolerance=1e-8)
    model, other = ms.solve(found), ms.solve(expected)
    np.testing.assert_allclose(model.scores(X), other.scores(X), rtol=1e-7, atol=1e-7)


def check_files_are_divided_among_ranks(engine):
    X, y = samples.rows(700)
    order = np.argsort(y, kind="stable")  # some ranks have only some classes
    X, y = X[order], y[order]
    cuts = [0, 90, 520, 700]
    if engine.ranks.is_root:
        for number in range(3):
            rows = slice(cuts[number], cuts[number + 1])
            samples.parquet(FOLDER, f"day{number}", X[rows], y[rows])
    engine.ranks.on_root(lambda: None)
    fourier = ms.features.Fourier(16, seed=0, precision="float64").freeze(X[:50])
    for mapping in (None, fourier):
        scan = ms.scan(FOLDER / "day*.parquet", label="y")
        found = ms.learn(scan, features=mapping, engine=engine)
        names = scan.names
        assert_same_knowledge(found, ms.learn(X, y, feature_names=names, features=mapping))
        rows = {Path(origin.source).stem: origin.rows for origin in found.provenance}
        assert rows == {"day0": 90, "day1": 430, "day2": 180}
        assert scan.rows == 700
        # Subtract one file and add another.
        old = ms.learn(ms.scan(FOLDER / "day1.parquet", label="y"), features=mapping, engine=engine)
        new = ms.learn(ms.scan(FOLDER / "day0.parquet", label="y"), features=mapping, engine=engine)
        kept = np.r_[0:90, 0:90, 520:700]
        expected = ms.learn(X[kept], y[kept], feature_names=names, features=mapping)
        assert_same_knowledge(ms.subtract(found + new, old, force=True), expected)


def check_each_rank_reads_its_own_files(engine):
    X, y = samples.rows(200 * engine.workers, seed=4)
    mine = slice(200 * engine.ranks.rank, 200 * (engine.ranks.rank + 1))
    folder = FOLDER / f"own{engine.ranks.rank}"
    folder.mkdir()
    samples.parquet(folder, "rows", X[mine], y[mine])
    with MPI(local=True) as local:
        found = ms.learn(ms.scan(folder / "rows.parquet", label="y"), engine=local)
    assert_same_knowledge(found, ms.learn(X, y, feature_names=[f"x{index}" for index in range(X.shape[1])]))
    assert found.rows.sum() == 200 * engine.workers


def check_ranks_with_their_own_files_agree_on_the_type_of_labels(engine):
    folder = FOLDER / f"labels{engine.ranks.rank}"
    folder.mkdir()
    late = engine.ranks.rank == engine.workers - 1
    for first, last in (("0", "1.0"), ("01", "1")):
        text = "x,y\n" + f"1,{first if late else 0}\n" + "2,1\n" * 300_000 + f"1,{last if late else 1}\n"
        (folder / "rows.csv").write_text(text)
        with MPI(local=True) as local:
            found = ms.learn(ms.scan(folder / "rows.csv", label="y"), engine=local).labels
        text = ("0", "01", "1") if engine.workers > 1 else ("01", "1")
        assert found == ((0.0, 1.0) if first == "0" else text), found


def check_adding_and_retiring_rows_across_ranks(engine):
    X, y, weights, mine = rank_rows(engine)
    more, labels, _, ours = rank_rows(engine, seed=7)
    early = mine & (np.arange(len(y)) < 100)
    known = ms.learn(X[mine], y[mine], weights[mine], engine=engine)
    old = ms.learn(X[early], y[early], weights[early], engine=engine)
    new = ms.learn(more[ours], labels[ours], engine=engine)
    expected = ms.learn(np.vstack([X[100:], more]), np.r_[y[100:], labels])
    assert_same_knowledge(ms.subtract(known + new, old, force=True), expected)


def check_only_the_root_receives_folds(engine):
    X, y, weights, mine = rank_rows(engine)
    numbers = np.where(y == 1, 5, np.arange(len(y)) % 2 - 1)  # only some ranks have rows of the last fold
    with MPI(root=engine.workers - 1) as rooted:
        for folds, own in ((4, 4), (numbers, numbers[mine])):
            found = ms.learn(X[mine], y[mine], weights[mine], folds=own, engine=rooted)
            expected = ms.learn(X, y, weights, folds=folds)
            assert found.rows.sum() == (expected.rows.sum() if rooted.ranks.receives else 0)
            if rooted.ranks.receives:
                assert_same_folds(found, expected)


def check_only_the_root_receives_knowledge(engine):
    X, y, weights, mine = rank_rows(engine)
    with MPI(root=engine.workers - 1) as rooted:
        found = ms.learn(X[mine], y[mine], weights[mine], engine=rooted)
    if rooted.ranks.receives:
        assert_same_knowledge(found, ms.learn(X, y, weights))
    else:
        assert found.labels == ()


def check_any_root_adds_to_its_own_sums(engine):
    ms.precompile()  # compiled functions leave the lower triangles empty
    rng = np.random.default_rng(8)
    X = rng.normal(size=(60 * engine.workers, 80))
    X[:, 40:] *= rng.random((len(X), 40)) < 0.1
    y = rng.integers(0, 3, len(X))
    mine = np.arange(len(X)) % engine.workers == engine.ranks.rank
    mine &= (y != engine.ranks.rank % 3) | (engine.workers == 1)  # each rank lacks a class
    everyone = np.logical_or.reduce(engine.map(lambda _: mine, range(engine.workers)))
    for root in range(engine.workers):
        for per_class in (True, False):
            with MPI(root=root) as rooted:
                found = ms.learn(X[mine], y[mine], per_class=per_class, engine=rooted)
            if rooted.ranks.receives:
                assert_same_knowledge(found, ms.learn(X[everyone], y[everyone], per_class=per_class))
                assert all((gram == gram.T).all() for gram in found.grams)


def check_incompatible_pieces_are_rejected_on_all_ranks(engine):
    if engine.workers == 1:
        return
    labels = ["a", "b", "a"] if engine.ranks.rank == 1 else [0, 1, 0]
    message = raised(SignatureError, lambda: ms.learn(np.eye(3), labels, engine=engine))
    assert "labels" in message, message
    width = 3 if engine.ranks.rank else 2
    message = raised(SignatureError, lambda: ms.learn(np.ones((3, width)), [0, 1, 0], engine=engine))
    assert "2 features" in message, message
    assert "3 features" in message, message


def check_an_invalid_row_on_one_rank_is_an_error_on_all(engine):
    X, y = samples.rows(50)
    if engine.ranks.rank == engine.workers - 1:
        X[17, 2] = np.nan
    message = raised(DataError, lambda: ms.learn(X, y, engine=engine))
    assert "row 17, column 2" in message, message


if __name__ == "__main__":
    with MPI() as engine:
        run_checks(engine, globals())
