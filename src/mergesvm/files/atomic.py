"""Write files atomically: after a crash there is either the old file or the new one."""

from __future__ import annotations

import os
import platform
import re
import secrets
import shutil
import stat
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mergesvm.errors import ExistingFileError, IrregularFileError, MissingFolderError

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Windows has no such locks
    flock = None  # type: ignore[assignment]

ABANDONED_SECONDS = 24 * 3600
"""Age at which temporary files are removed if locks cannot tell whether their writer lives."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link that leads back to itself",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextmanager
def replacing(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[Path]:
    """Yield a temporary file to write to, which takes the place of the file when the ``with`` block ends without error.

    The temporary file is synchronised to disk before it is renamed, and the folder afterwards. On any error or
    interrupt it is removed; if the process is killed, by the next one that writes to the same folder. If ``overwrite``
    is False and the file exists by the end of the block, that is an error: of several writers one succeeds.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "notes.txt")) as temporary:
    ...         _ = temporary.write_text("whole")
    ...     [file.name for file in Path(folder).iterdir()]
    ['notes.txt']
    """
    target = check_target(path, overwrite=overwrite)
    _remove_abandoned(target.parent)
    with _temporary_folder(target) as folder:
        temporary = folder / target.name
        temporary.touch()
        mode = (target if target.exists() else temporary).stat().st_mode & 0o7777
        yield temporary
        temporary.chmod(mode)  # the writer may have changed it
        _synchronise(temporary)
        if overwrite:
            temporary.replace(target)
        else:
            _rename_to_new(temporary, target)
    with suppress(OSError):  # some file systems cannot fsync directories
        _synchronise(target.parent)


def write_atomically(path: str | os.PathLike[str], data: bytes, *, overwrite: bool = True) -> None:
    """Replace the content of a file, or leave it unchanged on an error.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder, "notes.txt"), b"whole")
    ...     Path(folder, "notes.txt").read_bytes()
    b'whole'
    """
    with replacing(path, overwrite=overwrite) as temporary:
        temporary.write_bytes(data)


def check_target(path: str | os.PathLike[str], *, overwrite: bool = True) -> Path:
    """Return the file that a path leads to; an error if it cannot be written, or exists and must not be overwritten.

    A target is absent or a regular file: devices, pipes and sockets are never replaced.

    >>> check_target("/dev/null")
    Traceback (most recent call last):
    ...
    mergesvm.errors.IrregularFileError: /dev/null is a device, not a regular file. Give the name of a file to write.
    """
    given, target = Path(path), Path(os.path.realpath(path))  # follow links
    if not target.parent.is_dir():
        raise MissingFolderError(f"There is no folder {given.parent} to write {given.name} to. Create it first.")
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return target
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "of another kind")
        raise IrregularFileError(f"{given} is {kind}, not a regular file. Give the name of a file to write.")
    if not overwrite:
        raise _exists(given)
    return target


def _exists(path: Path) -> ExistingFileError:
    return ExistingFileError(
        f"{path} already exists. Choose another name, or overwrite it with --force (in Python: overwrite=True)."
    )


def _rename_to_new(temporary: Path, target: Path) -> None:
    """Give a file its name, unless there is a file of that name."""
    try:
        os.link(temporary, target)  # fails if the target exists, where a rename would replace it
    except FileExistsError:
        raise _exists(target) from None
    except OSError:  # the file system has no hard links: create the target first, then replace it
        try:
            target.touch(exist_ok=False)
        except FileExistsError:
            raise _exists(target) from None
        try:
            temporary.replace(target)
        except BaseException:
            target.unlink(missing_ok=True)
            raise


_HOST = f"{zlib.crc32(platform.node().encode()):08x}"
_TEMPORARY = re.compile(r"\.mergesvm-([0-9a-f]{8})-[0-9a-f]{8}\.tmp")
"""Names of temporary folders: a digest of the name of the machine, and a random number."""


@contextmanager
def _temporary_folder(target: Path) -> Iterator[Path]:
    """Create a folder beside a file and lock it until it is removed; the system unlocks it if the process is killed.

    It is a folder because writers create and rename files of their own beside the one they are given.
    """
    while True:
        folder = target.with_name(f".mergesvm-{_HOST}-{secrets.token_hex(4)}.tmp")
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(target)) from None
        with suppress(FileNotFoundError):
            descriptor = _locked(folder, wait=True)
            if folder.exists():  # else another process has removed it before it was locked
                break
            _close(descriptor)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _close(descriptor)


def _remove_abandoned(parent: Path) -> None:
    """Remove the temporary folders of processes that were killed."""
    with suppress(OSError), os.scandir(parent) as entries:
        found = [(parent / entry.name, match[1]) for entry in entries if (match := _TEMPORARY.fullmatch(entry.name))]
        for folder, host in found:
            with suppress(OSError):  # it belongs to another user, or has just been removed
                # Locks may not be shared between machines, and some file systems have none.
                descriptor = _locked(folder, wait=False) if host == _HOST else None
                if descriptor is not None or _age_seconds(folder) > ABANDONED_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)
                _close(descriptor)


def _locked(folder: Path, *, wait: bool) -> int | None:
    """Lock a folder; returns the descriptor that holds the lock, or None without a lock."""
    if flock is None:
        return None
    descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        flock(descriptor, LOCK_EX if wait else LOCK_EX | LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)


def _age_seconds(folder: Path) -> float:
    """Seconds since a folder or one of its files was changed."""
    return time.time() - max(path.lstat().st_mtime for path in (folder, *folder.iterdir()))


def _synchronise(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
