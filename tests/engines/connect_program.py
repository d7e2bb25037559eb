"""Checks of the engine Spark on a session of Spark Connect. Prints the outcomes as JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback

import numpy as np
import pyarrow as pa

import engine_laws
import mergesvm as ms
import samples
from engine_laws import assert_same, assert_same_folds, raised, union
from mergesvm.engines.spark.session import quiet_pandas
from mergesvm.errors import DataError, EngineError, ParameterError

NAMES = ["x0", "x1", "x2", "x3"]
X, Y = samples.rows()
ORDER = np.argsort(Y, kind="stable")  # most partitions have only some of the classes
X, Y = X[ORDER], Y[ORDER]


def make_table(engine):
    columns = {name: X[:, index] for index, name in enumerate(NAMES)}
    words = np.array(["no", "yes", "perhaps"])[Y]
    return engine.session.createDataFrame(pa.table({**columns, "y": Y, "name": words})).repartition(5)


def check_tables(engine):
    table = make_table(engine)
    found = ms.learn(table, label="y", columns=NAMES, engine=engine)
    assert_same(found, ms.learn(X, Y, feature_names=NAMES))
    found = ms.learn(table, label="name", columns=["x1"], weight="y", per_class=False, engine=engine)
    words = np.array(["no", "yes", "perhaps"])[Y]
    assert_same(found, ms.learn(X[:, 1:2], words, Y, feature_names=["x1"], per_class=False))
    raised(DataError, lambda: ms.learn(table, label="z", engine=engine))
    assert "label=" in raised(ParameterError, lambda: ms.learn(table, Y, engine=engine))
    empty = table.where("x0 > 1000")
    assert "no rows" in raised(DataError, lambda: ms.learn(empty, label="y", columns=NAMES, engine=engine))


def check_tables_in_many_partitions(engine):
    table = make_table(engine).repartition(70)
    found = ms.learn(table, label="y", columns=NAMES, engine=engine)
    assert_same(found, ms.learn(X, Y, feature_names=NAMES))


def check_folds_and_groups(engine):
    table = make_table(engine)
    found = ms.learn(table, label="y", columns=NAMES, folds=3, groups="name", engine=engine)
    words = np.array(["no", "yes", "perhaps"])[Y]
    assert_same_folds(found, ms.learn(X, Y, folds=3, groups=words, feature_names=NAMES))


def check_mapped_tables(engine):
    mapping = ms.features.Fourier(64, seed=1, precision="float64").freeze(X)
    found = ms.learn(make_table(engine), label="y", columns=NAMES, features=mapping, engine=engine)
    assert_same(found, ms.learn(X, Y, features=mapping, feature_names=NAMES))


def check_vectors_and_arrays(engine):
    from pyspark.ml.linalg import Vectors

    rows = [(Vectors.dense(row[:2]), row[2:], int(label)) for row, label in zip(X.tolist(), Y, strict=True)]
    table = engine.session.createDataFrame(rows, ["dense", "pair", "y"])
    found = ms.learn(table, label="y", engine=engine)
    assert_same(found, ms.learn(X, Y, feature_names=["dense[0]", "dense[1]", "pair[0]", "pair[1]"]))


def check_large_rows_in_memory(engine):
    wide = np.random.default_rng(5).normal(size=(3000, 100))
    labels = (wide[:, 0] > 0).astype(int)
    assert_same(ms.learn(wide, labels, engine=engine), ms.learn(wide, labels))


def check_large_results(engine):
    before = engine.traffic
    found = engine.merge(lambda task: (task,) + (0,) * 2_000_000, range(2), union())
    assert len(found) == 2 + 2 * 2_000_000
    many = engine.merge(lambda task: (task,), range(40), union())
    assert many == tuple(range(40))
    assert engine.traffic.messages - before.messages == 2 + 1 + 40 + 3 + 1
    assert engine.traffic.rounds - before.rounds == 2 + 3


def check_errors_in_partitions(engine):
    broken = X.copy()
    broken[450, 2] = np.inf
    columns = {name: broken[:, index] for index, name in enumerate(NAMES)}
    table = engine.session.createDataFrame(pa.table({**columns, "y": Y})).repartition(4)
    message = raised(DataError, lambda: ms.learn(table, label="y", engine=engine))
    assert "partition" in message, message

    def lock(task):
        class OddError(Exception):
            def __init__(self, one, other):
                super().__init__(f"{one} and {other}")
                self.lock = threading.Lock()

        raise OddError(1, 2)

    assert "OddError: 1 and 2" in raised(EngineError, lambda: engine.map(lock, [1]))


def check_an_address(engine):
    address = f"sc://{engine.session.client._builder.endpoint}"
    other = ms.engines.Spark(address)
    assert repr(other) == f"Spark({address!r})"
    assert other.map(abs, [-1, -2]) == [1, 2]
    assert other.session is not engine.session
    message = raised(EngineError, lambda: ms.engines.Spark("sc://localhost:1"))
    assert "No connection to a Spark Connect server at sc://localhost:1" in message, message


def check_a_table_of_another_session(engine):
    other = engine.session.newSession()
    table = other.createDataFrame(pa.table({"x": [1.0, 2.0], "y": [0, 1]}))
    message = raised(ParameterError, lambda: ms.learn(table, label="y", engine=engine))
    assert "cannot read rows of type pyspark" in message, message


def check_an_interrupt(engine):
    def work(task):
        time.sleep(60)

    timer = threading.Timer(3.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    raised(KeyboardInterrupt, lambda: engine.map(work, range(2)))
    assert time.monotonic() - start < 30
    assert engine.map(lambda task: task, [1]) == [1]


def check_a_stopped_session(engine):
    engine.session.stop()
    assert "has been stopped" in raised(EngineError, lambda: engine.map(abs, [1]))


CHECKS = {name: check for name, check in vars().items() if name.startswith("check_")}


def main(folder):
    os.chdir(folder)
    from pyspark.sql import SparkSession

    with quiet_pandas():
        session = SparkSession.builder.remote("local[2]").getOrCreate()
    engine = ms.engines.Spark(session)
    assert engine.workers == 2, engine.workers
    outcomes = {}
    for name, check in {**engine_laws.LAWS, **CHECKS}.items():
        start = time.monotonic()
        try:
            check(engine)
            outcomes[name] = "passed"
        except Exception:  # noqa: BLE001 - reported by the test
            outcomes[name] = traceback.format_exc()
        sys.stderr.write(f"{name} {time.monotonic() - start:.1f} s {outcomes[name]}\n")
    print(json.dumps(outcomes), flush=True)  # noqa: T201
    os._exit(0)  # pyspark waits at exit for the server whose session a check has stopped


if __name__ == "__main__":
    main(sys.argv[1])
