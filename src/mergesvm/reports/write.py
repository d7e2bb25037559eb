"""Write reports: knowledge or an evaluation as an HTML page or JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mergesvm.analysis.evaluation import Evaluation
from mergesvm.checks import check_flag
from mergesvm.errors import ParameterError
from mergesvm.files.atomic import write_atomically
from mergesvm.knowledge.provenance.origin import now
from mergesvm.reports.answers import Answers, ReportOptions, answer
from mergesvm.reports.as_json import answers_facts, as_json_value
from mergesvm.reports.evaluation_page import evaluation_page
from mergesvm.reports.knowledge_page import knowledge_page
from mergesvm.reports.subject import Subject

PAGE_SUFFIXES = (".html", ".htm")
SUFFIXES = (*PAGE_SUFFIXES, ".json")


def report(
    subject: Any,
    path: str | os.PathLike[str],
    *,
    C: float | str = "auto",
    class_weight: Any = None,
    multiclass: str = "ovr",
    standardize: bool = False,
    penalize_intercept: bool = True,
    fit_intercept: bool = True,
    level: float = 0.01,
    title: str | None = None,
    facts: Mapping[str, str] = {},
    overwrite: bool = True,
    progress: Callable[[float], None] | None = None,
) -> Answers | None:
    """Write a report as a self-contained HTML page, or as JSON.

    From knowledge, without data: scores over C, expected accuracy, operating points, coefficients, elimination of
    features, and, for several pieces, their influence and drift. From an evaluation: its scores and curves.

    Parameters
    ----------
    subject : Knowledge, Folds, mapping of name to or sequence of either, or Evaluation
        Several pieces are compared with one another.
    path : str or path
        Ends in .html, .htm or .json. The file is replaced atomically.
    C : float or "auto"
        "auto" chooses by held-out loss, if there are folds or several pieces.
    class_weight : None, str, mapping of class to weight, or "auto"
        "auto" chooses None or "balanced".
    multiclass, standardize, penalize_intercept, fit_intercept
        As in :func:`mergesvm.solve`.
    level : float
        Significance level of the tests for drift.
    title : str, optional
    facts : mapping of str to str
        Shown at the top of the page.
    overwrite : bool
        If False, an existing file is an error.
    progress : function, optional
        Called with the fraction of the work that is done.

    Returns
    -------
    answers : Answers, or None for an evaluation
        The numbers of the report.

    Examples
    --------
    >>> import mergesvm as ms, pathlib, tempfile
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> days = {f"day {day}": ms.learn(X[day::3], y[day::3]) for day in range(3)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     answers = ms.report(days, pathlib.Path(folder, "iris.html"))
    >>> answers.held_out, round(answers.options.C, 1)
    ('3 pieces, each in turn', 31.6)
    """
    check_flag("overwrite", overwrite)
    if isinstance(subject, Evaluation):
        write_evaluation(subject, path, title=title or "Evaluation", facts=facts, overwrite=overwrite)
        return None
    if not 0 < level < 1:
        raise ParameterError(f"level must be between 0 and 1, not {level:g}.")
    suffix = _suffix(path)
    wanted = ReportOptions(C, class_weight, multiclass, standardize, penalize_intercept, fit_intercept, level)
    answers = answer(Subject.of(subject), wanted, progress or (lambda _: None))
    if suffix == ".json":
        _write_json(path, answers_facts(answers), overwrite)
    else:
        _write(path, knowledge_page(answers, title or "Report", facts), overwrite)
    return answers


def write_evaluation(
    evaluation: Evaluation,
    path: str | os.PathLike[str],
    *,
    title: str,
    facts: Mapping[str, str] = {},
    overwrite: bool = True,
) -> None:
    """Write an evaluation as an HTML page, or as JSON."""
    if _suffix(path) == ".json":
        _write_json(path, {"facts": facts, **evaluation.summary()}, overwrite)
    else:
        _write(path, evaluation_page(evaluation, title, {**facts, "Written": now()}), overwrite)


def _suffix(path: str | os.PathLike[str]) -> str:
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ParameterError(f"{os.fspath(path)} must end in {' or '.join(SUFFIXES)}.")
    return suffix


def _write_json(path: str | os.PathLike[str], values: Any, overwrite: bool) -> None:
    _write(path, json.dumps(as_json_value(values), default=str, indent=1) + "\n", overwrite)


def _write(path: str | os.PathLike[str], text: str, overwrite: bool) -> None:
    write_atomically(path, text.encode(), overwrite=overwrite)
