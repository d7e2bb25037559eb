"""Operating points from the sums alone: what the rows themselves, scipy and chance have to say about them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, optimize
from scipy.stats import norm

import mergesvm as ms
from mergesvm import errors
from mergesvm.analysis.score_normals import ScoreNormals
from mergesvm.analysis.threshold import operating_curve, operating_point


def unbalanced(rows=3000, seed=0, offset=0.0):
    """Two classes of different covariances; the second is rare."""
    generator = np.random.default_rng(seed)
    y = generator.random(rows) < 0.15
    wide = np.array([[1.5, 0.4, 0.0], [0.0, 0.8, 0.3], [0.0, 0.0, 2.0]])
    X = generator.normal(size=(rows, 3))
    X = np.where(y[:, None], X @ wide + [1.5, -1.0, 0.5], X) + offset
    return X, np.where(y, "yes", "no"), generator.integers(0, 4, rows) / 2


def stacked(pairs):
    """Mean, deviation and weight of the scores of each fold, by class, from the rows: (no, yes)."""
    found = []
    for label in ("no", "yes"):
        parts = []
        for model, X, y, weights in pairs:
            scores, w = model.decision_function(X[y == label]), weights[y == label]
            mean = np.average(scores, weights=w)
            parts.append((mean, np.sqrt(np.average((scores - mean) ** 2, weights=w)), w.sum()))
        found.append(np.array(parts).T)
    return found


def above(part, threshold):
    means, deviations, weights = part
    return norm.sf(np.asarray(threshold)[..., None], means, deviations) @ weights / weights.sum()


@pytest.fixture(scope="module", params=["one", "folds"])
def case(request):
    """Arguments of operating_point, the moments of the rows, and the model if there is one."""
    X, y, weights = unbalanced(offset=20.0)
    if request.param == "one":
        knowledge = ms.learn(X, y, weights)
        model = ms.solve(knowledge, class_weight="balanced")
        return (knowledge, model), stacked([(model, X, y, weights)])
    folds = np.arange(len(X)) % 5
    pieces = [ms.learn(X[folds == f], y[folds == f], weights[folds == f]) for f in range(5)]
    total = ms.merge(pieces)
    pairs = [(ms.solve(total - piece, C=0.01), piece) for piece in pieces]
    rows = [(model, X[folds == f], y[folds == f], weights[folds == f]) for f, (model, _) in enumerate(pairs)]
    return (pairs,), stacked(rows)


def check(point, parts, cost=None):
    """All that a point says is what the normals of the rows' own moments give at its threshold."""
    no, yes = parts
    total = no[2].sum() + yes[2].sum()
    prevalence = {"no": no[2].sum() / total, "yes": yes[2].sum() / total}
    up = {"no": above(no, point.threshold), "yes": above(yes, point.threshold)}
    other = {"yes": "no", "no": "yes"}[point.positive]
    flagged = up if point.positive == "yes" else {label: 1 - rate for label, rate in up.items()}
    assert point.prevalence == pytest.approx(prevalence, rel=1e-12)
    assert point.recall == pytest.approx(flagged[point.positive], rel=1e-8)
    assert point.false_positive_rate == pytest.approx(flagged[other], rel=1e-8)
    right, wrong = prevalence[point.positive] * flagged[point.positive], prevalence[other] * flagged[other]
    assert point.precision == pytest.approx(right / (right + wrong), rel=1e-8)
    assert point.accuracy == pytest.approx(right + prevalence[other] - wrong, rel=1e-8)
    if cost is None:
        assert point.cost is None
    else:
        missed = prevalence[point.positive] - right
        assert point.cost == pytest.approx(cost[0] * wrong + cost[1] * missed, rel=1e-8)


@pytest.mark.parametrize("positive", [None, "yes", "no"])
@pytest.mark.parametrize("rate", [0.001, 0.3, 0.5, 0.9, 0.999])
def test_a_given_recall_is_met_at_the_highest_threshold(rate, positive, case):
    given, (no, yes) = case
    point = operating_point(*given, recall=rate, positive=positive)
    check(point, (no, yes))
    assert point.recall == pytest.approx(rate, rel=1e-9)
    part, wanted = (no, 1 - rate) if positive == "no" else (yes, rate)
    expected = optimize.brentq(lambda t: above(part, t) - wanted, -20, 20, xtol=1e-14)
    assert point.threshold == pytest.approx(expected, rel=1e-8, abs=1e-10)
    if len(no[0]) == 1:
        assert point.threshold == pytest.approx(norm.isf(wanted, part[0][0], part[1][0]), rel=1e-8)


@pytest.mark.parametrize("positive", [None, "no"])
@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.2, 0.97])
def test_a_given_false_positive_rate_is_met_at_the_lowest_threshold(rate, positive, case):
    given, (no, yes) = case
    point = operating_point(*given, false_positive_rate=rate, positive=positive)
    check(point, (no, yes))
    assert point.false_positive_rate == pytest.approx(rate, rel=1e-9)
    part, wanted = (yes, 1 - rate) if positive == "no" else (no, rate)
    expected = optimize.brentq(lambda t: above(part, t) - wanted, -20, 20, xtol=1e-14)
    assert point.threshold == pytest.approx(expected, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("positive", [None, "no"])
@pytest.mark.parametrize("cost", [(1, 1), (1.0, 10.0), (2.5, 1.0), (1, 300)])
def test_no_threshold_costs_less(cost, positive, case):
    given, (no, yes) = case
    point = operating_point(*given, cost=cost, positive=positive)
    check(point, (no, yes), cost)
    up, down = cost if positive is None else cost[::-1]  # of a "no" above the threshold, of a "yes" below
    total = no[2].sum() + yes[2].sum()

    def expected(threshold):
        return up * no[2].sum() / total * above(no, threshold) + down * yes[2].sum() / total * (
            1 - above(yes, threshold)
        )

    grid = np.linspace(-15, 15, 6001)
    best = grid[np.argmin(expected(grid))]
    around = {"bounds": (best - 0.01, best + 0.01), "method": "bounded", "options": {"xatol": 1e-11}}
    found = optimize.minimize_scalar(expected, **around)
    assert point.cost == pytest.approx(found.fun, rel=1e-8)
    assert point.cost <= expected(best) * (1 + 1e-12)


@pytest.mark.parametrize("cost", [(1, 1), (1.0, 10.0), (2.5, 1.0)])
def test_the_cheapest_threshold_is_the_root_of_a_quadratic(cost):
    X, y, weights = unbalanced(seed=3)
    knowledge = ms.learn(X, y, weights)
    model = ms.solve(knowledge)
    (m0, s0, n0), (m1, s1, n1) = (part[:, 0] for part in stacked([(model, X, y, weights)]))
    # log(c0 n0 f0(t)) = log(c1 n1 f1(t))
    quadratic = [
        1 / (2 * s1**2) - 1 / (2 * s0**2),
        m0 / s0**2 - m1 / s1**2,
        m1**2 / (2 * s1**2) - m0**2 / (2 * s0**2) + np.log(cost[0] * n0 / s0) - np.log(cost[1] * n1 / s1),
    ]
    roots = np.roots(quadratic)
    rising = roots[np.polyval(np.polyder(quadratic), roots) < 0]
    assert operating_point(knowledge, model, cost=cost).threshold == pytest.approx(rising.item(), rel=1e-8)


def test_the_threshold_is_beyond_all_scores_if_predicting_one_class_is_cheapest():
    X, y, _ = unbalanced()
    knowledge = ms.learn(X, y)
    model = ms.solve(knowledge)
    scores = model.decision_function(X)
    point = operating_point(knowledge, model, cost=(1, 1e9))
    assert (point.recall, point.false_positive_rate) == (1.0, 1.0)
    assert point.threshold < scores.min()
    assert point.cost == pytest.approx((y == "no").mean())
    # The wide class is that of the positives: no threshold is so high that they do not prevail beyond it.
    narrow = operating_point(knowledge, model, cost=(1e9, 1))
    assert narrow.cost <= (y == "yes").mean()
    one_sided = operating_point(knowledge, model, cost=(1e9, 1), positive="no")
    assert one_sided.threshold == pytest.approx(point.threshold)


def test_measured_rates_match_within_sampling_error():
    X, y, _ = unbalanced(200_000, seed=1)
    new, truth, _ = unbalanced(200_000, seed=2)
    knowledge = ms.learn(X, y)
    model = ms.solve(knowledge, C=10.0)
    for options in (
        {"recall": 0.95},
        {"false_positive_rate": 0.02},
        {"cost": (1, 5)},
        {"recall": 0.8, "positive": "no"},
    ):
        point = operating_point(knowledge, model, **options)
        predicted = model.with_threshold(point.threshold).predict(new)
        other = {"yes": "no", "no": "yes"}[point.positive]
        found = (predicted[truth == point.positive] == point.positive).mean()
        false = (predicted[truth == other] == point.positive).mean()
        for realised, stated, rows in (
            (found, point.recall, (truth == point.positive).sum()),
            (false, point.false_positive_rate, (truth == other).sum()),
        ):
            # Of the sample that was learned, and of the one that is predicted.
            assert abs(realised - stated) < 4 * np.sqrt(2 * stated * (1 - stated) / rows)
        assert (predicted == truth).mean() == pytest.approx(point.accuracy, abs=0.004)


def test_anchors_maps_and_joined_classes_make_no_difference():
    X, y, weights = unbalanced(offset=5.0)
    knowledge = ms.learn(X, y, weights)
    model = ms.solve(knowledge)
    expected = operating_point(knowledge, model, recall=0.9)
    moved = operating_point(knowledge.about([100.0, -50.0, 3.0]), model, recall=0.9)
    assert moved.threshold == pytest.approx(expected.threshold, rel=1e-8)
    split = np.where(y == "no", np.where(X[:, 0] > 5, "maybe", "never"), y)
    joined = ms.learn(X, split, weights).join({"no": ["maybe", "never"]})
    assert operating_point(joined, model, recall=0.9).threshold == pytest.approx(expected.threshold, rel=1e-8)
    features = ms.features.Fourier(20, precision="float64").freeze(X)
    mapped = ms.learn(X, y, weights, features=features)
    curved = ms.solve(mapped)
    parts = stacked([(curved, X, y, weights)])
    check(operating_point(mapped, curved, false_positive_rate=0.1), parts)


def test_a_fold_without_a_class_counts_for_the_other_class():
    X, y, weights = unbalanced()
    knowledge = ms.learn(X, y, weights)
    model = ms.solve(knowledge)
    whole = operating_point(knowledge, model, recall=0.9)
    parts = operating_point([(model, knowledge.only(["yes"])), (model, knowledge.only(["no"]))], recall=0.9)
    assert parts.threshold == pytest.approx(whole.threshold, rel=1e-12)
    assert parts.prevalence == pytest.approx(whole.prevalence)


def test_classes_without_spread_are_separated_between_them():
    knowledge = ms.learn([[0.0], [0.0], [4.0]], ["a", "a", "b"])
    model = ms.solve(knowledge)
    low, high = model.decision_function([[0.0], [4.0]])
    for options in ({"cost": (1, 1)}, {"recall": 0.9}, {"false_positive_rate": 0.1}):
        point = operating_point(knowledge, model, **options)
        assert low - 1e-6 < point.threshold < high
        assert point.recall >= 0.9 - 1e-9
        assert point.false_positive_rate <= 0.1 + 1e-9
    flat = ms.solve(ms.learn([[0.0], [0.0], [0.0]], ["a", "a", "b"]))
    assert np.isfinite(operating_point(ms.learn([[0.0]] * 2, ["a", "b"]), flat, cost=(1, 1)).threshold)


# The curve.


@pytest.mark.parametrize("positive", [None, "no"])
def test_the_curve_follows_the_normals_and_its_auc_the_integral(positive, case):
    given, (no, yes) = case
    curve = operating_curve(*given, positive=positive)
    own, other = (no, yes) if positive == "no" else (yes, no)
    step = max(1, len(curve.thresholds) // 200)
    for at in range(0, len(curve.thresholds), step):
        threshold = curve.thresholds[at]
        rates = above(own, threshold), above(other, threshold)
        found, false = rates if positive is None else (1 - rates[0], 1 - rates[1])
        assert curve.recall[at] == pytest.approx(found, abs=1e-12)
        assert curve.false_positive_rate[at] == pytest.approx(false, abs=1e-12)
    assert (np.diff(curve.recall) >= 0).all()
    assert (np.diff(curve.false_positive_rate) >= 0).all()
    assert (curve.recall[0], curve.recall[-1]) == pytest.approx((0, 1))
    assert curve.positive == (positive or "yes")

    def density(part, t):
        return float(norm.pdf(t, part[0], part[1]) @ part[2] / part[2].sum())

    area = integrate.quad(lambda t: density(yes, t) * (1 - above(no, t)), -20, 20, limit=200, epsabs=1e-12)[0]
    assert curve.auc == pytest.approx(area, abs=1e-8)
    assert np.trapezoid(curve.recall, curve.false_positive_rate) == pytest.approx(curve.auc, abs=1e-4)


def test_mirroring_twice_changes_nothing():
    X, y, _ = unbalanced()
    knowledge = ms.learn(X, y)
    normals = ScoreNormals.of([(ms.solve(knowledge), knowledge)])
    again = normals.mirrored().mirrored()
    for threshold in (-2.0, 0.0, 1.0):
        for side in (0, 1):
            assert again.above(side, threshold) == normals.above(side, threshold)
            assert normals.mirrored().above(side, -threshold) == normals.below(1 - side, threshold)


# Models at a threshold.


@pytest.mark.parametrize("kind", ["normal", "isotonic", "platt", "pegasos"])
def test_a_model_with_a_threshold_keeps_its_probabilities(kind, tmp_path):
    X, y, _ = unbalanced(offset=10.0)
    model = ms.PegasosSVC(0.01, 500).fit(X, y).model_ if kind == "pegasos" else ms.solve(ms.learn(X, y))
    if kind in ("isotonic", "platt"):
        model = model.calibrated(*unbalanced(seed=5, offset=10.0)[:2], method=kind)
    scores = model.decision_function(X)
    for threshold in (-0.7, 0.0, np.float32(0.25), 1):
        shifted = model.with_threshold(threshold)
        np.testing.assert_array_equal(shifted.predict(X), np.where(scores > threshold, "yes", "no"))
        np.testing.assert_allclose(shifted.decision_function(X), scores - threshold, atol=1e-12)
        np.testing.assert_allclose(shifted.predict_proba(X), model.predict_proba(X), atol=1e-9)
        np.testing.assert_allclose(X @ shifted.coef_[0] + shifted.intercept_, scores - threshold, atol=1e-10)
        shifted.save(tmp_path / "m.msvm")
        loaded = ms.load_model(tmp_path / "m.msvm")
        assert loaded.predict(X).tolist() == shifted.predict(X).tolist()
        assert loaded.predict_proba(X).tobytes() == shifted.predict_proba(X).tobytes()
    np.testing.assert_array_equal(model.decision_function(X), scores)
    np.testing.assert_allclose(
        model.with_threshold(0.3).with_threshold(-0.3).predict_proba(X), model.predict_proba(X), atol=1e-12
    )


def test_a_threshold_found_again_on_a_shifted_model_is_zero():
    X, y, weights = unbalanced()
    knowledge = ms.learn(X, y, weights)
    model = ms.solve(knowledge)
    for options in ({"recall": 0.9}, {"cost": (1, 7)}, {"false_positive_rate": 0.2, "positive": "no"}):
        point = operating_point(knowledge, model, **options)
        again = operating_point(knowledge, model.with_threshold(point.threshold), **options)
        assert again.threshold == pytest.approx(0.0, abs=1e-12)
        assert again.recall == pytest.approx(point.recall, rel=1e-9)


# Errors.


def test_mismatched_models_and_knowledge_raise_errors():
    X, y, _ = unbalanced(300)
    knowledge = ms.learn(X, y)
    model = ms.solve(knowledge)
    three = ms.learn(X, np.where(X[:, 0] > 1, "third", y))
    with pytest.raises(errors.FormError, match=r"the model has 3\. Join classes.*knowledge\.join"):
        operating_point(three, ms.solve(three), recall=0.9)
    with pytest.raises(errors.FormError, match=r"this one has 3\..*knowledge\.join"):
        ms.solve(three).with_threshold(0.5)
    with pytest.raises(errors.KnowledgeError, match=r"of class 'third', but.*knowledge\.join"):
        operating_point(three, model, recall=0.9)
    with pytest.raises(errors.FormError, match="not PairwiseModel"):
        operating_point(three, ms.solve(three, multiclass="ovo"), recall=0.9)
    with pytest.raises(errors.FormError, match="not KernelModel"):
        operating_point(knowledge, ms.ParallelKernelSVC().fit(X[:50], y[:50]).model_, recall=0.9)
    with pytest.raises(errors.KnowledgeError, match="no rows of class 'yes'"):
        operating_point(knowledge.only(["no"]), model, recall=0.9)
    pooled = ms.learn(X, y, per_class=False)
    with pytest.raises(errors.FormError, match="per_class=True"):
        operating_point(pooled, ms.solve(pooled), recall=0.9)
    with pytest.raises(errors.KnowledgeError, match=r"2 columns without names.*3 columns"):
        operating_point(knowledge.select([0, 1]), model, recall=0.9)
    with pytest.raises(errors.KnowledgeError, match="have different classes"):
        operating_point([(model, knowledge), (ms.solve(knowledge.join({"da": ["yes"]})), knowledge)], recall=0.9)
    for given in ([], [model], [(model,)], "ab"):
        with pytest.raises(errors.ParameterError, match="pairs"):
            operating_point(given, recall=0.9)
    with pytest.raises(errors.ParameterError, match="Give a model with the knowledge"):
        operating_point(knowledge, recall=0.9)
    folds = ms.learn([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"], folds=[0, 1, 0, 1])
    with pytest.raises(errors.ParameterError, match=r"Give folds\.total"):
        operating_point(folds, model, recall=0.9)
    with pytest.raises(errors.ParameterError, match="leave out model"):
        operating_point([(model, knowledge)], model, recall=0.9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "not none"),
        ({"recall": 0.9, "cost": (1, 1)}, "not cost and recall"),
        *(({"recall": value}, "recall must be") for value in (0, 1, 1.5, -1, np.nan, "half")),
        *(({"false_positive_rate": value}, "false_positive_rate must be") for value in (0.0, 1.0, np.inf)),
        *(({"cost": value}, "two numbers") for value in (1.0, (1,), (1, 2, 3), ("a", "b"), "ab")),
        *(({"cost": value}, "must be positive and finite") for value in ((0, 1), (1, -1), (np.nan, 1), (1, np.inf))),
        ({"recall": 0.5, "positive": "maybe"}, "one of the classes 'no' and 'yes', not 'maybe'"),
    ],
)
def test_invalid_options_raise_errors(options, message):
    X, y, _ = unbalanced(100)
    knowledge = ms.learn(X, y)
    with pytest.raises(errors.ParameterError, match=message):
        operating_point(knowledge, ms.solve(knowledge), **options)


@pytest.mark.parametrize("threshold", [np.nan, np.inf, "0.5", None, [0.5]])
def test_a_threshold_must_be_a_finite_number(threshold):
    with pytest.raises(errors.ParameterError, match="finite number"):
        ms.solve(ms.learn([[0.0], [1.0]], ["a", "b"])).with_threshold(threshold)
