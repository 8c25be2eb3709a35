"""Any saved model over HTTP, with a page to explore it. Knows estimators and files; must not know how they are fitted.

`create_app` gives an ASGI application for any server, `run` starts one. Both need the `serve` extra.
"""

from __future__ import annotations

from typing import Any

__all__ = ["create_app", "run"]


def __getattr__(name: str) -> Any:
    if name == "create_app":
        from halfstep.errors import require

        require("fastapi", extra="serve")
        from halfstep.apps.serve.app import create_app

        return create_app
    if name == "run":
        from halfstep.apps.serve.process import run

        return run
    raise AttributeError(f"module 'halfstep.apps.serve' has no attribute {name!r}")
