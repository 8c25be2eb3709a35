"""Endpoints about the server itself: pages, probes, metrics, reload. Knows no answers of models."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, PlainTextResponse, Response

from halfstep._version import __version__
from halfstep.apps.serve import answers as a
from halfstep.apps.serve.problems import Refusal
from halfstep.apps.serve.replies import PROBLEMS, current, reply

router = APIRouter(tags=["service"], responses=PROBLEMS)
STATIC = Path(__file__).parent / "static"


@router.get("/", include_in_schema=False)
async def explorer() -> Response:
    return FileResponse(STATIC / "index.html")


@router.get("/docs", include_in_schema=False)
async def docs() -> Response:
    return FileResponse(STATIC / "docs.html")


@router.get("/health", response_model=a.State)
async def health() -> Response:
    """The process is alive."""
    return reply({"status": "ok"})


@router.get("/ready", response_model=a.State)
async def ready() -> Response:
    """A model is loaded and its answers are prepared. The server takes no request before that."""
    return reply({"status": "ready"})


@router.get("/model", response_model=a.ModelFacts)
async def model(request: Request) -> Response:
    """What is served: kind, sizes, parameters, endpoints and limits."""
    served, settings = current(request), request.app.state.settings
    parameters = {name: _plain(value) for name, value in served.model.get_params(deep=False).items()}
    facts = {
        "kind": served.kind,
        "version": __version__,
        "answers": served.answers,
        "sizes": served.sizes,
        "fold_in": ("items" if served.ranking.folds_items else "ratings") if served.ranking else None,
        "classes": served.fusion.classes if served.fusion else None,
        "names": served.nouns,
        "filters": served.ranking.facets.described() if served.ranking and settings.about else None,
        "intervals": served.rating is not None and served.rating.has_intervals,
        "parts": served.rating is not None and not served.rating.has_classes,
        "middle": served.rating.middle if served.rating else None,
        "languages": served.languages,
        "example": served.example,
        "parameters": {name: value for name, value in parameters.items() if value is not None},
        "limits": {name: getattr(settings, name) for name in ("max_body", "max_list", "max_n", "timeout")},
        "loaded_at": served.loaded_at,
    }
    return reply(facts)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Counters in the Prometheus text format, summed over all workers."""
    served = current(request)
    facts = {"halfstep_model_loaded_timestamp_seconds": served.loaded_at}
    info = {"kind": served.kind, "version": __version__}
    text = request.app.state.metrics.text(facts, info)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.post("/reload", response_model=a.Reloaded)
async def reload(request: Request) -> Response:
    """Load the model file again, now. Needs a server with a key; requests under way finish with the old model.

    Other workers follow when they next look at the file.
    """
    state = request.app.state
    if not state.settings.api_key:
        raise Refusal(403, "/reload needs a server started with a key; without one, a changed file is found by itself")
    succeeded = await asyncio.to_thread(state.store.refresh, True)
    state.metrics.reload(bool(succeeded))
    if not succeeded:
        raise Refusal(409, "the file cannot be used, the log says why; the old model stays in service")
    served = current(request)
    return reply({"reloaded": True, "kind": served.kind, "loaded_at": served.loaded_at})


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return repr(value) if not isinstance(value, list | tuple | dict) or value else None
