"""The warnings and errors as users catch them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import mergesvm as ms


def solve_a_singular_system():
    x = np.random.default_rng(0).normal(size=(40, 2))
    return ms.solve(ms.learn(np.hstack([x, x]), x[:, 0] > 0), C=1e16)


def test_a_filter_for_convergence_warnings_does_not_miss_ours():
    assert issubclass(ms.errors.SolverWarning, ConvergenceWarning)
    with pytest.warns(ConvergenceWarning, match="solved by 'eigh'"):
        solve_a_singular_system()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=ms.errors.SolverWarning)
        solve_a_singular_system()


def test_the_class_of_the_warning_is_not_made_twice():
    assert ms.errors.SolverWarning is ms.errors.SolverWarning
    assert pickle.loads(pickle.dumps(ms.errors.SolverWarning)) is ms.errors.SolverWarning
    assert f"{ms.errors.SolverWarning.__module__}.{ms.errors.SolverWarning.__qualname__}" == (
        "mergesvm.errors.SolverWarning"
    )


@pytest.mark.parametrize("name", ["NoSuchError", "__path__"])
def test_names_that_do_not_exist_are_not_made_up(name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
        getattr(ms.errors, name)


def test_errors_do_not_import_scikit_learn_until_the_warning_is_used():
    code = """
import sys, warnings
import mergesvm.errors, mergesvm.methods.proximal.solve
assert "sklearn" not in sys.modules, "imported too early"
warnings.simplefilter("ignore", mergesvm.errors.SolverWarning)
from mergesvm.errors import SolverWarning
assert "sklearn" in sys.modules and SolverWarning is mergesvm.errors.SolverWarning
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_filter_on_the_command_line_of_python_finds_the_class():
    code = "import warnings; print(any(f[2].__name__ == 'SolverWarning' for f in warnings.filters))"
    command = [sys.executable, "-W", "ignore::mergesvm.errors.SolverWarning", "-c", code]
    # Python reads -W before it knows the folders of installed packages.
    environment = os.environ | {"PYTHONPATH": str(Path(ms.__file__).parents[1])}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "True", done.stderr
