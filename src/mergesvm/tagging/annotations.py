"""The strokes of a folder of pictures, in a SQLite file beside them: durable when a call returns."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mergesvm.errors import DataError, FileError, ForeignFileError, NewerFormatError, ParameterError
from mergesvm.tagging.strokes import Stroke

FORMAT = 1
"""The number of the format, kept in the file."""

APPLICATION_ID = 0x6D737667
"""Marks SQLite files of strokes."""

MAX_TAG_LENGTH, MAX_TAGS, MAX_STROKES = 100, 200, 100_000

SCHEMA = """
CREATE TABLE strokes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    picture TEXT NOT NULL,
    tag TEXT NOT NULL,
    author TEXT NOT NULL,
    stroke TEXT NOT NULL,
    created REAL NOT NULL
);
CREATE INDEX strokes_by_picture ON strokes (tag, picture);
"""


@dataclass(frozen=True)
class Annotation:
    """A stroke that somebody drew on a picture for a tag. ``key`` is unique, and chosen by who drew it."""

    key: str
    picture: str
    tag: str
    author: str
    stroke: Stroke
    created: float

    def as_json(self) -> dict[str, Any]:
        """Return the annotation as JSON values."""
        fields = {"key": self.key, "picture": self.picture, "tag": self.tag, "author": self.author}
        return {**fields, "created": self.created, **self.stroke.as_json()}


class Annotations:
    """The strokes in a SQLite file. All methods may be called from any thread.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with closing(Annotations(pathlib.Path(folder, "strokes.sqlite"))) as annotations:
    ...         added = annotations.add("k1", "cat.jpg", "cat", Stroke(((0.5, 0.5),)), "me")
    ...         annotations.tags()
    {'cat': 1}
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30)
        try:
            self._prepare()
        except sqlite3.OperationalError as error:
            self._connection.close()
            raise FileError(f"{path} cannot be used: {error}. Check the disk, and whether it is in use.") from error
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise ForeignFileError(f"{path} is not a file of strokes: {error}. Move it away, or restore it.") from error
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def add(self, key: str, picture: str, tag: str, stroke: Stroke, author: str) -> Annotation:
        """Keep a stroke; the same key again with the same content changes nothing."""
        tag, author = checked_tag(tag), author.strip()[:MAX_TAG_LENGTH]
        if not 1 <= len(key) <= MAX_TAG_LENGTH:
            raise ParameterError(f"The key of a stroke must have 1 to {MAX_TAG_LENGTH} characters, got {len(key)}.")
        with self._transaction() as cursor:
            found = self._of_key(cursor, key)
            if found is not None:
                if (found.picture, found.tag, found.stroke) != (picture, tag, stroke):
                    raise DataError(f"There is another stroke with the key {key!r} already. Choose a new key.")
                return found
            self._check_limits(cursor, tag)
            new = Annotation(key, picture, tag, author, stroke, time.time())
            cursor.execute(
                "INSERT INTO strokes (key, picture, tag, author, stroke, created) VALUES (?, ?, ?, ?, ?, ?)",
                (key, picture, tag, author, json.dumps(stroke.as_json()), new.created),
            )
        return new

    def remove(self, keys: Sequence[str]) -> list[Annotation]:
        """Remove strokes, and return those that were there."""
        with self._transaction() as cursor:
            found = [each for key in keys if (each := self._of_key(cursor, key)) is not None]
            cursor.executemany("DELETE FROM strokes WHERE key = ?", [(each.key,) for each in found])
        return found

    def of(self, tag: str | None = None, picture: str | None = None) -> list[Annotation]:
        """Return the strokes of a tag, a picture, or both, in the order in which they were drawn."""
        conditions = {"tag": tag, "picture": picture}
        given = {name: value for name, value in conditions.items() if value is not None}
        where = " WHERE " + " AND ".join(f"{name} = ?" for name in given) if given else ""
        with self._lock, closing(self._connection.cursor()) as cursor:
            rows = cursor.execute(f"{_COLUMNS}{where} ORDER BY id", tuple(given.values())).fetchall()
        return [_annotation(row) for row in rows]

    def tags(self) -> dict[str, int]:
        """Return all tags, sorted, with the number of pictures that have strokes of it."""
        with self._lock, closing(self._connection.cursor()) as cursor:
            query = "SELECT tag, COUNT(DISTINCT picture) FROM strokes GROUP BY tag ORDER BY tag"
            return dict(cursor.execute(query).fetchall())

    def _prepare(self) -> None:
        with self._transaction() as cursor:
            version, application = (
                cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id")
            )
            if (version, application) == (0, 0) and not cursor.execute("SELECT * FROM sqlite_master").fetchall():
                for statement in SCHEMA.split(";"):
                    cursor.execute(statement)
                cursor.execute(f"PRAGMA user_version = {FORMAT}")
                cursor.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            elif application != APPLICATION_ID:
                raise ForeignFileError(f"{self.path} is a SQLite file of another program. Move it away.")
            elif version > FORMAT:
                raise NewerFormatError(
                    f"{self.path} has format {version}, and this version of mergesvm knows {FORMAT}. Upgrade mergesvm."
                )
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON", "trusted_schema = OFF"):
            self._connection.execute(f"PRAGMA {pragma}")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        """A transaction that is on disk when the ``with`` block has ended, or undone if it ends with an error."""
        with self._lock, closing(self._connection.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    cursor.execute("ROLLBACK")
                raise

    @staticmethod
    def _of_key(cursor: sqlite3.Cursor, key: str) -> Annotation | None:
        row = cursor.execute(f"{_COLUMNS} WHERE key = ?", (key,)).fetchone()
        return None if row is None else _annotation(row)

    @staticmethod
    def _check_limits(cursor: sqlite3.Cursor, tag: str) -> None:
        count, tags, known = cursor.execute(
            "SELECT COUNT(*), COUNT(DISTINCT tag), SUM(tag = ?) FROM strokes", (tag,)
        ).fetchone()
        if count >= MAX_STROKES:
            raise DataError(f"There are {MAX_STROKES:,} strokes already, the largest number. Remove some.")
        if tags >= MAX_TAGS and not known:
            raise DataError(f"There are {MAX_TAGS} tags already, the largest number. Remove one.")


_COLUMNS = "SELECT key, picture, tag, author, stroke, created FROM strokes"


def checked_tag(tag: str) -> str:
    """Return a tag without spaces around it; an error if it is empty, too long, or not printable.

    >>> checked_tag(" cat ")
    'cat'
    """
    tag = tag.strip()
    if not 1 <= len(tag) <= MAX_TAG_LENGTH or not tag.isprintable():
        raise ParameterError(f"A tag must have 1 to {MAX_TAG_LENGTH} printable characters, got {tag[:120]!r}.")
    return tag


def _annotation(row: tuple[Any, ...]) -> Annotation:
    key, picture, tag, author, stroke, created = row
    return Annotation(key, picture, tag, author, Stroke.read(json.loads(stroke)), created)
