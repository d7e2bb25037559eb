from __future__ import annotations

import datetime
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mergesvm as ms
import samples
from engine_laws import assert_same, assert_same_folds, union
from mergesvm.data.cluster_table import TableColumns
from mergesvm.engines import Spark
from mergesvm.engines.spark.session import find_java
from mergesvm.engines.spark.work import CHUNK_BYTES
from mergesvm.errors import DataError, EngineError, FeatureMapError, ParameterError
from mergesvm.knowledge.learning.local import learn_scan
from mergesvm.knowledge.learning.options import SumOptions
from mergesvm.knowledge.learning.reduction import Reducer

pytestmark = pytest.mark.xdist_group("spark")

NAMES = ["x0", "x1", "x2", "x3"]


@pytest.fixture(scope="module")
def engine(spark_session):
    return Spark(spark_session)


@pytest.fixture(scope="module")
def rows():
    """Rows sorted by class, so that most partitions have only some of the classes."""
    X, y = samples.rows()
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


@pytest.fixture(scope="module")
def folder(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("spark")
    X, y = rows
    for part in range(6):
        mine = slice(100 * part, 100 * (part + 1))
        table = samples.table(X[mine], y[mine]).append_column(
            "name", pa.array(["no", "yes", "perhaps"]).take(pa.array(y[mine]))
        )
        pq.write_table(table.append_column("weight", pa.array(y[mine] + 1.0)), folder / f"part{part}.parquet")
    return folder


@pytest.fixture(scope="module")
def table(engine, folder):
    return engine.session.read.parquet(str(folder))


def made(engine, columns, schema, partitions=3):
    return engine.session.createDataFrame(list(zip(*columns, strict=True)), schema).repartition(partitions)


def test_a_table_by_columns(engine, table, rows):
    X, y = rows
    assert_same(ms.learn(table, label="y", columns=NAMES, engine=engine), ms.learn(X, y, feature_names=NAMES))
    words = np.array(["no", "yes", "perhaps"])[y]
    found = ms.learn(table, label="name", columns=NAMES, weight="weight", engine=engine)
    assert_same(found, ms.learn(X, words, y + 1.0, feature_names=NAMES))
    found = ms.learn(table, label="y", columns=["x3", "x0"], per_class=False, engine=engine)
    assert_same(found, ms.learn(X[:, [3, 0]], y, feature_names=["x3", "x0"], per_class=False))


def test_only_needed_columns_are_read(engine, table):
    rows = engine.partitioned(table)
    columns = TableColumns.of(rows.schema(), "y", columns=["x2"])
    assert columns.needed == ["x2", "y"]
    parts = rows.partitions(columns.needed)
    assert parts.names == ["x2", "y"]
    read = parts.table._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<x2:double,y:bigint>" in read


def test_column_names_with_dots(engine, rows):
    X, y = rows
    table = made(engine, (X[:, 0].tolist(), X[:, 1].tolist(), y.tolist()), ["a.b", "c`d", "the.label"])
    found = ms.learn(table, label="the.label", engine=engine)
    assert_same(found, ms.learn(X[:, :2], y, feature_names=["a.b", "c`d"]))


def test_empty_partitions_and_many_partitions(engine, table, rows):
    X, y = rows
    expected = ms.learn(X, y, feature_names=NAMES)
    for other in (table.repartition(100), table.repartitionByRange(40, "y"), table.coalesce(1)):
        assert_same(ms.learn(other, label="y", columns=NAMES, engine=engine), expected)
    with pytest.raises(DataError, match="no rows"):
        ms.learn(table.where("x0 > 1000"), label="y", columns=NAMES, engine=engine)


def test_pieces_are_added_and_subtracted(engine, table, rows):
    X, y = rows
    first, rest = table.where("x0 < 0"), table.where("x0 >= 0")
    one, other = (ms.learn(part, label="y", columns=NAMES, engine=engine) for part in (first, rest))
    whole = ms.learn(table, label="y", columns=NAMES, engine=engine)
    assert_same(one + other, whole)
    assert_same(ms.subtract(whole, other, force=True), ms.learn(X[X[:, 0] < 0], y[X[:, 0] < 0], feature_names=NAMES))


def test_folds_of_tables_and_groups_are_no_feature(engine, table, rows):
    X, y = rows
    words = np.array(["no", "yes", "perhaps"])[y]
    for other in (table, table.repartition(7)):
        found = ms.learn(other, label="y", columns=NAMES, folds=5, engine=engine)
        assert_same_folds(found, ms.learn(X, y, folds=5, feature_names=NAMES))
    found = ms.learn(table.drop("name"), label="y", folds=2, groups="weight", engine=engine)
    assert found.layout.names == tuple(NAMES)
    assert_same_folds(found, ms.learn(X, y, folds=2, groups=y + 1, feature_names=NAMES))
    found = ms.learn(table, label="y", columns=NAMES, folds=3, groups="name", engine=engine)
    assert_same_folds(found, ms.learn(X, y, folds=3, groups=words, feature_names=NAMES))
    with pytest.raises((ParameterError, DataError), match="whom"):
        ms.learn(table, label="y", columns=NAMES, folds=3, groups="whom", engine=engine)
    nobody = table.selectExpr(*NAMES, "y", "case when x0 > 0 then name end as name")
    with pytest.raises(DataError, match="have no group in 'name'"):
        ms.learn(nobody, label="y", columns=NAMES, folds=3, groups="name", engine=engine)


def test_a_frozen_map(engine, table, rows):
    X, y = rows
    mapping = ms.features.Fourier(64, seed=1, precision="float64").freeze(X)
    found = ms.learn(table, label="y", columns=NAMES, features=mapping, engine=engine)
    assert_same(found, ms.learn(X, y, features=mapping, feature_names=NAMES))
    with pytest.raises(FeatureMapError, match="not frozen"):
        ms.learn(table, label="y", columns=NAMES, features=ms.features.Fourier(64), engine=engine)


def test_files_and_rows_in_memory(engine, folder, rows):
    X, y = rows
    scan = ms.scan(f"{folder}/*.parquet", label="y", features=NAMES)
    assert_same(ms.learn(scan, engine=engine), ms.learn(X, y, feature_names=NAMES))
    wide = np.random.default_rng(5).normal(size=(3000, 100))  # larger than Spark accepts in a command
    labels = (wide[:, 0] > 0).astype(int)
    assert_same(ms.learn(wide, labels, engine=engine), ms.learn(wide, labels))


def test_categories_are_declared_and_missing_values_dropped(engine, rows):
    X, y = rows
    words = np.array(["red", "blue", "green"])[(X[:, 1] > 0).astype(int) + (X[:, 2] > 0)].tolist()
    numbers = [None if index % 7 == 0 else value for index, value in enumerate(X[:, 0].tolist())]
    table = made(engine, (numbers, words, y.tolist()), "size double, colour string, sold long")
    vocabulary = {"colour": ["blue", "green", "red"]}
    with pytest.raises(DataError, match="colour"):
        ms.learn(table, label="sold", engine=engine)
    with pytest.raises(DataError, match=r"(?s)partition.*size"):
        ms.learn(table, label="sold", categories=vocabulary, engine=engine)
    found = ms.learn(table, label="sold", categories=vocabulary, missing="drop", engine=engine)
    kept = np.arange(len(X)) % 7 != 0
    encoded = [np.array(words)[kept] == word for word in vocabulary["colour"]]
    expected = ms.learn(np.column_stack([X[kept, 0], *encoded]), y[kept])
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_allclose(found.about(expected.anchor).grams, expected.grams, rtol=1e-9)
    assert found.layout.names == ("size", "colour=blue", "colour=green", "colour=red")


def test_vectors_and_arrays_become_one_feature_per_element(engine, rows):
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.linalg import Vectors

    X, y = rows
    sparse = [Vectors.sparse(3, [0, 2], [row[1], row[2]]) for row in X.tolist()]
    dense = [Vectors.dense(row[:2]) for row in X.tolist()]
    columns = (X[:, 0].tolist(), sparse, dense, X[:, 2:].tolist(), y.tolist())
    table = made(engine, columns, ["size", "sparse", "dense", "pair", "sold"])
    stacked = np.column_stack([X[:, 0], X[:, 1], 0 * X[:, 0], X[:, 2], X[:, :2], X[:, 2:]])
    names = ["size", "sparse[0]", "sparse[1]", "sparse[2]", "dense[0]", "dense[1]", "pair[0]", "pair[1]"]
    assert_same(ms.learn(table, label="sold", engine=engine), ms.learn(stacked, y, feature_names=names))
    found = ms.learn(table, label="sold", columns=["pair", "size"], engine=engine)
    assert_same(found, ms.learn(X[:, [2, 3, 0]], y, feature_names=["pair[0]", "pair[1]", "size"]))
    assembled = VectorAssembler(inputCols=["size", "dense"], outputCol="all").transform(table)
    found = ms.learn(assembled, label="sold", columns="all", engine=engine)
    assert_same(found, ms.learn(X[:, [0, 0, 1]], y, feature_names=["all[0]", "all[1]", "all[2]"]))


def test_missing_vectors_are_dropped_and_other_lengths_are_an_error(engine):
    table = engine.session.createDataFrame(
        [([1.0, 2.0], 0), (None, 1), ([3.0, None], 1), ([5.0, 6.0], 1)], "v array<double>, y int"
    )
    found = ms.learn(table.coalesce(1), label="y", missing="drop", engine=engine)
    assert found.rows.tolist() == [1, 1]
    np.testing.assert_allclose(found.about(np.zeros(2)).sums, [[1, 2], [5, 6]])
    with pytest.raises(DataError, match="NaN"):
        ms.learn(table, label="y", engine=engine)
    longer = engine.session.createDataFrame([([1.0, 2.0], 0), ([1.0, 2.0, 3.0], 1)], "v array<double>, y int").coalesce(
        1
    )
    with pytest.raises(DataError, match="row 1 has 3 values in column 'v', but others have 2"):
        ms.learn(longer, label="y", engine=engine)
    with pytest.raises(DataError, match="'v' holds no vector"):
        ms.learn(longer.where("y > 5"), label="y", engine=engine)


def test_columns_of_other_types_are_rejected_by_name(engine):
    row = (datetime.date(2020, 1, 1), Decimal("1.5"), ["a"], 1)
    table = engine.session.createDataFrame([row], "day date, price decimal(5, 2), tags array<string>, y int")
    with pytest.raises(DataError, match="'day' is of type date32"):
        ms.learn(table, label="y", engine=engine)
    with pytest.raises(DataError, match="'tags' is of type list"):
        ms.learn(table, label="y", columns=["tags"], engine=engine)
    assert ms.learn(table, label="y", columns=["price"], engine=engine).about(np.zeros(1)).sums.tolist() == [[1.5]]
    with pytest.raises(DataError, match="no column 'z'"):
        ms.learn(table, label="z", engine=engine)


def test_an_error_names_the_partition(engine, rows):
    X, y = rows
    X = X.copy()
    X[450, 2] = np.inf
    table = made(engine, (*X.T.tolist(), y.tolist()), [*NAMES, "y"], 4)
    with pytest.raises(DataError, match=r"partition \d.*infinity"):
        ms.learn(table, label="y", engine=engine)


def test_a_table_without_a_label_column_is_rejected(engine, table, rows):
    with pytest.raises(ParameterError, match="label="):
        ms.learn(table, rows[1], engine=engine)
    with pytest.raises(ParameterError, match="cannot read rows of type pyspark"):
        ms.learn(table, label="y", engine=ms.engines.Threads(1))


def test_parquet_files(engine, rows, tmp_path):
    X, y = rows
    words, labels = np.array(["red", "blue", "green"])[(X[:, 1] > 0).astype(int)], np.array(["no", "yes", "perhaps"])[y]
    numbers = pa.array([None if index % 7 == 0 else value for index, value in enumerate(X[:, 0].tolist())])
    colours = [pa.array(words), pa.array(words).dictionary_encode(), pa.array(words, pa.large_string())]
    for part, (start, stop) in enumerate([(0, 10), (10, 400), (400, 600)]):
        piece = {"size": numbers, "x": X[:, 2], "colour": colours[part], "sold": labels, "weight": y + 1.0}
        table = pa.table({name: values[start:stop] for name, values in piece.items()})
        pq.write_table(table, tmp_path / f"part{part}.parquet", row_group_size=37)
    table = engine.session.read.parquet(str(tmp_path))
    options = {"label": "sold", "categories": {"colour": ["blue", "red"]}, "missing": "drop", "weight": "weight"}
    found = ms.learn(table, **options, engine=engine)
    kept = np.arange(len(X)) % 7 != 0
    stacked = np.column_stack([X[:, 0], X[:, 2], words == "blue", words == "red"])[kept]
    expected = ms.learn(stacked, labels[kept], y[kept] + 1.0)
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_allclose(found.about(expected.anchor).grams, expected.grams, rtol=1e-9, atol=1e-9)
    with pytest.raises(DataError, match=r"(?s)partition \d.*size"):
        ms.learn(table, **options | {"missing": "error"}, engine=engine)


def written(table, how, folder):
    getattr(table.write, how)(str(folder))
    return folder


TABLES = {
    "all of it": lambda table, _: table,
    "some columns": lambda table, _: table.select("y", "x3", "x0", "x1", "x2"),
    "a view": lambda table, _: table.createOrReplaceTempView("plain") or table.sparkSession.sql("select * from plain"),
    "an alias of the whole": lambda table, _: table.alias("t").select("t.x0", "t.x1", "t.x2", "t.x3", "t.y"),
    "twice the same files": lambda table, folder: table.sparkSession.read.parquet(str(folder), str(folder)),
    "a pattern": lambda table, folder: table.sparkSession.read.parquet(f"{folder}/part[0-3].parquet"),
    "a filter of names": lambda table, folder: table.sparkSession.read.parquet(str(folder), pathGlobFilter="*[135].p*"),
    "merged": lambda table, folder: table.sparkSession.read.parquet(str(folder), mergeSchema=True),
    "its own schema": lambda table, folder: table.sparkSession.read.schema(table.schema).parquet(str(folder)),
    "a filter": lambda table, _: table.where("x0 > 0"),
    "an expression": lambda table, _: table.withColumn("x0", table.x0 * 2),
    "swapped names": lambda table, _: table.selectExpr("x1 as x0", "x0 as x1", "x2", "x3", "y"),
    "a union": lambda table, _: table.union(table),
    "a limit": lambda table, _: table.limit(10_000),
    "a sample": lambda table, _: table.sample(0.5, seed=1),
    "distinct rows": lambda table, _: table.distinct(),
    "a cast": lambda table, _: table.withColumn("y", table.y.cast("int")),
    "a view with a filter": lambda table, _: (
        table.where("x1 < 0").createOrReplaceTempView("some") or table.sparkSession.table("some").select(*NAMES, "y")
    ),
    "rows in memory": lambda table, _: table.sparkSession.createDataFrame(table.collect()),
    "json": lambda table, folder: table.sparkSession.read.json(str(written(table, "json", folder.with_name("json")))),
    "csv": lambda table, folder: table.sparkSession.read.schema(
        "x0 double, x1 double, x2 double, x3 double, y long"
    ).csv(str(written(table.select(*NAMES, "y"), "csv", folder.with_name("csv")))),
    "folders of values": lambda table, folder: table.sparkSession.read.parquet(
        str(written(table, "parquet", folder.with_name("at") / "y=1"))[: -len("/y=1")]
    ),
    "damage ignored": lambda table, folder: table.sparkSession.read.option("ignoreCorruptFiles", True).parquet(
        str(folder)
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_tables_of_any_query(engine, table, folder, case):
    chosen = TABLES[case](table, folder)
    rows = np.array(chosen.select(*NAMES, "y").collect())
    found = ms.learn(chosen, label="y", columns=NAMES, engine=engine)
    assert_same(found, ms.learn(rows[:, :4], rows[:, 4].astype(int), feature_names=NAMES))


def test_files_are_read_with_the_declared_types(engine, rows, tmp_path):
    X, y = rows
    narrow = pa.table({"x": X[:, 0].astype(np.float32), "n": y.astype(np.int32), "list": X[:, :2].tolist()})
    pq.write_table(narrow, tmp_path / "narrow.parquet")
    table = engine.session.read.schema("x double, n long").parquet(str(tmp_path))
    expected = ms.learn(X[:, :1].astype(np.float32).astype(float), y, feature_names=["x"])
    assert_same(ms.learn(table, label="n", columns=["x"], engine=engine), expected)


def test_files_with_different_columns(engine, tmp_path):
    X = np.arange(40.0).reshape(20, 2)
    first = {"x": X[:, 0], "z": X[:, 1], "y": np.arange(20) % 2}
    others = {
        "a": {"x": X[:, 0].astype(np.float32), "y": first["y"]},
        "b": {"x": X[:, 0], "Z": X[:, 1], "y": first["y"]},
    }
    for name, columns in {"first": first, **others}.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    read = engine.session.read.schema("x double, z double, y long")
    tables = {name: read.parquet(f"{tmp_path}/first.parquet", f"{tmp_path}/{name}.parquet") for name in others}
    assert ms.learn(tables["a"], label="y", missing="drop", engine=engine).rows.tolist() == [10, 10]
    assert ms.learn(tables["a"], label="y", columns=["x"], engine=engine).rows.tolist() == [20, 20]
    assert ms.learn(tables["b"], label="y", engine=engine).rows.tolist() == [20, 20]


def test_files_of_any_name(engine, rows, tmp_path):
    X, y = rows
    for part, name in enumerate(["a b", "50%", "%20", "ü 日", "q?#&=;+", "x[1]{2}"]):
        mine = slice(100 * part, 100 * (part + 1))
        pq.write_table(samples.table(X[mine], y[mine]), tmp_path / f"{name}.parquet")
    table = engine.session.read.parquet(str(tmp_path))
    assert_same(ms.learn(table, label="y", engine=engine), ms.learn(X, y, feature_names=NAMES))


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_an_unreadable_file_is_named(engine, rows, tmp_path, damage):
    X, y = rows
    for part in range(3):
        pq.write_table(samples.table(X, y), tmp_path / f"part{part}.parquet")
    table = engine.session.read.parquet(str(tmp_path))
    last = tmp_path / "part2.parquet"
    if damage == "gone":
        last.unlink()
    else:
        last.write_bytes(last.read_bytes()[:-9])
    with pytest.raises(EngineError, match=last.name):
        ms.learn(table, label="y", engine=engine)


def test_errors_that_cannot_be_pickled_are_raised_as_text(engine):
    def work(task):
        class OddError(Exception):
            def __init__(self, one, other):
                super().__init__(f"{one} and {other}")
                self.lock = threading.Lock()

        raise OddError(1, 2)

    with pytest.raises(EngineError, match="OddError: 1 and 2"):
        engine.map(work, [1])


def test_no_task_starts_after_an_error(engine, tmp_path):
    def work(task):
        if task == 0:
            raise KeyError("broken")
        time.sleep(0.05)
        (tmp_path / str(task)).touch()

    with pytest.raises(KeyError, match="broken"):
        engine.map(work, range(200))
    assert len(list(tmp_path.iterdir())) < 150


def test_an_interrupt_cancels_the_job(engine, tmp_path):
    def work(task):
        (tmp_path / str(task)).touch()
        time.sleep(0.1)

    def interrupt(count, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.map(work, range(200), done=interrupt)
    time.sleep(0.5)
    begun = len(list(tmp_path.iterdir()))
    time.sleep(0.5)
    assert len(list(tmp_path.iterdir())) == begun < 200
    assert engine.map(lambda task: task, [1]) == [1]


def test_large_results_are_sent_in_chunks_and_joined_at_the_workers(engine):
    size = 3 * CHUNK_BYTES + 7
    before = engine.traffic
    found = engine.merge(lambda task: (task,) + (0,) * (size // 2), range(2), union())
    assert sorted(found)[-1] == 1
    assert len(found) == 2 + 2 * (size // 2)
    many = engine.merge(lambda task: (task,), range(40), union())
    assert many == tuple(range(40))
    # 40 results at the first level, 3 at the second, and one for the driver.
    assert engine.traffic.messages - before.messages == 2 + 1 + 40 + 3 + 1
    assert engine.traffic.rounds - before.rounds == 2 + 3
    assert engine.traffic.total - before.total > 2 * size


def test_tasks_of_a_killed_worker_run_again(engine, tmp_path):
    """Also if its task has sent nothing yet."""

    def work(task):
        mark = tmp_path / f"task{task}"
        if task == 1 and not mark.exists():
            mark.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return (task,)

    assert engine.merge(work, range(8), union()) == tuple(range(8))
    assert (tmp_path / "task1").exists()


def test_a_partition_of_a_killed_worker_is_learned_again(engine, table, rows, tmp_path):
    X, y = rows
    held = engine.partitioned(table)
    columns = TableColumns.of(held.schema(), "y", columns=NAMES)
    options = SumOptions(ms.features.Identity(), True, {}, "float64", ms.engines.Threads(1))

    def learn(content):
        def batches():
            for count, batch in enumerate(content):
                yield batch.slice(0, 40)
                if count == 0 and not (tmp_path / "killed").exists():
                    (tmp_path / "killed").write_text(str(os.getpid()))
                    os.kill(os.getpid(), signal.SIGKILL)
                yield batch.slice(40)

        return learn_scan(columns.scan(batches(), "a partition"), options)

    found = engine.merge(learn, held.partitions(columns.needed), Reducer(options.features)).knowledge
    assert not Path("/proc", (tmp_path / "killed").read_text()).exists()
    assert_same(found, ms.learn(X, y, feature_names=NAMES))


def test_a_task_that_kills_its_workers_is_an_error(engine):
    def die(task):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(EngineError, match="Spark failed"):
        engine.map(die, [1])


def test_a_given_session_is_not_stopped(engine, spark_session):
    with Spark(spark_session) as other:
        assert other.workers == 2
        assert repr(other) == "Spark('local[2,4]')"
    assert Spark().map(abs, [-1]) == [1]
    assert Spark("local[2,4]").session.sparkContext is spark_session.sparkContext
    with pytest.raises(EngineError, match=r"master local\[2,4\] is already running"):
        Spark(workers=3)
    with pytest.raises(EngineError, match=r"master local\[2,4\] is already running"):
        Spark("local[1]")


@pytest.mark.parametrize("wrong", [{"session": 0}, {"workers": 0}, {"workers": "x"}])
def test_invalid_arguments_are_rejected(wrong):
    with pytest.raises(ParameterError, match=r"not (0|'x')"):
        Spark(**wrong)


def test_an_address_without_a_spark_connect_server_is_an_error():
    with pytest.raises(EngineError, match=r"No connection to a Spark Connect server at sc://127\.0\.0\.1:9"):
        Spark("sc://127.0.0.1:9")


def test_the_error_for_missing_or_old_java_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match=r"no Java on the PATH.*apt-get install openjdk-17-jre-headless"):
        find_java()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for output, version in (('openjdk version "11.0.2" 2019-01-15', 11), ('java version "1.8.0_291"', 8)):
        java.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
        java.chmod(java.stat().st_mode | stat.S_IXUSR)
        with pytest.raises(EngineError, match=rf"is Java {version}\..*JAVA_HOME"):
            find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(EngineError, match="nowhere/bin/java does not run"):
        find_java()


def test_a_session_is_not_started_without_java(tmp_path):
    code = "from mergesvm.engines import Spark\nSpark()"
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert "EngineError: Spark needs Java 17 or newer, and there is no Java on the PATH" in done.stderr


def test_a_started_session_ends_with_the_program(java):
    code = """
from mergesvm.engines import Spark
engine = Spark(workers=1)
print(engine.workers, engine.map(lambda task, more: task + more, [1, 2, 3], given=(1,)))
print(engine.session.sparkContext._gateway.proc.pid)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    *printed, process = done.stdout.split()
    assert " ".join(printed) == "1 [2, 3, 4]"
    for _ in range(100):
        if not Path(f"/proc/{process}").exists():
            break
        time.sleep(0.1)
    assert not Path(f"/proc/{process}").exists()


def test_a_closed_engine_is_an_error(java):
    code = """
from mergesvm.engines import Spark
engine = Spark(workers=1)
engine.close()
engine.close()
engine.map(abs, [1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "EngineError: The session of Spark('local[1,4]') has been stopped." in done.stderr
