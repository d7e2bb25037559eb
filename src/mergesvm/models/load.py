"""Reading models, and any other file of this library."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from mergesvm.data.labels import Label
from mergesvm.errors import ParameterError
from mergesvm.features.format import load as load_features
from mergesvm.files.container import read_container, read_kind
from mergesvm.files.content import Content
from mergesvm.files.header import Header
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.format import read_classes, read_provenance, read_signature
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.signature import Signature
from mergesvm.models.domain import Domain
from mergesvm.models.formats.fields import (
    read_calibration,
    read_class_moments,
    read_options,
    read_side_moments,
    read_weights,
)
from mergesvm.models.formats.kernel import check_kernel_domain, read_expansion, read_kernel_options
from mergesvm.models.formats.native import FILE_KIND
from mergesvm.models.kernel import KERNEL_SOLVERS, KernelModel
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.models.schedule import Schedule
from mergesvm.models.score_moments import SideMoments
from mergesvm.models.solution import SOLVERS, Solution
from mergesvm.multiclass.decomposition import MULTICLASS_SCHEMES
from mergesvm.multiclass.votes import TIE_RULES

AnyModel = LinearModel | PairwiseModel | KernelModel


def load(path: str | os.PathLike[str]) -> Any:
    """Read the :class:`Knowledge`, :class:`Folds`, feature map or model in a file.

    >>> import mergesvm as ms, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "today.knowledge")
    ...     ms.learn([[0.0], [1.0]], ["a", "b"]).save(path)
    ...     ms.load(path).labels
    ('a', 'b')
    """
    readers: dict[str, Callable[[Any], Any]] = {
        "knowledge": Knowledge.load,
        "folds": Folds.load,
        "features": load_features,
    }
    return readers.get(read_kind(path), load_model)(path)


def load_model(path: str | os.PathLike[str]) -> AnyModel:
    """Read a model from a file, and check all of it.

    >>> import mergesvm as ms
    >>> ms.load_model("nowhere.msvm")
    Traceback (most recent call last):
    ...
    mergesvm.errors.MissingFileError: There is no file nowhere.msvm.
    """
    header, arrays = read_container(path, FILE_KIND)
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
        content.refuse("a class without rows")
    for array in arrays.values():
        array.flags.writeable = False
    calibration = read_calibration(header, content, len(labels))
    model = (
        _read_kernel_model(header, content, signature, labels)
        if kind == "kernel"
        else _read_hyperplanes(header, content, signature, labels, kind == "pairwise")
    )
    model.calibration_ = calibration
    return model


def _read_kernel_model(
    header: Header, content: Content, signature: Signature, labels: tuple[Label, ...]
) -> KernelModel:
    check_kernel_domain(header, content, signature)
    expansion, moments = read_expansion(header, content, len(labels), signature.width)
    content.done()
    domain = _domain(header, content, signature, labels, read_kernel_options(header))
    ties, solver = header.text("ties", *TIE_RULES), header.text("solver", *KERNEL_SOLVERS)
    return KernelModel(domain, expansion, moments, ties, solver)


def _read_hyperplanes(
    header: Header, content: Content, signature: Signature, labels: tuple[Label, ...], pairwise: bool
) -> LinearModel | PairwiseModel:
    n_classes = len(labels)
    several = n_classes > 2
    problems = n_classes * (n_classes - 1) // 2 if pairwise else n_classes if several else 1
    coefs, offsets = content.expect("coefs", (problems, signature.width)), content.expect("offsets", (problems,))
    moments = (
        read_class_moments(content, n_classes)
        if several and not pairwise
        else read_side_moments(content, problems, n_classes > 1)
    )
    content.done()
    solver = header.text("solver", *SOLVERS)
    options = _read_options(header, solver)
    if pairwise and options["multiclass"] != "ovo":
        header.refuse("has a pairwise model that was solved one-vs-rest")
    domain = _domain(header, content, signature, labels, options)
    solution = Solution(coefs, offsets, (solver,))
    if pairwise:
        assert isinstance(moments, SideMoments)
        return PairwiseModel(domain, solution, moments, header.text("ties", *TIE_RULES))
    return LinearModel(domain, solution, moments)


def _domain(
    header: Header, content: Content, signature: Signature, labels: tuple[Label, ...], options: dict[str, Any]
) -> Domain:
    arrays = content.arrays
    return Domain(labels, arrays["anchor"], signature, arrays["rows"], read_provenance(header), options)


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
