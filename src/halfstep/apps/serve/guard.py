"""What every request passes before and after it is answered: limits, key, host, counters, a log line, safe headers.

One ASGI layer around the whole application. Knows HTTP, nothing of models.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from halfstep.apps.serve.metrics import Metrics
from halfstep.apps.serve.observe import log
from halfstep.apps.serve.problems import Refusal
from halfstep.apps.serve.settings import Settings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/health", "/ready", "/", "/docs")  # pages and probes carry no data, so they need no key
REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
SAFE = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
]


class Guard:
    """Wraps an ASGI application. Answers by itself what must not reach it."""

    def __init__(self, app: App, settings: Settings, metrics: Metrics) -> None:
        self.app = app
        self.settings = settings
        self.metrics = metrics
        self._key = settings.api_key.encode() if settings.api_key else None
        self._hosts = {host.encode() for host in settings.allowed_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started = time.perf_counter()
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8).encode()
        scope["request_id"] = request_id.decode()
        status = 500
        begun = False

        async def send_safely(message: MutableMapping[str, Any]) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                message["headers"] = [*message["headers"], *SAFE, (b"x-request-id", request_id)]
            await send(message)

        self.metrics.in_flight(1)
        try:
            self._admit(scope, headers)
            body = await self._read(headers, receive) if scope["method"] in ("POST", "PUT", "PATCH") else b""
            await self.app(scope, _replay(body, receive), send_safely)
        except Refusal as problem:
            await _refuse(problem, scope["request_id"], send_safely)
        except _Gone:
            status = 499  # the client left; nobody to answer
        except Exception:  # a bug: the trace goes to the log, never to the client
            log.exception("internal error", extra={"facts": {"request": scope["request_id"], "path": scope["path"]}})
            if not begun:
                hidden = Refusal(500, "internal error; the log of the server has the details under this request id")
                await _refuse(hidden, scope["request_id"], send_safely)
        finally:
            seconds = time.perf_counter() - started
            self.metrics.in_flight(-1)
            self.metrics.request(scope["path"], status, seconds)
            if self.settings.access_log:
                facts = {
                    "request": scope["request_id"],
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "ms": round(1000 * seconds, 3),
                    "client": (scope.get("client") or ("",))[0],
                }
                log.info("request", extra={"facts": facts})

    def _admit(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        if self._hosts and _without_port(headers.get(b"host", b"")) not in self._hosts:
            raise Refusal(403, "this server does not answer for that Host; add it to allowed_hosts")
        path = scope["path"]
        if self._key is None or path in OPEN or path.startswith("/static/") or scope["method"] == "OPTIONS":
            return
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        given = token.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"")
        if not hmac.compare_digest(given, self._key):
            raise Refusal(401, "a key is needed: send it as `Authorization: Bearer <key>` or `X-API-Key: <key>`")

    async def _read(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """The body, within the limits of size and time."""
        limit = self.settings.max_body
        too_large = Refusal(
            413, f"the body is larger than this server's limit of {limit:,} bytes; send smaller batches"
        )
        announced = headers.get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > limit:
            raise too_large
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.settings.timeout):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Gone
                    part = message.get("body", b"")
                    size += len(part)
                    if size > limit:
                        raise too_large
                    parts.append(part)
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            raise Refusal(408, f"the body did not arrive within {self.settings.timeout:g} s") from None


class _Gone(Exception):
    """The client closed the connection."""


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once, and then whatever the connection says."""
    waiting = True

    async def again() -> MutableMapping[str, Any]:
        nonlocal waiting
        if waiting:
            waiting = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again


async def _refuse(problem: Refusal, request_id: str, send: Send) -> None:
    close = [(b"connection", b"close")] if problem.status in (408, 413) else []  # the rest of the body will not be read
    await send_json(send, problem.status, json.dumps(problem.body(request_id)).encode(), close)


async def send_json(send: Send, status: int, body: bytes, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """A JSON answer without a framework."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _without_port(host: bytes) -> bytes:
    name, colon, port = host.rpartition(b":")
    return name.strip(b"[]") if colon and port.isdigit() else host.strip(b"[]")
