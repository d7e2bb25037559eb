"""Where work runs. An engine maps a function over tasks, joins the results, and knows nothing of support vectors."""

from mergesvm.engines.dask import Dask
from mergesvm.engines.mpi import MPI
from mergesvm.engines.spark import Spark
from mergesvm.engines.threads import Threads

__all__ = ["MPI", "Dask", "Spark", "Threads"]
