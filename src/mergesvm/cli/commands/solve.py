"""The command that solves knowledge into a model, on terms that are given or chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mergesvm.cli.choose import ChoiceOptions, DataAgain, choose
from mergesvm.cli.console import Console, check_output, printable
from mergesvm.cli.data_options import KNOWN, reads
from mergesvm.cli.open_files import expand, open_learned
from mergesvm.cli.options import AsJson, Debug, Force, Output, Quiet, as_class_weight, as_number
from mergesvm.errors import ParameterError
from mergesvm.methods.proximal.solve import solve
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.multiclass.class_weights import CLASS_WEIGHT_SCHEMES
from mergesvm.multiclass.votes import TIE_RULES
from mergesvm.report.charts.choice_picture import save_choice_picture
from mergesvm.report.charts.pictures import KINDS
from mergesvm.report.choice import choice_facts, print_choice


@reads("label", *KNOWN, kind=DataAgain)
def solve_command(
    knowledge: Annotated[
        list[str],
        typer.Argument(
            help="A file of knowledge. Where terms are chosen, one with folds, or several pieces, each held out in "
            "turn.",
            metavar="KNOWLEDGE...",
        ),
    ],
    output: Output,
    C: Annotated[
        str, typer.Option("--C", "-C", help="The larger, the closer to the data; auto chooses by cross-validation.")
    ] = "1.0",
    class_weight: Annotated[
        str,
        typer.Option(
            help=f"none, {', '.join(CLASS_WEIGHT_SCHEMES)}, or class=weight,...; auto chooses none or balanced."
        ),
    ] = "none",
    multiclass: Annotated[
        str, typer.Option(help="ovr (one-vs-rest) or ovo (one-vs-one); auto chooses between them.")
    ] = "ovr",
    ties: Annotated[str, typer.Option(help=f"How ties of votes are broken: {', '.join(TIE_RULES)}.")] = "recount",
    standardize: Annotated[bool, typer.Option("--standardize", help="Bring all features to unit variance.")] = False,
    free_intercept: Annotated[
        bool, typer.Option("--free-intercept", help="Do not penalise the intercept, as scikit-learn does not.")
    ] = False,
    Cs: Annotated[
        str | None,
        typer.Option("--Cs", help="Values for --C auto, as 0.01,1,100; by default 25 from 1e-6 to 1e6."),
    ] = None,
    scoring: Annotated[
        str | None,
        typer.Option(
            help="What auto decides by: neg_squared_loss or neg_balanced_loss, exact with no data; accuracy, "
            "balanced_accuracy, neg_log_loss or roc_auc, estimated with no data, measured with --data. By default the "
            "loss, or the accuracy with --data or --multiclass auto; with class weights the balanced one, because by "
            "the other, no weights would always be chosen."
        ),
    ] = None,
    *,
    reading: DataAgain,
    picture: Annotated[
        Path | None, typer.Option(help="A .png, .svg or .pdf file to write: the score at each C that was tried.")
    ] = None,
    onnx: Annotated[Path | None, typer.Option(help="Write the model as ONNX, too.")] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Solve knowledge into a model; C, class weights and the multi-class scheme are chosen now, with no data."""
    talk = Console(quiet, as_json)
    check_output(output, force)
    check_output(onnx, force, ".onnx")
    check_output(picture, force, *KINDS)
    paths = expand(knowledge)
    fixed = {"standardize": standardize, "penalize_intercept": not free_intercept, "ties": ties}
    wishes = ChoiceOptions(C, Cs, class_weight, multiclass, scoring)
    answer: dict[str, Any] = {}
    if wishes.auto:
        choice = choose(paths, wishes, fixed, reading, talk)
        model = choice.validation.solve()
        print_choice(talk, choice)
        drawn = picture is not None and save_choice_picture(picture, choice.validation)
        if picture is not None and not drawn:
            talk.out.print(
                "No picture: matplotlib is not installed. Install it with: pip install 'mergesvm[plots]'", markup=False
            )
        picture = picture if drawn else None
        answer = {"picture": picture, **choice_facts(choice)}
    else:
        _check_unused({"--Cs": Cs, "--scoring": scoring, "--picture": picture, "--data": reading != DataAgain()})
        model = _solved(paths, wishes, fixed)
    model.save(output)
    if onnx is not None:
        model.to_onnx(onnx)
    written = " and ".join(str(path) for path in (output, onnx, picture) if path is not None)
    talk.out.print(printable(f"{model}\nwritten to {written}"), markup=False)
    talk.result(output=output, model=repr(model), solver=model.solver_, onnx=onnx, **answer)


def _check_unused(given: dict[str, Any]) -> None:
    for name, value in given.items():
        if value:
            raise ParameterError(
                f"{name} is for choosing terms: add --C auto, --class-weight auto or --multiclass auto."
            )


def _solved(paths: list[Path], wishes: ChoiceOptions, fixed: dict[str, Any]) -> LinearModel | PairwiseModel:
    """The model on terms that are given; of folds, that of all rows."""
    if len(paths) > 1:
        raise ParameterError(
            f"{len(paths)} files are given, but one is solved. Add them first, mergesvm merge; or choose C by holding "
            f"out each of them in turn, --C auto."
        )
    learned = open_learned(paths[0])
    weights = as_class_weight(wishes.class_weight, learned.labels)
    return solve(learned, as_number(wishes.C, "--C, if not auto,"), weights, wishes.multiclass, **fixed)
