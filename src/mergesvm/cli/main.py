"""Entry point of the command line: ``mergesvm COMMAND``. It imports nothing slow before signals are handled."""

from __future__ import annotations

import atexit
import signal
import sys
from functools import partial
from typing import Any, NoReturn

from mergesvm.cli import streams

EXIT_CODES = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
"""Exit codes of interrupted commands, as shells have them: 128 and the number of the signal."""


def main() -> None:
    """Run the command line and exit with one of the codes of :mod:`mergesvm.cli.app`."""
    for name, code in EXIT_CODES.items():
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        # What the shell has made us ignore stays ignored, as with nohup.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, partial(_exit, code))
            # Python takes handlers away before it frees its modules. By then the work is done: its exit code stands.
            # Functions registered first are called last, so that all other cleaning up can still be interrupted.
            atexit.register(signal.signal, number, signal.SIG_IGN)
    streams.prepare()
    from mergesvm.cli.app import run  # imports typer, which takes so long that users interrupt it

    run()


def _exit(code: int, *_: Any) -> NoReturn:
    """Raise SystemExit, so that temporary files are removed on the way out."""
    sys.exit(code)
