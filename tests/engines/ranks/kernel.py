"""A kernel machine whose units are the ranks: the model of all rows, of which each rank has its own."""

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
from mergesvm.engines import MPI
from mergesvm.errors import DataError, EngineError, ParameterError, SignatureError, SolverWarning, SubtractionError

TERMS = {"C": 2.0, "gamma": 0.3}  # with fewer than 200 rows it is solved almost exactly


def raised(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__} was raised")


class Shares:
    """Rows of three classes and who has them: one class is at a single rank, and of three ranks the last has no rows.

    Rows are in the order of ranks, which is that in which they are numbered.
    """

    def __init__(self, engine, n_rows=180, seed=0):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 3, n_rows)
        X = rng.normal(size=(n_rows, 4)) + np.array([[0, 0, 0, 0], [1.5, 0, 1, 0], [0, 2, 0, -1]])[y]
        holders = engine.workers if engine.workers < 3 else engine.workers - 1
        # The first has all of one class; the second, of two or more, sees one class only.
        owner = np.where(y == 2, 0, np.arange(n_rows) % holders)
        owner[(y == 0) & (owner == 1)] = 0
        order = np.argsort(owner, kind="stable")
        self.X, self.y, self.owner = X[order], np.array(["ash", "elm", "oak"])[y[order]], owner[order]
        self.mine = self.owner == engine.ranks.rank

    @property
    def own(self):
        return self.X[self.mine], self.y[self.mine]


def assert_same(found, expected):
    """The same optimum: objective, rows in use, and scores."""
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-6)
    np.testing.assert_array_equal(found.support_, expected.support_)
    np.testing.assert_array_equal(found.support_vectors_, expected.support_vectors_)
    np.testing.assert_allclose(found.dual_coef_, expected.dual_coef_, atol=1e-4)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, atol=1e-5)


def assert_identical_everywhere(machine):
    """All ranks have the same model, bit for bit."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts = machine.support_, machine.support_vectors_, machine.dual_coef_, machine.intercept_, machine.n_support_
        said = [str(machine.traffic_), machine.objective_, machine.n_iter_, machine.classes_.tolist(), machine.gamma]
    mine = hashlib.sha256(pickle.dumps(([part.tobytes() for part in parts], said))).hexdigest()
    assert len(set(COMM_WORLD.allgather(mine))) == 1


def state(machine):
    return pickle.dumps((machine.support_, machine.dual_coef_, machine.intercept_, machine.objective_))


def check_fit_is_that_of_all_rows(engine):
    rows = Shares(engine)
    reference = SVC(C=2.0, gamma=0.3, tol=1e-7).fit(rows.X, rows.y)
    for method in ("working-set", "active-set"):
        there = ms.ParallelKernelSVC(engine=engine, method=method, **TERMS).fit(*rows.own)
        assert_same(there, ms.ParallelKernelSVC(method=method, **TERMS).fit(rows.X, rows.y))
        np.testing.assert_array_equal(there.support_, reference.support_)
        np.testing.assert_allclose(np.abs(there.dual_coef_), np.abs(reference.dual_coef_), atol=1e-4)
        # A pair's scores are positive for its second class here, and for its first there.
        np.testing.assert_allclose(there.intercept_, -reference.intercept_, atol=1e-5)
        assert_identical_everywhere(there)
        assert there.traffic_.sent.shape[1] == engine.workers


def check_beta_counts_once_for_each_rank(engine):
    rows = Shares(engine, 90, seed=1)
    there = ms.ParallelKernelSVC(engine=engine, beta=0.2, **TERMS).fit(*rows.own)
    # One unit whose penalty is that of all.
    here = ms.ParallelKernelSVC(beta=0.2 * engine.workers, **TERMS).fit(rows.X, rows.y)
    assert_same(there, here)
    assert_identical_everywhere(there)


def check_rows_that_come_and_go_at_their_ranks(engine):
    climbing = {"method": "gradient", "accelerated": True, "beta": 0.5, "tol": 1e-4}
    ways = [(130, {}), (90, {"method": "active-set"}), (90, {"beta": 0.5}), (24, climbing)]
    for size, terms in ways[: 4 if engine.workers == 2 else 3]:  # the last takes hundreds of rounds
        rows, more = Shares(engine, size), Shares(engine, size // 2, seed=5)
        machine = ms.ParallelKernelSVC(engine=engine, **{**TERMS, **terms}).fit(*rows.own).partial_fit(*more.own)
        assert_identical_everywhere(machine)
        gone = np.isin(np.arange(len(rows.y)), machine.support_[::2]) | (np.arange(len(rows.y)) % 3 == 0)
        mine = gone & rows.mine
        machine.forget(rows.X[mine], rows.y[mine])
        assert_identical_everywhere(machine)
        beta = None if machine.beta is None else machine.beta * engine.workers
        X, y = np.vstack([rows.X[~gone], more.X]), np.append(rows.y[~gone], more.y)
        numbers = np.append(np.flatnonzero(~gone), len(gone) + np.arange(len(more.y)))
        here = ms.ParallelKernelSVC(beta=beta, **TERMS).fit(X, y)
        np.testing.assert_allclose(machine.objective_, here.objective_, rtol=1e-6)
        np.testing.assert_array_equal(machine.support_, numbers[here.support_])
        np.testing.assert_allclose(machine.intercept_, here.intercept_, atol=1e-3)


def check_gamma_is_that_of_all_rows(engine):
    rows = Shares(engine)
    there = ms.ParallelKernelSVC(engine=engine).fit(*rows.own)
    reference = SVC(tol=1e-7).fit(rows.X, rows.y)
    np.testing.assert_allclose(there.model_.expansion.kernel.gamma, reference._gamma, rtol=1e-12)
    np.testing.assert_array_equal(there.support_, reference.support_)


def check_what_is_not_there_cannot_be_forgotten(engine):
    rows = Shares(engine)
    machine = ms.ParallelKernelSVC(engine=engine, **TERMS).fit(*rows.own)
    before = state(machine)
    # A row that another rank has; with one rank, one that nobody has.
    other = np.flatnonzero(rows.owner == (1 if engine.workers > 1 else 0))[:1]
    first = engine.ranks.rank == 0
    x = (rows.X[other] + (engine.workers == 1))[: 1 if first else 0]
    said = raised(SubtractionError, lambda: machine.forget(x, rows.y[other][: len(x)]))
    assert "Rank 0, row 0" in said, said
    assert state(machine) == before
    said = raised(SubtractionError, lambda: machine.forget(*rows.own))
    assert "all the rows" in said, said
    # Nothing was changed: it goes on as one that has seen no error.
    some = rows.mine & (np.arange(len(rows.y)) % 5 == 0)
    machine.forget(rows.X[some], rows.y[some])
    stay = np.arange(len(rows.y)) % 5 != 0
    here = ms.ParallelKernelSVC(**TERMS).fit(rows.X[stay], rows.y[stay])
    np.testing.assert_allclose(machine.objective_, here.objective_, rtol=1e-6)


def check_what_is_wrong_at_one_rank_is_an_error_everywhere(engine):
    rows, last = Shares(engine), engine.ranks.rank == engine.workers - 1
    machine = ms.ParallelKernelSVC(engine=engine, **TERMS)
    X, y = rows.own if len(rows.own[1]) else (rows.X, rows.y)
    broken = X.copy()
    if last:
        broken[7, 2] = np.nan
    assert "row 7, column 2" in raised(DataError, lambda: machine.fit(broken, y))
    assert not hasattr(machine, "n_features_in_")
    assert "unequal length" in raised(ValueError, lambda: machine.fit(X, y[: len(y) - last]))
    machine.fit(*rows.own)
    before = state(machine)
    for change in (machine.partial_fit, machine.forget):
        assert "row 7, column 2" in raised(DataError, lambda change=change: change(broken, y))
        numbers = np.arange(len(y)) if last else y
        if engine.workers > 1:
            assert "labels" in raised(SignatureError, lambda change=change, numbers=numbers: change(X, numbers))
        wide = X[:, :3] if last else X
        assert "3 features" in raised(ValueError, lambda change=change, wide=wide: change(wide, y))
        none = np.empty((0, 4)), np.empty(0)
        assert "no row" in raised(DataError, lambda change=change, none=none: change(*none))
    strange = np.where(np.arange(len(y)) == 0, "yew", y) if last else y
    said = raised(ParameterError, lambda: machine.partial_fit(X, strange, classes=["ash", "elm", "oak"]))
    assert "'yew'" in said, said
    assert state(machine) == before
    machine.partial_fit(*Shares(engine, 30, seed=3).own)  # and it goes on
    assert_identical_everywhere(machine)


def check_a_unit_that_fails_in_training_fails_everywhere(engine):
    rows = Shares(engine)
    machine = ms.ParallelKernelSVC(engine=engine, **TERMS).fit(*rows.own)
    before, unit = state(machine), machine._training.trainer.units._objects[engine.ranks.rank]
    if engine.ranks.rank == engine.workers - 1:
        unit.step = lambda _: 1 / 0
    assert "division" in raised(ZeroDivisionError, lambda: machine.partial_fit(*Shares(engine, 40, seed=9).own))
    assert state(machine) == before
    assert len(machine._training.trainer.units) == 0
    said = raised(EngineError, lambda: machine.partial_fit(*rows.own))
    assert "Call fit again" in said, said
    assert_same(machine.fit(*rows.own), ms.ParallelKernelSVC(**TERMS).fit(rows.X, rows.y))


def check_each_rank_is_one_unit(engine):
    rows = Shares(engine)
    said = raised(ParameterError, lambda: ms.ParallelKernelSVC(engine=engine, units=7).fit(*rows.own))
    assert "ranks is one unit" in said, said
    assert f"each of the {engine.workers} ranks" in said, said
    ms.ParallelKernelSVC(engine=engine, units=engine.workers).fit(*rows.own)


def check_no_rows_at_all_are_an_error(engine):
    machine = ms.ParallelKernelSVC(engine=engine)
    assert "no row" in raised(DataError, lambda: machine.fit(np.empty((0, 3)), np.empty(0)))
    assert "no row" in raised(DataError, lambda: machine.fit(np.eye(3), [0, 1, 2], np.zeros(3)))


def check_a_fit_that_is_replaced_lets_its_rows_go(engine):
    rows = Shares(engine, 60)
    machine = ms.ParallelKernelSVC(engine=engine).fit(*rows.own)
    old = machine._training.trainer.units
    assert "no row" in raised(DataError, lambda: machine.fit(np.empty((0, 4)), np.empty(0)))
    assert len(old) == engine.workers  # what failed has replaced nothing
    machine.fit(*rows.own)
    assert len(old) == 0
    if engine.ranks.rank == engine.workers - 1:
        del machine, old  # by one rank alone: nobody waits for the others
    engine.ranks.on_root(lambda: None)


def check_warnings_are_those_of_all_ranks(engine):
    rows = Shares(engine)
    machine = ms.ParallelKernelSVC(engine=engine, max_iter=1, C=100.0, working_set=4)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        machine.fit(*rows.own)
    assert [one.category for one in said] == [SolverWarning]
    assert_identical_everywhere(machine)


def check_far_less_travels_than_all_rows(engine):
    """Two classes far apart, wide rows: few are support vectors, and no others leave their rank."""
    if engine.workers == 1:
        return
    rng = np.random.default_rng(engine.ranks.rank)
    y = rng.integers(0, 2, 2000)
    X = rng.normal(size=(2000, 40)) + 2.0 * y[:, None]
    whole = X.nbytes * engine.workers
    for method in ("working-set", "active-set"):
        before = engine.traffic
        machine = ms.ParallelKernelSVC(engine=engine, method=method, kernel="linear").fit(X, y)
        sent = engine.traffic.total - before.total
        assert machine.n_support_.sum() < 60 * engine.workers
        assert machine.traffic_.total < whole / 10, (machine.traffic_, whole)
        assert sent < whole / 5, (sent, whole)
        # Of what units told, only that of the leader itself did not travel; what it told went to each of the others.
        least = machine.traffic_.sent[:, 1:].sum() + machine.traffic_.received[:, 1:].sum()
        assert sent > least, (sent, least)
        assert len(set(COMM_WORLD.allgather(engine.traffic.total))) == 1


def check_the_root_may_be_another(engine):
    rows = Shares(engine)
    with MPI(root=engine.workers - 1) as rooted:
        machine = ms.ParallelKernelSVC(engine=rooted, **TERMS).fit(*rows.own)
        assert_identical_everywhere(machine)
        assert_same(machine, ms.ParallelKernelSVC(**TERMS).fit(rows.X, rows.y))
        machine.partial_fit(*Shares(engine, 40, seed=2).own)
        assert_identical_everywhere(machine)
    said = raised(EngineError, lambda: machine.partial_fit(*rows.own))
    assert "closed" in said, said


if __name__ == "__main__":
    with MPI() as engine:
        for name, check in list(globals().items()):
            if name.startswith("check_"):
                check(engine)
                if engine.ranks.is_root:
                    sys.stdout.write(f"{name}\n")
                    sys.stdout.flush()
    sys.stdout.write("done\n")
