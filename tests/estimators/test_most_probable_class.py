"""The most probable class is the predicted one."""

import numpy as np
import pytest

import mergesvm as ms

SETTINGS = [
    ms.MergeSVC(),
    ms.MergeSVC(C=1e-3),
    ms.MergeSVC(class_weight="balanced"),
    ms.MergeSVC(class_weight={0: 5.0}, standardize=True),
    ms.MergeSVC(multiclass="ovo", fit_intercept=False),
    ms.MergeSVCCV([0.1, 10.0], class_weights="inverse"),
    ms.RecursiveSVC(class_weight="balanced"),
    ms.PegasosSVC(1e-2, 2000, class_weight="balanced", random_state=0),
    ms.PegasosSVC(1e-2, 2000, "ovr", random_state=0),
    ms.ParallelKernelSVC(C=0.1, units=2),
    ms.ParallelKernelSVC(kernel="linear", class_weight="balanced"),
]


@pytest.mark.parametrize("fractions", [(0.9, 0.1), (0.3, 0.7), (0.7, 0.2, 0.1)])
@pytest.mark.parametrize("machine", SETTINGS, ids=str)
def test_no_class_is_more_probable_than_the_predicted_one(machine, fractions):
    random = np.random.default_rng(len(fractions))
    y = random.choice(len(fractions), 600, p=fractions)
    X = random.normal(size=(600, 4))
    X[:, 0] += 1.2 * y
    machine.fit(X, y)
    new = 2 * random.normal(size=(2000, 4))
    probabilities = machine.predict_proba(new)
    np.testing.assert_array_equal(machine.classes_[probabilities.argmax(axis=1)], machine.predict(new))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_raised_probabilities_stay_in_the_order_of_the_true_ones():
    random = np.random.default_rng(0)
    y = (random.random(2000) < 0.1).astype(int)
    X = random.normal(size=(2000, 2)) + y[:, None]
    machine = ms.MergeSVC(class_weight="balanced").fit(X, y)
    raised, true = machine.predict_proba(X)[:, 1], machine.model_.predict_proba(X)[:, 1]
    order = np.argsort(true)
    assert (np.diff(raised[order]) >= -1e-12).all()
    agree = (true > 0.5) == (machine.predict(X) == 1)
    assert 0 < (~agree).sum() < len(X) / 2
    np.testing.assert_allclose(raised[agree], true[agree], rtol=1e-12)
