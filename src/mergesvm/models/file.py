"""Models as files: docs/file-format.md describes them."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import plain_label
from mergesvm.errors import ParameterError
from mergesvm.files import Content, Header, check_sizes, read_container, write_container
from mergesvm.files.container import library_version
from mergesvm.knowledge.file import provenance_fields, read_classes, read_provenance, read_signature, signature_parts
from mergesvm.models.linear import LinearModel
from mergesvm.models.model import Domain, Model
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.models.planes import SOLVERS
from mergesvm.models.votes import TIE_RULES
from mergesvm.solvers import ClassMoments, SideMoments, Solution
from mergesvm.solvers.schedule import Schedule
from mergesvm.solvers.weighting import SCHEMES

KIND = "model"


def save_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a model to a file, which is replaced as a whole or not at all."""
    assert isinstance(model, (LinearModel, PairwiseModel))
    domain = model.domain
    weights = domain.terms["class_weight"]
    if isinstance(weights, dict):
        weights = [{"class": plain_label(label), "weight": float(weight)} for label, weight in weights.items()]
    signature, drawn = signature_parts(domain.signature)
    header = {
        **signature,
        "classes": list(domain.labels),
        "provenance": provenance_fields(domain.provenance),
        "library": library_version(),
        "model": "pairwise" if isinstance(model, PairwiseModel) else "linear",
        "ties": model.ties if isinstance(model, PairwiseModel) else None,
        "solver": model.solver_,
        "terms": [{**domain.terms, "class_weight": weights}],
    }
    moments = {f"scores.{name}": value for name, value in vars(model._moments).items() if isinstance(value, np.ndarray)}
    arrays = {"anchor": domain.anchor, "rows": domain.rows, "coefs": model.coef_, "offsets": model._offsets}
    check_sizes(arrays | moments | drawn)
    write_container(path, KIND, header, arrays | moments | drawn)


def load_model(path: str | os.PathLike[str]) -> LinearModel | PairwiseModel:
    """Read a model from a file; everything is checked before anything is used.

    >>> import mergesvm as ms
    >>> ms.load_model("nowhere.msvm")
    Traceback (most recent call last):
    ...
    mergesvm.errors.MissingFileError: There is no file nowhere.msvm.
    """
    header, arrays = read_container(path, KIND)
    content = Content(arrays, str(path))
    signature = read_signature(header, content)
    labels = read_classes(header, signature.labels)
    n_classes = len(labels)
    if not n_classes:
        header.refuse("has no classes")
    in_pairs = header.text("model", "linear", "pairwise") == "pairwise"
    several = n_classes > 2
    if in_pairs and not several:
        header.refuse(f"has a pairwise model of {n_classes} classes")
    problems = n_classes * (n_classes - 1) // 2 if in_pairs else n_classes if several else 1
    anchor = content.expect("anchor", (signature.width,))
    rows = content.expect("rows", (n_classes,), "<i8")
    coefs, offsets = content.expect("coefs", (problems, signature.width)), content.expect("offsets", (problems,))
    if (rows < 1).any():
        content.refuse("a class of no rows")
    moments = (
        _class_moments(content, n_classes)
        if several and not in_pairs
        else _side_moments(content, problems, n_classes > 1)
    )
    content.done()
    solver = header.text("solver", *SOLVERS)
    terms = _terms(header, solver)
    if in_pairs and terms["multiclass"] != "ovo":
        header.refuse("has a pairwise model that was solved one-vs-rest")
    domain = Domain(labels, anchor, signature, rows, read_provenance(header), terms)
    solution = Solution(coefs, offsets, (solver,))
    for array in arrays.values():
        array.flags.writeable = False
    if in_pairs:
        assert isinstance(moments, SideMoments)
        return PairwiseModel(domain, solution, moments, header.text("ties", *TIE_RULES))
    return LinearModel(domain, solution, moments)


def _terms(header: Header, solver: str) -> dict[str, Any]:
    parts = header.parts("terms")
    if len(parts) != 1:
        header.refuse("has not one set of terms")
    terms = parts[0]
    weights = terms.take("class_weight", str, list, type(None))
    if isinstance(weights, str):
        weights = terms.text("class_weight", *SCHEMES)
    if isinstance(weights, list):
        pairs = terms.parts("class_weight")
        weights = {pair.take("class", str, int, float, bool): pair.number("weight") for pair in pairs}
        if len(weights) < len(pairs) or any(weight < 0 for weight in weights.values()):
            terms.refuse("weighs a class twice, or by less than nothing")
    common = {"class_weight": weights, "multiclass": terms.text("multiclass", "ovr", "ovo")}
    if solver == "pegasos":
        return _steps(terms) | common
    return {
        "C": terms.number("C"),
        **common,
        "standardize": terms.truth("standardize"),
        "penalize_intercept": terms.truth("penalize_intercept"),
    }


def _steps(terms: Header) -> dict[str, Any]:
    free = terms.take("intercept_scaling", float, int, type(None)) is None
    schedule = Schedule(
        terms.number("lambda_"),
        terms.whole("n_iter", 1),
        terms.whole("batch_size", 1),
        terms.number("average"),
        terms.truth("project"),
        terms.truth("fit_intercept"),
        None if free else terms.number("intercept_scaling"),
    )
    try:
        return asdict(schedule.check())
    except ParameterError as error:
        terms.refuse(f"has terms that cannot be: {str(error).rstrip('.')}")


def _side_moments(content: Content, problems: int, several: bool) -> SideMoments:
    means = content.expect("scores.means", (problems, 2))
    variances = content.expect("scores.variances", (problems,))
    counts = content.expect("scores.counts", (problems, 2))
    _not_negative(content, variances, counts)
    if several and not (counts > 0).all():
        content.refuse("a side of no rows")
    return SideMoments(means, variances, counts)


def _class_moments(content: Content, n_classes: int) -> ClassMoments:
    means = content.expect("scores.means", (n_classes, n_classes))
    covariance = content.expect("scores.covariance", (n_classes, n_classes))
    shares = content.expect("scores.shares", (n_classes,))
    _not_negative(content, shares)
    return ClassMoments(means, covariance, shares)


def _not_negative(content: Content, *arrays: NDArray[np.float64]) -> None:
    if any((array < 0).any() for array in arrays):
        content.refuse("a variance or count that is negative")
