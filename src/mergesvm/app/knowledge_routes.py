"""Routes for programs: knowledge by name that learns, forgets, merges files and predicts."""

from __future__ import annotations

import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi import Path as PathParameter
from starlette.concurrency import run_in_threadpool

from mergesvm.app.requests import LabelledRows, Rows
from mergesvm.errors import DataError, MissingFileError
from mergesvm.knowledge.combine import merge, subtract
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.learn import learn
from mergesvm.methods.proximal.solve import solve

Name = Annotated[str, PathParameter(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$")]

MAX_NAMES, MAX_KNOWLEDGE_BYTES = 100, 2**27
"""The largest number of names, and size of the matrices of each."""


class KnowledgeFolder:
    """Knowledge files of a folder by name; each change is on disk when the call returns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(path.stem for path in self.folder.glob("*.knowledge"))

    def read(self, name: str) -> Knowledge:
        """Return the knowledge of a name."""
        path = self._path(name)
        if not path.exists():
            raise MissingFileError(f"There is no knowledge {name!r}. Learn some first.")
        return Knowledge.load(path)

    def add(self, name: str, piece: Knowledge) -> Knowledge:
        """Add a piece to the knowledge of a name."""
        with self._lock:
            if not self._path(name).exists() and len(self.names()) >= MAX_NAMES:
                raise DataError(f"There are {MAX_NAMES:,} names already, the largest number. Remove one.")
            before = [self.read(name)] if self._path(name).exists() else []
            labels = {label for part in (*before, piece) for label in part.labels}
            _check_size(len(labels), piece.width)
            total = merge([*before, piece])
            return self._write(name, total)

    def subtract(self, name: str, piece: Knowledge) -> Knowledge:
        """Subtract rows that were learned again from the knowledge of a name."""
        with self._lock:
            return self._write(name, subtract(self.read(name), piece, force=True))

    def remove(self, name: str) -> None:
        """Remove the knowledge of a name."""
        with self._lock:
            self.read(name)
            self._path(name).unlink()

    def _write(self, name: str, knowledge: Knowledge) -> Knowledge:
        self.folder.mkdir(parents=True, exist_ok=True)
        knowledge.save(self._path(name))
        return knowledge

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.knowledge"


def knowledge_routes(folder: KnowledgeFolder) -> APIRouter:
    """Return the routes of a folder of knowledge."""
    router = APIRouter(prefix="/api/knowledge", tags=["knowledge"])

    @router.get("")
    def names() -> list[str]:
        """The names of all knowledge."""
        return folder.names()

    @router.get("/{name}")
    def inspect(name: Name) -> dict[str, Any]:
        """What was learned under a name: classes, counts, and width."""
        return _facts(folder.read(name))

    @router.post("/{name}/learn")
    def learn_rows(name: Name, body: LabelledRows) -> dict[str, Any]:
        """Learn rows."""
        return _facts(folder.add(name, _learned(body)))

    @router.post("/{name}/forget")
    def forget_rows(name: Name, body: LabelledRows) -> dict[str, Any]:
        """Forget rows that were learned before."""
        return _facts(folder.subtract(name, _learned(body)))

    @router.post("/{name}/predict")
    def predict(name: Name, body: Rows, C: float = 1.0) -> dict[str, Any]:
        """Solve the knowledge and predict the labels of rows."""
        model = solve(folder.read(name), C)
        return {"labels": model.predict(_matrix(body)).tolist()}

    @router.get("/{name}/file", response_class=Response)
    def download(name: Name) -> Response:
        """The knowledge as a file."""
        with TemporaryDirectory() as temporary:
            path = Path(temporary, "piece.knowledge")
            folder.read(name).save(path)
            return Response(path.read_bytes(), media_type="application/octet-stream")

    @router.post(
        "/{name}/file", openapi_extra={"requestBody": {"content": {"application/octet-stream": {}}, "required": True}}
    )
    async def merge_file(name: Name, request: Request) -> dict[str, Any]:
        """Merge a file of knowledge into that of a name."""
        return await run_in_threadpool(merged, name, await request.body())

    def merged(name: str, data: bytes) -> dict[str, Any]:
        with TemporaryDirectory() as temporary:
            path = Path(temporary, "piece.knowledge")
            path.write_bytes(data)
            return _facts(folder.add(name, Knowledge.load(path)))

    @router.delete("/{name}", status_code=204, response_class=Response)
    def remove(name: Name) -> Response:
        """Remove the knowledge of a name."""
        folder.remove(name)
        return Response(status_code=204)

    return router


def _learned(body: LabelledRows) -> Knowledge:
    if len({type(label) for label in body.labels}) > 1:
        raise DataError("The labels are partly text and partly numbers. Use one of the two.")
    _check_size(len(set(body.labels)), len(body.rows[0]))
    return learn(_matrix(body), body.labels)


def _check_size(classes: int, width: int) -> None:
    """Raise an error if the matrices of knowledge would be too large for a server."""
    needed = 8 * classes * width**2
    if needed > MAX_KNOWLEDGE_BYTES:
        raise DataError(
            f"Knowledge of {classes:,} classes x {width:,} columns takes {needed / 2**20:,.0f} MB, more than "
            f"{MAX_KNOWLEDGE_BYTES // 2**20} MB. Use fewer classes or columns, or learn without the server."
        )


def _matrix(body: Rows) -> list[list[float]]:
    widths = {len(row) for row in body.rows}
    if len(widths) > 1:
        raise DataError(f"The rows have different numbers of values: {min(widths)} and {max(widths)}.")
    return [list(row) for row in body.rows]


def _facts(knowledge: Knowledge) -> dict[str, Any]:
    if not knowledge.labels:
        return {"classes": [], "rows": [], "width": knowledge.width}
    labels = [label if isinstance(label, (int, str)) else str(label) for label in knowledge.labels]
    return {"classes": labels, "rows": knowledge.rows.tolist(), "width": knowledge.width}
