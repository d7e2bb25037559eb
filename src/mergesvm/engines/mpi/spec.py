"""Declares the engine to the registry."""

from mergesvm.engines.registry import EngineSpec

SPEC = EngineSpec(
    "mpi",
    "MPI",
    "mergesvm.engines.mpi.engine",
    requires="mpi4py and an MPI library",
    extra="mpi",
    options={"root": "root", "local": "local"},
    hint="under mpiexec",
)
