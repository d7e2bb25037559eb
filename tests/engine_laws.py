"""The contract of engines, as functions of an engine: they also run under mpiexec, without pytest.

Functions that are sent to workers are defined within others: they are pickled by value, so workers need not import this
file.
"""

from __future__ import annotations

import copy
import pickle
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import mergesvm as ms
import samples
from mergesvm.engines.reduce import Addition, Block, Join, Total
from mergesvm.engines.registry import engine_specs
from mergesvm.engines.threads import Threads
from mergesvm.engines.traffic import Traffic


def raised(kind, call):
    """Return the message and the notes of the error that a call raises, which has to be of this type."""
    try:
        call()
    except kind as error:
        return "\n".join([str(error), *getattr(error, "__notes__", ())])
    raise AssertionError(f"no {kind.__name__} was raised")


def union():
    class Union(Join):
        def __call__(self, results):
            return tuple(sorted(number for result in results for number in result))

    return Union()


def addition():
    class Vectors(Addition):
        """Sums of vectors of different lengths: workers agree on the length of the sum."""

        def __call__(self, results):
            total = np.zeros(max(map(len, results)))
            for result in results:
                total[: len(result)] += result
            return total

        def describe(self, result):
            return len(result)

        def agree(self, descriptions):
            return tuple(descriptions)

        def blocks(self, plan):
            return [Block(1, tuple(length > place for length in plan)) for place in range(max(plan, default=0))]

        def pack(self, result, plan, index, out):
            out[:] = result[index]

        def total(self, plan, own=None):
            total = Sum()
            total.numbers = np.zeros(max(plan, default=0))
            if own is not None:
                total.numbers[: len(own)] = own
            return total

    class Sum(Total):
        def add(self, index, first, numbers, *, last):
            self.numbers[index + first : index + first + len(numbers)] += numbers

        def finish(self):
            return self.numbers

    return Vectors()


def law_map_returns_the_results_in_order(engine):
    def work(task, factor, offset):
        time.sleep(0.001 * (task % 3))
        return task * task * factor + offset

    for count in (0, 1, 2, 3, 20):
        found = engine.map(work, list(range(count)), given=(2, 1))
        assert found == [2 * task * task + 1 for task in range(count)], (count, found)


def law_merge_joins_any_number_of_results(engine):
    def work(task, offset):
        return (task + offset,)

    for count in (1, 2, 3, 20):
        found = engine.merge(work, list(range(count)), union(), given=(5,))
        assert found == tuple(range(5, count + 5)), (count, found)
    assert engine.merge(work, [], union(), given=(5,)) is None


def law_merge_adds_numbers(engine):
    def alike(task):
        return np.arange(7.0) + task

    def unlike(task):
        return np.arange(task + 1.0) + task

    def some_empty(task):
        return np.arange(3.0 * (task % 2)) + task

    for work in (alike, unlike, some_empty):
        for count in (1, 2, 3, 20):
            expected = addition()([work(task) for task in range(count)])
            found = engine.merge(work, list(range(count)), addition())
            assert found.tolist() == expected.tolist(), (work, count, found, expected)
    assert engine.merge(unlike, [], addition()) is None


def law_errors_keep_their_type_and_name_the_task(engine):
    def work(task):
        if task == 3:
            raise KeyError("a key that is missing")
        return (task,)

    def learn(task):
        if task == 1:
            raise ms.errors.DataError("row 7 is broken")
        return (task,)

    names = [f"part {task}" for task in range(5)]
    for call in (
        lambda function: engine.map(function, list(range(5)), names=names),
        lambda function: engine.merge(function, list(range(5)), union(), names=names),
    ):
        message = raised(KeyError, lambda call=call: call(work))
        assert "a key that is missing" in message, message
        assert "part 3" in message, message
        assert raised(ms.errors.DataError, lambda call=call: call(learn)) == "part 1: row 7 is broken"
    # And it can be used as before.
    assert engine.map(lambda task: task, [1, 2]) == [1, 2]


def law_progress_ends_with_all_tasks(engine):
    for call in (
        lambda done: engine.map(lambda task: task, list(range(6)), done=done),
        lambda done: engine.merge(lambda task: (task,), list(range(6)), union(), done=done),
    ):
        reported = []
        call(lambda count, total: reported.append((count, total)))  # noqa: B023 - called at once
        assert reported == sorted(reported)
        assert reported[-1][0] == reported[-1][1] > 0


def law_actors_keep_their_state(engine):
    class Counter:
        def __init__(self, start, step):
            self.number, self.step = start, step

        def advance(self, times):
            self.number += times * self.step
            return self.number

        def fail(self):
            raise ValueError(f"unit {self.number} fails")

    if not has_actors(engine):
        assert "keeps no state" in raised(ms.errors.EngineError, lambda: engine.actors(Counter, [0], given=(1,)))
        return
    with engine.actors(Counter, [0, 10, 20], given=(2,)) as actors:
        assert len(actors) == 3
        assert actors.call("advance", 1) == [2, 12, 22]
        assert actors.call("advance", 2) == [6, 16, 26]
        assert "unit 6 fails" in raised(ValueError, lambda: actors.call("fail"))
        assert actors.call("advance", 0) == [6, 16, 26]


def register():
    class Register:
        """Stores the arguments of its calls; its errors have its name."""

        def __init__(self, name):
            self.name, self.notes = name, []

        def note(self, *words):
            self.notes.append(words)
            return f"{self.name}{len(self.notes)}"

        def noted(self):
            return self.notes

        def refuse(self, names, kind):
            if self.name in names:
                raise kind(f"{self.name} refuses")
            return self.name

        def large(self, count):
            return np.zeros(count)

    return Register


def law_each_actor_gets_its_own_argument(engine):
    if not has_actors(engine):
        return
    with engine.actors(register(), "abcde") as actors:
        # Where every worker runs the caller's program, it can give its own only, and what it has for others is unused.
        mine = [index * engine.workers // 5 == engine.ranks.rank or not engine.ranks.spmd for index in range(5)]
        each = [10 * index if own else "not mine" for index, own in enumerate(mine)]
        assert actors.call("note", "to all", each=each) == ["a1", "b1", "c1", "d1", "e1"]
        assert actors.call("note", each=[None] * 5) == ["a2", "b2", "c2", "d2", "e2"]
        assert actors.call("noted") == [[(10 * index, "to all"), (None,)] for index in range(5)]
        assert raised(IndexError, lambda: actors.call("note", each=[1, 2, 3])) is not None
        assert len(actors.call("noted")) == 5


def law_all_ranks_get_the_decision_on_the_results_of_actors(engine):
    if not has_actors(engine):
        return
    with engine.actors(register(), "abcde") as actors:
        seen = []

        def decide(results):
            seen.append(results)
            return {"rank": engine.ranks.rank, "joined": "-".join(results)}

        found = actors.consult(decide, "note", "first", 2)
        assert found == {"rank": engine.ranks.on_root(lambda: engine.ranks.rank), "joined": "a1-b1-c1-d1-e1"}
        assert seen == ([["a1", "b1", "c1", "d1", "e1"]] if engine.ranks.is_root else [])
        assert actors.call("noted") == [[("first", 2)]] * 5
    with engine.actors(register(), "a") as actors:  # fewer than workers
        assert actors.consult(lambda results: len(results), "note") == 1
    with engine.actors(register(), "") as actors:
        assert actors.consult(lambda results: results, "note") == []
        assert actors.call("note", each=[]) == []


def law_errors_of_actors_and_decisions_are_raised_on_all_ranks(engine):
    if not has_actors(engine):
        return
    with engine.actors(register(), "abcde") as actors:
        for call in (lambda *arguments: actors.call(*arguments), lambda *arguments: actors.consult(list, *arguments)):
            for kind in (ValueError, ms.errors.DataError):
                # Of two that refuse, the first is spoken of.
                assert "b refuses" in raised(kind, lambda call=call, kind=kind: call("refuse", "be", kind))
                assert call("refuse", "", kind) == list("abcde")
        for kind in (KeyError, ms.errors.DataError, KeyboardInterrupt):

            def decide(results, kind=kind):
                raise kind(f"no decision on {len(results)}")

            assert "no decision on 5" in raised(kind, lambda decide=decide: actors.consult(decide, "note"))
            assert actors.consult(len, "noted") == 5
    assert engine.map(lambda task: -task, [1, 2]) == [-1, -2]


def law_traffic_of_actors_is_counted(engine):
    if not has_actors(engine):
        return
    with engine.actors(register(), "abcd") as actors:
        for call in (lambda: actors.call("large", 1000), lambda: actors.consult(len, "large", 1000)):
            before = engine.traffic
            call()
            sent = engine.traffic.total - before.total
            if isinstance(engine, Threads) or engine.workers == 1:
                assert not (isinstance(engine, Threads) and sent)
                continue
            # Those of units that are not where the results go; or, where they go to all ranks, to each of the others.
            most = 4 * 8000 * max(1, engine.workers - 1)
            assert 2 * 8000 <= sent <= 1.1 * most, (sent, most)
            assert engine.traffic.rounds > before.rounds
            assert engine.traffic.messages > before.messages


def law_closed_actors_are_released(engine):
    if not has_actors(engine):
        return
    actors = engine.actors(register(), "abc")
    assert len(actors) == 3
    if engine.ranks.rank == 0:
        actors.close()  # each worker by itself, and not together
    engine.ranks.on_root(lambda: None)
    actors.close()
    assert len(actors) == 0


def has_actors(engine):
    return next(spec.actors for spec in engine_specs().values() if spec.class_name == type(engine).__name__)


def law_results_and_errors_of_the_root_reach_all_ranks(engine):
    assert engine.ranks.on_root(lambda: 7) == 7
    assert engine.ranks.on_all(lambda: 8) == 8

    def fail():
        raise ms.errors.DataError("no")

    assert "no" in raised(ms.errors.DataError, lambda: engine.ranks.on_root(fail))
    assert "no" in raised(ms.errors.DataError, lambda: engine.ranks.on_all(fail))


def law_an_engine_can_be_a_parameter_of_an_estimator(engine):
    from sklearn.base import clone

    assert copy.deepcopy(engine) is engine
    X, y = samples.rows()
    mine = own_rows(engine)
    fitted = ms.MergeSVC(engine=engine).fit(X[mine], y[mine])
    back = pickle.loads(pickle.dumps(fitted))
    assert back.engine is None or isinstance(back.engine, ms.engines.Threads)
    np.testing.assert_array_equal(back.predict(X), fitted.predict(X))
    assert clone(ms.MergeSVC(engine=engine)).engine is engine
    assert engine.workers >= 1
    assert repr(engine).startswith(type(engine).__name__)


def law_traffic_of_merge_is_counted(engine):
    before = engine.traffic
    assert isinstance(before, Traffic)
    engine.merge(lambda task: np.full(1000, float(task)), list(range(8)), addition())
    sent = engine.traffic.total - before.total
    assert sent >= 8000 or (engine.workers == 1 or isinstance(engine, Threads)), engine.traffic
    assert engine.traffic.rounds > before.rounds or isinstance(engine, Threads) or engine.workers == 1


def law_files_give_the_knowledge_of_all_their_rows(engine):
    """Any engine, linear and mapped, classes scattered so that some workers see only some; then add and retire."""
    X, y = samples.rows()
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    features = ms.features.Fourier(24, seed=0, precision="float64").freeze(X)
    folder = engine.ranks.on_root(tempfile.mkdtemp)
    engine.ranks.on_root(lambda: _write(folder, X, y))
    for mapping, per_class in ((None, True), (features, True), (None, False)):
        terms = {"features": mapping, "per_class": per_class}
        scan = ms.scan(f"{folder}/day*.parquet", label="y")
        found = ms.learn(scan, engine=engine, **terms)
        assert_same(found, ms.learn(X, y, feature_names=scan.names, **terms))
        ids = [origin.id for origin in found.provenance]
        assert len(set(ids)) == (len(COUNTS) if engine.ranks.receives else 0)  # one per file, however it was divided
        of_root = engine.ranks.on_root(lambda ids=ids: ids)
        assert not engine.ranks.receives or ids == of_root
        assert scan.rows == len(X)
        assert {Path(origin.source).name: origin.rows for origin in found.provenance} == COUNTS
        part = ms.learn(ms.scan(f"{folder}/day1.parquet", label="y"), engine=engine, **terms)
        kept = np.r_[0:200, 350 : len(X)]
        left = ms.subtract(found, part, force=True)
        assert_same(left, ms.learn(X[kept], y[kept], feature_names=scan.names, **terms))
        assert_same(left + part, found)


def law_rows_in_memory_give_the_knowledge_of_all(engine):
    X, y = samples.rows()
    weights = np.random.default_rng(3).integers(0, 3, len(X))
    mine = own_rows(engine)
    found = ms.learn(X[mine], y[mine], weights[mine], engine=engine)
    assert_same(found, ms.learn(X, y, weights))
    machine = ms.MergeSVC(engine=engine).fit(X[mine], y[mine]).partial_fit(X[mine], y[mine]).forget(X[mine], y[mine])
    np.testing.assert_allclose(machine.coef_, ms.MergeSVC().fit(X, y).coef_, rtol=1e-9, atol=1e-12)


def law_tables_in_memory_give_the_knowledge_of_all(engine):
    X, y = samples.rows()
    table = samples.table(X, y)
    mine = own_rows(engine)
    part = table.take(np.arange(len(X))[mine])
    found = ms.learn(part, label="y", engine=engine)
    assert_same(found, ms.learn(X, y, feature_names=found.layout.names))
    assert [origin.rows for origin in found.provenance] == ([len(X)] if engine.ranks.receives else [])
    wrong = table if engine.ranks.spmd and engine.ranks.rank < engine.workers - 1 else table.drop_columns("y")
    assert "no column 'y'" in raised(ms.errors.DataError, lambda: ms.learn(wrong, label="y", engine=engine))


def law_folds_do_not_depend_on_the_engine(engine):
    """Files, and rows in memory; by rows, by groups, or as given; in folds of which some workers see only some."""
    X, y = samples.rows()
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    groups = np.array([f"patient {row % 23}" for row in range(len(X))])
    numbers = np.where(y == 2, -1, np.arange(len(X)) * 4 // len(X))
    folder = engine.ranks.on_root(tempfile.mkdtemp)
    engine.ranks.on_root(lambda: _write(folder, X, y, groups))
    files, chosen = f"{folder}/day*.parquet", {"label": "y", "features": ["x0", "x1", "x2", "x3"]}
    found = ms.learn(ms.scan(files, **chosen), folds=4, engine=engine)
    assert_same_folds(found, ms.learn(X, y, folds=4, feature_names=chosen["features"]))
    assert {Path(origin.source).name: origin.rows for origin in found.provenance} == COUNTS
    scan = ms.scan(files, keep=["who"], batch_rows=70, **chosen)
    found = ms.learn(scan, folds=3, groups="who", engine=engine)
    assert_same_folds(found, ms.learn(X, y, folds=3, groups=groups, feature_names=chosen["features"]))
    mine = own_rows(engine)
    weights = np.random.default_rng(3).integers(0, 3, len(X))
    found = ms.learn(X[mine], y[mine], weights[mine], folds=5, engine=engine)
    assert_same_folds(found, ms.learn(X, y, weights, folds=5))
    found = ms.learn(X[mine], y[mine], folds=3, groups=groups[mine], engine=engine)
    assert_same_folds(found, ms.learn(X, y, folds=3, groups=groups))
    found = ms.learn(X[mine], y[mine], folds=numbers[mine], engine=engine)
    assert_same_folds(found, ms.learn(X, y, folds=numbers))


def law_invalid_folds_on_one_rank_are_an_error_on_all(engine):
    X, y = samples.rows(60)
    last = not engine.ranks.spmd or engine.ranks.rank == engine.workers - 1
    for wrong in ([0, -2] * 30, [0.5] * 60, [0, 5000] * 30):
        folds = wrong if last else [0, 1] * 30
        message = raised(ms.errors.ParameterError, lambda folds=folds: ms.learn(X, y, folds=folds, engine=engine))
        assert "folds must be" in message, message
    folds = [0, 1] * (29 if last else 30)
    assert "60 rows, 58 folds" in raised(ms.errors.DataError, lambda: ms.learn(X, y, folds=folds, engine=engine))
    groups = ["a", None if last else "b"] * 30
    message = raised(ms.errors.DataError, lambda: ms.learn(X, y, folds=3, groups=groups, engine=engine))
    assert "row 1 has no group" in message, message


def own_rows(engine):
    """The rows on this rank, under MPI; with three or more ranks, the last has none."""
    if not engine.ranks.spmd:
        return slice(None)
    holders = engine.workers if engine.workers < 3 else engine.workers - 1
    return slice(engine.ranks.rank, None, holders) if engine.ranks.rank < holders else slice(0, 0)


def law_invalid_rows_on_one_rank_are_an_error_on_all(engine):
    X, y = samples.rows()
    wrong = y[:-1] if not engine.ranks.spmd or engine.ranks.rank == engine.workers - 1 else y
    for learn in (
        lambda: ms.learn(X, wrong, engine=engine),
        lambda: ms.MergeSVC(engine=engine).fit(X, wrong),
    ):
        assert "unequal length" in raised(ValueError, learn) or "inconsistent" in raised(ValueError, learn)
    broken = X.copy()
    broken[-1, 0] = np.nan
    assert "NaN" in raised(ms.errors.DataError, lambda: ms.learn(broken, y, engine=engine))


def law_pegasos_does_not_depend_on_the_engine(engine):
    X, y = samples.rows()
    here = ms.PegasosSVC(n_iter=500, random_state=3).fit(X, y)
    there = ms.PegasosSVC(n_iter=500, random_state=3, engine=engine).fit(X, y)
    np.testing.assert_array_equal(there.coef_, here.coef_)
    np.testing.assert_array_equal(there.partial_fit(X, y).coef_, here.partial_fit(X, y).coef_)
    # A seed that is drawn, and a map that is frozen, are the same everywhere.
    mapped = ms.PegasosSVC(n_iter=200, random_state=None, features="fourier", n_features=8, engine=engine).fit(X, y)
    first = engine.ranks.on_root(lambda: (mapped.features_.fingerprint, mapped.coef_))
    assert mapped.features_.fingerprint == first[0]
    np.testing.assert_array_equal(mapped.coef_, first[1])


def law_a_kernel_svm_does_not_depend_on_the_engine(engine):
    X, y = samples.rows(120)
    mine = own_rows(engine)
    there = ms.ParallelKernelSVC(engine=engine)
    if not has_actors(engine):
        message = raised(ms.errors.EngineError, lambda: there.fit(X, y))
        assert f"{type(engine).__name__} keeps no state" in message
        assert "Threads, Dask or MPI" in message
        assert not hasattr(there, "n_features_in_")
        return
    here = ms.ParallelKernelSVC().fit(X, y)
    there.fit(X[mine], y[mine])
    np.testing.assert_allclose(there.objective_, here.objective_, rtol=1e-6)
    np.testing.assert_allclose(there.intercept_, here.intercept_, atol=1e-5)
    np.testing.assert_array_equal(there.n_support_, here.n_support_)
    there.partial_fit(X[mine], y[mine]).forget(X[mine], y[mine])
    np.testing.assert_allclose(there.objective_, here.objective_, rtol=1e-6)


def law_pegasos_refuses_different_rows_on_different_ranks(engine):
    X, y = samples.rows()
    if engine.ranks.spmd and engine.workers > 1:
        other = X + engine.ranks.rank  # as many rows of each class
        message = raised(ms.errors.DataError, lambda: ms.PegasosSVC(n_iter=10, engine=engine).fit(other, y))
        assert "same rows" in message


def law_no_rows_are_an_error_on_all_ranks(engine):
    folder = engine.ranks.on_root(tempfile.mkdtemp)
    engine.ranks.on_root(lambda: [Path(folder, f"{day}.csv").write_text("x,y\n") for day in "ab"])
    message = raised(ms.errors.DataError, lambda: ms.learn(ms.scan(f"{folder}/*.csv", label="y"), engine=engine))
    assert "nothing to learn" in message or "Empty CSV" in message, message
    if engine.ranks.spmd:
        empty = np.empty((0, 3)), np.empty(0, dtype=int)
        assert "nothing to learn" in raised(ms.errors.DataError, lambda: ms.learn(*empty, engine=engine))
        message = raised(ms.errors.FeatureMapError, lambda: ms.MergeSVC(features="fourier", engine=engine).fit(*empty))
        assert "no rows" in message


def law_text_files_that_cannot_be_divided_are_read_whole(engine):
    """A quotation mark far behind the beginning of a file is met by a worker, and not when the file is cut."""
    folder = engine.ranks.on_root(tempfile.mkdtemp)
    path = Path(folder, "large.csv")
    lines = 700_000
    engine.ranks.on_root(lambda: path.write_text("x,y\n" + "1.25,1\n" * lines + '"2.5",0\n') and None)
    found = ms.learn(ms.scan(path, label="y"), engine=engine)
    assert found.rows.tolist() == [1, lines]
    assert found.provenance[0].rows == lines + 1


def law_labels_of_text_files_are_of_one_type_on_all_workers(engine):
    """Only the last worker meets the label that makes all of them text."""
    folder = engine.ranks.on_root(tempfile.mkdtemp)
    path = Path(folder, "large.csv")
    engine.ranks.on_root(lambda: path.write_text("x,y\n" + "1.25,1\n2.5,0\n" * 350_000 + "2.5,01\n") and None)
    assert ms.learn(ms.scan(path, label="y"), engine=engine).labels == ("0", "01", "1")


COUNTS = {"day0.parquet": 200, "day1.parquet": 150, "day2.parquet": 250}


def _write(folder, X, y, groups=None):
    at = 0
    for name, count in COUNTS.items():
        rows = slice(at, at + count)
        columns = {f"x{index}": X[rows, index] for index in range(X.shape[1])}
        columns |= {} if groups is None else {"who": groups[rows]}
        pq.write_table(pa.table({**columns, "y": y[rows]}), Path(folder, name), row_group_size=40)
        at += count


def assert_same(found, expected):
    assert found.labels == expected.labels
    assert found.precision == expected.precision
    np.testing.assert_array_equal(found.rows, expected.rows)
    moved = found.about(expected.anchor)
    for one, other in zip(moved.arrays(), expected.arrays(), strict=True):
        if one is not moved.peaks and other is not expected.peaks:
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max(initial=1.0))


def assert_same_folds(found, expected):
    assert (found.assignment.count, found.assignment.by) == (expected.assignment.count, expected.assignment.by)
    assert found.rows.tolist() == expected.rows.tolist()
    assert (found.rest is None) == (expected.rest is None)
    pieces = [*zip(found, expected, strict=True), (found.total, expected.total)]
    pieces += [] if found.rest is None else [(found.rest, expected.rest)]
    pieces += [(found.train(fold), expected.train(fold)) for fold in range(len(found))]
    for one, other in pieces:
        assert_same(one, other)


def law_machines_that_keep_rows_learn_from_files(engine):
    """Small files are divided after reading, large ones are read in parts."""
    for n_rows, width in ((90, 3), (300, 1500)):  # the latter are 3 MB
        _check_machines_from_files(engine, n_rows, width)


def _check_machines_from_files(engine, n_rows, width):
    generator = np.random.default_rng(0)
    X, y = samples.rows(n_rows, width)
    table = pd.DataFrame({f"x{i}": X[:, i].astype(np.float32) for i in range(width)})
    table["colour"], table["weight"] = generator.choice(["blue", "red"], n_rows), np.round(X[:, 0] ** 2, 1)
    table["y"] = np.array(["ash", "elm", "oak"])[y]
    table.loc[7, "x1"] = np.nan
    path = Path(engine.ranks.on_root(tempfile.mkdtemp), "rows.parquet")
    engine.ranks.on_root(lambda: pq.write_table(pa.Table.from_pandas(table), path, row_group_size=60))
    options = {"label": "y", "weight": "weight", "categories": "auto", "missing": "drop"}
    scan = ms.scan(path, **options)
    kept = table.dropna()
    columns = [kept[f"x{i}"] for i in range(width)] + [(kept.colour == name) for name in ("blue", "red")]
    rows = np.column_stack(columns).astype(np.float32), kept.y, kept.weight.to_numpy()
    pegasos = ms.PegasosSVC(n_iter=100, engine=engine).fit(scan)
    here = ms.PegasosSVC(n_iter=100).fit(*rows[:2], sample_weight=rows[2])
    np.testing.assert_array_equal(pegasos.coef_, here.coef_)
    assert pegasos.model_.signature.categories == (("colour", ("blue", "red")),)
    if not has_actors(engine):
        message = raised(ms.errors.EngineError, lambda: ms.ParallelKernelSVC(engine=engine).fit(scan))
        assert "keeps no state" in message
        return
    kernel = ms.ParallelKernelSVC(engine=engine).fit(scan)
    here = ms.ParallelKernelSVC().fit(*rows)
    np.testing.assert_allclose(kernel.objective_, here.objective_, rtol=1e-5)
    np.testing.assert_array_equal(kernel.support_, here.support_)
    assert kernel.model_.signature == pegasos.model_.signature
    assert (scan.rows, scan.dropped) == (n_rows - 1, 1)
    kernel.partial_fit(scan).forget(scan)
    np.testing.assert_allclose(kernel.objective_, here.objective_, rtol=1e-5)


LAWS = {name: law for name, law in vars().items() if name.startswith("law_")}
