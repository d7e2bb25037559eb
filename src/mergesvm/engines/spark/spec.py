"""Declares the engine to the registry."""

from mergesvm.engines.registry import EngineSpec

SPEC = EngineSpec(
    "spark",
    "Spark",
    "mergesvm.engines.spark.engine",
    requires="pyspark, and Java 17 or newer",
    extra="spark",
    options={"address": "session", "workers": "workers"},
    collections=("pyspark",),
    actors=False,
)
