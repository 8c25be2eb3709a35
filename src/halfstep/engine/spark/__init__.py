"""Half-steps on Apache Spark: the same problem, the same core, the same answer, on many machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["SparkEngine"]

if TYPE_CHECKING:
    from halfstep.engine.spark.engine import SparkEngine
else:

    def __getattr__(name: str) -> object:
        """The engine is imported by drivers; executors have `tasks` and what it needs."""
        if name != "SparkEngine":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from halfstep.engine.spark.engine import SparkEngine

        return SparkEngine
