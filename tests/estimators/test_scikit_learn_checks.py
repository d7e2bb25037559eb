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
    MergeSVC(class_weight="balanced", n_jobs=-2),
    MergeSVC(C=100.0, class_weight="inverse"),
    MergeSVC(C=1e-3),
    MergeSVC(class_weight="complement", multiclass="ovo"),
    MergeSVC(multiclass="ovo", ties="sequential"),
    MergeSVC(multiclass="ovo", ties="margin", class_weight="balanced"),
    MergeSVC(multiclass="ovo", standardize=True, precision="float32"),
    MergeSVC(per_class=False, standardize=True, n_jobs=1),
    MergeSVCCV(),
    MergeSVCCV(class_weights="inverse"),
    MergeSVCCV(class_weights=[None, "balanced"], multiclass="ovo", scoring="neg_squared_loss"),
    MergeSVCCV(cv=StratifiedKFold(3), scoring="balanced_accuracy", standardize=True),
    MergeSVCCV([0.1, 10.0], "balanced", cv=StratifiedKFold(3), scoring="f1_macro", n_jobs=-2),
    MergeSVCCV([1.0], multiclass="ovo", ties="sequential", cv=StratifiedKFold(3), penalize_intercept=False),
    PegasosSVC(),
    PegasosSVC(multiclass="ovr"),
    PegasosSVC(lambda_=1e-2, batch_size=4, average=0.75, project=True, n_iter=20_000),
    PegasosSVC(lambda_=1e-2, class_weight="balanced", precision="float32"),
    PegasosSVC(lambda_=1e-2, class_weight="balanced", precision="float32", average=0),
    PegasosSVC(features="fourier:50,precision=float64", n_iter=20_000),
    PegasosSVC(alpha=1e-2, n_iter=5000, ties="margin", n_jobs=-2),
    PegasosSVC(1e-2, 5000, "ovr", average=1.0, project=True, class_weight="complement"),
    PegasosSVC(1e-2, 5000, intercept_scaling=10.0, class_weight="balanced"),
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


def expected_failed_checks(estimator):
    """Rows are drawn at random: equal in expectation, and exactly only if copies of a row follow each other."""
    if not isinstance(estimator, PegasosSVC):
        return {}
    reason = "the rows that Pegasos draws depend on their order, which the check changes"
    kinds = ("dense", "sparse")
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in kinds}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failed_checks)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_estimator_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@parametrize_with_checks(WITH_SAMPLED_MAP, expected_failed_checks=expected_failed_checks_of_maps)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_estimator_with_a_map_frozen_on_a_sample_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
