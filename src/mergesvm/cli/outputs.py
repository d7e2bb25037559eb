"""Checks of the files that a command writes, before its work starts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from mergesvm.errors import ParameterError
from mergesvm.files.atomic import check_target

if TYPE_CHECKING:
    import mergesvm as ms


def check_output(path: Path | None, force: bool, *suffixes: str) -> None:
    """Raise an error if a file could not be written."""
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise ParameterError(f"{path} must end in {' or '.join(suffixes)}.")
    check_target(path, overwrite=force)
    if not os.access(path.resolve().parent, os.W_OK):
        raise PermissionError(f"Files cannot be written to the folder {path.parent}: permission denied.")


def check_distinct(outputs: Iterable[Path | None], inputs: Iterable[str | Path | None]) -> None:
    """Raise an error if two outputs are the same file, or an output is one of the inputs, also by a link."""
    written: dict[Path, Path] = {}
    given = [Path(path) for path in inputs if path is not None and Path(path).is_file()]
    for output in outputs:
        if output is None:
            continue
        first = written.setdefault(output.resolve(), output)
        if first is not output:
            raise ParameterError(f"{first} and {output} are the same output file. Choose two names.")
        for path in given if output.exists() else ():
            if output.samefile(path):
                same = "" if path == output else f" ({path})"
                raise ParameterError(
                    f"{output} is an input of this command{same} and is not overwritten. Choose another output file."
                )


def files_of(source: ms.Scan) -> list[str]:
    """The files on this machine that a scan reads."""
    return [reader.file.path for reader in source.readers if reader.file.filesystem is None]
