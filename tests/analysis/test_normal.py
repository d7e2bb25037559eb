"""Orthant probabilities, against numerical integration."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from mergesvm.analysis.normal import probability_positive


def test_orthant_probabilities_are_close_to_scipy():
    generator = np.random.default_rng(0)
    roots = generator.normal(size=(20, 4, 4))
    means, covariances = generator.normal(0.5, 1.0, size=(20, 4)), roots @ roots.swapaxes(1, 2)
    exact = [multivariate_normal.cdf(m, cov=c, rng=0) for m, c in zip(means, covariances, strict=True)]
    assert np.abs(probability_positive(means, covariances) - exact).max() < 0.015
    assert np.abs(probability_positive(means, covariances) - exact).mean() < 0.004
    one = multivariate_normal.cdf(means[0, 0], cov=covariances[0, 0, 0])
    assert probability_positive(means[:, :1], covariances[:, :1, :1])[0] == pytest.approx(one, rel=1e-9)
    assert probability_positive(np.array([-50.0, 60.0]), np.eye(2)) == 0.0
    assert probability_positive(np.array([2.0, 3.0]), np.zeros((2, 2))) == 1.0
