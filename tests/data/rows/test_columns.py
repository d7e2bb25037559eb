from __future__ import annotations

import gc

import numpy as np

from mergesvm.data.rows.columns import ColumnRows


def test_columns_of_one_matrix_are_looked_at_where_they_lie_and_others_are_copied():
    matrix = np.arange(60.0).reshape(5, 12)
    apart = [column.copy() for column in matrix]
    mixed = [*matrix[:3], matrix[3].astype(np.float32)]
    backwards, skipping = list(matrix[::-1]), [*matrix[:2], *matrix[3:]]
    for columns in (
        list(matrix),
        list(matrix[::2]),
        apart,
        mixed,
        backwards,
        skipping,
        [matrix[0]],
        list(matrix[:, ::2]),
    ):
        rows = ColumnRows(columns)
        np.testing.assert_array_equal(rows.strip(2, 6), np.stack(columns, axis=1)[2:6])
        np.testing.assert_array_equal(rows.strip(2, 6), rows.block(2, 6))
    assert np.shares_memory(ColumnRows(list(matrix)).strip(2, 6), matrix)
    assert not np.shares_memory(ColumnRows(backwards).strip(2, 6), matrix)


def test_a_strip_keeps_the_columns_that_it_shows():
    for _ in range(20):
        columns = sorted((np.full(200_000, 1.0), np.full(200_000, 1.0)), key=lambda column: column.ctypes.data)
        columns[1][:] = 2.0
        strip = ColumnRows(columns).strip(10, 200_000)
        assert np.shares_memory(strip, columns[1])
        del columns
        gc.collect()
        others = [np.full(200_000, 9.0) for _ in range(4)]
        assert (strip == [1.0, 2.0]).all()
        del others
    assert not strip.flags.writeable
