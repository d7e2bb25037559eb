"""A real server process on a folder of made pictures."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx

ADDRESS = re.compile(r"open (http://\S+)")
SECONDS = 90


class Server:
    """A process of ``mergesvm tag``, and its address."""

    def __init__(self, folder, *options):
        self.folder = folder
        program = Path(sys.executable).parent / "mergesvm"
        command = [program, "tag", folder, "--no-browser", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            self.address = ADDRESS.search(self.process.stdout.readline())[1]
            self._wait()
        except BaseException:
            self.stop()
            raise

    def _wait(self):
        until = time.monotonic() + SECONDS
        while True:
            try:
                httpx.get(self.address, timeout=5)
                return
            except httpx.TransportError:
                assert self.process.poll() is None, self.process.stdout.read()
                assert time.monotonic() < until
                time.sleep(0.1)

    def client(self, **options):
        return httpx.Client(base_url=self.address, timeout=SECONDS, **options)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """End as Ctrl-C does; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(SECONDS)
        finally:
            self.process.kill()
            self.process.stdout.close()


@contextmanager
def serving(folder, *options):
    server = Server(folder, *(options or ("--port", "0")))
    try:
        yield server
    finally:
        server.stop()


def stroke_body(key, picture, tag, stroke, author="me"):
    return {"key": key, "picture": picture, "tag": tag, "author": author, **stroke.as_json()}
