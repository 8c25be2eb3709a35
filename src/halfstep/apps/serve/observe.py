"""What operators see: counters as Prometheus text and logs as JSON lines. Knows requests, not models.

Counters live in one flat array. With several workers each array is a small file in a shared folder, and whoever is
asked for metrics adds them all up; so a scrape gives the whole server, whichever worker answers it.
"""

from __future__ import annotations

import json
import logging
import os
import time
from bisect import bisect_left
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

STATUSES = (200, 204, 304, 307, 400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 500, 503)
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
OTHER = "other"


class Metrics:
    """Requests by route and status, their seconds, and reloads of the model.

    routes : the paths that get a line of their own; all others count as "other".
    folder : shared by the workers of one server, or None for one process.
    """

    def __init__(self, routes: list[str], folder: Path | None = None) -> None:
        self.routes = [*routes, OTHER]
        self._place = {route: k for k, route in enumerate(self.routes)}
        self._status = {status: k for k, status in enumerate(STATUSES)}
        self._folder = folder
        self._width = len(STATUSES) + 1 + len(BUCKETS) + 1 + 1  # counts by status, buckets, seconds
        size = len(self.routes) * self._width + 3
        self._values: NDArray[np.float64] = (
            np.zeros(size)
            if folder is None
            else np.memmap(folder / f"{os.getpid()}.metrics", np.float64, "w+", shape=(size,))
        )
        self._table = self._values[:-3].reshape(len(self.routes), self._width)
        self.started = time.time()

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count one finished request."""
        row = self._table[self._place.get(path, len(self.routes) - 1)]
        row[self._status.get(status, len(STATUSES))] += 1
        row[len(STATUSES) + 1 + bisect_left(BUCKETS, seconds)] += 1
        row[-1] += seconds

    def in_flight(self, change: int) -> None:
        self._values[-3] += change

    def reload(self, succeeded: bool) -> None:
        self._values[-2 if succeeded else -1] += 1

    def text(self, facts: dict[str, float], info: dict[str, str]) -> str:
        """All counters in the Prometheus text format. `facts` are gauges of this process, `info` is about the model."""
        values = self._sum()
        table = values[:-3].reshape(self._table.shape)
        statuses = [*map(str, STATUSES), OTHER]
        lines = ["# HELP halfstep_requests_total Finished requests.", "# TYPE halfstep_requests_total counter"]
        for route, row in zip(self.routes, table, strict=True):
            lines += [
                f'halfstep_requests_total{{route="{route}",status="{status}"}} {count:g}'
                for status, count in zip(statuses, row, strict=False)
                if count
            ]
        lines += ["# HELP halfstep_request_seconds Time to answer.", "# TYPE halfstep_request_seconds histogram"]
        for route, row in zip(self.routes, table, strict=True):
            counts = np.cumsum(row[len(STATUSES) + 1 : -1])
            if not counts[-1]:
                continue
            bounds = [*map(str, BUCKETS), "+Inf"]
            lines += [
                f'halfstep_request_seconds_bucket{{route="{route}",le="{bound}"}} {count:g}'
                for bound, count in zip(bounds, counts, strict=True)
            ]
            lines.append(f'halfstep_request_seconds_sum{{route="{route}"}} {row[-1]:.6f}')
            lines.append(f'halfstep_request_seconds_count{{route="{route}"}} {counts[-1]:g}')
        lines += ["# TYPE halfstep_requests_in_flight gauge", f"halfstep_requests_in_flight {values[-3]:g}"]
        lines += ["# TYPE halfstep_reloads_total counter"]
        for result, count in (("success", values[-2]), ("failure", values[-1])):
            lines.append(f'halfstep_reloads_total{{result="{result}"}} {count:g}')
        for name, value in {**facts, "process_start_time_seconds": self.started, **_memory()}.items():
            lines += [f"# TYPE {name} gauge", f"{name} {value:.17g}"]
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in info.items())
        lines += ["# TYPE halfstep_model_info gauge", f"halfstep_model_info{{{labels}}} 1"]
        return "\n".join(lines) + "\n"

    def _sum(self) -> NDArray[np.float64]:
        if self._folder is None:
            return self._values.copy()
        total = np.zeros_like(np.asarray(self._values))
        for file in sorted(self._folder.glob("*.metrics")):
            part = np.fromfile(file, np.float64)
            if len(part) == len(total):  # a worker that is just starting has not sized its file yet
                total += part
        return total


def _memory() -> dict[str, float]:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return {}
    return {"process_resident_memory_bytes": pages * os.sysconf("SC_PAGE_SIZE")}


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


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
