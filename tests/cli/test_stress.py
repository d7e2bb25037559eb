"""Commands at random, several at once and interrupted at random, for a few seconds; ``make hunt`` does it at length."""

from __future__ import annotations

import sys

import pytest

import stress


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_interrupts_lose_no_file_and_leave_no_process_or_temporary_file(tmp_path):
    assert stress.run(tmp_path, seed=1, seconds=4.0, cluster=False) > 0
