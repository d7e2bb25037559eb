"""Models as files; docs/file-format.md describes the format, and :mod:`mergesvm.models.load` reads it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from mergesvm.files.container import library_version, write_container
from mergesvm.knowledge.format import signature_parts
from mergesvm.knowledge.provenance.format import provenance_fields
from mergesvm.models.calibration import Calibration
from mergesvm.models.domain import Domain
from mergesvm.models.formats.fields import calibration_arrays, calibration_fields, weight_fields
from mergesvm.models.formats.reading import read_model

FILE_KIND = "model"


@dataclass(frozen=True)
class ModelContent:
    """The part of a model's file that depends on the kind of model.

    Attributes
    ----------
    kind : {"linear", "pairwise", "kernel"}
    solver : str
    ties : str or None
        The tie rule of models that vote.
    arrays : dict of str to array
    fields : dict of str to plain values
        Further fields of the header.
    """

    kind: str
    solver: str
    ties: str | None
    arrays: dict[str, NDArray[Any]]
    fields: dict[str, Any] = field(default_factory=dict)


def write_model(
    path: str | os.PathLike[str],
    domain: Domain,
    calibration: Calibration | None,
    content: ModelContent,
    *,
    overwrite: bool = True,
) -> None:
    """Write a model to a file, atomically."""
    signature, map_arrays = signature_parts(domain.signature)
    header = {
        **signature,
        "classes": list(domain.labels),
        "provenance": provenance_fields(domain.provenance),
        "library": library_version(),
        "model": content.kind,
        "ties": content.ties,
        "solver": content.solver,
        "terms": [{**domain.options, "class_weight": weight_fields(domain.options["class_weight"])}],
        **content.fields,
        **calibration_fields(calibration),
    }
    arrays = {
        "anchor": domain.anchor,
        "rows": domain.rows,
        **map_arrays,
        **calibration_arrays(calibration),
        **content.arrays,
    }
    write_container(path, FILE_KIND, header, arrays, read_model, overwrite=overwrite)
