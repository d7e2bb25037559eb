"""Protection of a server on a person's machine: hosts, origins, a token, the size of requests, and headers."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 64 * 2**20
"""The largest body of a request."""

COOKIE = "mergesvm-token"

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

HEADERS = {
    b"content-security-policy": (
        b"default-src 'self'; img-src 'self' blob: data:; style-src 'self'; script-src 'self'; object-src 'none'; "
        b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
}


class TooLargeError(Exception):
    """The body of a request exceeds the limit."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that is bound to a host.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Access:
    """Who may talk to the server.

    ``hosts`` are the names under which it is reached, which a foreign page cannot forge (DNS rebinding); ``None``
    accepts any, which needs a token.
    """

    hosts: frozenset[str] | None
    token: str | None = None

    @classmethod
    def of(cls, host: str, token: str | None) -> Access:
        """Return the access to a server that is bound to a host."""
        loopback = frozenset({"localhost", "127.0.0.1", "[::1]", host})
        return cls(loopback if is_loopback(host) and token is None else None, token)

    def allows_host(self, header: str) -> bool:
        """Return whether the Host header names this server."""
        return self.hosts is None or (urlsplit(f"//{header}").hostname or "") in {h.strip("[]") for h in self.hosts}

    def allows_token(self, given: Iterable[str]) -> bool:
        """Return whether one of the given tokens is the right one."""
        token = self.token
        return token is None or any(hmac.compare_digest(each.encode(), token.encode()) for each in given)


class Guard:
    """Middleware that refuses requests from elsewhere, and those that are too large."""

    def __init__(self, app: ASGIApp, access: Access, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self.app, self.access, self.max_body_bytes = app, access, max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on if it may be answered."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, _with_headers(send))
            return
        received, answered = 0, False

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_body_bytes:
                raise TooLargeError
            return message

        async def guarded(message: Message) -> None:
            nonlocal answered
            if received <= self.max_body_bytes:
                await _with_headers(send)(message)
            elif not answered:  # whatever the application makes of the error
                answered = True
                await _error(413, self._too_large())(scope, receive, _with_headers(send))

        try:
            await self.app(scope, limited, guarded)
        except TooLargeError:
            await guarded({})

    def _too_large(self) -> str:
        return f"The request is larger than {self.max_body_bytes // 2**20} MB. Send less at a time."

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> Any:
        """The response to a request that must not be answered, or None."""
        host = headers.get("host", "")
        try:
            allowed = self.access.allows_host(host)
        except ValueError:
            allowed = False
        if not allowed:
            return _error(421, f"This server is not {host[:100]!r}. Open it under the address that it printed.")
        origin = headers.get("origin")
        foreign = origin is not None and _host_of(origin) != host
        foreign = foreign or headers.get("sec-fetch-site") == "cross-site"
        if foreign and (scope["method"] not in SAFE_METHODS or scope["path"].startswith("/api/")):
            return _error(403, "Requests from other sites are refused.")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self.max_body_bytes:
            return _error(413, self._too_large())
        query = parse_qs(scope["query_string"].decode("latin-1"))
        tokens = [*query.get("token", []), *_cookie(headers), headers.get("authorization", "").removeprefix("Bearer ")]
        if not self.access.allows_token(tokens):
            return _error(
                401, "A token is needed: open the address that the server printed, or send it as a bearer token."
            )
        if self.access.token is not None and "token" in query and scope["path"] == "/":
            # Keep the token in a cookie, and out of the address that people copy.
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(COOKIE, self.access.token, httponly=True, samesite="strict")
            return answer
        return None


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _cookie(headers: dict[str, str]) -> list[str]:
    try:
        cookie = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return []
    return [cookie[COOKIE].value] if COOKIE in cookie else []


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"detail": message}, status_code=status)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            names = {name for name, _ in message["headers"]}
            message["headers"] = [*message["headers"], *((n, v) for n, v in HEADERS.items() if n not in names)]
        await send(message)

    return sending
