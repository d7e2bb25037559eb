from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

import hunting
from mergesvm.errors import EngineError

# `make test` checks the same examples on every machine and in every run; `make hunt` draws new ones.
settings.register_profile(
    "mergesvm",
    deadline=None,
    derandomize=not hunting.SEED,
    max_examples=hunting.examples(100),
    print_blob=bool(hunting.SEED),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("mergesvm")

# Programs that are started inherit ignored signals: in the background of a shell, interrupts would not reach them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def java():
    """A Java that Spark can run on; only where none is asked for may it be missing."""
    from mergesvm.engines.spark.session import find_java

    try:
        find_java()
    except EngineError as error:
        if "MERGESVM_REQUIRE_JAVA" in os.environ:
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark_session(java):
    """One Spark session for all tests, in which a task may fail a few times."""
    from mergesvm.engines import Spark

    with Spark(workers=2) as engine:
        yield engine.session
