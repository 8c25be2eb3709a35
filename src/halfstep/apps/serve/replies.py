"""From a function to an HTTP answer: where it runs, how long it may take, what errors become. Knows no endpoint."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from halfstep.apps.serve.answers import ProblemAnswer
from halfstep.apps.serve.problems import Refusal
from halfstep.apps.serve.store import Served
from halfstep.errors import RowError, UnknownIdError, close_matches

# Multiply-adds of about two milliseconds. Below, an answer is worked out where it is asked for: a thread would cost
# more than it frees. Above, it moves to a thread, and other requests go on.
INLINE = 8_000_000
ALWAYS_ASIDE = 2**62  # a cost that is never inline
QUEUE = 64  # answers that may wait for a thread before the server says it is busy

_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"), ensure_ascii=False)

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": ProblemAnswer, "description": text}
    for status, text in (
        (400, "The request is not HTTP, or its body is no JSON."),
        (401, "The key is missing or wrong."),
        (403, "The server does not answer for this Host."),
        (404, "An unknown id, with near matches; or an endpoint that this kind of model does not have."),
        (408, "The request did not arrive in time."),
        (413, "The body is too large."),
        (431, "The headers are too large."),
        (422, "A value that cannot be used; `field` names it."),
        (503, "Too busy, or not done in time."),
    )
}


def current(request: Request) -> Served:
    """The model in service; a request asks once and keeps what it got."""
    served: Served = request.app.state.store.current
    return served


def language_of(request: Request) -> str | None:
    """The language that names are wanted in: the first one asked for, where the server has names in it."""
    languages = current(request).languages
    wanted = request.headers.get("accept-language", "").split(",")[0].split(";")[0].strip().lower()
    return next((name for name in languages if name in (wanted, wanted.partition("-")[0])), None)


def translated(document: Any, told: Mapping[Any, str]) -> Any:
    """An answer with every label that belongs to an id in `told` replaced."""
    if isinstance(document, list):
        return [translated(each, told) for each in document]
    if not isinstance(document, dict):
        return document
    found = {name: translated(value, told) for name, value in document.items()}
    id = document.get("id")
    return found | {"label": told[id]} if "label" in found and isinstance(id, str) and id in told else found


async def answer(request: Request, work: Callable[[], Any], cost: int = 0, *, timeout: float | None = None) -> Response:
    """The JSON answer that `work` gives. `cost` in multiply-adds decides where it runs."""
    language, ranking = language_of(request), current(request).ranking
    if language is not None and ranking is not None:
        asked, facets = work, ranking.facets
        work, cost = lambda: translated(asked(), facets.tongue(language)), ALWAYS_ASIDE
    if cost <= INLINE:
        return reply(told(work))
    state = request.app.state
    if state.waiting >= QUEUE:
        raise Refusal(503, f"{QUEUE} answers are already waiting; try again", retry_after=1)
    seconds = timeout or state.settings.timeout
    state.waiting += 1
    try:
        async with asyncio.timeout(seconds):
            return reply(await to_thread.run_sync(told, work, abandon_on_cancel=True, limiter=state.threads))
    except TimeoutError:
        raise Refusal(503, f"not done within {seconds:g} s; ask for less at once", retry_after=1) from None
    finally:
        state.waiting -= 1


def reply(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(encoded(document), status, headers, media_type="application/json")


def encoded(document: Any) -> bytes:
    """JSON in UTF-8. JSON has no numbers that are not finite; where an answer has one, the request was too large."""
    try:
        return _ENCODER.encode(document).encode()
    except ValueError:
        raise Refusal(422, "the answer is not a finite number; give smaller weights or ratings") from None


def told(work: Callable[[], Any]) -> Any:
    """`work()`, with what a model says about bad input turned into answers."""
    try:
        return work()
    except UnknownIdError as error:
        raise Refusal(404, str(error), suggestions=error.suggestions) from error
    except (ValueError, TypeError, RowError) as error:
        raise Refusal(422, str(error)) from error


def add_handlers(app: FastAPI) -> None:
    """Every error as the same JSON document."""
    app.state.waiting = 0
    app.state.threads = CapacityLimiter(4)

    @app.exception_handler(Refusal)
    async def problem(request: Request, error: Refusal) -> Response:
        headers = {"Retry-After": str(error.retry_after)} if error.retry_after else None
        return reply(error.body(request.scope.get("request_id", "")), error.status, headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        messages: dict[str, list[str]] = {}
        for part in error.errors()[:100]:  # an id that is no id has an error for each kind it might have been
            messages.setdefault(_field(part["loc"]), []).append(part["msg"].removeprefix("Input should be "))
        found = [{"field": field, "message": " or ".join(dict.fromkeys(said))} for field, said in messages.items()]
        first = found[0]
        document = Refusal(422, f"{first['field']}: {first['message']}", field=first["field"])
        return reply(document.body(request.scope.get("request_id", "")) | {"errors": found}, 422)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        near = close_matches(request.url.path, app.openapi()["paths"]) if error.status_code == 404 else None
        text = f"there is no {request.url.path} here; see /docs" if error.status_code == 404 else str(error.detail)
        problem = Refusal(error.status_code, text, suggestions=near or None)
        return reply(problem.body(request.scope.get("request_id", "")), error.status_code, dict(error.headers or {}))


def _field(location: tuple[Any, ...]) -> str:
    """("body", "items", 0) becomes items[0]. Names of pydantic's union branches are left out."""
    parts = [part for part in location[1:] if not isinstance(part, str) or part.isidentifier()] or [location[0]]
    skip = {"str", "int", "float"}
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part not in skip:
            text += f".{part}" if text else str(part)
    return text
