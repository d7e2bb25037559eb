"""A Delta table of several versions, with deleted rows, as a Spark DataFrame."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import mergesvm as ms
import samples
from engine_laws import assert_same
from mergesvm.engines import Spark

pytestmark = pytest.mark.xdist_group("spark")

X, Y = samples.rows(150, 2)
NAMES = ["x0", "x1"]


def delta_source():
    """Delta tables read by Delta's Python package: the one for Spark is a Java package, which is not on PyPI.

    The classes are made here, so that they go to the workers whole.
    """

    class DeltaReader(DataSourceReader):
        """One partition per file of the version being read."""

        def __init__(self, path, files):
            self._files = [f"{path}/{name}" for name in files]

        def partitions(self):
            return [InputPartition(name) for name in self._files]

        def read(self, partition):
            import pyarrow.parquet as pq

            yield from pq.read_table(partition.value, columns=["x0", "x1", "y"]).to_batches()

    class DeltaSource(DataSource):
        @classmethod
        def name(cls):
            return "delta_table"

        def schema(self):
            return "x0 double, x1 double, y bigint"

        def reader(self, schema):
            from deltalake import DeltaTable

            version = self.options.get("versionAsOf")
            table = DeltaTable(self.options["path"], version=None if version is None else int(version))
            return DeltaReader(self.options["path"], table.to_pyarrow_dataset().files)

    return DeltaSource


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Version 0 has 100 rows, version 1 has 150, and of these, version 2 has only those with x0 > 0."""
    folder = str(tmp_path_factory.mktemp("delta"))
    table = pa.table({"x0": X[:, 0], "x1": X[:, 1], "y": Y.astype(np.int64)})
    write_deltalake(folder, table.slice(0, 100))
    write_deltalake(folder, table.slice(100), mode="append")
    DeltaTable(folder).delete("x0 <= 0")
    return folder


@pytest.mark.parametrize("version", [0, 1, 2, None])
def test_versions_of_a_delta_table(spark_session, folder, version):
    spark_session.dataSource.register(delta_source())
    reader = spark_session.read.format("delta_table").option("path", folder)
    table = (reader if version is None else reader.option("versionAsOf", version)).load()
    kept = {0: np.arange(150) < 100, 1: np.full(150, True)}.get(version, X[:, 0] > 0)
    engine = Spark(spark_session)
    assert_same(
        ms.learn(table, label="y", columns=NAMES, engine=engine), ms.learn(X[kept], Y[kept], feature_names=NAMES)
    )
    few = table.where("x1 < 0")
    kept = kept & (X[:, 1] < 0)
    assert_same(ms.learn(few, label="y", columns=NAMES, engine=engine), ms.learn(X[kept], Y[kept], feature_names=NAMES))
