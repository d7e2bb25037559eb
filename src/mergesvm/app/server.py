"""The web server of the tagging application."""

from __future__ import annotations

from importlib.resources import files

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from mergesvm.app.events import Events
from mergesvm.app.knowledge_routes import KnowledgeFolder, knowledge_routes
from mergesvm.app.security import Access, Guard
from mergesvm.app.tagging_routes import tagging_routes
from mergesvm.errors import FileError, MergeSVMError, MissingFileError
from mergesvm.files.container import library_version
from mergesvm.tagging.session import STATE_FOLDER, TaggingSession

MAX_ERRORS, MAX_MESSAGE_LENGTH = 10, 2000
"""The number of errors that the answer to an invalid request names, and its length."""


def make_app(session: TaggingSession, access: Access, events: Events) -> ASGIApp:
    """Return the application that serves a session to those who have access."""
    app = FastAPI(
        title="mergesvm",
        version=library_version(),
        summary="Tag pictures by brush strokes; learn, forget, merge and predict.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )

    @app.exception_handler(MergeSVMError)
    async def refused(_: Request, error: Exception) -> JSONResponse:
        missing = isinstance(error, MissingFileError)
        return _refusal(str(error), 404 if missing else 409 if isinstance(error, FileError) else 422)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        found = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:MAX_ERRORS]]
        return _refusal("; ".join(found), 422)

    app.include_router(tagging_routes(session, events))
    app.include_router(knowledge_routes(KnowledgeFolder(session.folder / STATE_FOLDER / "knowledge")))
    app.mount("/", StaticFiles(directory=str(files("mergesvm.app") / "static"), html=True))
    return Guard(app, access)


def _refusal(message: str, status: int) -> JSONResponse:
    """A refusal that can be sent whatever text it quotes."""
    return JSONResponse({"detail": message.encode(errors="replace").decode()[:MAX_MESSAGE_LENGTH]}, status)
