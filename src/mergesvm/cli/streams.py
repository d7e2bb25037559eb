"""The standard streams: closed ones, and those that cannot encode all characters."""

from __future__ import annotations

import os
import sys

stdout_closed = False


def prepare() -> None:
    """Make writing to the standard streams safe.

    Streams that are closed (``>&-``) are opened to nowhere: otherwise the next file would get their descriptor, and
    what libraries print. Characters that a stream cannot encode are escaped.
    """
    global stdout_closed
    stdout_closed = sys.stdout is None
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def flush() -> None:
    """Write what is buffered; on an error, discard it, because Python would try again at exit and print a traceback."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise
