"""What operators read: logs as JSON lines. Knows neither requests nor models."""

from __future__ import annotations

import json
import logging
import time
from typing import Any


class JsonFormatter(logging.Formatter):
    """One JSON object for each record; what a call passes as `extra={"facts": {...}}` joins it."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            document["trace"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "halfstep.apps.serve.observe.JsonFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}},
    "loggers": {
        name: {"handlers": ["stderr"], "level": "INFO", "propagate": False} for name in ("halfstep.serve", "uvicorn")
    },
}

log = logging.getLogger("halfstep.serve")
