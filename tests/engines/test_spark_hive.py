"""Hive tables, in a separate program with its own metastore."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mergesvm as ms
import samples
from mergesvm.engines import Spark
from mergesvm.engines.spark.session import LOGGING, quiet_pandas

pytestmark = pytest.mark.xdist_group("spark")

NAMES = ["x0", "x1"]
COLUMNS = "x0 double, x1 double, y int"

MADE = {
    "parquet": f"create table parquet_rows ({COLUMNS}) stored as parquet",
    "orc": f"create table orc_rows ({COLUMNS}) stored as orc",
}


def session_of_hive(folder):
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={LOGGING.as_uri()} -Dderby.stream.error.file={folder}/derby.log"
        ),
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
    }
    builder = SparkSession.builder.master("local[2]").enableHiveSupport()
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(folder):
    """Print for every table whether its knowledge equals that of its rows."""
    X, y = samples.rows(60, 2)
    with quiet_pandas():
        session = session_of_hive(folder)
    engine, found = Spark(session), {}
    rows = [(*row, int(label)) for row, label in zip(X.tolist(), y, strict=True)]
    session.createDataFrame(rows, COLUMNS).coalesce(1).createOrReplaceTempView("given")

    def ask(name, table, kept=slice(None), label="y"):
        expected = ms.learn(X[kept], y[kept], feature_names=NAMES)
        knowledge = ms.learn(table, label=label, columns=NAMES, engine=engine).about(expected.anchor)
        same = knowledge.counts.tolist() == expected.counts.tolist() and all(
            np.allclose(one, other, rtol=1e-9, atol=1e-9)
            for one, other in ((knowledge.sums, expected.sums), (knowledge.grams, expected.grams))
        )
        found[name] = same

    for name, command in MADE.items():
        session.sql(command)
        session.sql(f"insert into {name}_rows select * from given")
        ask(name, session.table(f"{name}_rows"))
    session.sql(f"create table days ({COLUMNS}) partitioned by (day int) stored as parquet")
    session.sql("insert into days partition (day = 1) select * from given where x1 > 0")
    session.sql("insert into days partition (day = 2) select * from given where x1 < 0")
    ask("partitioned", session.table("days"))
    ask("one partition", session.sql("select * from days where day = 2"), X[:, 1] < 0)
    print(json.dumps(found))  # noqa: T201
    session.stop()


def test_hive_tables(java, tmp_path):
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(Path(samples.__file__).parent)}
    command = [sys.executable, "-W", "error", __file__, str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == dict.fromkeys(["parquet", "orc", "partitioned", "one partition"], True)


if __name__ == "__main__":
    main(sys.argv[1])
