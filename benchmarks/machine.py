"""Limits of the machine, and timing that is fair on a shared machine."""

from __future__ import annotations

import multiprocessing
import os
import platform
import threading
import time
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import psutil

from mergesvm.engines import Threads

PACKAGES = ("mergesvm", "numpy", "scipy", "scikit-learn", "scikit-learn-intelex", "numba", "threadpoolctl")


def describe(threads: int) -> str:
    """Versions of the packages, and the machine."""
    versions = []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"{name} not installed")
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"Python {platform.python_version()}, {', '.join(versions)}\n"
        f"{platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, {threads} threads"
    )


def warm_memory(gigabytes: float = 4.0) -> None:
    """Touch memory once, so that page faults are not part of the first measurement."""
    np.ones(int(gigabytes * 2**27))


def best(function, repeats: int = 5) -> float:
    """Seconds of the fastest of several calls."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def syrk_rate(kind: type, threads: int, width: int = 784) -> float:
    """Flop per second of one triangle of X'X by BLAS: rows x width^2 / time, with the faster use of the threads."""
    X = np.random.default_rng(0).normal(size=(8192, width)).astype(kind)
    work = X.shape[0] * width**2
    together = work / best(lambda: X.T @ X)
    apart = threads * work / best(lambda: Threads(threads).map(lambda _: X.T @ X, range(threads)))
    return max(together, apart)


def gemm_rate(kind: type, threads: int, inputs: int, width: int) -> float:
    """Flop per second of X W by BLAS, with the faster use of the threads."""
    generator = np.random.default_rng(0)
    X, W = (generator.normal(size=shape).astype(kind) for shape in ((8192, inputs), (inputs, width)))
    out = np.empty((threads, len(X), width), dtype=kind)
    work = 2 * X.shape[0] * inputs * width
    together = work / best(lambda: np.matmul(X, W, out=out[0]))
    apart = (
        threads
        * work
        / best(lambda: Threads(threads).map(lambda thread: np.matmul(X, W, out=out[thread]), range(threads)))
    )
    return max(together, apart)


def read_rate(threads: int) -> float:
    """Bytes per second at which all threads together read memory."""
    X = np.ones((threads, 2**25))
    return X.nbytes / best(lambda: Threads(threads).map(np.sum, list(X)))


def time_in_turn(contenders: dict, repeats: int) -> dict[str, list[float]]:
    """Seconds of several runs of each contender, in turn, so that slow phases of the machine affect all alike."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, run in contenders.items():
            time.sleep(0.15)  # threads of the previous contender may still be spinning
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return times


def within(seconds: float, function):
    """Run a function in its own process: its seconds and result, or None if it takes longer than given."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def work():
        start = time.perf_counter()
        result = function()
        sender.send((time.perf_counter() - start, result))

    process = context.Process(target=work)
    process.start()
    answer = receiver.recv() if receiver.poll(seconds) else None
    process.kill()
    process.join()
    return answer


class PeakMemory:
    """Peak resident memory of a ``with`` block, relative to its beginning."""

    def __enter__(self):
        self._process = psutil.Process()
        self._begin = self._peak = self._process.memory_info().rss
        self._running = True
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self):
        while self._running:
            self._peak = max(self._peak, self._process.memory_info().rss)
            time.sleep(0.0005)

    def __exit__(self, *_):
        self._running = False
        self._thread.join()
        self.bytes = self._peak - self._begin
