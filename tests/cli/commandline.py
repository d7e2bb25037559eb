"""Run the command line in this process, which is much faster than in a new one."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from unittest.mock import patch

from mergesvm.cli import console
from mergesvm.cli.main import main

SCRIPT = "from mergesvm.cli.main import main; main()"
"""The command line as a program of its own, for ``python -c``."""


def run(*arguments, cwd=None):
    """Run a command and return its exit code, output and errors."""
    out, err = (io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2))
    handlers = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    code = 0
    with (
        chdir(cwd or "."),
        redirect_stdout(out),
        redirect_stderr(err),
        patch.object(sys, "argv", ["mergesvm", *map(str, arguments)]),
        patch.object(console, "debug_requested", False),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    for number, handler in handlers:
        signal.signal(number, handler)
    texts = (stream.buffer.getvalue().decode() for stream in (out, err))
    return subprocess.CompletedProcess(arguments, code, *texts)


def ok(*arguments, cwd=None):
    """Run a command that succeeds and return its output."""
    done = run(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def error(*arguments, cwd=None):
    """Run a command that rejects its input and return its error message on one line."""
    done = run(*arguments, cwd=cwd)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def run_in_terminal(script, *arguments, cwd=None):
    """Run a Python script in a process whose standard error is a terminal, and return what it shows there."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=follower,
        stdin=follower,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"},
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            data = os.read(leader, 65536)
        except OSError:  # the process has closed the terminal
            break
        if not data:
            break
        shown += data
    os.close(leader)
    assert process.wait() == 0
    return shown.decode()
