"""Tables in memory, learned by their columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mergesvm as ms
from engine_laws import assert_same, assert_same_folds
from mergesvm.errors import DataError, FrozenHereWarning, ParameterError

ROWS = 90
COLOURS = ["blue", "red"]


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "size": rng.normal(size=ROWS),
            "count": rng.integers(0, 9, ROWS),
            "colour": rng.choice(COLOURS, ROWS),
            "weight": rng.uniform(0.5, 2.0, ROWS),
            "sold": rng.choice(["no", "yes"], ROWS),
        }
    )


def encoded(table):
    return np.column_stack([table["size"], table["count"], *(table["colour"] == colour for colour in COLOURS)])


NAMES = ["size", "count", "colour=blue", "colour=red"]

FORMS = {
    "pandas": lambda table: table,
    "polars": pl.from_pandas,
    "arrow": lambda table: pa.Table.from_pandas(table, preserve_index=False),
    "record batch": lambda table: pa.RecordBatch.from_pandas(table, preserve_index=False),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("categories", [{"colour": COLOURS}, "auto"], ids=["declared", "found"])
def test_a_table_is_learned_by_its_columns(table, form, categories):
    found = ms.learn(FORMS[form](table), label="sold", weight="weight", categories=categories, batch_rows=7)
    expected = ms.learn(encoded(table), table["sold"], table["weight"], feature_names=NAMES)
    assert found.layout.names == tuple(NAMES)
    assert [(origin.source, origin.rows) for origin in found.provenance] == [("a table in memory", 90)]
    assert_same(found, expected)


def test_columns_can_be_chosen_and_mapped(table):
    numbers = table[["count", "size"]]
    mapping = ms.features.Fourier(16, seed=0, precision="float64").freeze(numbers)
    found = ms.learn(table, label="sold", columns=["count", "size"], features=mapping)
    assert_same(found, ms.learn(numbers, table["sold"], features=mapping))
    with pytest.warns(FrozenHereWarning):
        found = ms.learn(table, label="sold", columns="size", features="fourier:8")
    assert found.features.frozen


def test_categorical_columns_need_no_vocabulary(table):
    table["colour"] = pd.Categorical(table["colour"], categories=["red", "blue", "green"])
    found = ms.learn(table, label="sold", columns=["colour", "size"])
    assert found.layout.names == ("colour=blue", "colour=green", "colour=red", "size")


def test_rows_with_missing_values_can_be_dropped(table):
    table.loc[[3, 50], "size"] = np.nan
    kept = table.drop(index=[3, 50])
    with pytest.raises(DataError, match="size"):
        ms.learn(table, label="sold", columns=["size"])
    found = ms.learn(table, label="sold", columns=["size"], missing="drop")
    assert_same(found, ms.learn(kept[["size"]], kept["sold"]))


def test_folds_by_groups_keep_the_column_out_of_the_features(table):
    found = ms.learn(table, label="sold", weight="weight", folds=3, groups="colour")
    expected = ms.learn(
        table[["size", "count"]], table["sold"], table["weight"], folds=3, groups=table["colour"].to_numpy()
    )
    assert_same_folds(found, expected)


def test_an_earlier_piece_decides_the_columns(table):
    first = ms.learn(table[:40], label="sold", columns=["size", "colour"], categories={"colour": COLOURS})
    second = ms.learn(table[40:], label="sold", like=first)
    whole = ms.learn(table, label="sold", columns=["size", "colour"], categories={"colour": COLOURS})
    assert_same(first + second, whole)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label": "sold", "y": [0] * ROWS}, "y= cannot be combined with label="),
        ({"label": "sold", "sample_weight": [1] * ROWS}, "sample_weight= cannot be combined with label="),
        ({"label": "sold", "feature_names": ["a"]}, "feature_names= cannot be combined with label="),
        ({"label": "sold", "folds": [0, 1] * 45}, "folds is a number"),
        ({"label": "sold", "folds": 3, "groups": ["a"] * ROWS}, "groups is the name of a column"),
        ({"columns": ["size"]}, "columns= is for tables"),
        ({"missing": "drop"}, "missing= is for tables"),
        ({"keep": ["size"]}, "keep= is for tables"),
    ],
)
def test_arguments_that_do_not_fit_together_are_refused(table, arguments, message):
    with pytest.raises(ParameterError, match=message):
        ms.learn(table, **arguments)


def test_label_needs_a_table(table):
    with pytest.raises(ParameterError, match=r"label='sold' names a column, but X is not a table: numpy\.ndarray"):
        ms.learn(encoded(table), label="sold")
    with pytest.raises(DataError, match="no column 'price'"):
        ms.learn(table, label="price")
    with pytest.raises(DataError, match="colour"):
        ms.learn(table, label="sold")
    with pytest.raises(DataError, match="nothing to learn"):
        ms.learn(table[:0], label="sold", columns=["size"])


def test_a_scan_has_its_own_labels(tmp_path, table):
    table.to_parquet(tmp_path / "table.parquet")
    scan = ms.scan(tmp_path / "table.parquet", label="sold", features=["size"])
    for arguments, message in (({"label": "sold"}, "A scan has labels"), ({"y": [1]}, "A scan has labels")):
        with pytest.raises(ParameterError, match=message):
            ms.learn(scan, **arguments)
