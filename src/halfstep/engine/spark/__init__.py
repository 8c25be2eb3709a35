"""Half-steps on Apache Spark: the same problem, the same core, the same answer, on many machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfstep._later import later

__all__ = ["SparkEngine"]

# The engine is imported by drivers; executors have `tasks` and what it needs.
if TYPE_CHECKING:
    from halfstep.engine.spark.engine import SparkEngine
else:
    __getattr__ = later(__name__, SparkEngine="halfstep.engine.spark.engine")
