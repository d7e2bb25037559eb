"""Evaluate a model and write the result as a page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mergesvm.analysis import evaluation as analysis
from mergesvm.analysis.evaluation import Evaluation
from mergesvm.knowledge.learning.local import Progress
from mergesvm.models.base import Model
from mergesvm.multiclass.schemes import MULTICLASS_SCHEMES
from mergesvm.reports.write import write_evaluation


class ModelEvaluation(Evaluation):
    """An :class:`~mergesvm.analysis.evaluation.Evaluation` that describes its model and can write a report.

    Attributes
    ----------
    facts : dict of str to str
        The model and its options, as shown in the report.
    """

    facts: dict[str, str]

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "Evaluation",
        facts: Mapping[str, str] = {},
        overwrite: bool = True,
    ) -> None:
        """Write the evaluation as an HTML page with all curves, or as JSON.

        Parameters
        ----------
        path : str or path
            Ends in .html, .htm or .json. The file is replaced atomically.
        title : str
        facts : mapping of str to str
            Shown at the top of the page, before those of the model.
        overwrite : bool
            If False, an existing file is an error.
        """
        write_evaluation(self, path, title=title, facts={**facts, **self.facts}, overwrite=overwrite)


def evaluate(
    model: Any, X: Any, y: Any = None, sample_weight: Any = None, *, progress: Progress | None = None
) -> ModelEvaluation:
    """Evaluate a model on labelled rows: accuracy, confusion matrix, ROC, precision-recall and calibration curves.

    Parameters
    ----------
    model : a model, or a fitted estimator of mergesvm
    X : array, sparse array, or table of shape (rows, features); or a scan
        A scan has labels and weights of its own, and may be larger than memory.
    y : sequence of labels
        Not with a scan. Labels that the model does not know count as errors.
    sample_weight : sequence of numbers, optional
    progress : function, optional
        Called with the scan after each of its slices.

    Returns
    -------
    evaluation : ModelEvaluation
        ``evaluation.report(path)`` writes it as an HTML page.

    Examples
    --------
    >>> import mergesvm as ms, pathlib, tempfile
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> evaluation = ms.evaluate(ms.solve(ms.learn(X[::2], y[::2])), X[1::2], y[1::2])
    >>> round(evaluation.accuracy, 4)
    0.8533
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     evaluation.report(pathlib.Path(folder, "iris.html"))
    """
    found = analysis.evaluate(model, X, y, sample_weight, progress=progress)
    evaluation = ModelEvaluation(found.classes)
    vars(evaluation).update(vars(found))
    evaluation.facts = _facts(getattr(model, "model_", model))
    return evaluation


def _facts(model: Model) -> dict[str, str]:
    options = model.domain.options
    strength = ("lambda", options["lambda_"]) if "lambda_" in options else ("C", options["C"])
    return {
        "Model": repr(model),
        "Learned from": f"{int(model.domain.rows.sum()):,} rows",
        strength[0]: f"{strength[1]:,.4g}",
        "Class weights": str(options["class_weight"] or "none"),
        "Multi-class": MULTICLASS_SCHEMES[options["multiclass"]],
    }
