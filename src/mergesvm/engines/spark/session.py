"""Sessions of Spark: those that are given, and those that are started here."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mergesvm.engines.memory import memory_limit
from mergesvm.engines.spark.java import find_java
from mergesvm.errors import EngineError, ParameterError

LOGGING = Path(__file__).with_name("log4j2.properties")
"""What sessions on this machine say."""

TRIES = 4
"""How often a task may fail, for its worker has been lost, before the work is given up."""


def as_session(session: Any, workers: int | None) -> tuple[Any, bool]:
    """A session, and whether it was started here.

    Parameters
    ----------
    session : SparkSession, str or None
        One that runs, the address of a master, or None for one on this machine.
    workers : int or None
        How many tasks are to run at one time.
    """
    with quiet_pandas():
        try:
            from pyspark import SparkContext
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise EngineError(
                "The engine Spark needs the package pyspark: pip install 'mergesvm[spark]', and Java 17 or newer."
            ) from error
    address = isinstance(session, str)
    if type(session).__module__.startswith("pyspark.sql.connect") or (address and session.startswith("sc:")):
        raise EngineError(
            "A session of Spark Connect has no workers that tasks can be sent to. Use a classic one: its master is "
            "local[...], spark://..., yarn or k8s://..."
        )
    if isinstance(session, SparkSession):
        return session, False
    if session is not None and not address:
        raise ParameterError(f"session has to be a SparkSession, the address of a master, or None, not {session!r}.")
    master = session or f"local[{workers or '*'},{TRIES}]"
    running = SparkContext._active_spark_context
    if running is None:
        find_java()
        return _started(SparkSession.builder.master(master), master, workers), True
    if (address and running.master != master) or workers not in (None, running.defaultParallelism):
        raise EngineError(
            f"A session of Spark with master {running.master} runs in this process already, and there can be only one. "
            f"Pass it as it is, or stop it first."
        )
    return SparkSession.builder.getOrCreate(), False


def _started(builder: Any, master: str, workers: int | None) -> Any:
    settings = {
        "spark.app.name": "mergesvm",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{max(1, memory_limit() // 2**32)}g",  # a quarter: the rest is for the workers' Python
        "spark.driver.maxResultSize": "0",  # knowledge of many features is large, and is to come in nevertheless
    }
    local = master.startswith("local")
    if local:
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
        }
    if workers is not None:
        settings["spark.default.parallelism"] = str(workers)
    for name, value in settings.items():
        builder = builder.config(name, value)
    before = os.environ.get("PYSPARK_PYTHON")
    if local or before is None:  # a cluster may have its Python elsewhere, and then the user has said where
        os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        with quiet_pandas():
            return builder.getOrCreate()
    except Exception as error:
        raise EngineError(f"Spark does not start with master {master}: {str(error).splitlines()[0]}") from error
    finally:
        if before is None:
            del os.environ["PYSPARK_PYTHON"]
        else:
            os.environ["PYSPARK_PYTHON"] = before


@contextmanager
def quiet_pandas() -> Iterator[None]:
    """What pyspark says of releases of pandas does not matter here: rows travel as Arrow."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield
