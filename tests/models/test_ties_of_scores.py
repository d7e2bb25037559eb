"""A score of exactly 0 counts as positive in every model: sgn(0) = +1. Of several equal scores the first class wins."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.multiclass import OneVsOneClassifier
from sklearn.svm import SVC, LinearSVC

import mergesvm as ms

LINE, SIDES = np.array([[-1.0], [1.0]]), np.array(["minus", "plus"])
ON_THE_BORDER = np.array([[0.0], [-0.0]])


def machines():
    yield ms.MergeSVC()
    yield ms.MergeSVC(multiclass="ovo")
    yield ms.RecursiveSVC()
    yield ms.PegasosSVC(n_iter=100, fit_intercept=False)
    yield ms.ParallelKernelSVC(kernel="linear")


@pytest.mark.parametrize("machine", machines(), ids=repr)
@pytest.mark.parametrize("names", [SIDES, SIDES[::-1]], ids=["plus last", "plus first"])
def test_a_score_of_zero_is_of_the_second_class(machine, names):
    """Cassioli and others (2013), after equation 1: sgn(t) = 1 for t >= 0."""
    fitted = machine.fit(LINE, names)
    assert (fitted.model_.scores(ON_THE_BORDER) == 0).all()
    assert fitted.predict(ON_THE_BORDER).tolist() == ["plus", "plus"]
    assert fitted.predict(LINE).tolist() == names.tolist()


def test_a_score_of_zero_is_of_the_class_that_svc_predicts():
    for names in (SIDES, SIDES[::-1]):
        theirs = SVC(kernel="linear").fit(LINE, names)
        assert (theirs.decision_function(ON_THE_BORDER) == 0).all()
        ours = ms.ParallelKernelSVC(kernel="linear").fit(LINE, names)
        assert ours.predict(ON_THE_BORDER).tolist() == theirs.predict(ON_THE_BORDER).tolist()


def test_pairs_with_a_score_of_zero_vote_as_in_libsvm():
    """Rows of three classes such that every pair has border rows, and every row between two of them is one."""
    corners, names = np.array([[-1.0, -1.0], [1.0, -1.0], [0.0, 1.0]]), np.array(["a", "b", "c"])
    theirs = SVC(kernel="linear", decision_function_shape="ovo").fit(corners, names)
    ours = ms.ParallelKernelSVC(kernel="linear", ties="first").fit(corners, names)
    X = np.array([[0.0, y] for y in np.linspace(-4, 4, 33)])
    scores = ours.model_.scores(X)
    assert (scores[:, 0] == 0).all()
    assert (theirs.decision_function(X)[:, 0] == 0).all()
    assert ours.predict(X).tolist() == theirs.predict(X).tolist()
    assert set(ours.predict(X)) == {"b", "c"}


def test_scikit_learn_s_linear_classifiers_predict_the_first_class_at_zero():
    """The guide says so: the one place where predictions differ from theirs."""
    theirs = LinearSVC().fit(LINE, SIDES)
    border = -theirs.intercept_ / theirs.coef_[0]
    found = theirs.decision_function(border[:, None])
    assert (theirs.predict(border[:, None]) == SIDES[int(found[0] > 0)]).all()
    assert OneVsOneClassifier(ms.MergeSVC()).fit(LINE, SIDES).predict(LINE).tolist() == SIDES.tolist()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_live_model_decides_ties_as_its_model_whatever_class_came_first(order):
    live = ms.RecursiveSVC()
    for at in order:
        live.learn_one(LINE[at], SIDES[at])
    assert live.model_.scores(ON_THE_BORDER)[0] == 0
    assert live.predict_one([0.0]) == live.predict([[0.0]])[0] == "plus"


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_of_several_equal_scores_the_first_class_wins_whatever_class_came_first(order):
    live, names = ms.RecursiveSVC(fit_intercept=False), ["a", "b", "c"]
    for at in order:
        live.learn_one([1.0], names[at])
    assert live.decision_function([[0.0]]).tolist() == [[0.0, 0.0, 0.0]]
    assert live.predict_one([0.0]) == live.predict([[0.0]])[0] == "a"


def test_rows_of_one_class_more_than_declared_are_decided_alike():
    machine = ms.MergeSVC().partial_fit(LINE, SIDES, classes=["extra", "minus", "plus"])
    scores = machine.decision_function(ON_THE_BORDER)
    assert machine.classes_[scores.argmax(axis=1)].tolist() == machine.predict(ON_THE_BORDER).tolist() == ["plus"] * 2


def test_a_threshold_belongs_to_the_second_class():
    model = ms.solve(ms.learn([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"]))
    score = float(model.decision_function([[1.8]])[0])
    assert model.with_threshold(score).predict([[1.8], [1.79]]).tolist() == ["b", "a"]
