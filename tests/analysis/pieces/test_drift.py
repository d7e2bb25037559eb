"""Drift between pieces, against the textbook formulas on the rows."""

import numpy as np
import pytest
from scipy import stats

import mergesvm as ms
from mergesvm.analysis.pieces.drift import drift, holm
from mergesvm.errors import FormError, KnowledgeError, ParameterError, SignatureError


def random_pieces(seed=0, n=400, d=3, pieces=4, classes=2):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, d)) @ generator.normal(size=(d, d)) + 5.0
    return X, generator.integers(0, classes, n), generator.integers(0, pieces, n)


def learned(X, y, piece, **options):
    return [ms.learn(X[piece == p], y[piece == p], **options) for p in range(piece.max() + 1)]


def hotelling(one, other):
    """Mahalanobis distance and p-value."""
    n, m, d = len(one), len(other), one.shape[1]
    within = ((n - 1) * np.cov(one.T) + (m - 1) * np.cov(other.T)) / (n + m - 2)
    gap = one.mean(axis=0) - other.mean(axis=0)
    squared = gap @ np.linalg.solve(np.atleast_2d(within), gap)
    F = n * m / (n + m) * squared * (n + m - d - 1) / (d * (n + m - 2))
    return np.sqrt(squared), stats.f.sf(F, d, n + m - d - 1)


def box(one, other):
    """Box's M, its p-value, and the root of the symmetrised divergence."""
    f1, f2, d = len(one) - 1, len(other) - 1, one.shape[1]
    A, B = np.cov(one.T), np.cov(other.T)
    within = (f1 * A + f2 * B) / (f1 + f2)
    M = (f1 + f2) * np.linalg.slogdet(within)[1] - f1 * np.linalg.slogdet(A)[1] - f2 * np.linalg.slogdet(B)[1]
    c1 = (1 / f1 + 1 / f2 - 1 / (f1 + f2)) * (2 * d * d + 3 * d - 1) / (6 * (d + 1))
    c2 = (1 / f1**2 + 1 / f2**2 - 1 / (f1 + f2) ** 2) * (d - 1) * (d + 2) / 6
    a1 = d * (d + 1) / 2
    a2 = (a1 + 2) / abs(c2 - c1**2)
    if c2 > c1**2:
        p = stats.f.sf(M / (a1 / (1 - c1 - a1 / a2)), a1, a2)
    else:
        b = a2 / (1 - c1 + 2 / a2)
        p = stats.f.sf(a2 * M / (a1 * (b - M)), a1, a2)
    divergence = (np.trace(np.linalg.solve(A, B)) + np.trace(np.linalg.solve(B, A))) / 2 - d
    return M, p, np.sqrt(divergence), stats.chi2.sf((1 - c1) * M, a1)


@pytest.mark.parametrize("against", ["others", "reference"])
@pytest.mark.parametrize("d", [1, 3, 8])
def test_means_and_covariances_are_compared_as_in_the_textbook(d, against):
    X, y, piece = random_pieces(d=d, n=600)
    pieces = learned(X, y, piece)
    found = drift(pieces) if against == "others" else drift(pieces[:3], pieces[3])
    for p in range(3):
        for c in range(2):
            own = X[(piece == p) & (y == c)]
            rest = X[((piece != p) if against == "others" else (piece == 3)) & (y == c)]
            distance, p_value = hotelling(own, rest)
            np.testing.assert_allclose(found.distances[p, c], distance, rtol=1e-8)
            np.testing.assert_allclose(found.mean_p_values[p, c], p_value, rtol=1e-7)
            if d > 1:
                M, p_value, divergence, by_chi2 = box(own, rest)
                np.testing.assert_allclose(found.statistics[p, c], M, rtol=1e-8)
                np.testing.assert_allclose(found.covariance_p_values[p, c], p_value, rtol=1e-7)
                np.testing.assert_allclose(found.covariance_distances[p, c], divergence, rtol=1e-8)
                assert abs(p_value - by_chi2) < 0.01
            assert found.ranks[p, c] == found.covariance_ranks[p, c] == d
            n, m = len(own), len(rest)
            within = ((n - 1) * own.var(axis=0, ddof=1) + (m - 1) * rest.var(axis=0, ddof=1)) / (n + m - 2)
            shifts = (own.mean(axis=0) - rest.mean(axis=0)) / np.sqrt(within)
            np.testing.assert_allclose(found.shifts[p, c], shifts, rtol=1e-8)
            assert found.rows[p, c] == n
    assert all(reason == "" for row in found.reasons for reason in row)


def test_class_proportions_are_compared_as_scipy_does():
    X, y, piece = random_pieces(classes=4)
    y[(piece == 1) & (np.arange(len(y)) % 2 == 0)] = 0
    found = drift(learned(X, y, piece))
    for p in range(4):
        table = np.array([np.bincount(y[piece == p], minlength=4), np.bincount(y[piece != p], minlength=4)])
        wanted = stats.chi2_contingency(table, correction=False).pvalue
        np.testing.assert_allclose(found.proportion_p_values[p], wanted, rtol=1e-8)
        proportions = table / table.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(
            found.proportion_distances[p], np.abs(proportions[0] - proportions[1]).sum() / 2, rtol=1e-10
        )
    assert found.proportions_drifted.tolist() == [False, True, False, False]
    assert found.drifted[1]


def test_without_drift_the_false_positive_rate_is_the_level():
    generator = np.random.default_rng(5)
    pieces = [ms.learn(generator.normal(size=(60, 5)), np.tile([0, 1], 30)) for _ in range(400)]
    found = drift(pieces)
    for values in (found.mean_p_values, found.covariance_p_values):
        assert stats.binomtest(int((values < 0.05).sum()), values.size, 0.05).pvalue > 1e-3
        assert stats.kstest(values.ravel(), "uniform").pvalue > 1e-3
    # Corrected for their number, the chance that any of them fails is at most the level.
    assert found.means_drifted.sum() + found.covariances_drifted.sum() + found.proportions_drifted.sum() <= 1


def test_a_shifted_piece_and_a_wider_piece_are_found():
    X, y, piece = random_pieces(n=4000, d=5, pieces=20)
    X[:, 2] += np.where((piece == 3) & (y == 1), 2.0 * X[:, 2].std(), 0.0)
    X[(piece == 8) & (y == 0)] = 5.0 + 2 * (X[(piece == 8) & (y == 0)] - 5.0)
    found = drift(learned(X, y, piece))
    assert np.argwhere(found.means_drifted).tolist() == [[3, 1]]
    assert [8, 0] in np.argwhere(found.covariances_drifted).tolist()
    assert np.flatnonzero(found.drifted).tolist() == [3]
    first = found.table()[0]
    assert (first["piece"], first["class"], first["feature"]) == ("piece 3", 1, "2")
    assert first["drifted"]
    assert not first["covariance_drifted"]
    assert first["shift"] == found.shifts[3, 1, 2]


def test_only_directions_that_vary_are_compared():
    X, y, piece = random_pieces(d=3)
    wide = np.column_stack([X, np.full(len(X), 4.0), X[:, 0] - 3 * X[:, 1], X[:, 2] * 1e-6 + 1.0])
    found, plain = drift(learned(wide, y, piece)), drift(learned(X, y, piece))
    assert (found.ranks == 3).all()
    np.testing.assert_allclose(found.distances, plain.distances, rtol=1e-6)
    np.testing.assert_allclose(found.covariance_p_values, plain.covariance_p_values, rtol=1e-5)
    assert (found.shifts[:, :, 3] == 0).all()


def test_a_shift_along_a_constant_direction_is_certain():
    X, y, piece = random_pieces(d=2)
    X = np.column_stack([X, np.where(piece == 2, 1.0, 0.0)])
    found = drift(learned(X, y, piece))
    assert np.isinf(found.distances[2]).all()
    assert (found.mean_p_values[2] == 0).all()
    assert found.reasons[2][0] == "moved in a direction in which neither side varies"
    assert np.isinf(found.shifts[2, :, 2]).all()
    assert found.drifted[2]
    assert found.table()[0]["feature"] == "2"


def test_directions_in_which_one_side_does_not_vary_are_left_out_of_covariances():
    X, y, piece = random_pieces(n=800, d=2)
    rare = np.where((piece == 1) & (np.arange(len(X)) % 9 == 0), 1.0, 0.0)
    found = drift(learned(np.column_stack([X, rare]), y, piece))
    assert (found.ranks == 3).all()
    assert (found.covariance_ranks[1] == 2).all()
    assert np.isfinite(found.covariance_p_values).all()


def test_missing_tests_have_a_reason():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(40, 6)), np.repeat(["few", "many"], [7, 33])
    pieces = [ms.learn(X[at::2], y[at::2]) for at in range(2)]
    pieces.append(ms.learn(generator.normal(size=(30, 6)), ["own"] * 30))
    found = drift(pieces)
    assert found.labels == ("few", "many", "own")
    assert np.isnan(found.mean_p_values[:, 0]).all()
    assert found.reasons[0][0] == "7 rows are too few to compare means in 6 directions"
    assert found.reasons[2][1] == "no rows of this class in the piece"
    assert found.reasons[2][2] == "no rows of this class elsewhere"
    assert found.reasons[0][1] == ""
    halves = drift([ms.learn(X[:10], ["a"] * 10), ms.learn(X[10:20], ["a"] * 10)])
    assert halves.reasons[0][0] == "covariances in 6 directions need more than 12 rows on each side, not 10"
    assert np.isfinite(found.mean_p_values[:2, 1]).all()
    single = drift([ms.learn([[1.0]], ["a"]), ms.learn([[2.0]], ["a"])])
    assert np.isnan(single.mean_p_values).all()
    same = drift([ms.learn([[1.0], [1.0]], ["a", "b"]), ms.learn([[1.0], [1.0]], ["a", "b"])])
    assert same.reasons[0][0] == "no feature varies within this class"
    assert not same.drifted.any()
    empty = drift([*pieces, ms.Knowledge.zero(pieces[0].signature)])
    assert np.isnan(empty.proportion_p_values[-1])


def test_equal_weights_change_nothing():
    X, y, piece = random_pieces()
    plain = drift(learned(X, y, piece))
    heavy = drift([ms.learn(X[piece == p], y[piece == p], np.full((piece == p).sum(), 2.5)) for p in range(4)])
    for name in (
        "distances",
        "mean_p_values",
        "covariance_distances",
        "statistics",
        "covariance_p_values",
        "shifts",
        "proportion_p_values",
    ):
        np.testing.assert_allclose(getattr(heavy, name), getattr(plain, name), rtol=1e-7)


def test_features_far_from_the_origin_keep_their_precision():
    X, y, piece = random_pieces()
    near, far = drift(learned(X, y, piece)), drift(learned(X + 2.0**20, y, piece))
    np.testing.assert_allclose(far.distances, near.distances, rtol=1e-6)
    np.testing.assert_allclose(far.covariance_distances, near.covariance_distances, rtol=1e-6)


def test_p_values_are_corrected_for_their_number():
    values = np.array([0.001, 0.2, 0.01, np.nan, 0.04])
    np.testing.assert_allclose(holm(values), [0.004, 0.2, 0.03, np.nan, 0.08])
    assert np.isnan(holm(np.array([np.nan]))).all()


def test_invalid_pieces_raise_errors():
    X, y, piece = random_pieces()
    pieces = learned(X, y, piece)
    with pytest.raises(ParameterError, match="at least two pieces"):
        drift(pieces[:1])
    with pytest.raises(ParameterError, match="at least one piece"):
        drift([], pieces[0])
    with pytest.raises(ParameterError, match="level"):
        drift(pieces, level=1.5)
    with pytest.raises(FormError, match="pooled"):
        drift(learned(X, y, piece, per_class=False))
    with pytest.raises(TypeError, match="reference"):
        drift(pieces, X)
    with pytest.raises(SignatureError):
        drift(pieces, ms.learn(X[:, :2], y))
    with pytest.raises(KnowledgeError, match="no rows"):
        drift([ms.Knowledge.zero(pieces[0].signature)] * 2)
    assert drift(pieces[:1], pieces[1]).names == ("piece 0",)
