"""Run contenders in processes of their own, and measure their CPU time and peak memory."""

from __future__ import annotations

import multiprocessing
import re
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mergesvm.engines.threads import Threads
from mergesvm.reproduce.recursive.contenders import Hyperplane, learned
from mergesvm.reproduce.recursive.row_file import RowFile

WARM_UP_ROWS = 200
"""Rows that are learned first, so that loading of code is neither timed nor counted."""

RESET_PEAK = "5"
"""Written to ``/proc/self/clear_refs``, it sets the peak of the resident memory to its current value."""


PRELOADED = ["__main__", __name__, "mergesvm.methods.recursive.rls_jit", "sklearn.svm", "sklearn.linear_model"]
"""Modules that all processes share."""


@dataclass(frozen=True)
class Measured:
    """A hyperplane, and what it took to learn it from a file of rows, with one thread for BLAS."""

    hyperplane: Hyperplane
    seconds: float  # of CPU time, with the reading of the rows; the shortest of the repetitions
    peak: int | None  # bytes of memory beyond those of the program; None if this system does not tell


@contextmanager
def separate_processes(fresh: bool) -> Iterator[ProcessPoolExecutor]:
    """An executor that runs one call after another, each in a fresh process, or, which is faster, all in the same."""
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    if method == "forkserver":  # its processes begin with these modules, and share the memory of their code
        context.set_forkserver_preload(PRELOADED)
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1 if fresh else None) as executor:
        yield executor


def measured(name: str, rows: RowFile, C: float, seed: int, repeats: int) -> Measured:
    """Learn with one contender; called in a process of its own."""
    times = []
    with Threads.single_threaded_blas():
        learned(name, rows.head(WARM_UP_ROWS), C, seed)
        before = _reset_peak()
        for repetition in range(repeats):
            start = time.process_time()
            hyperplane = learned(name, rows, C, seed)
            times.append(time.process_time() - start)
            if repetition == 0:
                peak = None if before is None else max(0, _memory("VmHWM") - before)
    return Measured(hyperplane, min(times), peak)


def _reset_peak() -> int | None:
    """Set the peak of memory to the current value and return it; None if this system cannot."""
    try:
        Path("/proc/self/clear_refs").write_text(RESET_PEAK)
        return _memory("VmRSS")
    except OSError:
        return None


def _memory(name: str) -> int:
    """Bytes of a line of ``/proc/self/status``."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])
