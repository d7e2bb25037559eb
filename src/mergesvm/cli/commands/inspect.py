"""The command that shows what is in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from scipy import sparse

from mergesvm.cli.commands.knowing import facts
from mergesvm.cli.console import Console, printable, said
from mergesvm.cli.open_files import open_any
from mergesvm.cli.options import AsJson, Debug
from mergesvm.data.readers.base import Layout
from mergesvm.features.base import FeatureMap
from mergesvm.files.container import read_format
from mergesvm.knowledge.fold_assignment import FoldAssignment
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge, counted
from mergesvm.knowledge.provenance import Provenance
from mergesvm.knowledge.signature import Signature
from mergesvm.models.base import Model
from mergesvm.models.kernel import KernelModel

MOST = 20
"""Lists longer than this are cut, for people."""


def inspect_command(
    file: Annotated[Path, typer.Argument(help="A file of knowledge, a model, or a feature map.", metavar="FILE")],
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Show what is in a file: classes and their rows, features, terms, and where the rows came from."""
    talk = Console(as_json=as_json)
    content = open_any(file)
    if isinstance(content, FeatureMap):
        _print_lines(talk, file, _map(content))
        talk.result(file=file, kind="features", format=read_format(file), **_map_facts(content))
        return
    folds = content if isinstance(content, Folds) else None
    learned = content.total if isinstance(content, Folds) else content if isinstance(content, Knowledge) else None
    _print_lines(talk, file, _model(content) if learned is None else _knowledge(learned, folds))
    _print_classes(talk, content if learned is None else learned)
    if folds is not None:
        _print_folds(talk, folds)
    provenance = content.domain.provenance if learned is None else content.provenance
    _print_provenance(talk, provenance)
    talk.result(
        file=file,
        kind="model" if learned is None else "knowledge" if folds is None else "folds",
        format=read_format(file),
        names=content.signature.names,
        map=repr(content.signature.features),
        fingerprint=content.signature.features.fingerprint,
        categories=dict(content.signature.categories),
        provenance=[vars(origin) for origin in provenance],
        **(_facts(content) if learned is None else facts(content)),
    )


def _print_lines(talk: Console, file: Path, lines: dict[str, str]) -> None:
    table = Table(title=shown(file), show_header=False, title_justify="left")
    table.add_column(style="bold")
    for name, value in lines.items():
        table.add_row(shown(name), shown(value))
    talk.out.print(table)


def shown(text: object) -> str:
    """Text as a cell of a table, which is neither markup nor obeyed by the terminal."""
    return escape(printable(text))


def _knowledge(knowledge: Knowledge, folds: Folds | None) -> dict[str, str]:
    pieces = [knowledge] if folds is None else [*folds, *([] if folds.rest is None else [folds.rest])]
    form = "one matrix a class" if knowledge.per_class else "pooled"
    return {
        "knowledge of": f"{int(knowledge.rows.sum()):,} rows in {len(knowledge.labels):,} classes",
        **_features(knowledge.signature),
        **({} if folds is None else {"folds": _folding(folds.assignment)}),
        "form": form if folds is None else f"{form} and fold",
        "precision": knowledge.precision,
        "in memory": f"{sum(piece.nbytes for piece in pieces) / 1e6:,.1f} MB",
    }


def _folding(folding: FoldAssignment) -> str:
    column = "" if folding.column is None else f", the column {folding.column}"
    rules = {
        "rows": "by a hash of the values of each row",
        "groups": f"by a hash of the group of each row{column}",
        "given": "as they were given",
    }
    return f"{folding.count:,}, {rules[folding.by]}"


def _model(model: Model) -> dict[str, str]:
    terms, fitted = model.domain.terms, model.calibration_
    return {
        "model": repr(model),
        **_features(model.signature),
        **_terms(model),
        "class weights": str(terms["class_weight"] or "none"),
        "solver": model.solver_,
        "learned from": f"{int(model.domain.rows.sum()):,} rows",
        "calibrated": "no" if fitted is None else f"{fitted.method}, on {counted(fitted.rows, 'row')} kept back",
    }


def _terms(model: Model) -> dict[str, str]:
    terms = model.domain.terms
    if isinstance(model, KernelModel):
        return _kernel(model)
    return _steps(terms) if "lambda_" in terms else _closed_form(terms)


def _kernel(model: KernelModel) -> dict[str, str]:
    kernel, terms, vectors = model.expansion.kernel, model.domain.terms, model.support_vectors_
    numbers = {
        "rbf": f", gamma {said(kernel.gamma)}",
        "poly": f", gamma {said(kernel.gamma)}, degree {kernel.degree}, coef0 {said(kernel.coef0)}",
    }
    form = "sparse, " if sparse.issparse(vectors) else ""
    return {
        "kernel": kernel.kind + numbers.get(kernel.kind, ""),
        "support vectors": f"{vectors.shape[0]:,} ({form}{vectors.dtype})",
        "C": said(terms["C"]),
        "beta": "none: the intercept costs nothing" if terms["beta"] is None else said(terms["beta"]),
        "trained by": counted(terms["units"], "unit"),
        "precision": model.expansion.precision,
    }


def _closed_form(terms: dict[str, Any]) -> dict[str, str]:
    return {
        "C": said(terms["C"]),
        "standardised": "yes" if terms["standardize"] else "no",
        "intercept": "penalised" if terms["penalize_intercept"] else "free",
    }


def _steps(terms: dict[str, Any]) -> dict[str, str]:
    return {
        "lambda": said(terms["lambda_"]),
        "steps": f"{terms['n_iter']:,}, of {counted(terms['batch_size'], 'row')} each",
        "averaged": f"over the last {terms['average']:.0%}" if terms["average"] else "no",
        "intercept": "penalised" if terms["fit_intercept"] else "none",
    }


def _facts(model: Model) -> dict[str, Any]:
    fitted = model.calibration_
    return {
        "rows": int(model.domain.rows.sum()),
        "features": model.signature.width,
        "classes": list(model.labels),
        "counts": model.domain.rows.tolist(),
        "model": repr(model),
        "solver": model.solver_,
        "calibration": fitted and {"method": fitted.method, "rows": fitted.rows},
        "terms": {**model.domain.terms, "class_weight": str(model.domain.terms["class_weight"])},
        **(_kernel_facts(model) if isinstance(model, KernelModel) else {}),
    }


def _kernel_facts(model: KernelModel) -> dict[str, Any]:
    kernel, vectors = model.expansion.kernel, model.support_vectors_
    return {
        "kernel": {name: getattr(kernel, name) for name in ("kind", "gamma", "degree", "coef0")},
        "support_vectors": model.n_support_.tolist(),
        "sparse": sparse.issparse(vectors),
        "dtype": str(vectors.dtype),
        "precision": model.expansion.precision,
        "ties": model.ties,
    }


def _features(signature: Signature) -> dict[str, str]:
    if not signature.mapped:
        return _columns("features", signature.layout)
    return {"features": f"{signature.width:,}: {signature.features}", **_columns("columns", signature.layout)}


def _map(features: FeatureMap) -> dict[str, str]:
    return {
        "feature map": repr(features),
        "fingerprint": features.fingerprint,
        "features": f"{features.width:,} of {features.dtype}",
        **_columns("columns", features.layout),
    }


def _map_facts(features: FeatureMap) -> dict[str, Any]:
    return {
        "map": repr(features),
        "fingerprint": features.fingerprint,
        "features": features.width,
        "columns": features.layout.width,
        "names": features.layout.names,
        "categories": dict(features.layout.categories),
    }


def _columns(what: str, layout: Layout) -> dict[str, str]:
    names = "without names" if layout.names is None else _cut(list(layout.names))
    lines = {what: f"{layout.width:,}: {names}"}
    for column, values in layout.categories:
        lines[f"category {column}"] = _cut([str(value) for value in values])
    return lines


def _cut(names: list[str]) -> str:
    more = f", and {len(names) - MOST:,} more" if len(names) > MOST else ""
    return ", ".join(names[:MOST]) + more


def _print_classes(talk: Console, content: Any) -> None:
    rows = content.rows if isinstance(content, Knowledge) else content.domain.rows
    weights = content.counts if isinstance(content, Knowledge) else rows
    support = content.n_support_.tolist() if isinstance(content, KernelModel) else None
    table = Table("class", "rows", "weight", "share", *([] if support is None else ["support vectors"]))
    for column in table.columns[1:]:
        column.justify = "right"
    for code, label in enumerate(content.labels[:100]):
        count, weight = int(rows[code]), float(weights[code])
        more = [] if support is None else [f"{support[code]:,}"]
        table.add_row(shown(label), f"{count:,}", said(weight), f"{weight / weights.sum():.1%}", *more)
    talk.out.print(table)


def _print_folds(talk: Console, folds: Folds) -> None:
    table = Table("fold", "rows", "share")
    for column in table.columns:
        column.justify = "right"
    rows, total = folds.rows.tolist(), int(folds.total.rows.sum())
    never = [] if folds.rest is None else [("never held out", int(folds.rest.rows.sum()))]
    for name, count in [*((str(fold), count) for fold, count in enumerate(rows[:100])), *never]:
        table.add_row(name, f"{count:,}", f"{count / max(total, 1):.1%}")
    talk.out.print(table)


def _print_provenance(talk: Console, provenance: Provenance) -> None:
    if provenance:
        table = Table("source", "rows", "when")
        table.columns[1].justify = "right"
        for origin in provenance[:100]:
            table.add_row(
                shown(origin.source), f"{'-' if origin.taken_back else ''}{origin.rows:,}", shown(origin.when)
            )
        talk.out.print(table)
