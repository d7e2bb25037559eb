"""``mergesvm map``: freeze a feature map, for all nodes that learn with it."""

from __future__ import annotations

from typing import Annotated

import typer

import mergesvm as ms
from mergesvm.cli.command import command
from mergesvm.cli.console import ConsoleOptions, Force, Output
from mergesvm.cli.data_options import DataOptions
from mergesvm.cli.outputs import check_distinct, check_output, files_of
from mergesvm.errors import ParameterError
from mergesvm.features import MAP_NAMES


@command("mergesvm map day1.parquet --label y --features fourier:4000 -o fourier.features")
def map_command(
    data: DataOptions,
    output: Output,
    features: Annotated[
        str,
        typer.Option(
            help=f"Feature map ({', '.join(MAP_NAMES)}) with its size and parameters, such as "
            "fourier:4000 or hidden:1000,activation=tanh; chain maps with +, such as patches:64+nystroem:2000."
        ),
    ],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
    force: Force = False,
    *,
    printing: ConsoleOptions,
) -> None:
    """Freeze a feature map on a sample of rows, so that pieces learned with it can be merged."""
    console = printing.console()
    check_output(output, force)
    mapping = ms.features.as_map(features, seed=seed)
    if isinstance(mapping, ms.features.Identity):
        raise ParameterError("The identity map has nothing to freeze. Learn without --features.")
    source = data.scan()
    check_distinct([output], [data.label, *files_of(source)])
    frozen = mapping.freeze(source)
    frozen.save(output, overwrite=force)
    matrix_megabytes = 8 * frozen.width**2 / 1e6
    console.text(
        f"{frozen}: {frozen.layout.width:,} columns become {frozen.width:,} features.{frozen.precision_note}",
        f"Knowledge will take {matrix_megabytes:,.1f} MB of memory per class, or in total with --pooled.",
    )
    console.written(output)
    console.result(
        output=output,
        features=repr(frozen),
        fingerprint=frozen.fingerprint,
        columns=frozen.layout.width,
        width=frozen.width,
    )
