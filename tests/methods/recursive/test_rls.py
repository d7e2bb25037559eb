"""The inverse of recursive least squares."""

from __future__ import annotations

import numpy as np

from live_streams import make_stream
from mergesvm.methods.recursive.options import RecursiveOptions
from mergesvm.methods.recursive.rls import RecursiveLeastSquares


def test_inverse_is_symmetric_and_correct():
    X, y = make_stream(500, 7)
    recursion = RecursiveLeastSquares(7, RecursiveOptions(C=2.0))
    for classes in range(1, 4):
        recursion.add_class(1.0, range(classes))
    recursion.learn_rows(X, y, np.ones(500), np.empty(0, dtype=np.int64))
    recursion.state.write_pending()
    corner = recursion.state.inverse[:4, :4]
    np.testing.assert_array_equal(corner, corner.T)
    inverse = np.triu(recursion.state.inverse) + np.triu(recursion.state.inverse, 1).T
    inverse = inverse[:7, :7]
    near = X - X.mean(axis=0)
    np.testing.assert_allclose(inverse @ (np.eye(7) / 2.0 + near.T @ near), np.eye(7), atol=1e-10)
