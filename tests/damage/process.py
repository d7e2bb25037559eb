"""The process in which damaged files are read: ``python tests/damage/process.py FOLDER KIND FIRST STOP``.

It says on the standard output, in JSON, which case it begins and what became of it: when it dies, the last case did it.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import resource
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import mergesvm as ms
from damage.kinds import KINDS, Kind, cuts, damage
from damage.uses import use_data, use_sealed
from mergesvm.errors import FileError, MergeSVMError

HANG_SECONDS, SLOW_SECONDS = 20.0, 1.0
MOST_GROWTH, MOST_ADDRESSES = 300 * 2**20, 3 * 2**30


def attempt(kind: Kind, path: Path, terms: dict[str, Any]) -> tuple[str, str]:
    """What became of one file: "fine", "refused", or what is wrong."""
    try:
        kind.use(path, terms)
    except MergeSVMError as error:
        if kind.use is use_sealed and not isinstance(error, FileError):
            return "wrong", f"{type(error).__name__}: {error}"
        if not str(error).strip() or len(str(error)) > 5000:
            return "wrong", f"an error of {len(str(error))} characters: {str(error)[:200]!r}"
        return "refused", type(error).__name__
    except BaseException as error:  # noqa: BLE001 - that is what is looked for
        import traceback

        frames = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-3:]]
        return "wrong", f"{type(error).__name__}: {str(error)[:300]} ({' '.join(frames)})"
    return "fine", ""


def handles() -> int:
    return len(os.listdir("/dev/fd"))  # noqa: PTH208


def work(folder: Path, name: str, first: int, stop: int) -> None:
    """Go through cases; say on the standard output, in JSON, what became of them."""
    kind, stray = KINDS[name], []
    warnings.simplefilter("error")
    sys.unraisablehook = lambda found: stray.append(f"unraisable {found.exc_value!r}")
    threading.excepthook = lambda found: stray.append(f"in a thread {found.exc_value!r}")
    # What is whole is read without the limit that the kind before was given.
    resource.setrlimit(resource.RLIMIT_AS, (resource.getrlimit(resource.RLIMIT_AS)[1],) * 2)
    folder.mkdir(exist_ok=True)
    files = kind.pristine(folder)
    path = files[0][0]
    if kind.use is not use_data:
        path.with_name("pristine").write_bytes(files[0][1])
    likes: list[Any] = [None] * len(kind.terms)
    for index, terms in enumerate(kind.terms):
        outcome = attempt(kind, path, terms)
        assert outcome[0] == "fine", f"{name}, undamaged: {outcome}"
        likes[index] = ms.learn(ms.scan(path, **terms)) if kind.use is use_data else None
    high, threads, open_files = peak(), threading.active_count(), handles()
    addresses = MOST_ADDRESSES + 1024 * next(
        int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize")
    )
    resource.setrlimit(resource.RLIMIT_AS, (addresses, resource.getrlimit(resource.RLIMIT_AS)[1]))
    tally: dict[str, int] = {}
    total = len(cuts(kind, len(files[0][1]))) + kind.mutations
    for case in range(first, min(stop, total)):
        say(kind=name, case=case)
        damage(kind, files, case)
        terms = kind.terms[case % len(kind.terms)]
        like = likes[case % len(kind.terms)]
        if like is not None and case % 3 == 0:
            terms = {key: value for key, value in terms.items() if key not in ("features", "categories")}
            terms = {**terms, "like": like}
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        began = time.process_time()
        outcome, what = attempt(kind, path, terms)
        took = time.process_time() - began
        faulthandler.cancel_dump_traceback_later()
        found = [what] if outcome == "wrong" else []
        if took > SLOW_SECONDS:
            found.append(f"it took {took:.1f} s")
        if peak() > high + MOST_GROWTH:
            found.append(f"it took {(peak() - high) / 2**20:,.0f} MB")
            high = peak()
        if threading.active_count() != threads or handles() != open_files:
            gc.collect()
        if threading.active_count() != threads:
            found.append(f"threads left: {threading.enumerate()}")
            threads = threading.active_count()
        if handles() != open_files:
            found.append(f"{handles()} open files instead of {open_files}")
            open_files = handles()
        found += stray
        stray.clear()
        for failure in found:
            say(kind=name, case=case, failure=failure)
        key = what if outcome == "refused" else outcome
        tally[key] = tally.get(key, 0) + 1
    say(kind=name, tally=tally)


def peak() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    base, arguments = Path(sys.argv[1]), sys.argv[2:]
    for chosen, begin, end in zip(arguments[::3], arguments[1::3], arguments[2::3], strict=True):
        work(base / "work", chosen, int(begin), int(end))
