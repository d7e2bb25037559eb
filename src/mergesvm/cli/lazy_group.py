"""Command groups, such as the root, that import a command's module only when that command runs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS = {
    "demo": "Learn handwritten digits on four nodes, merge them and forget each in turn, exactly.",
    "map": "Freeze a feature map on a sample of rows, so that pieces learned with it can be merged.",
    "learn": "Learn from files of any size in one pass and write a small knowledge file.",
    "merge": "Merge knowledge files into the knowledge of all their rows together.",
    "subtract": "Subtract knowledge files, as if their rows had never been learned.",
    "solve": "Solve knowledge into a model for any C, class weights and multi-class scheme, without data.",
    "train": "Train a machine that keeps no sums, by Pegasos or with a kernel, on rows held in memory.",
    "report": "Write an HTML report computed from knowledge alone: best C, expected accuracy, drift and more.",
    "stream": "Follow a stream row by row: predict each row, then learn it, and plot the accuracy.",
    "calibrate": "Calibrate the probabilities of a model on held-out rows; its predictions do not change.",
    "predict": "Predict the class of each row.",
    "evaluate": "Compare predictions with true labels: accuracy, precision, recall and more.",
    "inspect": "Show the contents of a knowledge, model or feature map file.",
    "tag": "Tag pictures by brush strokes in the browser, and find the tags in all other pictures.",
    "reproduce": "Reproduce the tables and figures of the papers.",
}
"""Each command with its one-line help: the first line of the docstring of ``NAME_command`` in ``commands/NAME.py``.

It is repeated here so that ``mergesvm --help`` imports none of these modules.
"""


class LazyGroup(TyperGroup):
    """A group that lists its commands by name and help, and loads a command when it is invoked or completed."""

    listed: ClassVar[Mapping[str, str]] = COMMANDS
    package: ClassVar[str] = "mergesvm.cli.commands"

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=text) for name, text in self.listed.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the arguments name, and import it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load_command(str(name), self.package), rest


def load_command(name: str, package: str = LazyGroup.package) -> Any:
    """Import the command of this name.

    >>> load_command("merge").name
    'merge'
    >>> load_command("weights", "mergesvm.cli.commands.reproduce").name
    'weights'
    """
    module = name.replace("-", "_")
    command = getattr(import_module(f"{package}.{module}"), f"{module}_command")
    if isinstance(command, typer.Typer):
        app = command
    else:
        app = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
        epilog = "\n\n".join(f"Example: `{example}`" for example in command.examples)
        app.command(name, epilog=epilog)(command)
    loaded = typer.main.get_command(app)
    loaded.name = name
    return loaded
