"""The Dask engine, on a real cluster of separate processes."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import engine_laws
import mergesvm as ms
from mergesvm.engines import Dask
from mergesvm.engines.reduce import Join
from mergesvm.errors import DataError, EngineError, ParameterError, SubtractionError
from mergesvm.knowledge.learning.reduction import Reducer
from mergesvm.methods.kernel.coordinator.working_set import WorkingSetCoordinator

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

pytestmark = pytest.mark.xdist_group("dask")


@pytest.fixture(scope="module")
def engine():
    with Dask(workers=2) as engine:
        yield engine


@pytest.fixture
def mortal():
    """A cluster for one test: a worker that is killed while its nanny starts it stays dead."""
    with Dask(workers=2) as engine:
        yield engine


@pytest.fixture(autouse=True)
def _nothing_is_left(request):
    engines = [request.getfixturevalue(name) for name in ("engine", "mortal", "trio") if name in request.fixturenames]
    yield
    gc.collect()  # caught errors refer to frames and their variables
    for engine in engines:
        assert left_over(engine) == []


def left_over(engine, until=0):
    """Return the tasks that the scheduler still has, after waiting for a moment until few are left."""
    for _ in range(100):
        left = engine.client.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks])
        if len(left) <= until:
            break
        time.sleep(0.05)
    return left


class Rows:
    """Rows of three classes: the first third of the rows has one class, the second third two."""

    def __init__(self, n=900, width=6):
        rng = np.random.default_rng(3)
        self.X = rng.normal(size=(n, width)) + 5
        third = n // 3
        self.y = np.concatenate([np.zeros(third), rng.integers(0, 2, third), rng.integers(0, 3, n - 2 * third)])
        self.y = np.array(["a", "b", "c"])[self.y.astype(int)]
        self.weights = rng.uniform(0.5, 2, n)


@pytest.fixture(scope="module")
def rows():
    return Rows()


@pytest.fixture(params=["linear", "fourier"])
def features(request, rows):
    return None if request.param == "linear" else ms.features.Fourier(30, seed=1, precision="float64").freeze(rows.X)


def assert_same(found, expected):
    assert found.labels == expected.labels
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_allclose(found.counts, expected.counts, rtol=1e-12)
    found = found.about(expected.anchor)
    np.testing.assert_allclose(found.sums, expected.sums, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.array(found.grams), np.array(expected.grams), rtol=1e-9, atol=1e-9)


def test_arrays_in_memory_are_divided_among_workers(engine, rows, features):
    found = ms.learn(rows.X, rows.y, rows.weights, features=features, engine=engine)
    assert_same(found, ms.learn(rows.X, rows.y, rows.weights, features=features))


def test_files_are_read_by_the_workers(engine, rows, features, tmp_path):
    for day in range(3):
        part = slice(300 * day, 300 * (day + 1))
        table = pd.DataFrame(rows.X[part], columns=list("uvwxyz")).assign(label=rows.y[part])
        table.to_parquet(tmp_path / f"day{day}.parquet")
    reported = []
    scan = ms.scan(f"{tmp_path}/*.parquet", label="label")
    found = ms.learn(scan, features=features, engine=engine, progress=lambda scan: reported.append(scan.fraction))
    assert_same(found, ms.learn(rows.X, rows.y, features=features))
    assert reported == sorted(reported)
    assert reported[-1] == 1.0
    assert scan.rows == 900


def test_dask_arrays_of_any_chunks(engine, rows, features):
    X = da.from_array(rows.X, chunks=(100, 4))
    y, weights = da.from_array(rows.y, chunks=130), da.from_array(rows.weights, chunks=900)
    expected = ms.learn(rows.X, rows.y, rows.weights, features=features)
    assert_same(ms.learn(X, y, weights, features=features, engine=engine), expected)
    assert_same(ms.learn(X, rows.y, rows.weights, features=features, engine=engine), expected)


@pytest.mark.parametrize("chunk", [70, 900])
def test_folds_of_dask_arrays_do_not_depend_on_chunks(engine, rows, chunk):
    X, y, weights = (da.from_array(each, chunks=(chunk, 4)[: each.ndim]) for each in (rows.X, rows.y, rows.weights))
    expected = ms.learn(rows.X, rows.y, rows.weights, folds=4)
    engine_laws.assert_same_folds(ms.learn(X, y, weights, folds=4, engine=engine), expected)
    groups = np.arange(900) % 31
    found = ms.learn(X, y, folds=3, groups=da.from_array(groups, chunks=200), engine=engine)
    engine_laws.assert_same_folds(found, ms.learn(rows.X, rows.y, folds=3, groups=groups))


def test_invalid_folds_of_dask_arrays_are_rejected(engine, rows):
    X, y = da.from_array(rows.X, chunks=(300, 6)), da.from_array(rows.y, chunks=300)
    with pytest.raises(ParameterError, match="folds is a number"):
        ms.learn(X, y, folds=[0, 1] * 450, engine=engine)
    with pytest.raises(ParameterError, match="'who' names a column"):
        ms.learn(X, y, folds=3, groups="who", engine=engine)
    with pytest.raises(ParameterError, match="899"):
        ms.learn(X, y, folds=3, groups=da.zeros(899, chunks=300), engine=engine)


@pytest.mark.parametrize("partitions", [1, 5])
def test_folds_of_data_frames_and_groups_are_no_feature(engine, table, partitions):
    frame = dd.from_pandas(table.drop(columns="shape"), npartitions=partitions)
    numbers = list("uvwxyz")
    found = ms.learn(frame, label="label", folds=2, groups="colour", weight="weight", engine=engine)
    assert found.layout.names == tuple(numbers)
    assert found.assignment.column == "colour"
    options = {"sample_weight": table["weight"], "feature_names": numbers}
    expected = ms.learn(table[numbers].to_numpy(), table["label"], folds=2, groups=table["colour"], **options)
    engine_laws.assert_same_folds(found, expected)
    found = ms.learn(frame[[*numbers, "label"]], label="label", folds=4, engine=engine)
    engine_laws.assert_same_folds(found, ms.learn(table[numbers], table["label"], folds=4))
    for groups, message in (("size", "size"), (table["colour"].tolist(), "name of a column")):
        with pytest.raises((ParameterError, DataError), match=message):
            ms.learn(frame, label="label", columns=numbers, folds=2, groups=groups, engine=engine)


def test_chunks_of_unknown_size_may_be_empty(engine, rows):
    X, y = da.from_array(rows.X, chunks=(100, 6)), da.from_array(rows.y, chunks=100)
    mask = y == "c"  # not in the first chunks
    expected = ms.learn(rows.X[rows.y == "c"], rows.y[rows.y == "c"])
    assert_same(ms.learn(X[mask], y[mask], engine=engine), expected)


def test_pieces_are_added_and_subtracted(engine, rows, features):
    def learned(part):
        X, y = da.from_array(rows.X[part], chunks=(80, 6)), da.from_array(rows.y[part], chunks=80)
        return ms.learn(X, y, features=features, engine=engine)

    first, second = learned(slice(0, 500)), learned(slice(500, 900))
    whole = ms.learn(rows.X, rows.y, features=features)
    assert_same(first + second, whole)
    assert_same((first + second) - first, ms.learn(rows.X[500:], rows.y[500:], features=features))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X, y: (X, y[:-1]), "900 rows, but 899"),
        (lambda X, y: (X[X[:, 0] > 5], y), "9 blocks, but 3"),
        (lambda X, y: (X[:, :, None], y), "dimensions, not 3"),
    ],
)
def test_arrays_of_different_lengths_or_too_many_dimensions_are_rejected(engine, rows, make, message):
    X, y = da.from_array(rows.X, chunks=(100, 6)), da.from_array(rows.y, chunks=300)
    with pytest.raises(ParameterError, match=message):
        ms.learn(*make(X, y), engine=engine)


@pytest.fixture
def table(rows):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rows.X, columns=list("uvwxyz")).assign(label=rows.y, weight=rows.weights)
    frame["colour"] = rng.choice(["red", "blue"], len(frame))
    frame["shape"] = pd.Categorical(rng.choice(["round", "square"], len(frame)), categories=["square", "round", "odd"])
    return frame


def test_data_frames_by_columns(engine, table, tmp_path):
    table.loc[[4, 400], "u"] = np.nan
    table.loc[:199, "colour"] = None  # the first partition has none
    options = {"weight": "weight", "categories": {"colour": ["blue", "red"]}, "missing": "drop"}
    found = ms.learn(dd.from_pandas(table, npartitions=5), label="label", **options, engine=engine)
    table.to_parquet(tmp_path / "table.parquet")
    expected = ms.learn(ms.scan(tmp_path / "table.parquet", label="label", **options))
    assert found.layout == expected.layout
    assert "shape=odd" in found.layout.names
    assert_same(found, expected)


def test_object_columns_get_the_type_of_their_values(engine, table):
    import dask

    table = table[["u", "colour", "label"]].astype({"colour": object, "label": object})
    table["number"] = pd.Series(np.arange(900) % 7, dtype=object)
    table.loc[:299, "colour"] = None
    with dask.config.set({"dataframe.convert-string": False}):
        frame = dd.from_pandas(table, npartitions=3)
        found = ms.learn(frame, label="label", categories={"colour": ["blue", "red"]}, missing="drop", engine=engine)
    kept = table[300:]
    X = np.column_stack([kept["u"], kept["colour"] == "blue", kept["colour"] == "red", kept["number"]]).astype(float)
    assert found.layout.names == ("u", "colour=blue", "colour=red", "number")
    assert_same(found, ms.learn(X, kept["label"].astype(str)))


def test_columns_and_a_feature_map(engine, table):
    mapping = ms.features.Fourier(20, seed=2, precision="float64").freeze(table[["u", "v"]])
    frame = dd.from_pandas(table, npartitions=4)
    found = ms.learn(frame, label="label", columns=["u", "v"], features=mapping, engine=engine)
    assert_same(found, ms.learn(table[["u", "v"]], table["label"], features=mapping))
    assert_same(ms.learn(frame[["u", "v"]], frame["label"], features=mapping, engine=engine), found)


def test_partitions_may_be_empty(engine, table):
    frame = dd.from_pandas(table, npartitions=5)
    chosen = frame[frame["label"] == "c"]
    found = ms.learn(chosen, label="label", columns=["u", "v"], engine=engine)
    assert_same(found, ms.learn(table[table["label"] == "c"][["u", "v"]], table["label"][table["label"] == "c"]))
    with pytest.raises(DataError, match="no rows"):
        ms.learn(frame[frame["u"] > 1e6], label="label", columns=["u"], engine=engine)


def test_an_error_names_the_partition(engine, table):
    table.loc[500, "u"] = np.nan
    with pytest.raises(DataError, match=r"partition 2: .*'?u'?"):
        ms.learn(dd.from_pandas(table, npartitions=5), label="label", columns=["u"], engine=engine)


def test_collections_without_an_engine_are_rejected(rows):
    with pytest.raises(ParameterError, match="Dask"):
        ms.learn(da.from_array(rows.X), rows.y)


class Sum(Join):
    def __call__(self, results):
        return sum(results)


def joining():
    """Return a join that is pickled by value: workers cannot import this module."""
    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return Sum()


def test_results_are_in_order_and_repeated_calls_run_again(engine, tmp_path):
    def work(task, factor, folder):
        time.sleep(0.01 * (task % 3))
        with (folder / str(task)).open("a") as file:
            file.write("x")
        return task * factor

    for _ in range(2):
        assert engine.map(work, range(20), given=(3, tmp_path)) == [3 * task for task in range(20)]
    assert [(tmp_path / str(task)).read_text() for task in range(20)] == ["xx"] * 20


def test_given_arguments_are_sent_once_per_worker(engine):
    given, before = np.ones(500_000), engine.traffic
    assert engine.map(lambda task, array: task * array.sum(), range(12), given=(given,))[2] == 1_000_000
    sent = engine.traffic.total - before.total
    assert given.nbytes <= sent < 1.1 * given.nbytes  # sent by the first worker to the other


def test_results_are_joined_at_the_workers(engine):
    before, reported = engine.traffic, []
    result = engine.merge(
        lambda task: np.full(100_000, task), range(16), joining(), done=lambda *how: reported.append(how)
    )
    np.testing.assert_array_equal(result, np.full(100_000, 120))
    assert reported == [(count, 16) for count in range(1, 17)]
    # One result per worker, to the other worker and to the client; stolen tasks may add a few.
    assert engine.traffic.total - before.total < 6 * 800_000
    assert engine.traffic.rounds - before.rounds == 2


@pytest.mark.parametrize("classes", ["alike", "apart", "one worker has none"])
def test_workers_with_different_classes_and_anchors(engine, features, classes, tmp_path):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 6)) + np.where(np.arange(400) < 200, 0.0, 1e4)[:, None]  # about different anchors
    y = np.arange(400) % 2 if classes == "alike" else np.arange(400) // 200
    files = [tmp_path / "a.npy", tmp_path / "b.npy"]
    halves = [slice(0, 200), slice(200, 400)]
    if classes == "one worker has none":
        halves = [slice(0, 400), slice(0, 0)]
    for path, half in zip(files, halves, strict=True):
        np.save(path, np.column_stack([X[half], y[half]]))
    found = ms.learn(ms.scan(files, label=-1), features=features, engine=engine)
    assert all(sent > 0 for sent in engine.traffic.sent.values())
    assert_same(found, ms.learn(X, y, features=features))


def test_the_feature_map_is_not_sent_back_with_the_sums(engine, rows):
    wide = ms.features.Fourier(40, seed=1).freeze(np.ones((2, 5000)) * [[1.0], [2.0]])  # 1.6 MB
    X = np.random.default_rng(0).normal(size=(40, 5000))
    before = engine.traffic
    ms.learn(X, np.arange(40) % 2, features=wide, engine=engine)
    assert engine.traffic.total - before.total < 100_000
    assert len(pickle.dumps(Reducer(wide))) < 1_000  # sent with every call


@pytest.fixture(scope="module")
def trio():
    with Dask(workers=3) as engine:
        yield engine


@pytest.mark.parametrize("pooled", [False, True], ids=["per class", "pooled"])
def test_three_workers_add_sums_among_themselves(trio, rows, features, pooled):
    before = trio.traffic
    how = {"features": features, "per_class": not pooled}
    found = ms.learn(rows.X, rows.y, rows.weights, engine=trio, **how)
    assert trio.traffic.rounds - before.rounds > 2
    assert len([sent for sent in trio.traffic.sent.values() if sent]) == 3
    assert_same(found, ms.learn(rows.X, rows.y, rows.weights, **how))


def broken(step):
    class Broken(type(engine_laws.addition())):
        def fail(self, *_):
            raise KeyError(f"{step} is broken")

    setattr(Broken, step, Broken.fail)
    return Broken()


@pytest.mark.parametrize("step", ["describe", "agree", "pack", "total"])
def test_an_error_while_adding_leaves_data_of_others_on_the_cluster(trio, step):
    others = trio.client.submit(lambda: 42, key=f"of someone else, while {step} fails")
    with pytest.raises(KeyError, match=f"{step} is broken"):
        trio.merge(lambda task: np.arange(5.0) + task, range(3), broken(step))
    assert others.result() == 42
    assert trio.client.status == "running"
    assert left_over(trio, until=1) == [others.key]
    counts = trio.client.run(lambda: dict(sys.modules["mergesvm.engines.dask.parcel"].sent))
    assert set(map(str, counts.values())) == {"{}"}


@pytest.mark.parametrize("step", ["add", "finish"])
@pytest.mark.parametrize("tasks", [2, 3])
def test_an_error_while_receiving_sums_leaves_nothing_running(trio, tasks, step):
    class Broken(type(engine_laws.addition())):
        def total(self, plan, own=None):
            total = super().total(plan, own)
            kind = type(total)

            def fail(*_, **__):
                raise KeyError(f"{step} is broken")

            total.__class__ = type("BrokenTotal", (kind,), {step: fail})
            return total

    with pytest.raises(KeyError, match=f"{step} is broken"):
        trio.merge(lambda task: np.arange(5.0) + task, range(tasks), Broken())
    assert trio.client.status == "running"
    assert left_over(trio) == []


def test_a_task_may_be_named_like_an_internal_step(trio):
    def describe(task):
        return np.arange(5.0) + task

    assert trio.merge(describe, range(3), engine_laws.addition()).tolist() == [3.0, 6.0, 9.0, 12.0, 15.0]


def test_large_given_arguments_are_not_sent_with_tasks(engine, monkeypatch):
    given = np.ones(500_000)
    for most, expected in ((2**26, 0), (2**20, given.nbytes)):
        monkeypatch.setattr("mergesvm.engines.dask.run.MAX_BYTES_WITH_TASKS", most)
        before = engine.traffic
        assert engine.map(lambda task, array: task * array.sum(), range(2), given=(given,)) == [0, 500_000]
        assert expected <= engine.traffic.total - before.total < expected + 10_000


def test_no_tasks_give_no_results(engine):
    assert engine.map(abs, []) == []
    assert engine.merge(abs, [], joining()) is None
    assert engine.merge(abs, [-1], joining()) == 1


def test_an_error_names_its_task_and_cancels_the_rest(engine, tmp_path):
    def work(task, folder):
        if task == 1:
            raise KeyError("broken")
        time.sleep(0.1)
        (folder / str(task)).touch()

    names = [f"day{task}.csv" for task in range(40)]
    for go in (engine.map, lambda *args, **more: engine.merge(*args, joining(), **more)):
        with pytest.raises(KeyError, match="broken") as caught:
            go(work, range(40), given=(tmp_path,), names=names)
        assert caught.value.__notes__ == ["in day1.csv"]
    finished = len(list(tmp_path.iterdir()))
    assert finished < 20
    time.sleep(0.3)
    assert len(list(tmp_path.iterdir())) == finished  # nothing is left running


def test_blas_has_one_thread_per_task(engine):
    def threads(_):
        from threadpoolctl import threadpool_info

        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    assert {number for numbers in engine.map(threads, range(4)) for number in numbers} == {1}


class Counter:
    def __init__(self, start, step):
        self.total, self.step = start, step

    def count(self, times):
        self.total += times * self.step
        return self.total

    def process(self):
        return os.getpid()

    def fail(self):
        raise KeyError("no such thing")


def test_actors_stay_at_their_worker_and_keep_state(engine):
    joining()
    with engine.actors(Counter, [10, 20, 30, 40], given=(2,)) as units:
        assert len(units) == 4
        assert units.call("count", 1) == [12, 22, 32, 42]
        assert units.call("count", 5) == [22, 32, 42, 52]
        assert len(set(units.call("process"))) == 2
        with pytest.raises(KeyError, match="no such thing"):
            units.call("fail")
    assert len(units) == 0


def test_a_given_cluster_is_not_closed(engine, rows):
    expected = ms.learn(rows.X, rows.y)
    for given in (engine.client, engine.client.scheduler.address, engine.client.cluster):
        with Dask(given) as other:
            assert other.workers == 2
            assert_same(ms.learn(rows.X, rows.y, engine=other), expected)
        with pytest.raises(EngineError, match="closed"):
            other.map(abs, [1])
    assert engine.map(abs, [-1]) == [1]


def test_an_address_without_a_scheduler_is_an_error(monkeypatch):
    monkeypatch.setattr("mergesvm.engines.dask.engine.ANSWER_SECONDS", 1)
    with pytest.raises(EngineError, match=r"tcp://127\.0\.0\.1:9"):
        Dask("tcp://127.0.0.1:9")


@pytest.mark.parametrize(
    "wrong", [{"client": 0}, {"workers": 0}, {"workers": "x"}, {"client": "tcp://a:1", "workers": 2}]
)
def test_invalid_arguments_are_rejected(wrong):
    with pytest.raises(ParameterError):
        Dask(**wrong)


@pytest.mark.parametrize("victim", [0, 1])
def test_tasks_of_a_killed_worker_run_again(mortal, rows, tmp_path, victim):
    mapping = ms.features.Fourier(30, seed=1, precision="float64").freeze(rows.X)
    processes = sorted(mortal.client.run(os.getpid).values())

    def work(part, X, y, mapping, folder):
        (folder / f"{os.getpid()}-{part}").touch()
        time.sleep(0.1)
        return ms.learn(X[part::20], y[part::20], features=mapping)

    def kill(count, _):
        if count == 6:
            os.kill(processes[victim], signal.SIGKILL)

    given = (rows.X, rows.y, mapping, tmp_path)
    found = mortal.merge(work, range(20), joining(), given=given, done=kill)
    assert_same(found, ms.learn(rows.X, rows.y, features=mapping))
    begun = [path.name.split("-")[1] for path in tmp_path.iterdir()]
    assert set(begun) == {str(part) for part in range(20)}
    assert len(begun) > 20  # the parts of the killed worker were learned again


def test_finished_tasks_of_a_killed_worker_run_again(mortal, rows):
    processes = dict(mortal.client.run(os.getpid))
    victim = processes[next(iter(processes))]

    def work(task):
        return (task,)

    def kill(count, total):
        if count == 1:
            time.sleep(0.5)  # all tasks are finished by now
            os.kill(victim, signal.SIGKILL)

    assert mortal.merge(work, range(40), engine_laws.union(), done=kill) == tuple(range(40))


def test_a_task_that_kills_its_workers_is_an_error():
    import dask

    def die(task):
        os.kill(os.getpid(), signal.SIGKILL)

    # A separate cluster that gives up at once: nannies do not survive many deaths in a row.
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        Dask(workers=1) as engine,
        pytest.raises(EngineError, match=r"bad\.csv: .*workers died"),
    ):
        engine.map(die, [1], names=["bad.csv"])


def test_actors_of_a_killed_worker_are_lost(mortal):
    joining()
    with mortal.actors(Counter, [1, 2], given=(1,)) as units:
        os.kill(units.call("process")[0], signal.SIGKILL)
        with pytest.raises(EngineError, match="lost"):
            units.call("count", 1)


class Machine:
    """Few rows, so that the kernel SVM is solved almost exactly, and its parameters."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.y = np.array(["ash", "elm", "oak"])[
            np.sort(rng.integers(0, 3, 150))
        ]  # so that units have one or two classes
        codes = np.unique(self.y, return_inverse=True)[1]
        self.X = rng.normal(size=(150, 4)) + np.array([[0, 0, 0, 0], [1.5, 0, 1, 0], [0, 2, 0, -1]])[codes]
        order = rng.permutation(150)
        self.later = self.X[order[:45]] + 0.25, self.y[order[:45]]
        self.gone = np.arange(150) % 4 == 0
        self.options = {"C": 2.0, "gamma": 0.3}

    def here(self, X=None, y=None, **options):
        return ms.ParallelKernelSVC(**self.options, **options).fit(
            self.X if X is None else X, self.y if y is None else y
        )

    def there(self, engine, **options):
        return ms.ParallelKernelSVC(engine=engine, **self.options, **options)


@pytest.fixture(scope="module")
def machine():
    return Machine()


def assert_same_optimum(found, expected):
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-6)
    np.testing.assert_array_equal(found.support_vectors_, expected.support_vectors_)
    np.testing.assert_allclose(found.dual_coef_, expected.dual_coef_, atol=1e-4)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"units": 3}, {"method": "active-set"}, {"beta": 0.2}])
def test_parallel_kernel_svc_adds_and_forgets_rows(engine, machine, options):
    from sklearn.svm import SVC

    beta = options.get("beta")
    alone = {} if beta is None else {"beta": 2 * beta}
    there = machine.there(engine, **options).fit(machine.X, machine.y)
    assert_same_optimum(there, machine.here(**alone))
    if beta is None:
        reference = SVC(C=2.0, gamma=0.3, tol=1e-7).fit(machine.X, machine.y)
        np.testing.assert_array_equal(there.support_, reference.support_)
    assert there.traffic_.sent.shape[1] == options.get("units", 2)
    more, labels = machine.later
    there.partial_fit(more, labels).forget(machine.X[machine.gone], machine.y[machine.gone])
    X, y = np.vstack([machine.X[~machine.gone], more]), np.append(machine.y[~machine.gone], labels)
    assert_same_optimum(there, machine.here(X, y, **alone))
    there._training.close()


def test_invalid_rows_change_no_unit(engine, machine):
    there = machine.there(engine).fit(machine.X, machine.y)
    more, labels = machine.later
    broken = more.copy()
    broken[40, 1] = np.nan  # at the second unit
    with pytest.raises(DataError, match="row 40, column 1"):
        there.partial_fit(broken, labels)
    with pytest.raises(SubtractionError, match="Row 0"):
        there.forget(more, labels)
    with pytest.raises(DataError, match="zero weight"):
        there.partial_fit(more, labels, sample_weight=np.zeros(45))
    there.partial_fit(more, labels)
    assert_same_optimum(there, machine.here(np.vstack([machine.X, more]), np.append(machine.y, labels)))


def test_units_are_released_with_the_estimator_or_by_a_new_fit(engine, machine):
    there = machine.there(engine, units=3).fit(machine.X, machine.y)
    old = set(left_over(engine, until=4))
    assert len(old) == 4  # including the tasks that built them
    there.fit(machine.X, machine.y)
    new = set(left_over(engine, until=4))
    assert len(new) == 4
    assert not old & new
    with pytest.raises(DataError):
        there.fit(machine.X * np.nan, machine.y)
    assert set(left_over(engine, until=4)) == new
    there.partial_fit(*machine.later)  # the failed fit has replaced nothing
    del there
    gc.collect()  # the caught error refers to its frames
    assert left_over(engine) == []


def test_parallel_kernel_svc_of_dask_arrays(engine, machine):
    weights = np.random.default_rng(1).uniform(0.5, 1.5, 150)
    X, y = da.from_array(machine.X, chunks=(70, 2)), da.from_array(machine.y, chunks=60)
    there = machine.there(engine).fit(X, y, da.from_array(weights, chunks=150))
    assert there.traffic_.sent.shape[1] == 3
    here = ms.ParallelKernelSVC(**machine.options).fit(machine.X, machine.y, weights)
    assert_same_optimum(there, here)
    np.testing.assert_array_equal(there.support_, here.support_)
    # Later rows are in memory; rows to forget may be anywhere.
    with pytest.raises(ParameterError, match=r"X\.compute\(\)"):
        there.partial_fit(X, y)
    with pytest.raises(SubtractionError, match="Partition 0, row 0 is not among"):
        there.forget(X + 1, y, weights)
    gone = np.flatnonzero(machine.gone)
    there.forget(machine.X[gone[:9]], machine.y[gone[:9]], weights[gone[:9]])
    there.forget(X[gone[9:]], y[gone[9:]], weights[gone[9:]])
    stay = ~machine.gone
    expected = ms.ParallelKernelSVC(**machine.options).fit(machine.X[stay], machine.y[stay], weights[stay])
    assert_same_optimum(there, expected)


@pytest.mark.parametrize("kind", ["own", "hash"])
def test_rows_of_several_partitions_count_once(engine, machine, kind):
    from sklearn.svm import SVC

    at = np.concatenate([np.arange(90), np.arange(50, 150), np.arange(20)])
    X, y = da.from_array(machine.X[at], chunks=(60, 4)), da.from_array(machine.y[at], chunks=60)
    ids = "hash" if kind == "hash" else da.from_array(np.char.add("row ", at.astype(str)), chunks=100)
    there = machine.there(engine).fit(X, y, row_ids=ids)
    assert_same_optimum(there, machine.here())
    first = np.array([np.flatnonzero(at == row)[0] for row in range(150)])
    reference = SVC(C=2.0, gamma=0.3, tol=1e-7).fit(machine.X, machine.y)
    np.testing.assert_array_equal(there.support_, first[reference.support_])
    assert there.shape_fit_ == (150, 4)
    more, labels = machine.later
    both = np.vstack([more, machine.X[:30]]), np.append(labels, machine.y[:30])
    new = [*(f"new {row}" for row in range(45)), *(f"row {row}" for row in range(30))]
    there.partial_fit(*both, row_ids="hash" if kind == "hash" else new)
    if kind == "hash":
        there.forget(X[:40], y[:40])
    else:
        there.forget(row_ids=[f"row {row}" for row in range(40)])
    stay = np.vstack([machine.X[40:], more]), np.append(machine.y[40:], labels)
    assert_same_optimum(there, machine.here(*stay))
    with pytest.raises(DataError, match=r"Row id 'a' belongs to different rows: rows 0 and 70"):
        machine.there(engine).fit(X[:120], y[:120], row_ids=da.from_array(["a", *map(str, range(69))] + ["a"] * 50))


def test_parallel_kernel_svc_of_data_frames(engine, machine):
    table = pd.DataFrame(machine.X, columns=list("uvwx")).assign(label=machine.y)
    frame = dd.from_pandas(table, npartitions=4)
    frame = frame[frame["label"] != "elm"]  # so that some partitions have few rows, or none
    chosen = table[table["label"] != "elm"]
    there = machine.there(engine).fit(frame[list("uvwx")], frame["label"])
    here = machine.here(chosen[list("uvwx")], chosen["label"])
    assert_same_optimum(there, here)
    assert there.feature_names_in_.tolist() == list("uvwx")
    np.testing.assert_array_equal(there.predict(chosen[list("uvwx")]), here.predict(chosen[list("uvwx")]))


def test_errors_in_partitions_name_them(engine, machine):
    broken = machine.X.copy()
    broken[130, 2] = np.nan
    X, y = da.from_array(broken, chunks=(60, 4)), da.from_array(machine.y, chunks=60)
    with pytest.raises(DataError, match=r"partition 2: .*row 10, column 2"):
        machine.there(engine).fit(X, y)
    with pytest.raises(ParameterError, match="units=2, but each of the 3 partitions of X is one unit"):
        machine.there(engine, units=2).fit(X, y)
    with pytest.raises(DataError, match="no row with a positive weight"):
        machine.there(engine).fit(da.from_array(machine.X, chunks=(60, 4)), y, da.zeros(150, chunks=60))
    with pytest.raises(DataError, match="Labels are missing"):
        machine.there(engine).fit(X, None)
    with pytest.raises(ParameterError, match="150 rows, but 120"):
        machine.there(engine).fit(X, y[:120])
    with pytest.raises(DataError, match="partitioned table of a cluster"):
        machine.here(dd.from_pandas(pd.DataFrame(machine.X), npartitions=2))


def worker_of(training, index):
    """Return the process number of the worker of a unit."""
    units = training.trainer.units
    return units._client.run(os.getpid, workers=[units._places[index]])[units._places[index]]


def test_a_worker_killed_between_fits_is_an_error(mortal, machine):
    there = machine.there(mortal).fit(machine.X, machine.y)
    before, place = there.dual_coef_.copy(), there._training.trainer.units._places[1]
    os.kill(worker_of(there._training, 1), signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(EngineError, match=f"{place} is lost|Call fit again"):
            there.partial_fit(*machine.later)
    np.testing.assert_array_equal(there.dual_coef_, before)
    assert_same_optimum(there.fit(machine.X, machine.y), machine.here())


def test_a_worker_killed_during_a_fit_is_an_error(mortal, machine, monkeypatch):
    there = machine.there(mortal).fit(machine.X, machine.y)
    training, step, before = there._training, WorkingSetCoordinator.next, there.dual_coef_.copy()
    place, victim = training.trainer.units._places[0], worker_of(training, 0)

    def kill(coordinator, replies):
        if coordinator.n_iter == 2:
            os.kill(victim, signal.SIGKILL)
        return step(coordinator, replies)

    monkeypatch.setattr(WorkingSetCoordinator, "next", kill)
    with pytest.raises(EngineError, match=f"{place} is lost"):
        there.partial_fit(*machine.later)
    monkeypatch.undo()
    np.testing.assert_array_equal(there.dual_coef_, before)
    with pytest.raises(EngineError, match="Call fit again"):
        there.forget(*machine.later)
    assert_same_optimum(there.fit(machine.X, machine.y), machine.here())


def test_partial_fit_after_the_engine_is_closed_is_an_error(engine, machine):
    with Dask(engine.client.scheduler.address) as other:
        there = machine.there(other).fit(machine.X, machine.y)
        predicted = there.predict(machine.X)
    with pytest.raises(EngineError):
        there.partial_fit(*machine.later)
    np.testing.assert_array_equal(there.predict(machine.X), predicted)


def test_an_engine_that_is_not_closed_leaves_no_process(tmp_path):
    script = tmp_path / "script.py"
    content = textwrap.dedent("""
        import os
        from mergesvm.engines import Dask

        if __name__ == "__main__":
            engine = Dask(workers=1)
            print(engine.workers, *engine.client.run(os.getpid).values())
    """)
    script.write_text(content)
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=True)
    workers, process = map(int, ended.stdout.split())
    assert workers == 1
    assert ended.stderr == ""
    assert not Path(f"/proc/{process}").exists()
