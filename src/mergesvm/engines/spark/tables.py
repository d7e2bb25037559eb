"""Spark DataFrames: their columns, and vectors among them."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

from mergesvm.engines.base import PartitionedRows
from mergesvm.engines.spark.session import quiet_pandas
from mergesvm.errors import DataError, ParameterError


def is_table(rows: Any) -> bool:
    """Whether rows are a Spark DataFrame, of a classic session or of Spark Connect."""
    return type(rows).__module__ in ("pyspark.sql.classic.dataframe", "pyspark.sql.connect.dataframe")


class SparkTable(PartitionedRows):
    """A Spark DataFrame."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def partitions(self, columns: Sequence[str] | None = None) -> Partitions:
        """The partitions; Spark does not read other columns."""
        return Partitions(self._table if columns is None else selected(self._table, columns))

    def schema(self) -> Any:
        """The Arrow schema; vectors of pyspark.ml and arrays of numbers are lists of fixed size.

        The size is taken from the metadata of the column, or else from the first vector.
        """
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_type

        fields = []
        for field in self._table.schema.fields:
            kind = field.dataType
            if _is_list(kind):
                size = field.metadata.get("ml_attr", {}).get("num_attrs")
                size = _first_size(self._table, field.name) if size is None else int(size)
                inner = pa.float64() if _is_vector(kind) else to_arrow_type(kind.elementType)
                fields.append(pa.field(field.name, pa.list_(inner, size)))
            else:
                fields.append(pa.field(field.name, arrow_type(kind)))
        return pa.schema(fields)


class Partitions(Sequence[Any]):
    """The partitions of a table as tasks. They exist only on the workers, and only Spark knows their number.

    The columns of ``table`` are renamed to numbers, because pyspark cannot handle dots in column names. Vectors are
    converted to arrays.
    """

    def __init__(self, table: Any) -> None:
        self.names = list(table.columns)
        with quiet_pandas():
            self.table = _arrays(table).toDF(*(f"c{index}" for index in range(len(self.names))))

    def __len__(self) -> int:
        return int(self.table.rdd.getNumPartitions())

    def __getitem__(self, index: Any) -> Any:
        raise ParameterError(f"Partition {index} of a Spark DataFrame exists only on the workers.")


def selected(table: Any, columns: Sequence[str]) -> Any:
    """Select columns; Spark does not read the others."""
    return table.select(*(quoted(name) for name in columns))


def quoted(name: str) -> str:
    """Quote the name of a column, which may contain dots.

    >>> quoted("size.cm")
    '`size.cm`'
    """
    return "`" + name.replace("`", "``") + "`"


def arrow_type(kind: Any) -> Any:
    """Return the Arrow type of a column; unknown types become binary, which cannot be learned from."""
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    # Times are not learned from, so the zone does not matter; but pyspark 4.3 requires one.
    zone = {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}
    try:
        return to_arrow_type(kind, **zone)
    except PySparkException:
        return pa.binary()


def _is_vector(kind: Any) -> bool:
    return type(kind).__name__ == "VectorUDT"


def _is_list(kind: Any) -> bool:
    from pyspark.sql.types import ArrayType, NumericType

    return _is_vector(kind) or (isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType))


def _first_size(table: Any, name: str) -> int:
    row = selected(table, [name]).dropna().first()
    if row is None or not len(row[0]):
        raise DataError(f"Column {name!r} holds no vector, or an empty one: the number of its features is unknown.")
    return len(row[0])


def _arrays(table: Any) -> Any:
    """Convert vectors to arrays, which Arrow can represent."""
    vectors = {field.name for field in table.schema.fields if _is_vector(field.dataType)}
    if not vectors:
        return table
    from pyspark.ml.functions import vector_to_array

    columns = [(name, table[quoted(name)]) for name in table.columns]
    return table.select(
        *(vector_to_array(column).alias(name) if name in vectors else column for name, column in columns)
    )
