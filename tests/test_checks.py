"""Arguments that are true or false, and numbers of jobs, of all public functions and estimators."""

from __future__ import annotations

import inspect

import joblib
import numpy as np
import pytest

import mergesvm as ms
from mergesvm.engines.threads import Threads
from mergesvm.errors import ParameterError

X, Y = np.arange(12.0).reshape(6, 2), list("abcabc")
KNOWLEDGE = ms.learn(X, Y)
FOLDS = ms.learn(X, Y, folds=[0, 1, 0, 1, 0, 1])
PIECES = {"one": KNOWLEDGE, "other": ms.learn(X, Y)}
CALLS = {
    "drift": (PIECES,),
    "eliminate": (KNOWLEDGE,),
    "influence": (PIECES,),
    "learn": (X, Y),
    "merge": ([KNOWLEDGE],),
    "path": (KNOWLEDGE,),
    "precompile": (),
    "report": (KNOWLEDGE, "never.html"),
    "scan": ("never.csv",),
    "solve": (KNOWLEDGE,),
    "subtract": (KNOWLEDGE, KNOWLEDGE),
    "validate": (FOLDS,),
    "Signature": (ms.features.Identity(), 2),
}
ESTIMATORS = ("MergeSVC", "MergeSVCCV", "ParallelKernelSVC", "PegasosSVC", "RecursiveSVC")


def is_flag(parameter):
    return isinstance(parameter.default, bool) and parameter.name != "verbose"  # in scikit-learn a number or a flag


def arguments(is_wanted):
    """Names of public functions and estimators with the arguments that are wanted."""
    for name in sorted(ms.__all__):
        public = getattr(ms, name)
        if callable(public) and name in {*CALLS, *ESTIMATORS}:
            for parameter in inspect.signature(public).parameters.values():
                if is_wanted(parameter):
                    yield name, parameter.name


def call(name, **options):
    if name in ESTIMATORS:
        return getattr(ms, name)(**options).fit(X, Y)
    return getattr(ms, name)(*CALLS[name], **options)


def test_no_public_flag_is_left_out():
    for name in ms.__all__:
        public = getattr(ms, name)
        if callable(public) and not (isinstance(public, type) and issubclass(public, Exception)):
            flags = [p for p in inspect.signature(public).parameters.values() if isinstance(p.default, bool)]
            assert not flags or name in {*CALLS, *ESTIMATORS}, name


@pytest.mark.parametrize("wrong", ["nonsense", None, 2, np.array([True, False])], ids=repr)
@pytest.mark.parametrize(("name", "flag"), list(arguments(is_flag)))
def test_a_flag_that_is_neither_true_nor_false_is_refused_by_its_name(name, flag, wrong):
    with pytest.raises(ParameterError, match=flag):
        call(name, **{flag: wrong})


@pytest.mark.parametrize("wrong", [0, 1.5, "all", True], ids=repr)
@pytest.mark.parametrize(("name", "argument"), list(arguments(lambda p: p.name == "n_jobs")))
def test_a_wrong_number_of_jobs_is_refused_by_the_name_that_the_user_wrote(name, argument, wrong):
    with pytest.raises(ParameterError, match=rf"n_jobs.*{wrong!r}"):
        call(name, **{argument: wrong})


@pytest.mark.parametrize("n_jobs", [-1, -2, -3, -1000, 1, 2, np.int64(3)])
@pytest.mark.parametrize("cores", [1, 4, 7])
def test_negative_numbers_of_jobs_are_those_of_joblib(n_jobs, cores, monkeypatch):
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", str(cores))
    expected = joblib.effective_n_jobs(n_jobs)
    assert Threads(n_jobs).workers == Threads.of_jobs(n_jobs).workers == expected


@pytest.mark.parametrize(("name", "argument"), list(arguments(lambda p: p.name == "n_jobs")))
def test_two_fewer_jobs_than_cores_are_accepted(name, argument):
    call(name, **{argument: -2})


@pytest.mark.parametrize("name", ["MergeSVCCV", "validate"])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"Cs": [1.0, -1.0]}, "Cs must be .*not -1.0"),
        ({"Cs": "many"}, "Cs must be a list"),
        ({"class_weights": ["heavy"]}, "class_weights must be"),
    ],
)
def test_candidates_are_named_as_the_user_wrote_them(name, wrong, message):
    with pytest.raises(ParameterError, match=message):
        call(name, **wrong)
