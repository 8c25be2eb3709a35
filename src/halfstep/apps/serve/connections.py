"""Who may stay connected: how long a request may take to arrive, how many clients there are, how they are sent away.

Knows uvicorn's protocol, nothing of models. `guard.py` has what a request must pass once its headers are here.
"""

from __future__ import annotations

import asyncio
import json
import time
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from halfstep.apps.serve.problems import Refusal
from halfstep.apps.serve.settings import Settings

SPARE = 64
"""Files that stay free for the model, the log and what the process opens besides."""
LINGER = 0.05
"""Seconds in which a request that was already on its way still arrives, once the server has begun to stop."""
MAX_HEADERS = 65_536
"""Bytes of the headers of one request."""
MAX_PIPELINED = 16
"""Requests of one connection that wait for the answers before them."""
SLOW = Refusal(408, "the request did not arrive in time")
CROWDED = Refusal(503, "too many connections; try again", retry_after=1)
TOO_LARGE = Refusal(431, f"the headers are larger than {MAX_HEADERS:,} bytes")
TOO_MANY = Refusal(503, f"more than {MAX_PIPELINED} requests wait for the answers before them", retry_after=1)
STOPPING = Refusal(503, "the server is stopping; try again", retry_after=1)


class Connection(HttpToolsProtocol):
    """One client. The application's lifespan gives `settings` to it.

    A request has `header_timeout` seconds from its first byte (or from the connection) to the end of its headers, and
    `MAX_HEADERS` bytes. A client that reads nothing of an answer for `timeout` seconds is cut off, one that asks on and
    on without waiting for answers too. Where there are more than
    `max_connections`, the one that has waited longest without a whole request makes room; if all are being answered,
    the new one is refused.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.settings: Settings = self.app_state["settings"]
        self.since = time.monotonic()
        self._answered = self._leaving = self._begun = False
        self._asked: list[Any] = []  # cycles of uvicorn, oldest first; `self.cycle` is the newest
        self._head: int | None = None  # bytes of the headers that are arriving, None between them
        self._late: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        if len(self.connections) > most_connections(self.settings):
            others = [other for other in self.connections if isinstance(other, Connection) and other is not self]
            idle = [other for other in others if other.waits]
            if not idle:
                return self.send_away(CROWDED)
            min(idle, key=Connection.patience).send_away(SLOW)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_are_here()
        self._is_read()
        for cycle in self._unanswered():
            cycle.disconnected = True  # uvicorn tells the newest only, and the others would write to nobody
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._begun = True
        if self._late is None and not self._under_way:
            self._expect_headers()  # of the next request on a connection that was kept
        super().data_received(data)
        if self._head is not None:
            self._head += len(data)
            if self._head > MAX_HEADERS:
                self.send_away(TOO_LARGE)

    def on_message_begin(self) -> None:
        self._head = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._headers_are_here()
        self._head = None
        if self.transport.is_closing():
            return  # what was in the same packet is no longer asked
        super().on_headers_complete()
        self._asked = [*self._unanswered(), self.cycle]
        if self._leaving:
            self.cycle.keep_alive = False
        if len(self._asked) > MAX_PIPELINED:
            self.send_away(TOO_MANY)

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def on_response_complete(self) -> None:
        self.since, self._answered, self._begun = time.monotonic(), True, False
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.settings.timeout, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_read()

    def shutdown(self) -> None:
        """The server stops: what is under way is finished, what is on its way is taken, the rest hears goodbye."""
        self._leaving = True
        if self._under_way:
            self.cycle.keep_alive = False
        else:
            self.loop.call_later(LINGER, self._leave)

    @property
    def waits(self) -> bool:
        """Whether no whole request is here: idle, or still sending its headers or its body."""
        return not self._under_way or bool(self.cycle.more_body)

    def patience(self) -> tuple[bool, float]:
        """Who goes first: those that never sent a whole request, and of them the oldest."""
        return self._answered, self.since

    def send_away(self, why: Refusal) -> None:
        """Say why and close; what cannot be written at once is dropped."""
        if self.transport.is_closing():
            return
        if not any(cycle.response_started for cycle in self._unanswered()):
            self.transport.write(_last_words(why))
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    @property
    def _under_way(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _unanswered(self) -> list[Any]:
        return [cycle for cycle in self._asked if not cycle.response_complete]

    def _expect_headers(self) -> None:
        self._late = self.loop.call_later(self.settings.header_timeout, self.send_away, SLOW)

    def _headers_are_here(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _is_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _leave(self) -> None:
        if self._under_way or self.transport.is_closing():
            return
        if self._begun:
            self.send_away(STOPPING)
        else:
            self.transport.close()


def most_connections(settings: Settings) -> int:
    """As many as the settings allow, and as the system gives files to this process."""
    try:
        import resource
    except ImportError:  # a system without such a limit
        return settings.max_connections
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return settings.max_connections if files < 0 else max(1, min(settings.max_connections, files - SPARE))


def _last_words(why: Refusal) -> bytes:
    """A whole answer that ends the connection."""
    body = json.dumps(why.body()).encode()
    fields: dict[str, Any] = {"content-type": "application/json", "content-length": len(body), "connection": "close"}
    if why.retry_after:
        fields["retry-after"] = why.retry_after
    lines = [f"HTTP/1.1 {why.status} {HTTPStatus(why.status).phrase}", *(f"{k}: {v}" for k, v in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body
