"""Numbers in text are the numbers that Python reads there."""

from __future__ import annotations

import random
import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from mergesvm.data.text_parser import csv as text_csv
from mergesvm.data.text_parser import reader


def digits(generator, most):
    return "".join(generator.choice("0123456789") for _ in range(generator.randint(0, most)))


def any_float(generator):
    value = struct.unpack("d", generator.randbytes(8))[0]
    return value if np.isfinite(value) else 0.0


FORMS = {
    "shortest": lambda g: repr(g.uniform(-10, 10) * 10.0 ** g.randint(-8, 8)),
    "float32": lambda g: str(np.float32(g.gauss(0, 1))),
    "fixed": lambda g: f"{g.gauss(0, 1):.{g.randint(0, 18)}f}",
    "scientific": lambda g: f"{g.gauss(0, 1):.{g.randint(0, 17)}e}",
    "whole": lambda g: str(g.randint(-(10 ** g.randint(1, 19)), 10 ** g.randint(1, 19))),
    "any float": lambda g: repr(any_float(g)),
    "digits about a point": lambda g: digits(g, 19) + g.choice(["", ".", "."]) + digits(g, 19),
    "minus": lambda g: "-" + digits(g, 10) + "." + digits(g, 10),
    "nonsense": lambda g: "".join(g.choice("0123456789.-+eE/") for _ in range(g.randint(0, 14))),
}


@pytest.fixture(params=["compiled", "python"], autouse=True)
def parser_of_long_numbers(request, monkeypatch):
    """Few long numbers are parsed by Python, many by compiled code."""
    monkeypatch.setattr(reader, "MAX_PYTHON_WORDS", -1 if request.param == "compiled" else 10**6)


def parsed(text, width):
    """The rows of plain text up to the first line that is unusual."""
    names = [f"x{index}" for index in range(width)]
    fields = reader._Fields(names, dict.fromkeys(names, pa.float64()))
    batch, _ = fields.parse(np.frombuffer(text.encode(), dtype=np.uint8), ",", text_csv)
    return np.array([column.to_numpy() for column in batch.columns])


def as_python_reads(word):
    try:
        return float(word) if word else np.nan
    except ValueError:
        return None


@pytest.mark.parametrize("form", FORMS)
def test_parsed_numbers_equal_those_of_python(form):
    generator = random.Random(form)
    certain = 0
    for _ in range(1_500):
        word = FORMS[form](generator)
        # By itself, behind others, and before others: near the ends of a text numbers are read in another way.
        for before, behind in (("", ""), ("1.25,-3\n" * 8, ""), ("", "\n1.25,-3" * 8), ("-3,1.25\n" * 8, "\n4,5" * 12)):
            found = parsed(f"{before}{word},{word}{behind}\n", 2)
            row = before.count("\n")
            if found.shape[1] > row:
                expected = as_python_reads(word)
                assert expected is not None, word
                np.testing.assert_array_equal(found[:, row], [expected, expected], err_msg=word)
                assert np.isnan(expected) or (np.signbit(found[:, row]) == np.signbit(expected)).all(), word
                certain += 1
    assert certain > (100 if form == "nonsense" else 2_000)


@pytest.mark.parametrize("length", range(1, 40))
def test_numbers_of_every_length_with_a_point_at_every_place(length):
    whole = ("1234567890" * 4)[:length]
    words = [whole, *(f"{sign}{whole[:at]}.{whole[at:]}" for at in range(length + 1) for sign in ("", "-"))]
    for word in words:
        found = parsed("0,0\n" * 20 + f"{word},{word}\n" + "0,0\n" * 20, 2)
        if found.shape[1] > 20:
            assert found[:, 20].tolist() == [float(word)] * 2
            assert found.shape[1] == 41
        else:
            assert length > 19  # more digits than are read here


def test_texts_are_parsed_concurrently():
    generator = random.Random(0)
    rows = [
        [[generator.choice([1.5, -2.25, 1e-7, 123456789.125]) for _ in range(30)] for _ in range(99)] for _ in "1234"
    ]
    texts = ["".join(",".join(map(repr, row)) + "\n" for row in table) for table in rows]

    def many_times(number):
        return all((parsed(texts[number], 30) == np.transpose(rows[number])).all() for _ in range(100))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(many_times, range(4)))


@pytest.mark.parametrize("fields", [1, 3, 40])
def test_parsing_stops_at_lines_with_another_number_of_fields(fields):
    line = ",".join(["1.5"] * fields) + "\n"
    for strange in (
        "1.5," * fields + "1.5\n",
        "1.5," * 9_000 + "\n",
        *([",".join(["1.5"] * (fields - 1)) + "\n"] * (fields > 1)),
    ):
        assert parsed(line * 300 + strange + line * 300, fields).shape[1] == 300
    assert parsed(line * 300 + "\n\r\n" + line * 300, fields).shape[1] == 600  # empty lines are none
    if fields > 1:  # as many fields in two lines as there should be in one
        first = fields // 2
        halves = ",".join(["1.5"] * first) + "\n" + ",".join(["1.5"] * (fields - first)) + "\n"
        assert parsed(line * 300 + halves + line, fields).shape[1] == 300


def test_more_long_numbers_than_are_listed_at_a_time(monkeypatch):
    monkeypatch.setattr(reader, "MAX_HARD_WORDS", 7)
    generator = random.Random(0)
    rows = [[generator.choice([generator.gauss(0, 1), 1.5, 1e-7]) for _ in range(3)] for _ in range(500)]
    lines = "".join(",".join(map(repr, row)) + "\n" for row in rows)
    np.testing.assert_array_equal(parsed(lines, 3), np.transpose(rows))
    for strange in ("1.5,x,1\n", "0.12345678901234567,1e5,-\n"):
        np.testing.assert_array_equal(parsed(lines + strange + lines, 3), np.transpose(rows))
