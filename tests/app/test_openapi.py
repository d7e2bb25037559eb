"""Requests made from the OpenAPI description, valid and not, never end in an error of the server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from app.served import serving
from tagging_pictures import write_pictures


def test_no_request_ends_in_an_error_of_the_server(tmp_path):
    write_pictures(tmp_path / "pictures", 1)
    with serving(tmp_path / "pictures") as server:
        command = [
            str(Path(sys.executable).parent / "schemathesis"),
            "run",
            f"{server.address}api/openapi.json",
            "--checks=not_a_server_error",
            "--exclude-path=/api/events",
            "--max-examples=8",
            "--phases=examples,coverage,fuzzing",
            "--seed=1",
            "--no-color",
        ]
        run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
        assert server.process.poll() is None
