"""The cascade of Zhang and Zhu on a small data set like Adult, with MPI ranks."""

from __future__ import annotations

import json

import numpy as np
import pytest

import mergesvm as ms
from cli.commandline import run
from mergesvm.errors import EngineError
from mergesvm.reproduce.cascade import launch
from mergesvm.reproduce.launch import find_mpiexec
from reproduce import adult

pytestmark = pytest.mark.xdist_group("mpi")

SIZES = ("--quick", "--negatives", "300", "--positives", "900")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return adult.write_rows(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def done(folder):
    """The JSON output of the command."""
    answer = run(*("reproduce", "cascade", "--data", folder, *SIZES, "--json"), cwd=folder)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_ranks_give_the_model_of_all_rows_and_send_what_the_cost_model_predicts(done, folder):
    assert list(done["runs"]) == ["1,200 rows x 12 features"]
    for runs in done["runs"].values():
        one, two = runs
        assert (one["ranks"], two["ranks"]) == (1, 2)
        assert one["sent"] == one["expected"] == 0
        assert (
            two["sent"]
            == two["expected"]
            == two["described"] + 8 * (4 * adult.WIDTH + 2 * adult.WIDTH * (adult.WIDTH + 1) // 2)
        )
        assert two["rounds"] == 3
        assert two["off"] < 1e-12
        assert one["speedup_modelled"] == 1.0
        assert two["speedup_modelled"] == pytest.approx(one["modelled"] / two["modelled"])
        assert two["modelled"] == pytest.approx(min(two["learning"]) + two["joining"] + two["solving"])
        assert two["link"]["latency"] > 0
        assert two["link"]["bandwidth"] > 1e6
    assert (folder / "mergesvm-cascade.png").read_bytes()[1:4] == b"PNG"


def test_ranks_with_a_feature_map(tmp_path):
    X, y = adult.rows()
    features = ms.features.HiddenLayer(15, seed=0, precision="float64").freeze(X)
    launch.put_rows(tmp_path, X, y, features)
    found = launch.measure(tmp_path, 1000, 3, 1)
    model = ms.solve(ms.learn(X[:1000], y[:1000], features=features), 1.0, "complement")
    np.testing.assert_allclose(found.coefficients, np.append(model.coef_, model.intercept_), rtol=1e-9)
    assert found.sent == found.expected
    assert (found.ranks, found.width, found.rounds) == (3, 15, 6)


def test_error_on_a_rank_is_reported(tmp_path):
    with pytest.raises(EngineError, match=r"2 ranks failed with exit code [\s\S]*X\.npy"):
        launch.measure(tmp_path, 10, 2, 1)


def test_missing_mpiexec_is_an_error_that_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(EngineError, match=r"no mpiexec: pip install 'mergesvm\[mpi\]'"):
        find_mpiexec()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ranks", "two"], "--ranks must be positive integers"),
        (["--positives", "0"], "--positives must be positive integers"),
        (["--picture", "curves.gif"], "must end in"),
        (["--data", "nowhere"], "There is no data folder nowhere"),
    ],
)
def test_invalid_input_is_named(folder, options, message):
    answer = run("reproduce", "cascade", "--data", folder, *options, cwd=folder)
    assert answer.returncode == 2
    assert message in answer.stderr
