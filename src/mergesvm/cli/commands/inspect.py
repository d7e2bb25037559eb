"""``mergesvm inspect``: show the contents of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import mergesvm as ms
from mergesvm.cli.command import Fields, command
from mergesvm.cli.console import Console, ConsoleOptions, numeric_table, short_number, table_cell
from mergesvm.cli.open_files import open_any
from mergesvm.reports.knowledge_facts import knowledge_facts

if TYPE_CHECKING:
    from mergesvm.data.layout import Layout
    from mergesvm.knowledge.fold_assignment import FoldAssignment
    from mergesvm.knowledge.provenance.origin import Provenance
    from mergesvm.models.base import Model

MAX_NAMES = 20
MAX_TABLE_ROWS = 100
MAX_ORIGINS = 20


@command("mergesvm inspect model.msvm")
def inspect_command(
    file: Annotated[Path, typer.Argument(help="Knowledge, model or feature map file.", metavar="FILE")],
    printing: Annotated[ConsoleOptions, Fields("as_json", "debug")],
) -> None:
    """Show the contents of a knowledge, model or feature map file.

    Lists classes and their rows, features, options, and where the rows came from.
    """
    from mergesvm.files.container import read_format
    from mergesvm.knowledge.provenance.format import provenance_fields

    console = printing.console()
    content = open_any(file)
    if isinstance(content, ms.features.FeatureMap):
        _print_lines(console, file, _map(content))
        console.result(file=file, kind="features", format=read_format(file), **_map_facts(content))
        return
    folds = content if isinstance(content, ms.Folds) else None
    learned = content.total if isinstance(content, ms.Folds) else content if isinstance(content, ms.Knowledge) else None
    _print_lines(console, file, _model(content) if learned is None else _knowledge(learned, folds))
    _print_classes(console, content if learned is None else learned)
    if folds is not None:
        _print_folds(console, folds)
    provenance = content.domain.provenance if learned is None else content.provenance
    _print_provenance(console, provenance)
    console.result(
        file=file,
        kind="model" if learned is None else "knowledge" if folds is None else "folds",
        format=read_format(file),
        names=content.signature.names,
        map=repr(content.signature.features),
        fingerprint=content.signature.features.fingerprint,
        categories=dict(content.signature.categories),
        provenance=provenance_fields(provenance),
        **(_model_facts(content) if learned is None else knowledge_facts(content)),
    )


def _print_lines(console: Console, file: Path, lines: dict[str, str]) -> None:
    from rich.table import Table

    table = Table(title=table_cell(file), show_header=False, title_justify="left")
    table.add_column(style="bold")
    for name, value in lines.items():
        table.add_row(table_cell(name), table_cell(value))
    console.out.print(table)


def _knowledge(knowledge: ms.Knowledge, folds: ms.Folds | None) -> dict[str, str]:
    from mergesvm.analysis.constant_features import constant_features

    pieces = [knowledge] if folds is None else [*folds, *([] if folds.rest is None else [folds.rest])]
    form = "one matrix per class" if knowledge.per_class else "pooled"
    return {
        "knowledge of": f"{int(knowledge.rows.sum()):,} rows in {len(knowledge.labels):,} classes",
        **_features(knowledge.signature),
        **({} if folds is None else {"folds": _folding(folds.assignment)}),
        "form": form if folds is None else f"{form} and fold",
        **({"constant": _listed(constant)} if (constant := constant_features(knowledge)) else {}),
        "precision": knowledge.precision,
        "in memory": f"{sum(piece.nbytes for piece in pieces) / 1e6:,.1f} MB",
    }


def _folding(folding: FoldAssignment) -> str:
    column = "" if folding.column is None else f", column {folding.column}"
    rules = {
        "rows": "by a hash of each row",
        "groups": f"by a hash of the group{column}",
        "given": "as given",
    }
    return f"{folding.count:,}, {rules[folding.by]}"


def _model(model: Model) -> dict[str, str]:
    from mergesvm.text import counted

    options, fitted = model.domain.options, model.calibration_
    return {
        "model": repr(model),
        **_features(model.signature),
        **_solver_options(model),
        "class weights": str(options["class_weight"] or "none"),
        "solver": model.solver_,
        "learned from": f"{int(model.domain.rows.sum()):,} rows",
        "calibrated": "no" if fitted is None else f"{fitted.method}, on {counted(fitted.rows, 'row')} held out",
    }


def _solver_options(model: Model) -> dict[str, str]:
    options = model.domain.options
    if isinstance(model, ms.KernelModel):
        return _kernel(model)
    return _pegasos(options) if "lambda_" in options else _closed_form(options)


def _kernel(model: ms.KernelModel) -> dict[str, str]:
    from scipy import sparse

    from mergesvm.text import counted

    kernel, options, vectors = model.expansion.kernel, model.domain.options, model.support_vectors_
    form = "sparse, " if sparse.issparse(vectors) else ""
    return {
        "kernel": ", ".join(
            [kernel.kind, *(f"{name} {short_number(value)}" for name, value in kernel.parameters.items())]
        ),
        "support vectors": f"{vectors.shape[0]:,} ({form}{vectors.dtype})",
        "C": short_number(options["C"]),
        "beta": "none: the intercept is not penalised" if options["beta"] is None else short_number(options["beta"]),
        "trained by": counted(options["units"], "unit"),
        "precision": model.expansion.precision,
    }


def _closed_form(options: dict[str, Any]) -> dict[str, str]:
    return {
        "C": short_number(options["C"]),
        "standardized": "yes" if options["standardize"] else "no",
        "intercept": "none"
        if not options["fit_intercept"]
        else "penalised"
        if options["penalize_intercept"]
        else "free",
    }


def _pegasos(options: dict[str, Any]) -> dict[str, str]:
    from mergesvm.text import counted

    return {
        "lambda": short_number(options["lambda_"]),
        "steps": f"{options['n_iter']:,} of {counted(options['batch_size'], 'row')} each",
        "averaged": f"over the last {options['average']:.0%}" if options["average"] else "no",
        "intercept": "penalised" if options["fit_intercept"] else "none",
    }


def _model_facts(model: Model) -> dict[str, Any]:
    fitted = model.calibration_
    return {
        "rows": int(model.domain.rows.sum()),
        "features": model.signature.width,
        "classes": list(model.labels),
        "counts": model.domain.rows.tolist(),
        "model": repr(model),
        "solver": model.solver_,
        "calibration": fitted and {"method": fitted.method, "rows": fitted.rows},
        "terms": {**model.domain.options, "class_weight": str(model.domain.options["class_weight"])},
        **(_kernel_facts(model) if isinstance(model, ms.KernelModel) else {}),
    }


def _kernel_facts(model: ms.KernelModel) -> dict[str, Any]:
    from scipy import sparse

    kernel, vectors = model.expansion.kernel, model.support_vectors_
    return {
        "kernel": {name: getattr(kernel, name) for name in ("kind", "gamma", "degree", "coef0")},
        "support_vectors": model.n_support_.tolist(),
        "sparse": sparse.issparse(vectors),
        "dtype": str(vectors.dtype),
        "precision": model.expansion.precision,
        "ties": model.ties,
    }


def _features(signature: ms.Signature) -> dict[str, str]:
    if not signature.mapped:
        return _columns("features", signature.layout)
    return {"features": f"{signature.width:,}: {signature.features}", **_columns("columns", signature.layout)}


def _map(features: ms.features.FeatureMap) -> dict[str, str]:
    return {
        "feature map": repr(features),
        "fingerprint": features.fingerprint,
        "features": f"{features.width:,} of {features.dtype}",
        **_columns("columns", features.layout),
    }


def _map_facts(features: ms.features.FeatureMap) -> dict[str, Any]:
    return {
        "map": repr(features),
        "fingerprint": features.fingerprint,
        "features": features.width,
        "columns": features.layout.width,
        "names": features.layout.names,
        "categories": dict(features.layout.categories),
    }


def _columns(what: str, layout: Layout) -> dict[str, str]:
    names = "without names" if layout.names is None else _listed(list(layout.names))
    lines = {what: f"{layout.width:,}: {names}"}
    for column, values in layout.categories:
        lines[f"category {column}"] = _listed([str(value) for value in values])
    return lines


def _listed(names: list[str]) -> str:
    more = f", and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


def _print_classes(console: Console, content: Any) -> None:
    """Rows and weights of the classes of knowledge; models know only their rows."""
    rows = content.rows if isinstance(content, ms.Knowledge) else content.domain.rows
    fractions = rows / rows.sum()
    columns = {
        "rows": [f"{count:,}" for count in rows.tolist()],
        "fraction of rows": [f"{each:.1%}" for each in fractions],
    }
    if isinstance(content, ms.Knowledge):
        columns["weight"] = [short_number(weight) for weight in content.counts.tolist()]
        columns["fraction of weight"] = [f"{each:.1%}" for each in content.counts / content.counts.sum()]
    if isinstance(content, ms.KernelModel):
        columns["support vectors"] = [f"{count:,}" for count in content.n_support_.tolist()]
    table = numeric_table("class", *columns)
    for code, label in enumerate(content.labels[:MAX_TABLE_ROWS]):
        table.add_row(table_cell(label), *(values[code] for values in columns.values()))
    console.out.print(table)


def _print_folds(console: Console, folds: ms.Folds) -> None:
    table = numeric_table("fold", "rows", "fraction")
    rows, total = folds.rows.tolist(), int(folds.total.rows.sum())
    never = [] if folds.rest is None else [("never held out", int(folds.rest.rows.sum()))]
    for name, count in [*((str(fold), count) for fold, count in enumerate(rows[:MAX_TABLE_ROWS])), *never]:
        table.add_row(name, f"{count:,}", f"{count / max(total, 1):.1%}")
    console.out.print(table)


def _print_provenance(console: Console, provenance: Provenance) -> None:
    if not provenance:
        return
    parts = any(not origin.extent.whole for origin in provenance)
    table = numeric_table("source", "rows", "when", "id", *(["part"] if parts else []), texts=["when", "id", "part"])
    for origin in provenance[:MAX_ORIGINS]:
        rows = f"-{origin.rows:,} (retired)" if origin.taken_back else f"{origin.rows:,}"
        cells = [origin.when, origin.short_id, *([str(origin.extent)] if parts else [])]
        table.add_row(table_cell(origin.source), rows, *map(table_cell, cells))
    console.out.print(table)
    more = len(provenance) - MAX_ORIGINS
    if more > 0:
        console.text(f"and {more:,} more sources, which --json lists")
    unidentified = sum(origin.id is None for origin in provenance)
    if unidentified:
        console.text(
            f"{unidentified:,} of {len(provenance):,} sources have no id, because they were learned by an earlier "
            f"version: only counts can tell whether they are merged or subtracted twice."
        )
