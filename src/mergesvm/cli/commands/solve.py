"""``mergesvm solve``: knowledge in, a model out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import mergesvm as ms
from mergesvm.cli.command import Fields, command
from mergesvm.cli.console import NO_MATPLOTLIB, Console, ConsoleOptions, Force, Output
from mergesvm.cli.data_options import NEW_DATA_FIELDS, SecondPassOptions
from mergesvm.cli.model_options import ChoiceOptions
from mergesvm.cli.open_files import expand, open_learned
from mergesvm.cli.outputs import check_distinct, check_output
from mergesvm.errors import ParameterError
from mergesvm.reports.figures import SUFFIXES, save_choice_figure


@command(
    "mergesvm solve rest.knowledge --C 10 --class-weight complement --multiclass ovo -o model.msvm",
    "mergesvm solve folds.knowledge --C auto --class-weight auto -o chosen.msvm",
    "mergesvm solve 'day*.knowledge' --C auto -o chosen.msvm",
)
def solve_command(
    knowledge: Annotated[
        list[str],
        typer.Argument(
            help="Knowledge file. To choose options, one with folds, or several pieces to hold out in turn.",
            metavar="KNOWLEDGE...",
        ),
    ],
    output: Output,
    options: ChoiceOptions,
    data: Annotated[SecondPassOptions, Fields("label", "weight", *NEW_DATA_FIELDS)],
    picture: Annotated[
        Path | None, typer.Option(help="A .png, .svg or .pdf file for a plot of the score at each C tried.")
    ] = None,
    onnx: Annotated[Path | None, typer.Option(help="File for the model in ONNX format.")] = None,
    force: Force = False,
    *,
    printing: ConsoleOptions,
) -> None:
    """Solve knowledge into a model for any C, class weights and multi-class scheme, without data."""
    console = printing.console()
    check_output(output, force)
    check_output(onnx, force, ".onnx")
    check_output(picture, force, *SUFFIXES)
    paths = expand(knowledge)
    check_distinct([output, onnx, picture], [*paths, *(data.files or ())])
    chosen: dict[str, Any] = {}
    if options.auto:
        model, chosen = _solve_best(paths, options, data, picture, console, force)
    else:
        second_pass = data != SecondPassOptions()
        _check_unused({"--Cs": options.Cs, "--scoring": options.scoring, "--picture": picture, "--data": second_pass})
        model = _solve_given(paths, options)
    if onnx is not None:  # first, because not every model can be exported
        model.to_onnx(onnx, overwrite=force)
    model.save(output, overwrite=force)
    console.text(str(model))
    console.written(output, onnx, chosen.get("picture"))
    console.result(output=output, model=repr(model), solver=model.solver_, onnx=onnx, **chosen)


def _check_unused(given: dict[str, Any]) -> None:
    for name, value in given.items():
        if value:
            raise ParameterError(
                f"{name} applies only to choosing options: add --C auto, --class-weight auto or --multiclass auto."
            )


def _solve_best(
    paths: list[Path],
    options: ChoiceOptions,
    data: SecondPassOptions,
    picture: Path | None,
    console: Console,
    force: bool,
) -> tuple[ms.LinearModel | ms.PairwiseModel, dict[str, Any]]:
    """The model with the best options, and how they were chosen."""
    from mergesvm.cli.choose import choose, print_choice

    choice = choose(paths, options, data, console)
    print_choice(console, choice)
    if picture is not None and not save_choice_figure(picture, choice.validation, overwrite=force):
        console.text(NO_MATPLOTLIB)
        picture = None
    return choice.validation.solve(), {"picture": picture, **choice.facts()}


def _solve_given(paths: list[Path], options: ChoiceOptions) -> ms.LinearModel | ms.PairwiseModel:
    """The model with the options as given; for a file with folds, the model of all rows."""
    if len(paths) > 1:
        raise ParameterError(
            f"{len(paths)} files were given, but only one can be solved. Add them first with mergesvm merge, or choose "
            f"C by holding out each in turn with --C auto."
        )
    learned = open_learned(paths[0])
    C = options.number_or_auto()
    return ms.solve(learned, float(C), options.weights(learned.labels), options.multiclass, **options.fixed)
