"""Commands that make knowledge: learn, merge and subtract."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from mergesvm.cli.console import Console, check_output, printable
from mergesvm.cli.data_options import Reading, reads
from mergesvm.cli.engine_option import running
from mergesvm.cli.open_files import expand, keep_folds, loaded, named, open_any
from mergesvm.cli.options import Address, AsJson, Debug, EngineName, Force, Local, Output, Quiet, Verbose, Workers
from mergesvm.data.scan import Scan
from mergesvm.errors import KnowledgeError, ParameterError
from mergesvm.features.base import FeatureMap
from mergesvm.features.maps.identity import Identity
from mergesvm.features.spec import as_map, is_map_name
from mergesvm.knowledge.algebra import merge_stream
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.learn import learn


@reads()
def learn_command(
    reading: Reading,
    output: Output,
    features: Annotated[
        str | None,
        typer.Option(
            help="A feature map: by name, as fourier:4000, or that of a file of plan, of knowledge or a model."
        ),
    ] = None,
    like: Annotated[
        Path | None, typer.Option(help="Knowledge or a model whose features to use, so that the pieces add.")
    ] = None,
    pooled: Annotated[bool, typer.Option("--pooled", help="One Gram matrix for all classes: less memory.")] = False,
    precision: Annotated[
        str | None,
        typer.Option(help="Of the products: float64, or float32, which is faster; by default that of the map."),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            help="Keep the knowledge of so many folds, so that solve can choose C, with no further look at the rows; "
            "takes as many times the memory."
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="A column, which is then no feature: rows with the same value in it are in the same fold."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Threads, one a core by default; with another engine those of each worker, one.")
    ] = None,
    engine: EngineName = "threads",
    workers: Workers = None,
    address: Address = None,
    local: Local = False,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Learn from files in one pass, however large they are, and write a small file of knowledge."""
    if pooled and folds is not None:
        raise ParameterError("--folds needs the sums of every class, and --pooled keeps none. Leave one of them out.")
    with running(engine, workers, address, local) as place:
        talk = Console(quiet or not place.is_root, as_json and place.is_root)
        place.once(lambda: check_output(output, force))

        def prepare() -> tuple[FeatureMap, Scan]:
            earlier = None if like is None else open_any(like)
            mapping = features_from(features, earlier)
            pattern = earlier if earlier is not None else mapping if has_layout(mapping) else None
            return mapping, reading.scan(like=pattern, keep=() if groups is None else (groups,))

        mapping, source = place.together(prepare)
        frozen_here = not mapping.frozen
        if frozen_here:
            mapping = place.once(lambda: mapping.freeze(source))
            talk.out.print(
                printable(
                    f"{mapping!r} was frozen on the first rows of these files. Pieces that are to add need the same "
                    f"map: mergesvm plan writes it."
                ),
                markup=False,
            )
        with talk.progress("learning") as progress:
            knowledge: Knowledge | Folds = learn(
                source,
                features=mapping,
                per_class=not pooled,
                precision=precision,
                folds=folds,
                groups=groups,
                engine=place,
                n_jobs=jobs,
                progress=progress,
            )
        place.once(lambda: knowledge.save(output))
        if verbose:
            talk.out.print(f"{place!r}, sent: {place.traffic}", markup=False)
        dropped = f", {source.dropped:,} rows with missing values left out" if source.dropped else ""
        talk.out.print(printable(f"{knowledge}{dropped}\nwritten to {output}"), markup=False)
        talk.result(
            output=output,
            dropped=source.dropped,
            map=repr(mapping),
            fingerprint=mapping.fingerprint,
            frozen_here=frozen_here,
            engine=repr(place),
            traffic=asdict(place.traffic),
            **facts(knowledge),
        )


def merge_command(
    pieces: Annotated[list[str], typer.Argument(help="Files of knowledge, or globs in quotes.", metavar="PIECES...")],
    output: Output,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Add pieces of knowledge, wherever they were learned: exactly what all their rows together would have given."""
    talk = Console(quiet, as_json)
    check_output(output, force)
    paths = expand(pieces)

    knowledge = _sum_of_folds(paths) if keep_folds(paths) else merge_stream(loaded(paths))
    assert knowledge is not None
    knowledge.save(output)
    talk.out.print(printable(f"{len(paths)} pieces merged: {knowledge}\nwritten to {output}"), markup=False)
    talk.result(output=output, pieces=len(paths), **facts(knowledge))


def subtract_command(
    whole: Annotated[Path, typer.Argument(help="The knowledge to take from.", metavar="WHOLE")],
    parts: Annotated[list[str], typer.Argument(help="The knowledge to take back.", metavar="PARTS...")],
    output: Output,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Take pieces back: what is left is the knowledge that never saw their rows."""
    talk = Console(quiet, as_json)
    check_output(output, force)
    paths = expand(parts)
    kind: Any = Folds if keep_folds([whole, *paths]) else Knowledge
    knowledge = kind.load(whole)
    for path in paths:
        try:
            knowledge = knowledge - kind.load(path)
        except KnowledgeError as error:
            raise type(error)(f"{path} cannot be taken from {whole}. {error}") from None
    knowledge.save(output)
    talk.out.print(printable(f"What is left: {knowledge}\nwritten to {output}"), markup=False)
    talk.result(output=output, **facts(knowledge))


def _sum_of_folds(paths: list[Path]) -> Folds:
    """Folds added up as they are read, so that few of them are in memory at one time."""
    total = Folds.load(paths[0])
    for path in paths[1:]:
        with named(path, paths[0]):
            total = total + Folds.load(path)
    return total


def features_from(given: str | None, like: Any = None) -> FeatureMap:
    """A map by its name, or that of a file: a map, or knowledge or a model learned with one; else that of ``like``."""
    if given is None:
        return like if isinstance(like, FeatureMap) else like.signature.features if like is not None else Identity()
    if is_map_name(given):
        return as_map(given)
    content = open_any(Path(given))
    found: FeatureMap = content if isinstance(content, FeatureMap) else content.signature.features
    if isinstance(found, Identity):
        raise ParameterError(f"{given} was learned without a feature map. Leave --features out, or use --like.")
    return found


def has_layout(mapping: FeatureMap) -> bool:
    """Whether a map tells which columns it takes."""
    return mapping.frozen and not isinstance(mapping, Identity)


def facts(knowledge: Knowledge | Folds) -> dict[str, Any]:
    """What a machine wants to know of knowledge."""
    if isinstance(knowledge, Folds):
        folding = knowledge.assignment
        rule = {"by": folding.by, "column": folding.column, "rows": knowledge.rows.tolist()}
        return {**facts(knowledge.total), "folds": rule}
    return {
        "rows": int(knowledge.rows.sum()),
        "features": knowledge.width,
        "classes": list(knowledge.labels),
        "counts": knowledge.rows.tolist(),
    }
