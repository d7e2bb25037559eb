"""Which data frames of Spark are nothing but Parquet files, so that these can be read without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mergesvm.engines.spark.files import is_stored_as, opened
from mergesvm.engines.spark.tables import arrow_type, selected

SPARK = "org.apache.spark.sql"
PROJECT = f"{SPARK}.catalyst.plans.logical.Project"
COLUMN = f"{SPARK}.catalyst.expressions.AttributeReference"
SCAN = f"{SPARK}.execution.datasources.LogicalRelation"
FILES = f"{SPARK}.execution.datasources.HadoopFsRelation"
PARQUET = f"{SPARK}.execution.datasources.parquet.ParquetFileFormat"
LISTED = f"{SPARK}.execution.datasources.InMemoryFileIndex"

PLAIN_OPTIONS = {
    "path",
    "paths",
    "basepath",
    "compression",
    "mergeschema",
    "modifiedafter",
    "modifiedbefore",
    "pathglobfilter",
    "recursivefilelookup",
    "serialization.format",
}
"""Options of a reader that tell which files there are, and not how to read them."""

OTHERWISE = (
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.parquet.fieldId.read.enabled",
)
"""Settings by which Spark reads otherwise than file by file, and column by name."""


def plain_files(table: Any) -> tuple[list[str], Any] | None:
    """The files of a table that is only a scan of local Parquet files, and its Arrow schema; else None.

    A table is plain if what Spark would run is to read all rows of the files, and some of their columns as they are: no
    filter, expression, alias, limit, sample, union or cache, and no columns that folders or other files tell. Types
    are those in the first file, and numbers, truth values or texts. Whatever is not understood is not plain.
    """
    try:
        schema = _simple_schema(table)
        # Asked anew, for what is cached may have changed since; and optimised, so that no rule changes it any more.
        plan = selected(table, table.columns)._jdf.queryExecution().optimizedPlan()
        relation = _relation(plan, table.columns)
        if schema is None or relation is None or not _is_plain(relation, table.sparkSession):
            return None
        files = [_local(address) for address in relation.location().inputFiles()]
        sizes = [path.stat().st_size for path in files]
        if sum(sizes) != relation.location().sizeInBytes():  # they have changed since Spark has listed them
            return None
        files = [path for path, size in zip(files, sizes, strict=True) if size]  # as Spark does
        if not files or any(path.name[0] in "._" for path in files):
            return None
        with opened(str(files[0])) as first:
            found = first.schema_arrow
        # Which of two columns of one name is meant is not known, and -1 tells of that, too.
        places = [found.get_field_index(field.name) for field in schema]
        if -1 in places or not all(
            is_stored_as(found.field(place).type, field.type) for place, field in zip(places, schema, strict=True)
        ):
            return None
    except Exception:  # noqa: BLE001 - Spark itself then reads the table, or says what is wrong with it
        return None
    return [str(path) for path in files], schema


def _simple_schema(table: Any) -> Any:
    """The Arrow schema of a table of numbers, truth values and texts, else None."""
    import pyarrow as pa

    if any("EXISTS_DEFAULT" in field.metadata for field in table.schema.fields):  # a value where files have none
        return None
    schema = pa.schema([pa.field(field.name, arrow_type(field.dataType)) for field in table.schema.fields])
    simple = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string, pa.types.is_decimal)
    return schema if all(any(of(kind) for of in simple) for kind in schema.types) else None


def _relation(plan: Any, columns: list[str]) -> Any:
    """The files that a plan reads, if it does nothing else, else None."""
    if [field["name"] for field in json.loads(plan.schema().json())["fields"]] != columns:
        return None
    while _kind(plan) == PROJECT:
        chosen = plan.projectList()
        if any(_kind(chosen.apply(index)) != COLUMN for index in range(chosen.length())):
            return None
        plan = plan.child()
    return plan.relation() if _kind(plan) == SCAN and not plan.isStreaming() else None


def _is_plain(relation: Any, session: Any) -> bool:
    return (
        _kind(relation) == FILES
        and _kind(relation.fileFormat()) == PARQUET
        and _kind(relation.location()) == LISTED
        and relation.partitionSchema().length() == 0
        and not relation.bucketSpec().isDefined()
        and _options(relation) <= PLAIN_OPTIONS
        and all(session.conf.get(setting) == "false" for setting in OTHERWISE)
        # Without it, Spark reads nothing that is encrypted.
        and session.sparkContext._jsc.hadoopConfiguration().get("parquet.crypto.factory.class") is None
    )


def _options(relation: Any) -> set[str]:
    names, found = relation.options().keysIterator(), set()
    while names.hasNext():
        found.add(str(names.next()).lower())
    return found


def _kind(thing: Any) -> str:
    return str(thing.getClass().getName())


def _local(address: str) -> Path:
    """The path of a file of this machine.

    >>> _local("file:///days/a%20b.parquet").as_posix()
    '/days/a b.parquet'
    """
    parts = urlsplit(address)
    if parts.scheme != "file" or parts.netloc:
        raise ValueError(f"{address} is not a file of this machine.")
    return Path(unquote(parts.path))
