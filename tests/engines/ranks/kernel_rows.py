"""ParallelKernelSVC under MPI: rows that several ranks hold count once, and any rank may forget rows of the others."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
from mpi4py.MPI import COMM_WORLD
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

sys.path.insert(0, str(Path(__file__).parents[2]))

import mergesvm as ms
from engine_laws import raised
from kernel_reference import dual_objective
from mergesvm.engines import MPI
from mergesvm.errors import DataError, ParameterError, SubtractionError
from ranks import run_checks
from reference import blobs

PARAMETERS = {"C": 2.0, "gamma": 0.3}  # problems of up to 200 rows are solved almost exactly


class SharedRows:
    """Rows of three classes; each rank holds half of them, and the last half of those of the next rank."""

    def __init__(self, engine, n_rows=120):
        self.X, self.y = blobs(seed=4, n=n_rows, d=3, classes=3)
        self.y = np.array(["ash", "elm", "oak"])[self.y]
        held = [(np.arange(n_rows // 2) + rank * n_rows // engine.workers) % n_rows for rank in range(engine.workers)]
        self.mine, self.every = held[engine.ranks.rank], np.concatenate(held)

    @property
    def own(self):
        return self.X[self.mine], self.y[self.mine]

    def of(self, chosen):
        return self.X[chosen], self.y[chosen]


def assert_is_svc_of(classifier, X, y, given):
    """Assert the model of SVC on these rows on all ranks; ``given`` are the rows of all ranks, which are counted."""
    expected = SVC(tol=1e-7, **PARAMETERS).fit(X, y)
    first = np.array([np.flatnonzero((given == row).all(axis=1))[0] for row in X[expected.support_]])
    order = np.lexsort((first, y[expected.support_]))
    np.testing.assert_array_equal(classifier.support_, first[order])
    np.testing.assert_array_equal(classifier.n_support_, expected.n_support_)
    np.testing.assert_array_equal(classifier.support_vectors_, X[expected.support_][order])
    np.testing.assert_allclose(classifier.dual_coef_, expected.dual_coef_[:, order], atol=1e-4)
    np.testing.assert_allclose(classifier.intercept_, expected.intercept_, atol=1e-5)
    assert classifier.shape_fit_ == X.shape
    assert len(set(COMM_WORLD.allgather(state(classifier)))) == 1


def state(classifier):
    parts = classifier.support_, classifier.dual_coef_, classifier.intercept_, classifier.objective_
    return pickle.dumps([np.asarray(part).tobytes() for part in parts])


def check_rows_that_ranks_share_count_once(engine):
    rows = SharedRows(engine)
    union = np.unique(rows.every)
    for ids in (rows.mine, [f"patient {row}" for row in rows.mine], "hash"):
        classifier = ms.ParallelKernelSVC(engine=engine, **PARAMETERS).fit(*rows.own, row_ids=ids)
        assert_is_svc_of(classifier, *rows.of(union), rows.X[rows.every])
    sizes = classifier._training.trainer.units.call("size")
    assert max(sizes) - min(sizes) <= 20, sizes  # a copy is kept by any of the units that hold it


def check_shared_rows_are_added_and_forgotten(engine):
    rows, rank = SharedRows(engine), engine.ranks.rank
    early, late = rows.mine[:40], rows.mine[20:]
    every = np.concatenate(COMM_WORLD.allgather(early) + COMM_WORLD.allgather(late))
    for hashed in (False, True):

        def ids(chosen, hashed=hashed):
            return "hash" if hashed else chosen

        classifier = ms.ParallelKernelSVC(engine=engine, **PARAMETERS).fit(*rows.of(early), row_ids=ids(early))
        classifier.partial_fit(*rows.of(late), row_ids=ids(late))
        union = np.unique(every)
        assert_is_svc_of(classifier, *rows.of(union), rows.X[every])
        # The last rank alone names rows, most of which others hold; or all ranks name some, and the same ones.
        gone = union[::5] if rank == engine.workers - 1 else union[:0]
        classifier.forget(*rows.of(gone)) if hashed else classifier.forget(row_ids=gone)
        left = np.setdiff1d(union, union[::5])
        assert_is_svc_of(classifier, *rows.of(left), rows.X[every])
        gone = np.append(left[:6], left[10 + rank])
        classifier.forget(*rows.of(gone)) if hashed else classifier.forget(row_ids=gone)
        left = np.setdiff1d(left, np.append(left[:6], left[10 : 10 + engine.workers]))
        assert_is_svc_of(classifier, *rows.of(left), rows.X[every])


def check_rows_are_forgotten_at_the_ranks_that_hold_them(engine):
    """Without ids a row is forgotten as often as it is named."""
    rows, rank = SharedRows(engine), engine.ranks.rank
    whole = np.tile(np.arange(120), 2)
    mine = whole[rank :: engine.workers]
    given = np.concatenate([whole[other :: engine.workers] for other in range(engine.workers)])
    classifier = ms.ParallelKernelSVC(engine=engine, **PARAMETERS).fit(*rows.of(mine))
    # The first rank names both copies of some rows, the last one copy of all others.
    named = {0: np.tile(np.arange(30), 2), engine.workers - 1: np.arange(30, 120)}
    classifier.forget(*rows.of(named.get(rank, np.arange(0))))
    expected = SVC(tol=1e-7, **PARAMETERS).fit(*rows.of(np.arange(30, 120)))
    np.testing.assert_allclose(classifier.intercept_, expected.intercept_, atol=1e-5)
    np.testing.assert_array_equal(classifier.n_support_, expected.n_support_)
    np.testing.assert_array_equal(classifier.support_vectors_, rows.X[given][classifier.support_])
    assert classifier.shape_fit_ == (90, 3)


def check_a_row_that_nobody_holds_is_an_error_on_all_ranks(engine):
    rows, last = SharedRows(engine), engine.workers - 1
    classifier = ms.ParallelKernelSVC(engine=engine, **PARAMETERS).fit(*rows.own, row_ids=rows.mine)
    before = state(classifier)
    X, y = rows.of(rows.mine[:3])
    X[2] += engine.ranks.rank == last
    message = raised(SubtractionError, lambda: classifier.forget(X, y))
    assert f"Rank {last}, row 2 is not among" in message, message
    ids = rows.mine[:3] + 1000 * (engine.ranks.rank == last)
    message = raised(SubtractionError, lambda: classifier.forget(row_ids=ids))
    assert f"Row id {COMM_WORLD.bcast(int(ids[0]), root=last)} is not among" in message, message
    assert state(classifier) == before
    assert classifier.shape_fit_ == (120, 3)
    union = np.unique(rows.every)
    classifier.forget(row_ids=union[:1])
    assert_is_svc_of(classifier, *rows.of(union[1:]), rows.X[rows.every])


def check_different_rows_with_the_same_id_are_an_error_on_all_ranks(engine):
    rows, last = SharedRows(engine), engine.ranks.rank == engine.workers - 1
    classifier = ms.ParallelKernelSVC(engine=engine, **PARAMETERS)
    X, y = rows.own
    wrong = np.where(np.arange(len(y)) == len(y) - 1, "yew", y) if last else y
    message = raised(DataError, lambda: classifier.fit(X, wrong, row_ids=rows.mine))
    assert f"Row id {COMM_WORLD.bcast(int(rows.mine[-1]), root=engine.workers - 1)} belongs to" in message, message
    message = raised(DataError, lambda: classifier.fit(X, y, row_ids=rows.mine[: 60 - last]))
    assert "60 rows, but 59 ids" in message, message
    message = raised(ParameterError, lambda: classifier.fit(X, y, row_ids=None if last else rows.mine))
    assert f"rank {engine.workers - 1} no row_ids" in message, message
    message = raised(DataError, lambda: classifier.fit(X, y, row_ids=rows.mine.astype(str) if last else rows.mine))
    assert "integers in some places and strings in others" in message, message
    assert not hasattr(classifier, "model_")


def check_the_gradient_method_starts_from_the_dual_variables_of_all_ranks(engine):
    X, y = blobs(seed=2, n=30, d=2, classes=2)
    start, mine = np.linspace(0, 1, 30), np.arange(30) % engine.workers == engine.ranks.rank
    classifier = ms.ParallelKernelSVC(method="gradient", gamma=2.0, beta=0.5, tol=0.1, engine=engine)
    classifier.fit(X[mine], y[mine], initial=start[mine])
    expected = dual_objective(rbf_kernel(X, gamma=2.0), np.where(y == 1, 1, -1), start, 0.5 * engine.workers)
    np.testing.assert_allclose(classifier.history_.objective[0], expected, rtol=1e-10)
    assert 0 < classifier.history_.rate() < 1
    message = raised(ParameterError, lambda: classifier.fit(X, y, initial=None if engine.ranks.rank else start))
    assert "initial is missing on rank 1" in message, message
    message = raised(DataError, lambda: classifier.fit(X, y, initial=start[engine.ranks.rank == 1 :]))
    assert "on rank 1: 30 rows, 29 numbers" in message, message


if __name__ == "__main__":
    with MPI() as engine:
        run_checks(engine, globals())
