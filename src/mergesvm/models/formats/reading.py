"""The header and arrays of a model's file, checked on reading and before writing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.errors import ParameterError
from mergesvm.files.content import Content
from mergesvm.files.header import Header
from mergesvm.knowledge.format import read_classes, read_signature
from mergesvm.knowledge.provenance.format import read_provenance
from mergesvm.knowledge.signature import Signature
from mergesvm.knowledge.sums import MAX_ROWS
from mergesvm.models.calibration import Calibration
from mergesvm.models.domain import Domain
from mergesvm.models.expansion import Expansion
from mergesvm.models.formats.fields import (
    read_calibration,
    read_class_moments,
    read_options,
    read_side_moments,
    read_weights,
)
from mergesvm.models.formats.kernel import check_kernel_domain, read_expansion, read_kernel_options
from mergesvm.models.schedule import Schedule
from mergesvm.models.score_moments import ClassMoments, SideMoments
from mergesvm.models.solution import KERNEL_SOLVERS, SOLVERS, Solution
from mergesvm.multiclass.schemes import MULTICLASS_SCHEMES, TIE_RULES


@dataclass(frozen=True)
class StoredModel:
    """The content of a model's file; ``scorer`` is an expansion for the kind "kernel", else the hyperplanes."""

    kind: str
    domain: Domain
    scorer: Expansion | Solution
    moments: SideMoments | ClassMoments
    ties: str | None
    solver: str
    calibration: Calibration | None


def read_model(header: Header, content: Content) -> StoredModel:
    """Read a model from the header and arrays of a file, and check all of them."""
    signature = read_signature(header, content)
    labels = read_classes(header, signature.labels)
    if not labels:
        header.refuse("has no classes")
    kind = header.text("model", "linear", "pairwise", "kernel")
    if kind == "pairwise" and len(labels) < 3:
        header.refuse(f"has a pairwise model of {len(labels)} classes")
    content.expect("anchor", (signature.width,))
    rows = content.expect("rows", (len(labels),), "<i8")
    if (rows < 1).any():
        content.refuse("a class without rows")
    if sum(rows.tolist()) > MAX_ROWS:
        content.refuse(f"more than {MAX_ROWS:,} rows")
    calibration = read_calibration(header, content, len(labels))
    read = _read_kernel_model if kind == "kernel" else _read_hyperplanes
    scorer, moments, options, solver = read(header, content, signature, labels)
    content.done()
    domain = Domain(labels, content.arrays["anchor"], signature, rows, read_provenance(header), options)
    ties = None if kind == "linear" else header.text("ties", *TIE_RULES)
    return StoredModel(kind, domain, scorer, moments, ties, solver, calibration)


def _read_kernel_model(
    header: Header, content: Content, signature: Signature, labels: tuple[Label, ...]
) -> tuple[Expansion, SideMoments, dict[str, Any], str]:
    check_kernel_domain(header, content, signature)
    expansion, moments = read_expansion(header, content, len(labels), signature.width)
    return expansion, moments, read_kernel_options(header), header.text("solver", *KERNEL_SOLVERS)


def _read_hyperplanes(
    header: Header, content: Content, signature: Signature, labels: tuple[Label, ...]
) -> tuple[Solution, SideMoments | ClassMoments, dict[str, Any], str]:
    n_classes, pairwise = len(labels), header.text("model") == "pairwise"
    several = n_classes > 2
    problems = n_classes * (n_classes - 1) // 2 if pairwise else n_classes if several else 1
    coefs, offsets = content.expect("coefs", (problems, signature.width)), content.expect("offsets", (problems,))
    moments = (
        read_class_moments(content, n_classes)
        if several and not pairwise
        else read_side_moments(content, problems, n_classes > 1)
    )
    solver = header.text("solver", *SOLVERS)
    options = _read_options(header, solver)
    if pairwise and options["multiclass"] != "ovo":
        header.refuse("has a pairwise model that was solved one-vs-rest")
    return Solution(coefs, offsets, (solver,), _read_errors(header)), moments, options, solver


def _read_errors(header: Header) -> NDArray[np.float64] | None:
    """The largest estimated error of scores; None for models of which it is not known."""
    if "rounding" not in header.fields:
        return None
    if header.number("rounding") < 0:
        header.refuse("has a negative number in field 'rounding'")
    return np.array([header.number("rounding")])


def _read_options(header: Header, solver: str) -> dict[str, Any]:
    options = read_options(header)
    common = {"class_weight": read_weights(options), "multiclass": options.text("multiclass", *MULTICLASS_SCHEMES)}
    if solver == "pegasos":
        return _read_schedule(options) | common
    return {
        "C": options.number("C"),
        **common,
        "standardize": options.truth("standardize"),
        "penalize_intercept": options.truth("penalize_intercept"),
        # Files of older versions do not have it.
        "fit_intercept": "fit_intercept" not in options.fields or options.truth("fit_intercept"),
    }


def _read_schedule(options: Header) -> dict[str, Any]:
    default_scaling = options.take("intercept_scaling", float, int, type(None)) is None
    schedule = Schedule(
        options.number("lambda_"),
        options.whole("n_iter", 1),
        options.whole("batch_size", 1),
        options.number("average"),
        options.truth("project"),
        options.truth("fit_intercept"),
        None if default_scaling else options.number("intercept_scaling"),
    )
    try:
        return asdict(schedule.check())
    except ParameterError as error:
        options.refuse(f"has invalid options: {str(error).rstrip('.')}")
