"""Replace files atomically: after a crash there is either the old file or the new one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mergesvm.errors import MissingFolderError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary sibling to write to, which replaces the file when the ``with`` block ends without an error.

    The sibling is synchronised to disk before it is renamed, and the folder afterwards. On any error or interrupt the
    sibling is removed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "notes.txt")) as sibling:
    ...         _ = sibling.write_text("whole")
    ...     [file.name for file in Path(folder).iterdir()]
    ['notes.txt']
    """
    target = Path(os.path.realpath(path))  # follow links
    if not target.parent.is_dir():
        raise MissingFolderError(f"There is no folder {target.parent} to write {target.name} to. Create it first.")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder. Give the name of a file.")
    sibling = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        sibling.touch(exist_ok=False)
        mode = (target if target.exists() else sibling).stat().st_mode & 0o7777
        yield sibling
        sibling.chmod(mode)  # the writer may have changed it
        _synchronise(sibling)
        sibling.replace(target)
    finally:
        sibling.unlink(missing_ok=True)
    with suppress(OSError):  # some file systems cannot fsync directories
        _synchronise(target.parent)


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace the content of a file, or leave it unchanged on an error.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder, "notes.txt"), b"whole")
    ...     Path(folder, "notes.txt").read_bytes()
    b'whole'
    """
    with replacing(path) as sibling:
        sibling.write_bytes(data)


def _synchronise(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
