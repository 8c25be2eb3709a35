"""Counters of the server, for Prometheus. Knows requests, not models.

With several workers `prometheus_client` keeps the counters of each in a folder that the environment names, and whoever
is asked adds them all up; so a scrape gives the whole server, whichever worker answers it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # set before a worker starts, since the library reads it when it is imported
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Requests by route and status, their seconds, and reloads of the model.

    routes : the paths that get a line of their own; all others count as "other".
    """

    def __init__(self, routes: Iterable[str]) -> None:
        self.routes = frozenset(routes)
        own = self._own = CollectorRegistry()  # one for each application, so that a process may hold several
        self._requests = Counter("halfstep_requests", "Finished requests.", ["route", "status"], registry=own)
        self._seconds = Histogram(
            "halfstep_request_seconds", "Time to answer.", ["route"], buckets=BUCKETS, registry=own
        )
        self._in_flight = Gauge(
            "halfstep_requests_in_flight", "Requests under way.", registry=own, multiprocess_mode="sum"
        )
        reloads = Counter("halfstep_reloads", "Models taken up, or not.", ["result"], registry=own)
        self._reloads = {True: reloads.labels("success"), False: reloads.labels("failure")}

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count one finished request."""
        route = path if path in self.routes else "other"
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def in_flight(self, change: int) -> None:
        self._in_flight.inc(change)

    def reload(self, succeeded: bool) -> None:
        self._reloads[succeeded].inc()

    def text(self, facts: dict[str, float], info: dict[str, str]) -> str:
        """All counters in the Prometheus text format. `facts` are gauges of this process, `info` is about the model."""
        shown = self._own
        if FOLDER in os.environ:
            shown = CollectorRegistry()
            MultiProcessCollector(shown)  # type: ignore[no-untyped-call]
        about = CollectorRegistry()
        ProcessCollector(registry=about)
        about.register(_About(facts, info))
        return (generate_latest(shown) + generate_latest(about)).decode()


class _About(Collector):
    """Gauges that are read off the model at the moment of a scrape."""

    def __init__(self, facts: dict[str, float], info: dict[str, str]) -> None:
        self.facts, self.info = facts, info

    def collect(self) -> Iterator[Metric]:
        for name, value in self.facts.items():
            yield GaugeMetricFamily(name, "Of the model in service.", value)
        model = GaugeMetricFamily("halfstep_model_info", "The model in service.", labels=list(self.info))
        model.add_metric(list(self.info.values()), 1)
        yield model
