"""The application: one model, its endpoints, its page. Puts the parts together and holds no logic of its own."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.staticfiles import StaticFiles

from halfstep._version import __version__
from halfstep.apps.serve import routes_ranking, routes_service, routes_values
from halfstep.apps.serve.guard import Guard
from halfstep.apps.serve.metrics import Metrics
from halfstep.apps.serve.observe import log
from halfstep.apps.serve.quick import Quick, Together
from halfstep.apps.serve.replies import add_handlers
from halfstep.apps.serve.settings import Settings
from halfstep.apps.serve.store import Store

WORKER = "HALFSTEP_SERVE_WORKER"  # model path and settings of a worker process


def create_app(model_path: str | os.PathLike[str], **options: Any) -> FastAPI:
    """An ASGI application that serves the model file at `model_path`. `options` are those of `Settings`.

    A file that is missing, damaged or not a model raises here, before anything is served.
    """
    settings = Settings.of(options)
    store = Store(model_path, settings)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        watcher = asyncio.create_task(_watch(app)) if settings.watch_seconds else None
        log.info("ready", extra={"facts": {"model": str(store.path), "kind": store.current.kind, "pid": os.getpid()}})
        yield {"settings": settings}  # for every connection
        if watcher:
            watcher.cancel()
        log.info("stopped", extra={"facts": {"pid": os.getpid()}})

    app = FastAPI(
        title="halfstep",
        version=__version__,
        summary="Answers of a fitted model.",
        lifespan=lifespan,
        docs_url=None,  # its pages load scripts from elsewhere; ours work offline
        redoc_url=None,
    )
    for router in (routes_ranking.router, routes_values.ratings, routes_values.ensemble, routes_service.router):
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=routes_service.STATIC), name="static")
    add_handlers(app)
    app.state.settings = settings
    app.state.store = store
    app.state.metrics = Metrics({*app.openapi()["paths"], "/", "/docs"})
    app.state.together = Together(settings)
    app.add_middleware(Quick, state=app.state)
    if settings.cors_origins:
        app.add_middleware(CORSMiddleware, allow_origins=list(settings.cors_origins), allow_headers=["*"])
    app.add_middleware(Guard, settings=settings, metrics=app.state.metrics)  # added last, so it is outermost
    if settings.api_key:
        _document_key(app)
    return app


def worker_app() -> FastAPI:
    """The application of a worker process, from what `run` left in its environment."""
    model_path, _, settings = os.environ[WORKER].partition("\n")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    return create_app(model_path, **vars(Settings.from_json(settings)))


def _end_with_parent() -> None:
    """Stop as if told to once the process that started this one is gone; the port would stay taken otherwise."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        signal.raise_signal(signal.SIGTERM)


async def _watch(app: FastAPI) -> None:
    """Take up a new model file when it appears."""
    store: Store = app.state.store
    while True:
        await asyncio.sleep(store.settings.watch_seconds)
        changed = await asyncio.to_thread(store.refresh)
        if changed is not None:
            app.state.metrics.reload(changed)


def _document_key(app: FastAPI) -> None:
    document = app.openapi()
    document.setdefault("components", {})["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"key": []}]
