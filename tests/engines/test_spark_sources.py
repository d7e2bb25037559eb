"""Tables of a catalog, of a database, and of changed files."""

from __future__ import annotations

import datetime
import importlib
import shutil
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mergesvm as ms
import samples
from engine_laws import assert_same
from mergesvm.engines import Spark
from mergesvm.errors import DataError, EngineError

pytestmark = pytest.mark.xdist_group("spark")

X, Y = samples.rows(120, 2)
DAY = np.arange(120) % 3
NAMES = ["x0", "x1"]
EVERY = np.full(120, True)


@pytest.fixture(scope="module")
def engine(spark_session):
    return Spark(spark_session)


@pytest.fixture(scope="module")
def session(spark_session, tmp_path_factory):
    """A session with its own database, which holds the rows as a table ``given`` of two files."""
    folder = tmp_path_factory.mktemp("warehouse")
    spark_session.sql(f"create database shop location '{folder}'")
    spark_session.sql("use shop")
    rows = [(*row, int(label), int(day)) for row, label, day in zip(X.tolist(), Y, DAY, strict=True)]
    table = spark_session.createDataFrame(rows, "x0 double, x1 double, y long, day int")
    table.repartition(2, "day").write.saveAsTable("given")
    yield spark_session
    spark_session.sql("use default")
    spark_session.sql("drop database shop cascade")


def saved(session, name, how):
    """The rows as a table written in another way."""
    how(session.table("given").write).saveAsTable(name)
    return session.table(name)


def assert_rows(engine, table, kept=EVERY):
    assert_same(
        ms.learn(table, label="y", columns=NAMES, engine=engine), ms.learn(X[kept], Y[kept], feature_names=NAMES)
    )


TABLES = {
    "saved": (lambda session: session.table("given"), EVERY),
    "queried": (lambda session: session.sql("select y, x1, x0 from given"), EVERY),
    "filtered": (lambda session: session.sql("select * from given where x0 > 0"), X[:, 0] > 0),
    "aliased": (lambda session: session.sql("select X0 as x0, X1 as x1, Y as y from given"), EVERY),
    "a view": (
        lambda session: (
            session.sql("create view below as select x0, x1, y from given where x1 < 0") and session.table("below")
        ),
        X[:, 1] < 0,
    ),
    "partitioned": (lambda session: saved(session, "days", lambda write: write.partitionBy("day")), EVERY),
    "one partition": (lambda session: session.sql("select * from days where day = 2"), DAY == 2),
    "a dropped partition": (
        lambda session: session.sql("alter table days drop partition (day = 1)") and session.table("days"),
        DAY != 1,
    ),
    "bucketed": (lambda session: saved(session, "buckets", lambda write: write.bucketBy(2, "day")), EVERY),
    "orc": (lambda session: saved(session, "columns", lambda write: write.format("orc")), EVERY),
}


@pytest.mark.parametrize("case", TABLES)
def test_tables_of_the_catalog(engine, session, case):
    build, kept = TABLES[case]
    table = build(session)
    assert_rows(engine, table, kept)


def test_a_view_that_swaps_column_names(engine, session):
    table = session.sql("select x1 as x0, x0 as x1, y from given")
    assert_same(ms.learn(table, label="y", columns=NAMES, engine=engine), ms.learn(X[:, ::-1], Y, feature_names=NAMES))


def test_column_names_are_case_insensitive(engine, session):
    table = session.table("given").select("X0", "x1", "Y")
    assert_same(ms.learn(table, label="Y", engine=engine), ms.learn(X, Y, feature_names=["X0", "x1"]))
    files = session.table("given").inputFiles()
    session.sql(f"create table letters (X0 double, x1 double, Y long) using parquet location '{files[0]}'")
    rows = np.array(session.table("letters").collect())
    found = ms.learn(session.table("letters"), label="Y", engine=engine)
    assert_same(found, ms.learn(rows[:, :2], rows[:, 2].astype(int), feature_names=["X0", "x1"]))


def test_added_columns_are_empty_or_have_their_default(engine, session):
    session.sql("create table grown (x0 double, y long) using parquet")
    session.sql("insert into grown values (1.0, 0), (2.0, 1)")
    session.sql("alter table grown add columns (x1 double)")
    session.sql("insert into grown values (3.0, 1, 5.0), (4.0, 0, 6.0)")
    table = session.table("grown")
    found = ms.learn(table, label="y", columns=NAMES, missing="drop", engine=engine)
    assert_same(found, ms.learn(np.array([[3.0, 5.0], [4.0, 6.0]]), [1, 0], feature_names=NAMES))
    with pytest.raises(DataError, match="column 'x1'"):
        ms.learn(table, label="y", columns=NAMES, engine=engine)
    session.sql("alter table grown add columns (x2 double default 7.0)")
    session.sql("insert into grown values (8.0, 1, 9.0, 10.0)")
    table = session.table("grown")
    found = ms.learn(table, label="y", columns=["x0", "x2"], engine=engine)
    rows = np.array([[1.0, 7.0], [2.0, 7.0], [3.0, 7.0], [4.0, 7.0], [8.0, 10.0]])
    assert_same(found, ms.learn(rows, [0, 1, 1, 0, 1], feature_names=["x0", "x2"]))


def test_rows_inserted_and_deleted(engine, session):
    table = saved(session, "goods", lambda write: write.format("parquet"))
    session.sql("insert into goods select * from given where day = 0")
    twice = np.concatenate([np.arange(120), np.flatnonzero(DAY == 0)])
    for other in (table, session.table("goods")):
        assert_rows(engine, other, twice)
    session.sql("insert overwrite goods select * from given where day = 1")
    assert_rows(engine, session.table("goods"), DAY == 1)
    with pytest.raises(EngineError, match="part-"):  # its files have been deleted
        ms.learn(table, label="y", columns=NAMES, engine=engine)


def test_files_added_without_refresh_are_not_read(engine, session, tmp_path):
    pq.write_table(samples.table(X[:50], Y[:50]), tmp_path / "a.parquet")
    table = session.read.parquet(str(tmp_path))
    shutil.copy(tmp_path / "a.parquet", tmp_path / "b.parquet")  # not listed by the table
    assert_rows(engine, table, slice(0, 50))


def test_a_database_query(engine, session, tmp_path):
    session.sparkContext._jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    address = "jdbc:derby:memory:shop;create=true"
    units = (100 * X[:, 1]).astype(int)
    words = np.array(["no", "yes", "perhaps"])[Y]
    columns = (range(120), [Decimal(str(value)) for value in X[:, 0]], X[:, 1], units, Y, words)
    rows = [
        (one, two, float(three), int(four), int(five), str(six))
        for one, two, three, four, five, six in zip(*columns, strict=True)
    ]
    given = session.createDataFrame(
        rows, "id int, price decimal(10, 3), size double, units short, y short, name string"
    )
    given.coalesce(1).write.option("createTableColumnTypes", "name varchar(20), units smallint").jdbc(address, "goods")
    table = session.read.jdbc(address, "goods", column="id", lowerBound=0, upperBound=120, numPartitions=3)
    assert table.rdd.getNumPartitions() == 3
    assert dict(table.dtypes)["price"] == "decimal(10,3)"
    features = ["price", "size", "units"]
    stacked = np.column_stack([X, units])
    assert_same(
        ms.learn(table, label="y", columns=features, engine=engine), ms.learn(stacked, Y, feature_names=features)
    )
    found = ms.learn(table.where("size > 0"), label="name", columns=["price"], engine=engine)
    kept = X[:, 1] > 0
    assert_same(found, ms.learn(X[kept, :1], words[kept], feature_names=["price"]))
    table = session.read.jdbc(address, '(select "price" as price, "y" as y from goods where "size" < 0) as few')
    assert_same(ms.learn(table, label="Y", engine=engine), ms.learn(X[~kept, :1], Y[~kept], feature_names=["PRICE"]))


@pytest.mark.parametrize("kept", ["in memory", "in files"])
def test_columns_of_every_type_are_learned_or_rejected_by_name(engine, session, tmp_path, kept):
    moment = datetime.datetime(2020, 1, 1, 12)
    row = (Decimal("1.25"), Decimal("12345678901.5"), 3, -4, 1.5, True, moment.date(), moment, "a", [moment])
    table = session.createDataFrame(
        [(*row, index % 2) for index in range(4)],
        "price decimal(8, 2), large decimal(30, 4), small short, tiny byte, single float, truth boolean, day date, "
        "time timestamp, name string, times array<timestamp>, y byte",
    ).coalesce(1)
    numbers = table.columns[:6]
    if kept == "in files":
        table.write.parquet(str(tmp_path / "types"))
        table = session.read.parquet(str(tmp_path / "types"))
    found = ms.learn(table, label="y", columns=numbers, engine=engine)
    assert_same(found, ms.learn(np.array([row[:6]] * 4, float), [0, 1, 0, 1], feature_names=numbers))
    for name, kind in {"day": "date32", "time": "timestamp", "times": "list", "name": "text"}.items():
        with pytest.raises(DataError, match=f"column '{name}' is (of type )?{kind}"):
            ms.learn(table, label="y", columns=[name], engine=engine)
    with pytest.raises(DataError, match="label column 'time' is of type timestamp"):
        ms.learn(table, label="time", columns=["tiny"], engine=engine)
    with pytest.raises(DataError, match=r"Unknown label type.*1\.25"):
        ms.learn(table, label="price", columns=["tiny"], engine=engine)


def test_column_names_with_dots_in_files(engine, session, tmp_path):
    inner = pa.array([{"b": value} for value in X[:, 0]])
    pq.write_table(pa.table({"a": X[:, 0], "a.b": X[:, 1], "y": Y}), tmp_path / "names.parquet")
    pq.write_table(pa.table({"a": inner, "y": Y}), tmp_path / "inner.parquet")
    table = session.read.parquet(str(tmp_path / "names.parquet"))
    assert_same(ms.learn(table, label="y", engine=engine), ms.learn(X, Y, feature_names=["a", "a.b"]))
    table = session.read.parquet(str(tmp_path / "inner.parquet")).select("a.b", "y")
    assert_same(ms.learn(table, label="y", engine=engine), ms.learn(X[:, :1], Y, feature_names=["b"]))


def test_the_error_for_a_package_missing_at_workers_says_what_to_do(engine):
    class Elsewhere:
        def __reduce__(self):
            return importlib.import_module, ("only_on_the_driver",)

    with pytest.raises(EngineError, match=r"No module named 'only_on_the_driver'\. .*PYSPARK_PYTHON"):
        engine.map(lambda task, _: task, [1], given=(Elsewhere(),))
