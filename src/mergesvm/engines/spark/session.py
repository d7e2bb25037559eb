"""Spark sessions: those that are given, and those that are started here."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mergesvm.engines.machine import memory_limit
from mergesvm.engines.spark.spec import SPEC
from mergesvm.errors import EngineError, ParameterError

LOGGING = Path(__file__).with_name("log4j2.properties")
"""The logging configuration of sessions on this machine."""

CONNECT_PORT = 15002
"""The default port of Spark Connect."""

ANSWER_SECONDS = 10
"""How long to wait for a Spark Connect server."""

MAX_TASK_FAILURES = 4
"""How often a task may fail, because its worker was lost, before the job fails."""

MIN_JAVA = 17
"""The oldest Java that Spark 4 supports."""

CURE = "Install it, for example with `apt-get install openjdk-17-jre-headless`, or set JAVA_HOME."


def is_connect(session: Any) -> bool:
    """Whether a session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def as_session(session: Any, workers: int | None) -> tuple[Any, bool]:
    """Return a session, and whether it was started here; arguments are those of the engine."""
    with quiet_pandas():
        try:
            from pyspark import SparkContext
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise SPEC.missing() from error
    address = isinstance(session, str)
    if isinstance(session, SparkSession) or is_connect(session):
        return session, False
    if session is not None and not address:
        raise ParameterError(
            "session must be a SparkSession, a master URL, a Spark Connect address (sc://host:port) or None, "
            f"not {session!r}."
        )
    if address and session.startswith("sc:"):
        return _connected(session), True
    master = session or f"local[{workers or '*'},{MAX_TASK_FAILURES}]"
    running = SparkContext._active_spark_context
    if running is None:
        find_java()
        return _started(SparkSession.builder.master(master), master, workers), True
    if (address and running.master != master) or workers not in (None, running.defaultParallelism):
        raise EngineError(
            f"A Spark session with master {running.master} is already running in this process, and there can be only "
            f"one. Pass it to Spark(...), or stop it first."
        )
    return SparkSession.builder.getOrCreate(), False


def _connected(address: str) -> Any:
    """Connect to a Spark Connect server."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    place = urlsplit(address)
    try:
        # Spark itself retries for minutes.
        socket.create_connection((place.hostname or "", place.port or CONNECT_PORT), ANSWER_SECONDS).close()
        with quiet_pandas():
            return SparkSession.builder.remote(address).create()  # getOrCreate ignores the address if one is running
    except (OSError, ValueError, ImportError, PySparkException) as error:
        raise EngineError(f"No connection to a Spark Connect server at {address}: {error}") from error


def _started(builder: Any, master: str, workers: int | None) -> Any:
    settings = {
        "spark.app.name": "mergesvm",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{max(1, memory_limit() // 2**32)}g",  # a quarter: the Python workers need the rest
        "spark.driver.maxResultSize": "0",  # knowledge of many features is large
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
    if local or before is None:  # on a cluster, Python may be elsewhere
        os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        with quiet_pandas():
            return builder.getOrCreate()
    except Exception as error:
        raise EngineError(f"Spark failed to start with master {master}: {str(error).splitlines()[0]}") from error
    finally:
        if before is None:
            del os.environ["PYSPARK_PYTHON"]
        else:
            os.environ["PYSPARK_PYTHON"] = before


def find_java() -> str:
    """Return the path of the Java that Spark would start, from JAVA_HOME or the PATH, after checking its version."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    needed = f"Spark needs Java {MIN_JAVA} or newer"
    if java is None:
        raise EngineError(f"{needed}, and there is no Java on the PATH, nor is JAVA_HOME set. {CURE}")
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError) as error:
        raise EngineError(f"{needed}, but {java} does not run ({error}). {CURE}") from error
    found = re.search(r'version "(?:1\.)?(\d+)', output)  # Java 8 calls itself 1.8
    version = int(found.group(1)) if found else 0
    if version < MIN_JAVA:
        raise EngineError(f"{needed}, but {java} is Java {version}. {CURE}")
    return java


@contextmanager
def quiet_pandas() -> Iterator[None]:
    """Suppress pyspark's warning about the version of pandas: rows are sent as Arrow."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield
