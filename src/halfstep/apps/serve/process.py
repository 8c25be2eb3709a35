"""Start and stop: the socket, one or several worker processes, what is printed. Knows uvicorn, not models."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import socket
import sys
import tempfile
from inspect import signature
from typing import Any

from halfstep.apps.serve.observe import LOGGING
from halfstep.apps.serve.settings import LOOPBACK, Settings, is_loopback
from halfstep.data import files as persistence
from halfstep.errors import check_number, require


def run(
    model_path: str | os.PathLike[str],
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    api_key: str | None = None,
    **options: Any,
) -> None:
    """Serve the model file at `model_path` until the process is told to stop (SIGINT or SIGTERM).

    host : only this machine can reach the default. Any other address should have an `api_key`.
    port : 0 takes any free one; the address is printed.
    workers : processes that share the socket and, memory-mapped, the model.
    options : those of `halfstep.apps.serve.settings.Settings`, such as `timeout`, `max_n` or `item_name`.

    Raises `OSError` with one line if the address cannot be used, `ModelFileError` if the file is no model. Requests
    under way are finished before it returns; clients that have sent half of one are told to come back.
    """
    require("fastapi", extra="serve")
    uvicorn = require("uvicorn", extra="serve")
    check_number("port", port, at_least=0, whole=True)
    if is_loopback(host):  # a page of some other site must not reach this server through a name of its own
        options.setdefault("allowed_hosts", tuple({*LOOPBACK, host}))
    settings = Settings.of({**options, "workers": workers, "api_key": api_key})
    persistence.read(model_path, mmap=True)  # raises for a file that is no model, before anything is started
    listening = _bind(host, port)
    from halfstep.apps.serve.connections import Connection

    common: dict[str, Any] = {
        "http": Connection,
        "ws": "none",
        "log_config": LOGGING,
        "access_log": False,  # the application writes its own, as JSON
        "server_header": False,
        "date_header": False,
        "timeout_keep_alive": 30,
        "timeout_graceful_shutdown": math.ceil(max(settings.timeout, settings.fit_timeout)) + 1,
        "backlog": 2048,
    }
    with listening, contextlib.ExitStack() as stack:
        if workers == 1:
            from halfstep.apps.serve.app import create_app

            app = create_app(model_path, **vars(settings))
            _announce(model_path, listening, settings)
            uvicorn.Server(uvicorn.Config(app, **common)).run(sockets=[listening])
            return
        from uvicorn.supervisors import Multiprocess

        from halfstep.apps.serve.app import WORKER
        from halfstep.apps.serve.metrics import FOLDER

        os.environ[FOLDER] = stack.enter_context(tempfile.TemporaryDirectory(prefix="halfstep-serve-"))
        os.environ[WORKER] = f"{os.path.abspath(model_path)}\n{settings.to_json()}"
        if "timeout_worker_healthcheck" in signature(uvicorn.Config).parameters:
            common["timeout_worker_healthcheck"] = 60  # a busy machine is no reason to end a worker
        config = uvicorn.Config("halfstep.apps.serve.app:worker_app", factory=True, workers=workers, **common)
        _announce(model_path, listening, settings)
        # The supervisor of older versions has to be told what a worker runs.
        target = {"target": uvicorn.Server(config).run} if "target" in signature(Multiprocess).parameters else {}
        Multiprocess(config, sockets=[listening], **target).run()


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(2048)  # from here on nobody else can have the address
    except (OSError, OverflowError) as error:
        listening.close()
        raise _explained(host, port, error) from None
    listening.set_inheritable(True)
    return listening


def _explained(host: str, port: int, error: Exception) -> OSError:
    code = getattr(error, "errno", None)
    if code == errno.EADDRINUSE:
        return OSError(code, f"port {port} on {host} is in use; stop what listens there, or give another port")
    if code == errno.EACCES:
        return OSError(code, f"no permission for port {port}; ports below 1024 are for the system, give a higher one")
    return OSError(code or errno.EINVAL, f"cannot listen on {host} port {port}: {error}")


def _announce(model_path: str | os.PathLike[str], listening: socket.socket, settings: Settings) -> None:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    print(f"halfstep serves {os.fspath(model_path)} at http://{shown}:{port} (API: /docs)", file=sys.stderr, flush=True)
    if not is_loopback(host) and not settings.api_key:
        print("warning: everybody who can reach this address can use it; give an api_key", file=sys.stderr, flush=True)
