"""Instances, one to a row, as an engine hands them to whoever reads them.

On this machine all of them are here. On a cluster some rows come here and the others stay where they are, in blocks
(`engine.spark.instances`). Knows no estimator.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

Read = TypeVar("Read", covariant=True)


class InstanceReader(Protocol[Read]):
    """What a caller makes of its input, in each of the forms in which an engine has it."""

    def arrays(self, P: Any) -> Read:
        """Of anything that NumPy understands."""

    def frame(self, frame: Any) -> Read:
        """Of an `engine.spark.instances.InstanceFrame`."""


def read_here(P: Any, reader: InstanceReader[Read]) -> Read:
    """Instances on this machine."""
    if is_spark_frame(P):
        raise TypeError("P is a Spark DataFrame; pass engine=SparkEngine(spark) to fit on it where it is")
    return reader.arrays(P)


def is_spark_frame(value: Any) -> bool:
    """Whether this is a Spark DataFrame; loads nothing of Spark."""
    kind = type(value)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql")
