"""ParallelKernelSVC under MPI: each rank is a unit with its own rows, and all get the model of all rows."""

from __future__ import annotations

import hashlib
import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
from mpi4py.MPI import COMM_WORLD
from sklearn.svm import SVC

sys.path.insert(0, str(Path(__file__).parents[2]))

import mergesvm as ms
from engine_laws import raised
from mergesvm.engines import MPI
from mergesvm.errors import DataError, EngineError, ParameterError, SignatureError, SolverWarning, SubtractionError
from ranks import run_checks

PARAMETERS = {"C": 2.0, "gamma": 0.3}  # problems of up to 200 rows are solved almost exactly


class RankRows:
    """Rows of three classes, distributed to ranks: one class is at one rank only, and the last of three has no rows.

    Rows are sorted by rank, so their positions are their indices.
    """

    def __init__(self, engine, n_rows=180, seed=0):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 3, n_rows)
        X = rng.normal(size=(n_rows, 4)) + np.array([[0, 0, 0, 0], [1.5, 0, 1, 0], [0, 2, 0, -1]])[y]
        holders = engine.workers if engine.workers < 3 else engine.workers - 1
        # The first rank has all rows of one class; the second has rows of one class only.
        owner = np.where(y == 2, 0, np.arange(n_rows) % holders)
        owner[(y == 0) & (owner == 1)] = 0
        order = np.argsort(owner, kind="stable")
        self.X, self.y, self.owner = X[order], np.array(["ash", "elm", "oak"])[y[order]], owner[order]
        self.mine = self.owner == engine.ranks.rank

    @property
    def own(self):
        return self.X[self.mine], self.y[self.mine]


def assert_same(found, expected):
    """Assert the same optimum: objective, support vectors and coefficients."""
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-6)
    np.testing.assert_array_equal(found.support_, expected.support_)
    np.testing.assert_array_equal(found.support_vectors_, expected.support_vectors_)
    np.testing.assert_allclose(found.dual_coef_, expected.dual_coef_, atol=1e-4)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, atol=1e-5)


def assert_identical_everywhere(classifier):
    """Assert that all ranks have the same model, bit for bit."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts = (
            classifier.support_,
            classifier.support_vectors_,
            classifier.dual_coef_,
            classifier.intercept_,
            classifier.n_support_,
        )
        attributes = [
            str(classifier.traffic_),
            classifier.objective_,
            classifier.n_iter_,
            classifier.classes_.tolist(),
            classifier.gamma,
        ]
    mine = hashlib.sha256(pickle.dumps(([part.tobytes() for part in parts], attributes))).hexdigest()
    assert len(set(COMM_WORLD.allgather(mine))) == 1


def state(classifier):
    return pickle.dumps((classifier.support_, classifier.dual_coef_, classifier.intercept_, classifier.objective_))


def check_fit_is_that_of_all_rows(engine):
    rows = RankRows(engine)
    reference = SVC(C=2.0, gamma=0.3, tol=1e-7).fit(rows.X, rows.y)
    for method in ("working-set", "active-set"):
        there = ms.ParallelKernelSVC(engine=engine, method=method, **PARAMETERS).fit(*rows.own)
        assert_same(there, ms.ParallelKernelSVC(method=method, **PARAMETERS).fit(rows.X, rows.y))
        np.testing.assert_array_equal(there.support_, reference.support_)
        np.testing.assert_allclose(there.dual_coef_, reference.dual_coef_, atol=1e-4)
        np.testing.assert_allclose(there.intercept_, reference.intercept_, atol=1e-5)
        assert_identical_everywhere(there)
        assert there.traffic_.sent.shape[1] == engine.workers


def check_the_penalty_is_beta_times_the_number_of_ranks(engine):
    rows = RankRows(engine, 90, seed=1)
    there = ms.ParallelKernelSVC(engine=engine, beta=0.2, **PARAMETERS).fit(*rows.own)
    # A single unit with the same penalty.
    here = ms.ParallelKernelSVC(beta=0.2 * engine.workers, **PARAMETERS).fit(rows.X, rows.y)
    assert_same(there, here)
    assert_identical_everywhere(there)


def check_rows_are_added_and_removed_at_their_ranks(engine):
    gradient = {"method": "gradient", "accelerated": True, "beta": 0.5, "tol": 1e-4}
    cases = [(130, {}), (90, {"method": "active-set"}), (90, {"beta": 0.5}), (24, gradient)]
    for size, parameters in cases[: 4 if engine.workers == 2 else 3]:  # the last takes hundreds of iterations
        rows, more = RankRows(engine, size), RankRows(engine, size // 2, seed=5)
        classifier = (
            ms.ParallelKernelSVC(engine=engine, **{**PARAMETERS, **parameters}).fit(*rows.own).partial_fit(*more.own)
        )
        assert_identical_everywhere(classifier)
        gone = np.isin(np.arange(len(rows.y)), classifier.support_[::2]) | (np.arange(len(rows.y)) % 3 == 0)
        mine = gone & rows.mine
        classifier.forget(rows.X[mine], rows.y[mine])
        assert_identical_everywhere(classifier)
        beta = None if classifier.beta is None else classifier.beta * engine.workers
        X, y = np.vstack([rows.X[~gone], more.X]), np.append(rows.y[~gone], more.y)
        numbers = np.append(np.flatnonzero(~gone), len(gone) + np.arange(len(more.y)))
        here = ms.ParallelKernelSVC(beta=beta, **PARAMETERS).fit(X, y)
        np.testing.assert_allclose(classifier.objective_, here.objective_, rtol=1e-6)
        np.testing.assert_array_equal(classifier.support_, numbers[here.support_])
        np.testing.assert_allclose(classifier.intercept_, here.intercept_, atol=1e-3)


def check_a_reduced_model_is_that_of_all_rows(engine):
    rows, parameters = RankRows(engine), {**PARAMETERS, "max_support_vectors": 9}
    there = ms.ParallelKernelSVC(engine=engine, **parameters).fit(*rows.own)
    here = ms.ParallelKernelSVC(**parameters).fit(rows.X, rows.y)
    np.testing.assert_array_equal(there.support_, here.support_)
    np.testing.assert_array_equal(there.support_vectors_, rows.X[there.support_])
    np.testing.assert_allclose(there.model_.scores(rows.X), here.model_.scores(rows.X), atol=1e-4)
    assert_identical_everywhere(there)
    np.testing.assert_allclose(there.reduced_path(12).accuracy, here.reduced_path(12).accuracy)
    more = RankRows(engine, 90, seed=5)
    there.partial_fit(*more.own)
    assert_identical_everywhere(there)
    assert len(there.support_) == 9


def check_gamma_is_that_of_all_rows(engine):
    rows = RankRows(engine)
    there = ms.ParallelKernelSVC(engine=engine).fit(*rows.own)
    reference = SVC(tol=1e-7).fit(rows.X, rows.y)
    np.testing.assert_allclose(there.model_.expansion.kernel.gamma, reference._gamma, rtol=1e-12)
    np.testing.assert_array_equal(there.support_, reference.support_)


def check_forgetting_unknown_rows_changes_nothing(engine):
    rows = RankRows(engine)
    classifier = ms.ParallelKernelSVC(engine=engine, **PARAMETERS).fit(*rows.own)
    before = state(classifier)
    # A row of another rank; with one rank, an unknown row.
    other = np.flatnonzero(rows.owner == (1 if engine.workers > 1 else 0))[:1]
    first = engine.ranks.rank == 0
    x = (rows.X[other] + (engine.workers == 1))[: 1 if first else 0]
    message = raised(SubtractionError, lambda: classifier.forget(x, rows.y[other][: len(x)]))
    assert "Rank 0, row 0" in message, message
    assert state(classifier) == before
    message = raised(SubtractionError, lambda: classifier.forget(*rows.own))
    assert "all the rows" in message, message
    # Nothing has changed: training continues.
    some = rows.mine & (np.arange(len(rows.y)) % 5 == 0)
    classifier.forget(rows.X[some], rows.y[some])
    stay = np.arange(len(rows.y)) % 5 != 0
    here = ms.ParallelKernelSVC(**PARAMETERS).fit(rows.X[stay], rows.y[stay])
    np.testing.assert_allclose(classifier.objective_, here.objective_, rtol=1e-6)


def check_an_error_on_one_rank_is_raised_on_all(engine):
    rows, last = RankRows(engine), engine.ranks.rank == engine.workers - 1
    classifier = ms.ParallelKernelSVC(engine=engine, **PARAMETERS)
    X, y = rows.own if len(rows.own[1]) else (rows.X, rows.y)
    broken = X.copy()
    if last:
        broken[7, 2] = np.nan
    assert "row 7, column 2" in raised(DataError, lambda: classifier.fit(broken, y))
    assert not hasattr(classifier, "n_features_in_")
    assert "unequal length" in raised(ValueError, lambda: classifier.fit(X, y[: len(y) - last]))
    classifier.fit(*rows.own)
    before = state(classifier)
    for change in (classifier.partial_fit, classifier.forget):
        assert "row 7, column 2" in raised(DataError, lambda change=change: change(broken, y))
        numbers = np.arange(len(y)) if last else y
        if engine.workers > 1:
            assert "labels" in raised(SignatureError, lambda change=change, numbers=numbers: change(X, numbers))
        wide = X[:, :3] if last else X
        assert "3 features" in raised(ValueError, lambda change=change, wide=wide: change(wide, y))
        none = np.empty((0, 4)), np.empty(0)
        assert "no row" in raised(DataError, lambda change=change, none=none: change(*none))
    unknown = np.where(np.arange(len(y)) == 0, "yew", y) if last else y
    message = raised(ParameterError, lambda: classifier.partial_fit(X, unknown, classes=["ash", "elm", "oak"]))
    assert "'yew'" in message, message
    assert state(classifier) == before
    classifier.partial_fit(*RankRows(engine, 30, seed=3).own)
    assert_identical_everywhere(classifier)


def check_a_failing_unit_fails_on_all_ranks(engine):
    rows = RankRows(engine)
    classifier = ms.ParallelKernelSVC(engine=engine, **PARAMETERS).fit(*rows.own)
    before, unit = state(classifier), classifier._training.trainer.units._objects[engine.ranks.rank]
    if engine.ranks.rank == engine.workers - 1:
        unit.step = lambda _: 1 / 0
    assert "division" in raised(ZeroDivisionError, lambda: classifier.partial_fit(*RankRows(engine, 40, seed=9).own))
    assert state(classifier) == before
    assert len(classifier._training.trainer.units) == 0
    message = raised(EngineError, lambda: classifier.partial_fit(*rows.own))
    assert "Call fit again" in message, message
    assert_same(classifier.fit(*rows.own), ms.ParallelKernelSVC(**PARAMETERS).fit(rows.X, rows.y))


def check_each_rank_is_one_unit(engine):
    rows = RankRows(engine)
    message = raised(ParameterError, lambda: ms.ParallelKernelSVC(engine=engine, units=7).fit(*rows.own))
    assert "ranks is one unit" in message, message
    assert f"each of the {engine.workers} ranks" in message, message
    ms.ParallelKernelSVC(engine=engine, units=engine.workers).fit(*rows.own)


def check_no_rows_on_any_rank_raise_an_error(engine):
    classifier = ms.ParallelKernelSVC(engine=engine)
    assert "no row" in raised(DataError, lambda: classifier.fit(np.empty((0, 3)), np.empty(0)))
    assert "no row" in raised(DataError, lambda: classifier.fit(np.eye(3), [0, 1, 2], np.zeros(3)))


def check_a_new_fit_releases_the_rows_of_the_last(engine):
    rows = RankRows(engine, 60)
    classifier = ms.ParallelKernelSVC(engine=engine).fit(*rows.own)
    old = classifier._training.trainer.units
    assert "no row" in raised(DataError, lambda: classifier.fit(np.empty((0, 4)), np.empty(0)))
    assert len(old) == engine.workers  # a failed fit releases nothing
    classifier.fit(*rows.own)
    assert len(old) == 0
    if engine.ranks.rank == engine.workers - 1:
        del classifier, old  # on one rank only: it waits for no other
    engine.ranks.on_root(lambda: None)


def check_all_ranks_warn(engine):
    rows = RankRows(engine)
    classifier = ms.ParallelKernelSVC(engine=engine, max_iter=1, C=100.0, working_set=4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        classifier.fit(*rows.own)
    assert [one.category for one in caught] == [SolverWarning]
    assert_identical_everywhere(classifier)


def check_traffic_is_far_less_than_all_rows(engine):
    """Separated classes of wide rows: only the few support vectors are sent."""
    if engine.workers == 1:
        return
    rng = np.random.default_rng(engine.ranks.rank)
    y = rng.integers(0, 2, 2000)
    X = rng.normal(size=(2000, 40)) + 2.0 * y[:, None]
    total = X.nbytes * engine.workers
    for method in ("working-set", "active-set"):
        before = engine.traffic
        classifier = ms.ParallelKernelSVC(engine=engine, method=method, kernel="linear").fit(X, y)
        sent = engine.traffic.total - before.total
        assert classifier.n_support_.sum() < 60 * engine.workers
        assert classifier.traffic_.total < total / 10, (classifier.traffic_, total)
        assert sent < total / 5, (sent, total)
        # All messages travel, except those between the coordinator and the unit on the same rank.
        least = classifier.traffic_.sent[:, 1:].sum() + classifier.traffic_.received[:, 1:].sum()
        assert sent > least, (sent, least)
        assert len(set(COMM_WORLD.allgather(engine.traffic.total))) == 1


def check_any_rank_can_be_root(engine):
    rows = RankRows(engine)
    with MPI(root=engine.workers - 1) as rooted:
        classifier = ms.ParallelKernelSVC(engine=rooted, **PARAMETERS).fit(*rows.own)
        assert_identical_everywhere(classifier)
        assert_same(classifier, ms.ParallelKernelSVC(**PARAMETERS).fit(rows.X, rows.y))
        classifier.partial_fit(*RankRows(engine, 40, seed=2).own)
        assert_identical_everywhere(classifier)
    message = raised(EngineError, lambda: classifier.partial_fit(*rows.own))
    assert "closed" in message, message


if __name__ == "__main__":
    with MPI() as engine:
        run_checks(engine, globals())
