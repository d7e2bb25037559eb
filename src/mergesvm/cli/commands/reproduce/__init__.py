"""``mergesvm reproduce``: the tables and figures of the papers, one command per file."""

from __future__ import annotations

import typer

from mergesvm.cli.lazy_group import LazyGroup

REPRODUCTIONS = {
    "merging": "Merged and batch training of a stream in slices, by Zhu, Ikeda, Pang, Ban and Sarrafzadeh.",
    "weights": "Accuracy of class weights on unbalanced classes, table 1 of Zhang and Zhu.",
    "cascade": "Speedup and efficiency of MPI ranks that add their sums up a tree, by Zhang and Zhu.",
    "recursive": "One pass of recursive least squares, by Cassioli and others, beside three linear methods.",
    "parallel-update": "Convergence by step, units and beta, and traffic and accuracy, of Alpcan and Bauckhage.",
    "democratic": "Pegasos for each pair of classes and a vote, by Vieira and Lerena, beside the closed form.",
    "tagging": "Animals found by brush strokes on one or two pictures, figures 3 and 4 of Alpcan and Bauckhage.",
}
"""Each reproduction with its one-line help: the first line of the docstring of ``NAME_command`` in its file."""


class ReproduceGroup(LazyGroup):
    """The group of the reproductions."""

    listed = REPRODUCTIONS
    package = __name__


reproduce_command = typer.Typer(
    cls=ReproduceGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Reproduce the tables and figures of the papers.",
)


@reproduce_command.callback()
def _root() -> None:
    pass
