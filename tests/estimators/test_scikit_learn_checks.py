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
    MergeSVC(C=1e4, standardize=True, penalize_intercept=False),
    MergeSVC(fit_intercept=False),
    MergeSVC(fit_intercept=False, standardize=True, multiclass="ovo", ties="margin"),
    MergeSVC(features="hidden:30,precision=float64"),
    MergeSVC(features="fourier:40,precision=float64,seed=3", multiclass="ovo", C=10.0),
    MergeSVC(class_weight={0: 2.0, 1: 1.0, 2: 0.5}, multiclass="ovo"),
    MergeSVC(precision="float32", penalize_intercept=False, class_weight="inverse"),
    MergeSVC(multiclass="ovo", per_class=True, C=0.1, class_weight="inverse", n_jobs=2),
    MergeSVCCV(),
    MergeSVCCV(class_weights="inverse"),
    MergeSVCCV(class_weights=[None, "balanced"], multiclass="ovo", scoring="neg_squared_loss"),
    MergeSVCCV(cv=StratifiedKFold(3), scoring="balanced_accuracy", standardize=True),
    MergeSVCCV([0.1, 10.0], "balanced", cv=StratifiedKFold(3), scoring="f1_macro", n_jobs=-2),
    MergeSVCCV([1.0], multiclass="ovo", ties="sequential", cv=StratifiedKFold(3), penalize_intercept=False),
    MergeSVCCV([0.1, 1.0, 10.0], multiclass=["ovr", "ovo"], measure=False),
    MergeSVCCV([1e-3, 1e3], "complement", measure=False, standardize=True),
    MergeSVCCV([1.0], fit_intercept=False, cv=StratifiedKFold(3)),
    MergeSVCCV([1.0, 100.0], cv=StratifiedKFold(2), precision="float32", measure=False),
    MergeSVCCV([1.0], scoring="f1_macro", multiclass="ovo", ties="margin", cv=StratifiedKFold(3)),
    MergeSVCCV([0.1, 1.0], [None, "inverse", "complement"], cv=StratifiedKFold(3), measure=False),
    MergeSVCCV([10.0], features="hidden:20,precision=float64", cv=StratifiedKFold(3)),
    MergeSVCCV([0.01, 1.0], fit_intercept=False, standardize=True, multiclass="ovo", cv=StratifiedKFold(3)),
    MergeSVCCV([1.0, 10.0], scoring="balanced_accuracy", class_weights="balanced", cv=StratifiedKFold(2), n_jobs=1),
    MergeSVCCV([1.0], penalize_intercept=False, standardize=True, class_weights="balanced", cv=StratifiedKFold(3)),
    MergeSVCCV(
        [1e-2, 1e2], multiclass="ovo", class_weights="complement", scoring="neg_squared_loss", cv=StratifiedKFold(3)
    ),
    MergeSVCCV([1.0, 5.0], cv=StratifiedKFold(2, shuffle=True, random_state=0), measure=True),
    MergeSVCCV([0.5], multiclass="ovo", standardize=True, precision="float32", cv=StratifiedKFold(2)),
    MergeSVCCV([0.1, 1.0], scoring="neg_squared_loss", measure=False, penalize_intercept=False),
    PegasosSVC(),
    PegasosSVC(multiclass="ovr"),
    PegasosSVC(lambda_=1e-2, batch_size=4, average=0.75, project=True, n_iter=20_000),
    PegasosSVC(lambda_=1e-2, class_weight="balanced", precision="float32"),
    PegasosSVC(lambda_=1e-2, class_weight="balanced", precision="float32", average=0),
    PegasosSVC(features="fourier:50,precision=float64", n_iter=20_000),
    PegasosSVC(alpha=1e-2, n_iter=5000, ties="margin", n_jobs=-2),
    PegasosSVC(1e-2, 5000, "ovr", average=1.0, project=True, class_weight="complement"),
    PegasosSVC(1e-2, 5000, intercept_scaling=10.0, class_weight="balanced"),
    PegasosSVC(1e-2, 5000, "ovr", class_weight="inverse"),
    PegasosSVC(1e-2, 5000, fit_intercept=False),
    PegasosSVC(1e-2, 5000, "ovr", fit_intercept=False, project=True),
    PegasosSVC(1e-1, 5000, batch_size=16),
    PegasosSVC(1e-2, 5000, ties="sequential", precision="float32"),
    PegasosSVC(1e-2, 5000, batch_size=2, average=0, n_jobs=1),
    PegasosSVC(1e-2, 5000, class_weight={0: 2.0, 1: 1.0, 2: 1.0}, average=1.0),
    PegasosSVC(1e-2, 5000, "ovr", features="hidden:30,precision=float64"),
    PegasosSVC(1e-2, 5000, project=True, class_weight="complement", ties="margin"),
    PegasosSVC(1e-2, 5000, "ovr", intercept_scaling=0.5, batch_size=8),
    PegasosSVC(1e-2, 5000, random_state=7, average=0.25),
    RecursiveSVC(),
    RecursiveSVC(C=100.0, penalize_intercept=False, per_class=False),
    RecursiveSVC(check_every=7),
    RecursiveSVC(window=10_000),
    RecursiveSVC(C=1e-3),
    RecursiveSVC(C=1e4, check_every=100),
    RecursiveSVC(class_weight="balanced"),
    RecursiveSVC(class_weight="balanced", C=10.0, penalize_intercept=False),
    RecursiveSVC(class_weight={0: 2.0, 1: 1.0, 2: 0.5}),
    RecursiveSVC(class_weight={0: 3.0, 1: 1.0, 2: 1.0}, per_class=False),
    RecursiveSVC(fit_intercept=False),
    RecursiveSVC(fit_intercept=False, C=100.0),
    RecursiveSVC(forgetting=0.9999),
    RecursiveSVC(forgetting=0.9999, penalize_intercept=False),
    RecursiveSVC(forgetting=0.9999, window=1000),
    RecursiveSVC(window=1000, penalize_intercept=False, C=10.0),
    RecursiveSVC(window=1000, per_class=False),
    RecursiveSVC(features="hidden:30,precision=float64"),
    RecursiveSVC(features="hidden:20,precision=float64", class_weight="balanced", C=0.1),
    RecursiveSVC(per_class=False),
]
"""Twenty settings of each, that together cover what their parameters can be."""

WITH_SAMPLED_MAP = [
    MergeSVC(features="hidden", n_features=50, random_state=0),
    MergeSVC(features="fourier", n_features=50, random_state=0),
    MergeSVC(features="nystroem:5,precision=float64", random_state=0),
    RecursiveSVC(features="fourier", n_features=50, random_state=0),
]


def expected_failed_checks(estimator):
    """The checks that do not apply to a setting, with the reason."""
    failed = {}
    if not estimator.fit_intercept:
        failed["check_class_weight_classifiers"] = "without an intercept no class is predicted everywhere"
    if isinstance(getattr(estimator, "class_weight", None), dict):
        failed["check_classifiers_classes"] = "the class weights name other classes"
    if isinstance(estimator, RecursiveSVC) and estimator.class_weight == "balanced":
        for name in ("check_n_features_in_after_fitting", "check_estimators_partial_fit_n_features"):
            failed[name] = "the balance of a stream is not known, so partial_fit refuses this class_weight"
    if isinstance(estimator, RecursiveSVC) and estimator.forgetting != 1:
        for kind in ("dense", "sparse"):
            name = f"check_sample_weight_equivalence_on_{kind}_data"
            failed[name] = "a copy of a row is one more row, which all earlier ones are forgotten by"
    if isinstance(estimator, PegasosSVC):
        reason = "the rows that Pegasos draws depend on their order, which the check changes"
        # Equal in expectation, and exactly only if copies of a row follow each other.
        failed |= {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}
        if estimator.ties == "sequential" or estimator.intercept_scaling == 0.5:
            failed["check_class_weight_classifiers"] = "sets n_iter=100, which are too few steps"
    if estimator.features is not None:
        failed |= expected_failed_checks_of_maps(estimator)
    return failed


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failed_checks)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_estimator_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@parametrize_with_checks(WITH_SAMPLED_MAP, expected_failed_checks=expected_failed_checks_of_maps)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_estimator_with_a_map_frozen_on_a_sample_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
