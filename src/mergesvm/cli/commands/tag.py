"""``mergesvm tag``: tag pictures by brush strokes in the browser, and apply what was learned to other pictures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from mergesvm.cli.console import AsJson, Console, Debug, Force, Quiet
from mergesvm.errors import ExistingFileError, MissingFolderError, ParameterError


class _DefaultGroup(TyperGroup):
    """A group whose first command is meant if none is named: ``mergesvm tag photos``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the name of the first command."""
        if args and args[0] not in {*self.commands, "--help"}:
            args = [next(iter(self.commands)), *args]
        return list(super().parse_args(ctx, args))


tag_command = typer.Typer(
    cls=_DefaultGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Tag pictures by brush strokes in the browser, and find the tags in all other pictures.",
    epilog="Example: `mergesvm tag photos`\n\nExample: `mergesvm tag apply cat.msvm other-photos -o masks`",
)


@tag_command.command("open", epilog="Example: `mergesvm tag photos --port 8100`")
def open_command(
    folder: Annotated[Path, typer.Argument(help="Folder with pictures: JPEG, PNG, TIFF or WebP.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on. Others than this machine can connect to 0.0.0.0, with a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8100,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    truth: Annotated[
        Path | None,
        typer.Option(help="Folder of masks (NAME.png, not 0 where the tag is), to show precision and recall."),
    ] = None,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Open a page on which pictures are tagged. Strokes are kept in the folder; Ctrl-C stops the server."""
    from mergesvm.app.run import serve

    console = Console(quiet)
    if truth is not None and not truth.is_dir():
        raise MissingFolderError(f"{truth} is not a folder. Give the folder that holds the masks.")

    def say(text: str) -> None:
        console.text(text)
        sys.stdout.flush()

    serve(folder, host, port, browser, truth, say)


@tag_command.command("apply", epilog="Example: `mergesvm tag apply cat.msvm other-photos -o masks`")
def apply_command(
    model: Annotated[Path, typer.Argument(help="Model of a tag, as the page exports it.")],
    folder: Annotated[Path, typer.Argument(help="Folder with pictures.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for a mask of each picture and scores.csv.")],
    threshold: Annotated[float, typer.Option(help="Score above which a pixel belongs to the tag.")] = 0.0,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads; default: one per core.")] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Find a tag in all pictures of a folder: masks of where it is, and a table of the pictures, best first."""
    import mergesvm as ms
    from mergesvm.engines.threads import Threads
    from mergesvm.tagging.library import LibraryScorer, write_mask, write_scores
    from mergesvm.tagging.pictures import list_pictures
    from mergesvm.tagging.session import default_correlogram

    console = Console(quiet, as_json)
    names = list_pictures(folder)
    if not names:
        raise ParameterError(f"There are no pictures in {folder}.")
    scorer = LibraryScorer.of(ms.load_model(model), default_correlogram())
    table = output / "scores.csv"
    if output.is_dir() and any(output.iterdir()) and not force:
        raise ExistingFileError(f"{output} is not empty. Choose another folder, or overwrite its files with --force.")
    if output.resolve().is_relative_to(folder.resolve()):
        raise ParameterError(f"The masks in {output} would be among the pictures in {folder}. Choose another folder.")
    found: list[tuple[str, float | None, float | None]] = []
    broken = 0
    for finding in console.tracked(scorer.find(folder, Threads(workers).workers), len(names), "finding"):
        if finding.heat_map is None:
            console.text(f"{finding.picture} is left out: {finding.error}")
            found.append((finding.picture, None, None))
            broken += 1
            continue
        write_mask(output, finding.picture, finding.heat_map, threshold)
        fraction = float(finding.heat_map.mask(threshold).mean())
        found.append((finding.picture, finding.heat_map.rank_score, round(fraction, 4)))
    write_scores(table, found)
    console.text(f"{len(names) - broken} masks and {table.name} are in {output}.")
    console.result(output=output, pictures=len(names), broken=broken, threshold=threshold)
