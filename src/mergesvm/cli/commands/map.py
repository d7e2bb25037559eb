"""The command that freezes a feature map, for all nodes that are to learn with it."""

from __future__ import annotations

from typing import Annotated

import typer

from mergesvm.cli.console import Console, check_output, printable
from mergesvm.cli.data_options import Reading, reads
from mergesvm.cli.options import AsJson, Debug, Force, Output, Quiet
from mergesvm.errors import ParameterError
from mergesvm.features.maps.identity import Identity
from mergesvm.features.spec import as_map


@reads()
def plan_command(
    reading: Reading,
    output: Output,
    features: Annotated[
        str,
        typer.Option(
            help="The map: hidden, fourier, nystroem, patches or pca, as fourier:4000 or hidden:1000,activation=tanh; "
            "a chain as patches:64+nystroem:2000."
        ),
    ],
    seed: Annotated[int, typer.Option(min=0, help="Of all that is drawn at random.")] = 0,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Freeze a feature map on a sample of rows, so that pieces learned with it on any node add."""
    talk = Console(quiet, as_json)
    check_output(output, force)
    mapping = as_map(features, seed=seed)
    if isinstance(mapping, Identity):
        raise ParameterError("The identity needs no plan: learn without --features.")
    source = reading.scan()
    frozen = mapping.freeze(source)
    frozen.save(output)
    matrix = 8 * frozen.width**2 / 1e6
    talk.out.print(
        printable(
            f"{frozen}: {frozen.layout.width:,} columns become {frozen.width:,} features.\n"
            f"Knowledge will take {matrix:,.1f} MB of memory for each class, or once for all in the pooled form.\n"
            f"written to {output}"
        ),
        markup=False,
    )
    talk.result(
        output=output,
        features=repr(frozen),
        fingerprint=frozen.fingerprint,
        columns=frozen.layout.width,
        width=frozen.width,
    )
