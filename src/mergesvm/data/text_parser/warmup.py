"""Compile the text parsers before they are needed."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa

from mergesvm.data.text_parser.lines import whole_lines
from mergesvm.data.text_parser.reader import plain_batches


def compile_text_parsers() -> None:
    """Call every parser once, so that it is compiled."""
    from mergesvm.data.text_parser import csv, libsvm

    list(plain_batches(io.BytesIO(b"a,y\n1.5,no\n"), ",", True, ["a", "y"], {"a": pa.float64(), "y": pa.string()}))
    csv.parse_hard(np.frombuffer(b"\n", dtype=np.uint8), np.empty((0, 3), dtype=np.uint64))
    for text in whole_lines(io.BytesIO(b"1 1:0.5\n")):
        libsvm.largest_index(text)
        numbers = np.empty(1), np.zeros(2, dtype=np.int32), np.empty(1, dtype=np.int32), np.empty(1)
        libsvm.parse(text, 1, *numbers, np.empty((2, 3), dtype=np.int64))
