"""Commands on knowledge: learn, merge, subtract and solve."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from mergesvm.cli.options import (
    Address,
    AsJson,
    Debug,
    EngineName,
    Force,
    Local,
    Output,
    Quiet,
    Verbose,
    Workers,
    as_class_weight,
)
from mergesvm.cli.reading import Reading, reads
from mergesvm.cli.running import running
from mergesvm.cli.talk import Talk, check_output, printable
from mergesvm.data import Scan
from mergesvm.errors import MissingFileError, ParameterError, SignatureError
from mergesvm.features import FeatureMap, Identity, as_map, is_map_name, load
from mergesvm.files import read_kind
from mergesvm.knowledge import Knowledge, learn, merge_stream
from mergesvm.models import load_model, solve


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
    with running(engine, workers, address, local) as place:
        talk = Talk(quiet or not place.speaks, as_json and place.speaks)
        place.once(lambda: check_output(output, force))

        def prepare() -> tuple[FeatureMap, Scan]:
            earlier = None if like is None else open_any(like)
            mapping = features_from(features, earlier)
            return mapping, reading.scan(like=earlier or (mapping if has_layout(mapping) else None))

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
            knowledge = learn(
                source,
                features=mapping,
                per_class=not pooled,
                precision=precision,
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
    talk = Talk(quiet, as_json)
    check_output(output, force)
    paths = expand(pieces)

    knowledge = merge_stream(_loaded(paths))
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
    talk = Talk(quiet, as_json)
    check_output(output, force)
    knowledge = Knowledge.load(whole)
    for path in expand(parts):
        knowledge = knowledge - Knowledge.load(path)
    knowledge.save(output)
    talk.out.print(printable(f"What is left: {knowledge}\nwritten to {output}"), markup=False)
    talk.result(output=output, **facts(knowledge))


def solve_command(
    knowledge: Annotated[Path, typer.Argument(help="A file of knowledge.", metavar="KNOWLEDGE")],
    output: Output,
    C: Annotated[float, typer.Option("--C", "-C", help="The larger, the closer to the data.")] = 1.0,
    class_weight: Annotated[
        str, typer.Option(help="none, inverse, complement, balanced, or class=weight,class=weight.")
    ] = "none",
    multiclass: Annotated[str, typer.Option(help="ovr (one-vs-rest) or ovo (one-vs-one).")] = "ovr",
    ties: Annotated[str, typer.Option(help="Ties of votes: recount, sequential or margin.")] = "recount",
    standardize: Annotated[bool, typer.Option("--standardize", help="Bring all features to unit variance.")] = False,
    free_intercept: Annotated[
        bool, typer.Option("--free-intercept", help="Do not penalise the intercept, as scikit-learn does not.")
    ] = False,
    onnx: Annotated[Path | None, typer.Option(help="Write the model as ONNX, too.")] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Solve knowledge into a model; C, class weights and the multi-class scheme are chosen now, with no data."""
    talk = Talk(quiet, as_json)
    check_output(output, force)
    check_output(onnx, force, ".onnx")
    learned = Knowledge.load(knowledge)
    model = solve(
        learned,
        C,
        as_class_weight(class_weight, learned.labels),
        multiclass,
        standardize,
        penalize_intercept=not free_intercept,
        ties=ties,
    )
    model.save(output)
    if onnx is not None:
        model.to_onnx(onnx)
    talk.out.print(printable(f"{model}\nwritten to {output}" + (f" and {onnx}" if onnx else "")), markup=False)
    talk.result(output=output, model=repr(model), solver=model.solver_, onnx=onnx)


def expand(names: list[str]) -> list[Path]:
    """Files from names and globs, none of them twice."""
    paths: list[Path] = []
    for name in names:
        found = [name] if Path(name).exists() or not glob.has_magic(name) else sorted(glob.glob(name))  # noqa: PTH207
        if not found:
            raise MissingFileError(f"No file matches {name}.")
        paths += [Path(path) for path in found]
    for index, path in enumerate(paths):
        if path.resolve() in [other.resolve() for other in paths[:index]]:
            raise ParameterError(f"{path} is named twice: its rows would count twice.")
    return paths


def _loaded(paths: list[Path]) -> Iterator[Knowledge]:
    first = None
    for path in paths:
        piece = Knowledge.load(path)
        first = first or piece.signature
        try:
            first = first.joined(piece.signature)
        except SignatureError as error:
            raise SignatureError(f"{path} does not go with {paths[0]}. {error}") from None
        yield piece


def open_any(path: Path) -> Any:
    """Knowledge, a feature map or a model, whichever the file holds."""
    kind = read_kind(path)
    return Knowledge.load(path) if kind == "knowledge" else load(path) if kind == "features" else load_model(path)


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


def facts(knowledge: Knowledge) -> dict[str, Any]:
    """What a machine wants to know of knowledge."""
    return {
        "rows": int(knowledge.rows.sum()),
        "features": knowledge.width,
        "classes": list(knowledge.labels),
        "counts": knowledge.rows.tolist(),
    }
