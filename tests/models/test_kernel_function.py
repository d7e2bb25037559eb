"""Kernel functions against those of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import mergesvm as ms
from kernel_reference import kernel_matrix
from mergesvm.models import kernel_function
from mergesvm.models.kernel_function import Kernel
from mergesvm.models.kernel_values_jit import exponentials

KERNELS = [
    Kernel("rbf", 0.3),
    Kernel("linear"),
    Kernel("poly", 0.7, 3, 0.5),
    Kernel("poly", 0.2, 1, -0.5),
    Kernel("poly", 1, 6),
    Kernel("sigmoid", 0.1, coef0=-0.5),
]


def rows(n, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels_are_those_of_scikit_learn(kernel, convert):
    X, Z = rows(20), rows(33, seed=1)
    truth = kernel_matrix(kernel.kind, X, Z, kernel.gamma, kernel.degree, kernel.coef0)
    np.testing.assert_allclose(kernel(convert(X), convert(Z)), truth, rtol=1e-10, atol=1e-12)
    real = np.dtype(np.float32)
    out = np.empty((20, 33), dtype=real)
    kernel.fill(kernel.turn(kernel.lift(convert(X), real)), kernel.lift(convert(Z), real), out)
    np.testing.assert_allclose(out, truth, rtol=1e-4, atol=1e-5 * np.abs(truth).max())


def test_rows_far_from_the_origin_are_as_far_from_one_another():
    X = rows(20) + 1e6
    np.testing.assert_allclose(Kernel("rbf", 0.3)(X, X), kernel_matrix("rbf", X - 1e6, X - 1e6, 0.3), rtol=1e-7)


def test_a_row_is_nearest_to_itself():
    for real in (np.float32, np.float64):
        X, kernel = 100 * rows(50), Kernel("rbf", 2.0)
        lifted, out = kernel.lift(X, np.dtype(real)), np.empty((50, 50), dtype=real)
        kernel.fill(kernel.turn(lifted), lifted, out)
        assert (out <= 1).all()
        assert (out >= 0).all()
    whole = np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(np.diag(Kernel("rbf", 2.0)(whole, whole)), np.ones(4))


@pytest.mark.parametrize(
    ("kernel", "match"),
    [
        (Kernel("rbf", 0.0), "gamma must be .* not 0.0"),
        (Kernel("rbf", np.inf), "gamma"),
        (Kernel("rbf", np.nan), "gamma"),
        (Kernel("poly", 1.0, 0), "degree must be an integer from 1 to 100, not 0"),
        (Kernel("poly", 1.0, 2.5), "degree"),
        (Kernel("poly", 1.0, 101), "degree"),
        (Kernel("poly", 1.0, 3, np.nan), "coef0 must be a finite number"),
    ],
)
def test_what_cannot_be_is_named(kernel, match):
    with pytest.raises(ms.errors.ParameterError, match=match):
        kernel.check()


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda X, _: np.ones(len(X)), r"numbers of shape \(4, 6\) for 4 and 6 rows, not float64 of shape \(4,\)"),
        (lambda X, Z: Z @ X.T, r"not float64 of shape \(6, 4\)"),
        (lambda X, Z: (X @ Z.T).astype(str), "numbers of shape"),
        (lambda X, Z: X @ Z.T * np.nan, "not finite"),
        (lambda X, Z: X @ Z.T + np.inf, "not finite"),
    ],
)
def test_functions_that_are_no_kernels_are_an_error(function, match):
    with pytest.raises(ms.errors.DataError, match=match):
        Kernel("callable", function=function)(rows(4), rows(6))


def test_exponentials_are_those_of_numpy():
    values = -np.geomspace(1e-12, 86, 5000).astype(np.float32)
    values = np.concatenate([values, -np.arange(80, dtype=np.float32) * np.float32(np.log(2)), [0.0]])
    values = values.astype(np.float32)
    out = np.stack([values, values[::-1]])
    exponentials(out)
    truth = np.exp(values.astype(np.float64))
    np.testing.assert_allclose(out[0], truth, rtol=3e-7)
    np.testing.assert_array_equal(out[1], out[0][::-1])
    out = np.array([[0.1, 5.0, -1e3, -np.inf, -200.0]], dtype=np.float32)
    exponentials(out)
    np.testing.assert_array_equal(out[0, :2], 1.0)  # a distance is not negative
    assert (out[0, 2:] >= 0).all()
    assert (out[0, 2:] < 1e-37).all()


def test_a_kernel_function_is_added_by_one_entry(monkeypatch):
    def square(_, values):
        values *= values

    added = kernel_function.KernelFunction("(x.z)^2", (), False, square, lambda _, norm: norm**2)
    monkeypatch.setitem(kernel_function.KERNELS, "square", added)
    X, Z, kernel = rows(4), rows(6), Kernel("square")
    np.testing.assert_allclose(kernel(X, Z), (X @ Z.T) ** 2)
    np.testing.assert_allclose(kernel(sparse.csr_array(X), sparse.csr_array(Z)), (X @ Z.T) ** 2)
    assert kernel.is_function
    assert not kernel.is_finite(1e200, np.dtype(np.float64))
