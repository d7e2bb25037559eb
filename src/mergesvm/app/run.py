"""Start the server of the tagging application and open its page."""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from mergesvm.app.security import Access, is_loopback
from mergesvm.errors import EngineError, ParameterError
from mergesvm.tagging.session import TaggingSession

SHUTDOWN_SECONDS = 2
"""Open connections are closed after this time when the server stops."""


def serve(folder: Path, host: str, port: int, browser: bool, truth: Path | None, say: Callable[[str], None]) -> None:
    """Serve the pictures of a folder until the process is interrupted.

    Beyond this machine, only those who know a token are served; it is part of the printed address.
    """
    try:
        import uvicorn

        from mergesvm.app.events import Events
        from mergesvm.app.server import make_app
    except ImportError as error:
        raise EngineError("The tagging page needs some packages. Install them: pip install 'mergesvm[app]'") from error
    with closing(TaggingSession(folder, truth=truth)) as session, closing(_listen(host, port)) as listener:
        token = None if is_loopback(host) else secrets.token_urlsafe(24)
        events = Events()
        app = make_app(session, Access.of(host, token), events)
        settings = uvicorn.Config(
            app, log_level="warning", timeout_graceful_shutdown=SHUTDOWN_SECONDS, server_header=False, lifespan="off"
        )
        name = f"[{host}]" if ":" in host else socket.gethostname() if host in ("0.0.0.0", "::") else host
        address = f"http://{name}:{listener.getsockname()[1]}/" + (f"?token={token}" if token else "")
        say(f"{len(session.names):,} pictures in {folder}: open {address}")
        say("Ctrl-C stops the server. Strokes are kept in the folder.")
        if browser:
            threading.Timer(0.5, webbrowser.open, [address]).start()
        stop = threading.Event()
        threading.Thread(target=session.prepare, args=[stop], daemon=True).start()
        try:
            server = uvicorn.Server(settings)
            events.until = lambda: server.should_exit
            server.run([listener])
        finally:
            stop.set()


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
    except OSError as error:
        raise ParameterError(f"{host!r} is not an address of this machine: {error}. Use 127.0.0.1.") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise ParameterError(
            f"Port {port} of {host} cannot be used: {error}. Choose another one with --port."
        ) from error
    return listener
