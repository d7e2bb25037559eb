"""Models as files: docs/file-format.md describes them."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.errors import ParameterError
from mergesvm.files.container import library_version, read_container, write_container
from mergesvm.files.content import Content, check_sizes
from mergesvm.files.header import Header
from mergesvm.knowledge.format import (
    provenance_fields,
    read_classes,
    read_provenance,
    read_signature,
    signature_parts,
)
from mergesvm.knowledge.signature import Signature
from mergesvm.models.base import Domain, Model
from mergesvm.models.formats.fields import (
    calibration_arrays,
    calibration_fields,
    moment_arrays,
    read_calibration,
    read_class_moments,
    read_side_moments,
    read_terms,
    read_weights,
    weight_fields,
)
from mergesvm.models.formats.kernel import (
    check_kernel_domain,
    kernel_arrays,
    kernel_fields,
    read_expansion,
    read_kernel_terms,
    read_method,
)
from mergesvm.models.hyperplanes import SOLVERS
from mergesvm.models.kernel import KernelModel
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.models.schedule import Schedule
from mergesvm.models.score_moments import SideMoments
from mergesvm.models.solution import Solution
from mergesvm.multiclass.decomposition import MULTICLASS_SCHEMES
from mergesvm.multiclass.votes import TIE_RULES

KIND = "model"


def save_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a model to a file, which is replaced as a whole or not at all."""
    assert isinstance(model, (LinearModel, PairwiseModel, KernelModel))
    domain = model.domain
    signature, drawn = signature_parts(domain.signature)
    header = {
        **signature,
        "classes": list(domain.labels),
        "provenance": provenance_fields(domain.provenance),
        "library": library_version(),
        "model": _kind(model),
        "ties": None if isinstance(model, LinearModel) else model.ties,
        "solver": model.solver_,
        "terms": [{**domain.terms, "class_weight": weight_fields(domain.terms["class_weight"])}],
        **(kernel_fields(model) if isinstance(model, KernelModel) else {}),
        **calibration_fields(model.calibration_),
    }
    arrays = {"anchor": domain.anchor, "rows": domain.rows, **drawn, **calibration_arrays(model.calibration_)}
    arrays |= kernel_arrays(model) if isinstance(model, KernelModel) else _plane_arrays(model)
    check_sizes(arrays)
    write_container(path, KIND, header, arrays)


def _kind(model: LinearModel | PairwiseModel | KernelModel) -> str:
    if isinstance(model, KernelModel):
        return "kernel"
    return "pairwise" if isinstance(model, PairwiseModel) else "linear"


def _plane_arrays(model: LinearModel | PairwiseModel) -> dict[str, NDArray[Any]]:
    return {"coefs": model.coef_, "offsets": model._offsets, **moment_arrays(model._moments)}


def load_model(path: str | os.PathLike[str]) -> LinearModel | PairwiseModel | KernelModel:
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
    if not labels:
        header.refuse("has no classes")
    kind = header.text("model", "linear", "pairwise", "kernel")
    if kind == "pairwise" and len(labels) < 3:
        header.refuse(f"has a pairwise model of {len(labels)} classes")
    content.expect("anchor", (signature.width,))
    if (content.expect("rows", (len(labels),), "<i8") < 1).any():
        content.refuse("a class of no rows")
    for array in arrays.values():
        array.flags.writeable = False
    calibration = read_calibration(header, content, len(labels))
    model = (
        _kernel(header, content, signature, labels)
        if kind == "kernel"
        else _planes(header, content, signature, labels, kind == "pairwise")
    )
    model.calibration_ = calibration
    return model


def _kernel(header: Header, content: Content, signature: Signature, labels: tuple[Label, ...]) -> KernelModel:
    check_kernel_domain(header, content, signature)
    expansion, moments = read_expansion(header, content, len(labels), signature.width)
    content.done()
    domain = _domain(header, content, signature, labels, read_kernel_terms(header))
    return KernelModel(domain, expansion, moments, header.text("ties", *TIE_RULES), read_method(header))


def _planes(
    header: Header, content: Content, signature: Signature, labels: tuple[Label, ...], in_pairs: bool
) -> LinearModel | PairwiseModel:
    n_classes = len(labels)
    several = n_classes > 2
    problems = n_classes * (n_classes - 1) // 2 if in_pairs else n_classes if several else 1
    coefs, offsets = content.expect("coefs", (problems, signature.width)), content.expect("offsets", (problems,))
    moments = (
        read_class_moments(content, n_classes)
        if several and not in_pairs
        else read_side_moments(content, problems, n_classes > 1)
    )
    content.done()
    solver = header.text("solver", *SOLVERS)
    terms = _terms(header, solver)
    if in_pairs and terms["multiclass"] != "ovo":
        header.refuse("has a pairwise model that was solved one-vs-rest")
    domain = _domain(header, content, signature, labels, terms)
    solution = Solution(coefs, offsets, (solver,))
    if in_pairs:
        assert isinstance(moments, SideMoments)
        return PairwiseModel(domain, solution, moments, header.text("ties", *TIE_RULES))
    return LinearModel(domain, solution, moments)


def _domain(
    header: Header, content: Content, signature: Signature, labels: tuple[Label, ...], terms: dict[str, Any]
) -> Domain:
    arrays = content.arrays
    return Domain(labels, arrays["anchor"], signature, arrays["rows"], read_provenance(header), terms)


def _terms(header: Header, solver: str) -> dict[str, Any]:
    terms = read_terms(header)
    common = {"class_weight": read_weights(terms), "multiclass": terms.text("multiclass", *MULTICLASS_SCHEMES)}
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
