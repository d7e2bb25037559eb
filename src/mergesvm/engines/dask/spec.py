"""Declares the engine to the registry."""

from mergesvm.engines.registry import EngineSpec

SPEC = EngineSpec(
    "dask",
    "Dask",
    "mergesvm.engines.dask.engine",
    requires="dask and distributed",
    extra="dask",
    options={"address": "client", "workers": "workers"},
    collections=("dask", "dask_expr"),
)
