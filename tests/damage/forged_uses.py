"""What is asked of a forged file: it is refused when it is read, or answers every question as any other file does.

A question may be refused, by an error of ours. Anything else is a finding.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import mergesvm as ms
from cli.commandline import run
from damage.data_files import ANSWERS
from mergesvm import errors
from mergesvm.errors import MergeSVMError

OWN_WARNINGS = (errors.SolverWarning, errors.FoldWarning, errors.FrozenHereWarning)


@contextmanager
def questions() -> Iterator[Callable[..., Any]]:
    """Yield a function that asks a question; an error of ours is an answer. Warnings of ours are expected."""

    def ask(question: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        with suppress(MergeSVMError):
            return question(*arguments, **options)
        return None

    with warnings.catch_warnings():
        for category in OWN_WARNINGS:
            warnings.simplefilter("ignore", category)
        yield ask


def use_forged_knowledge(path: Path, _: dict[str, Any]) -> None:
    """Add, subtract, solve, report, inspect and write knowledge."""
    loaded, pristine = ms.Knowledge.load(path), ms.Knowledge.load(path.with_name("pristine"))
    _check_finite(loaded)
    repr(loaded), repr(loaded.signature)
    with questions() as ask:
        doubled = ask(ms.merge, [loaded, replace(loaded, provenance=())])
        if doubled is not None:
            _check_finite(doubled)
            ask(lambda: _check_finite(doubled - replace(loaded, provenance=())))
        ask(lambda: _check_finite(loaded.about()))
        ask(lambda: loaded.pca(1).transform(np.zeros((1, loaded.signature.inputs))))
        _solve(ask, loaded)
        _report(ask, path, {"forged": loaded, "true": pristine} if loaded.signature == pristine.signature else loaded)
        _inspect(path)
        _write_again(loaded, path)


def use_forged_folds(path: Path, _: dict[str, Any]) -> None:
    """Add, subtract, validate, solve, report, inspect and write folds."""
    loaded = ms.Folds.load(path)
    repr(loaded)
    left = [loaded.train(fold) for fold in range(len(loaded))]
    for piece in (loaded.total, *loaded, *left):
        _check_finite(piece)
    assert all((piece.rows > 0).all() for piece in left), "classes without rows"
    with questions() as ask:
        again = ms.Folds(loaded.parts, loaded.rest, loaded.assignment, ())
        ask(lambda: (loaded + again) - again)
        ask(ms.validate, loaded, Cs=[1.0])
        _solve(ask, left[0])
        _report(ask, path, loaded)
        _inspect(path)
        _write_again(loaded, path)


def use_forged_features(path: Path, _: dict[str, Any]) -> None:
    """Map rows, learn with, inspect and write a map."""
    loaded = ms.features.load(path)
    repr(loaded), str(loaded), hash(loaded)
    with questions() as ask:
        for rows in (np.zeros((3, loaded.layout.width)), np.full((3, loaded.layout.width), 1e3)):
            mapped = ask(loaded.transform, rows)
            if mapped is not None:
                assert mapped.shape == (len(rows), loaded.width), "features of a wrong width"
                assert np.isfinite(mapped).all(), "features that are not finite"
            learned = ask(ms.learn, rows, ANSWERS[:3], features=loaded)
            if learned is not None:
                _check_finite(learned)
        _inspect(path)
        _write_again(loaded, path)


def use_forged_model(path: Path, _: dict[str, Any]) -> None:
    """Predict with, inspect, write and export a model."""
    model = ms.load_model(path)
    with questions() as ask:
        _use_model(ask, model)
        _inspect(path)
        _write_again(model, path)
        ask(model.to_onnx, path.with_name("again"))
        path.with_name("again").unlink(missing_ok=True)


def use_forged_calibrated(path: Path, _: dict[str, Any]) -> None:
    """Whatever the scores, probabilities are finite and add to 1."""
    model = ms.load_model(path)
    use_forged_model(path, _)
    for scores in (np.zeros((2, len(model.coef_))), np.linspace(-1e300, 1e300, len(model.coef_))[None]):
        found = model.probabilities(scores)
        assert np.isfinite(found).all(), "probabilities that are not finite"
        assert np.allclose(found.sum(axis=1), 1), "probabilities that do not add to 1"


def use_forged_kernel(path: Path, _: dict[str, Any]) -> None:
    """Score rows with, inspect and write a kernel model."""
    model = ms.load_model(path)
    repr(model)
    vectors = model.support_vectors_
    assert vectors.shape == (model.n_support_.sum(), model.signature.inputs), "vectors of a wrong shape"
    assert np.isfinite(model.dual_coef_).all(), "coefficients that are not finite"
    assert np.isfinite(model.intercept_).all(), "intercepts that are not finite"
    with questions() as ask:
        for rows in (np.zeros((2, model.signature.inputs)), vectors[:3], sparse.csr_array(vectors[:3])):
            if rows.shape[0]:
                _predict(ask, model, rows)
        _inspect(path)
        _write_again(model, path)


def _check_finite(knowledge: ms.Knowledge) -> None:
    assert all(np.isfinite(array).all() for array in knowledge.arrays()), "knowledge that is not finite"


def _solve(ask: Callable[..., Any], knowledge: ms.Knowledge) -> None:
    for options in ({}, {"multiclass": "ovo", "class_weight": "balanced"}, {"standardize": True, "C": 1e6}):
        model = ask(ms.solve, knowledge, **options)
        if model is not None:
            _use_model(ask, model)


def _use_model(ask: Callable[..., Any], model: Any) -> None:
    repr(model)
    assert np.isfinite(model.coef_).all(), "coefficients that are not finite"
    assert np.isfinite(model.intercept_).all(), "intercepts that are not finite"
    _predict(ask, model, np.zeros((2, model.signature.inputs)) + (0.0 if model.signature.mapped else model.anchor_))


def _predict(ask: Callable[..., Any], model: Any, rows: Any) -> None:
    predicted = ask(model.predict, rows)
    assert predicted is None or set(predicted.tolist()) <= set(model.labels), "classes that are not known"
    for method in (model.predict_proba, model.decision_function):
        found = ask(method, rows)
        assert found is None or np.isfinite(found).all(), f"{method.__name__} is not finite"
    ask(ms.evaluate, model, rows, [model.labels[0]] * rows.shape[0])


def _report(ask: Callable[..., Any], path: Path, content: Any) -> None:
    page = path.with_name("page.html")
    ask(ms.report, content, page)
    page.unlink(missing_ok=True)


def _inspect(path: Path) -> None:
    for options in ([], ["--json"]):
        done = run("inspect", path, *options)
        assert done.returncode == 0, f"inspect ended with {done.returncode}: {done.stderr[-200:]}"


def _write_again(content: Any, path: Path) -> None:
    """What was read can be written, and is then the same."""
    again = path.with_name("again")
    content.save(again)
    loaded = ms.load(again)
    again.unlink()
    assert repr(loaded) == repr(content), "written as something else"
    if isinstance(content, ms.Knowledge):
        same = (np.array_equal(one, other) for one, other in zip(content.arrays(), loaded.arrays(), strict=True))
        assert all(same), "other sums"
