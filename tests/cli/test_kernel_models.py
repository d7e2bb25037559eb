"""Kernel models on the command line: inspect, predict and evaluate."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import accuracy_score
from sklearn.svm import SVC

import mergesvm as ms
from cli.commandline import error, ok

SCRIPT = "from mergesvm.cli.main import main; main()"
NAMES = ["size", "weight", "[/]"]


def frame(rows, seed):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 3))
    distance = np.sqrt(np.square(X).sum(axis=1)) + generator.normal(scale=0.1, size=rows)
    y = np.array(["far", "middle", "near"])[2 - np.digitize(distance, [1.3, 2.0])]
    return pd.DataFrame(X, columns=NAMES).assign(y=y)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with test rows and a model, the test rows, the estimator, and an SVC to compare with."""
    folder = tmp_path_factory.mktemp("kernel")
    train, test = frame(300, 1), frame(200, 2)
    test.assign(id=np.arange(200)).to_parquet(folder / "test.parquet")
    classifier = ms.ParallelKernelSVC(C=5.0, gamma=0.25, units=2, n_jobs=1).fit(train[NAMES], train["y"])
    classifier.model_.save(folder / "model.msvm")
    svc = SVC(C=5.0, gamma=0.25).fit(train[NAMES], train["y"])
    return folder, test, classifier, svc


def test_inspect_prints_a_kernel_model(prepared):
    folder, _, classifier, _ = prepared
    shown = ok("inspect", "model.msvm", cwd=folder)
    lines = [[cell.strip() for cell in line.strip("│┃ ").replace("┃", "│").split("│")] for line in shown.splitlines()]
    result = {cells[0]: cells[1:] for cells in lines if len(cells) > 1}
    total = int(classifier.n_support_.sum())
    assert result["kernel"] == ["rbf, gamma 0.25"]
    assert result["support vectors"] == [f"{total} (float64)"]
    assert (result["C"], result["solver"], result["trained by"]) == (["5"], ["working-set"], ["2 units"])
    assert result["beta"] == ["none: the intercept is not penalised"]
    assert result["class"] == ["rows", "fraction of rows", "support vectors"]
    for label, count in zip(classifier.classes_, classifier.n_support_, strict=True):
        assert result[label][-1] == str(count)


def test_inspect_prints_a_kernel_model_as_json(prepared):
    folder, _, classifier, _ = prepared
    result = json.loads(ok("inspect", "model.msvm", "--json", cwd=folder))
    assert result["kernel"] == {"kind": "rbf", "gamma": 0.25, "degree": 3, "coef0": 0.0}
    assert result["support_vectors"] == classifier.n_support_.tolist()
    assert result["terms"] == {"C": 5.0, "class_weight": "None", "multiclass": "ovo", "beta": None, "units": 2}
    assert (result["kind"], result["classes"], result["rows"]) == ("model", ["far", "middle", "near"], 300)
    assert (result["sparse"], result["dtype"], result["precision"], result["ties"]) == (
        False,
        "float64",
        "float64",
        "recount",
    )


def test_predictions_equal_the_estimator_and_svc(prepared, tmp_path):
    folder, test, classifier, svc = prepared
    output = tmp_path / "predictions.parquet"
    arguments = ("--keep", "id", "--proba", "-o", output, "--quiet")
    ok("predict", "model.msvm", "test.parquet", *arguments, cwd=folder)
    written = pd.read_parquet(output)
    assert written["id"].tolist() == list(range(200))
    assert written["prediction"].tolist() == classifier.predict(test[NAMES]).tolist()
    assert (written["prediction"] == svc.predict(test[NAMES])).mean() >= 0.995
    probabilities = written[[f"probability {label}" for label in classifier.classes_]].to_numpy()
    np.testing.assert_array_equal(probabilities, classifier.predict_proba(test[NAMES]))


def test_evaluate_and_its_report_equal_the_estimator(prepared, tmp_path):
    folder, test, classifier, _ = prepared
    report = tmp_path / "report.html"
    arguments = ("--label", "y", "--report", report, "--json")
    command = [sys.executable, "-c", SCRIPT, "evaluate", "model.msvm", "test.parquet", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    expected = accuracy_score(test["y"], classifier.predict(test[NAMES]))
    assert expected > 0.85
    assert result["accuracy"] == pytest.approx(expected)
    page = report.read_text()
    assert "KernelModel of 3 classes x 3 features" in page
    assert "one-vs-one" in page


def test_libsvm_files_are_predicted_by_a_sparse_kernel_model(tmp_path):
    X = sparse.random_array((80, 50), density=0.1, rng=np.random.default_rng(5), format="csr")
    y = np.where(X.sum(axis=1) + X[:, [0]].toarray().ravel() > 2.5, 1, 0)
    classifier = ms.ParallelKernelSVC("poly", 1.0, C=2.0, beta=0.5, degree=2, coef0=1.0, n_jobs=1).fit(X, y)
    classifier.model_.save(tmp_path / "model.msvm")
    dump_svmlight_file(sparse.csr_matrix(X), y, str(tmp_path / "rows.svm"), zero_based=False)
    result = json.loads(ok("evaluate", "model.msvm", "rows.svm", "--json", cwd=tmp_path))
    assert result["accuracy"] == pytest.approx(classifier.score(X, y))
    shown = ok("inspect", "model.msvm", cwd=tmp_path)
    assert "poly, gamma 1, degree 2, coef0 1" in shown
    assert f"{classifier.n_support_.sum()} (sparse, float64)" in shown
    assert "0.5" in next(line for line in shown.splitlines() if "beta" in line)


def test_solve_rejects_a_kernel_model(prepared):
    message = error("solve", "model.msvm", "-o", "again.msvm", cwd=prepared[0])
    assert "holds a model, not knowledge" in " ".join(message.split())
