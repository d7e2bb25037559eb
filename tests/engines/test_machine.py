"""The number of available cores."""

from __future__ import annotations

import os

import pytest
from joblib import cpu_count

from mergesvm.engines import Threads
from mergesvm.engines.machine import cores


def test_cores_follow_joblib(monkeypatch):
    monkeypatch.delenv("LOKY_MAX_CPU_COUNT", raising=False)
    assert cores() == cpu_count() == Threads().workers
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    assert cores() == 1 == Threads(-1).workers


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="there is no affinity on this system")
def test_cores_follow_the_cpu_affinity():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert cores() == cpu_count()
