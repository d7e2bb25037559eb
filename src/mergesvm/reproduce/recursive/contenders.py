"""The linear methods that are compared: each learns from a file of rows and returns its hyperplane."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.estimators.recursive_svc import RecursiveSVC
from mergesvm.features.maps.identity import Identity
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.recursive.live import LiveModel
from mergesvm.methods.recursive.options import RecursiveOptions
from mergesvm.reproduce.recursive.row_file import RowFile

EPOCHS = 5
"""Passes of the stochastic gradient method with more than one."""

LIBLINEAR_TOL = 0.01
"""The tolerance of LIBLINEAR's own program for this solver; scikit-learn's is smaller."""

VW_CONSTANT = 11_650_396
"""Index of the intercept in Vowpal Wabbit."""


@dataclass(frozen=True)
class Hyperplane:
    """Coefficients and intercept; ``drift`` is the largest error that a recursion found in its own coefficients."""

    coefs: NDArray[np.float64]
    intercept: float
    drift: float = 0.0


def _live_hyperplane(live: LiveModel) -> Hyperplane:
    model = live.model(probabilities=False)
    drift = max((check.drift for check in live.checks), default=0.0)
    return Hyperplane(model.coef_[0], float(model.intercept_[0]), drift)


def recursive_rows(rows: RowFile, C: float, seed: int) -> Hyperplane:  # noqa: ARG001
    """Equations 7 to 9 of the paper: the coefficients are exact after every row."""
    live = LiveModel(Signature(Identity(), rows.width), RecursiveOptions(C=2 * C, penalize_intercept=False))
    for X, y in rows.blocks():
        live.predict_then_learn(Batch.of(X, y.astype(np.int64)))
    return _live_hyperplane(live)


def recursive_blocks(rows: RowFile, C: float, seed: int) -> Hyperplane:  # noqa: ARG001
    """The same model, learned in blocks; coefficients are computed when they are needed."""
    machine = RecursiveSVC(C=2 * C, penalize_intercept=False)
    for X, y in rows.blocks():
        machine.partial_fit(X, y.astype(np.int64))
    return _live_hyperplane(machine.live_)


def liblinear(rows: RowFile, C: float, seed: int) -> Hyperplane:
    """LIBLINEAR's primal solver of the squared hinge loss, on all rows in memory."""
    from sklearn.svm import LinearSVC

    machine = LinearSVC(C=C, dual=False, tol=LIBLINEAR_TOL, random_state=seed).fit(*rows.load())
    return Hyperplane(machine.coef_[0], float(machine.intercept_[0]))


def stochastic_gradient(rows: RowFile, C: float, seed: int, epochs: int) -> Hyperplane:
    """Stochastic gradient descent on the hinge loss, block by block."""
    from sklearn.linear_model import SGDClassifier

    machine = SGDClassifier(alpha=1 / (C * rows.n_rows), random_state=seed)
    for _ in range(epochs):
        for X, y in rows.blocks():
            machine.partial_fit(X, y, classes=[-1.0, 1.0])
    return Hyperplane(machine.coef_[0], float(machine.intercept_[0]))


def vowpal_wabbit(rows: RowFile, C: float, seed: int) -> Hyperplane:  # noqa: ARG001
    """Vowpal Wabbit with its defaults and the hinge loss; the hyperplane is that of rows before standardising."""
    import vowpalwabbit

    source = ["--cache_file", str(rows.vowpal_wabbit_cache), "--loss_function", "hinge", "--quiet"]
    machine = vowpalwabbit.Workspace(arg_list=source)
    machine.run_parser()
    coefs = np.array([machine.get_weight(column) for column in range(rows.width)])
    intercept = float(machine.get_weight(VW_CONSTANT))
    machine.finish()
    return Hyperplane(coefs, intercept)


def make_vowpal_wabbit_cache(rows: RowFile, text: str) -> None:
    """Convert text to the binary cache of Vowpal Wabbit, which it reads fastest."""
    import vowpalwabbit

    arguments = ["--data", text, "--cache_file", str(rows.vowpal_wabbit_cache), "--quiet"]
    vowpalwabbit.Workspace(arg_list=arguments).finish()


def has_vowpal_wabbit() -> bool:
    """Whether Vowpal Wabbit is installed."""
    return find_spec("vowpalwabbit") is not None


RECURSION, BLOCKS, LIBLINEAR = "recursive, row by row", "recursive, in blocks", "LIBLINEAR"
SGD_ONCE, SGD_EPOCHS, VOWPAL_WABBIT = "SGD, 1 pass", f"SGD, {EPOCHS} passes", "Vowpal Wabbit, 1 pass"

CONTENDERS: dict[str, Callable[[RowFile, float, int], Hyperplane]] = {
    RECURSION: recursive_rows,
    BLOCKS: recursive_blocks,
    LIBLINEAR: liblinear,
    SGD_ONCE: partial(stochastic_gradient, epochs=1),
    SGD_EPOCHS: partial(stochastic_gradient, epochs=EPOCHS),
    VOWPAL_WABBIT: vowpal_wabbit,
}
"""All methods by name, the paper's first."""


def learned(name: str, rows: RowFile, C: float, seed: int) -> Hyperplane:
    """The hyperplane of a contender, without its warnings that more passes would change it."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return CONTENDERS[name](rows, C, seed)
