"""The checks of scikit-learn, on every estimator but ParallelKernelSVC, which has its own file."""

from __future__ import annotations

import pytest
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from maps import expected_failed_checks_of_maps
from mergesvm import MergeSVC, MergeSVCCV, PegasosSVC, RecursiveSVC

ESTIMATORS = [
    MergeSVC(),
    MergeSVC(multiclass="ovo"),
    MergeSVC(class_weight="complement", standardize=True),
    MergeSVC(penalize_intercept=False, per_class=False),
    MergeSVCCV(),
    MergeSVCCV(class_weights=[None, "balanced"], multiclass="ovo", scoring="neg_squared_loss"),
    MergeSVCCV(cv=StratifiedKFold(3), scoring="balanced_accuracy", standardize=True),
    PegasosSVC(),
    PegasosSVC(multiclass="ovr"),
    PegasosSVC(lambda_=1e-2, batch_size=4, average=0.75, project=True, n_iter=20_000),
    PegasosSVC(lambda_=1e-2, class_weight="balanced", precision="float32"),
    PegasosSVC(lambda_=1e-2, class_weight="balanced", precision="float32", average=0),
    PegasosSVC(features="fourier:50,precision=float64", n_iter=20_000),
    RecursiveSVC(),
    RecursiveSVC(C=100.0, penalize_intercept=False, per_class=False),
    RecursiveSVC(check_every=7),
    RecursiveSVC(window=10_000),
]
WITH_SAMPLED_MAP = [
    MergeSVC(features="hidden", n_features=50, random_state=0),
    MergeSVC(features="fourier", n_features=50, random_state=0),
    MergeSVC(features="nystroem:5,precision=float64", random_state=0),
    RecursiveSVC(features="fourier", n_features=50, random_state=0),
]


@parametrize_with_checks(ESTIMATORS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_estimator_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@parametrize_with_checks(WITH_SAMPLED_MAP, expected_failed_checks=expected_failed_checks_of_maps)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_estimator_with_a_map_frozen_on_a_sample_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
