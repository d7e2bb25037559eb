"""What a report is about: knowledge, its pieces, and which rows can be held out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mergesvm.cli.open_files import expand, keep_folds, loaded, named
from mergesvm.errors import KnowledgeError, MissingFileError, ParameterError
from mergesvm.knowledge.folds import Folds, check_same_assignment
from mergesvm.knowledge.knowledge import Knowledge, counted
from mergesvm.knowledge.merging import merge

SUFFIX = ".knowledge"
"""Of a folder, the files that end so are meant."""

MOST_FOLDS = 20
"""Of more pieces than this, not each is held out by itself."""

GROUPS = 10
"""Into so many groups are they put then."""


@dataclass(frozen=True)
class Subject:
    """Knowledge to be reported on.

    Attributes
    ----------
    total : Knowledge
        Of all rows.
    folds : Folds or None
        What can be held out.
    held_out : str
        What that is; or why there is none.
    pieces : dict of name to Knowledge
        By the names of their files, one a file.
    remarks : tuple of str
        What is to be said of the files.
    """

    total: Knowledge
    folds: Folds | None
    held_out: str
    pieces: dict[str, Knowledge]
    remarks: tuple[str, ...] = ()


def open_subject(names: list[str]) -> Subject:
    """The subject that files, folders and globs hold; each file is a piece."""
    paths = _files(names)
    shown = _short(paths)
    if keep_folds(paths):
        parts = [Folds.load(path) for path in paths]
        for path, part in zip(paths[1:], parts[1:], strict=True):
            with named(path, paths[0]):
                check_same_assignment(parts[0], part, "add", "to")
                parts[0].signature.joined(part.signature)
        folds = merge(parts) if len(parts) > 1 else parts[0]
        total = _filled(folds.total, paths)
        pieces = {name: part.total for name, part in zip(shown, parts, strict=True)}
        return Subject(total, folds, counted(len(folds), "fold"), pieces, _doubles(pieces))
    pieces = dict(zip(shown, loaded(paths), strict=True))
    total = _filled(merge(pieces.values()), paths)
    return Subject(total, *_held(list(pieces.values())), pieces, _doubles(pieces))


def _files(names: list[str]) -> list[Path]:
    """All files: those of a folder are its files of knowledge."""
    wanted: list[str] = []
    for name in names:
        if Path(name).is_dir():
            inside = sorted(str(path) for path in Path(name).iterdir() if path.suffix == SUFFIX and path.is_file())
            if not inside:
                raise MissingFileError(f"There is no file *{SUFFIX} in the folder {name}. Name the files, or a glob.")
            wanted += inside
        else:
            wanted.append(name)
    paths = expand(wanted)
    folders = [path for path in paths if path.is_dir()]
    if folders:
        raise ParameterError(f"{folders[0]} is a folder among other things that a glob found. Name it by itself.")
    return paths


def _short(paths: Sequence[Path]) -> list[str]:
    """Files by their names without the ending; or in full, where two are called alike."""
    stems = [path.name.removesuffix(SUFFIX) for path in paths]
    often = Counter(stems)
    return [stem if often[stem] == 1 else str(path) for stem, path in zip(stems, paths, strict=True)]


def _filled(total: Knowledge, paths: Sequence[Path]) -> Knowledge:
    if not total.labels:
        where = str(paths[0]) if len(paths) == 1 else f"all of {len(paths)} files"
        raise KnowledgeError(f"There is nothing to report: the knowledge of {where} is of no rows. Learn some first.")
    return total


def _held(pieces: list[Knowledge]) -> tuple[Folds | None, str]:
    """Folds of which each is a piece, or a group of pieces; and what they are, or why there are none."""
    filled = [piece for piece in pieces if piece.labels]
    if not all(piece.per_class for piece in pieces):
        return None, "Nothing can be held out of pooled knowledge, which has no sums of each class: learn per class."
    if len(filled) < 2:
        return None, "Nothing can be held out of one piece without folds: learn with --folds 5, or name several pieces."
    if len(filled) <= MOST_FOLDS:
        return Folds(filled), f"{len(filled)} pieces, each in turn"
    groups = [merge(filled[first::GROUPS]) for first in range(GROUPS)]
    return Folds(groups), f"{len(filled)} pieces, in {GROUPS} groups"


def _doubles(pieces: dict[str, Knowledge]) -> tuple[str, ...]:
    """A remark, where two pieces hold the same rows."""
    seen: dict[object, str] = {}
    for name, piece in pieces.items():
        for origin in piece.provenance:
            if not origin.taken_back and origin in seen and seen[origin] != name:
                return (f"{seen[origin]} and {name} were both learned from {origin.source}: its rows count twice.",)
            seen.setdefault(origin, name)
    return ()
