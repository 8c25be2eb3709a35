"""Instances, one to a row, where they are: arrays on this machine, a DataFrame on its cluster. Knows no estimator.

Whoever reads or answers them says how, in both forms; `engine.spark.instances` has what a DataFrame needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Read = TypeVar("Read")
Arrays = Callable[[Any], Read]
"""What is made of anything that NumPy understands."""
Frame = Callable[[Any], Read]
"""What is made of an `engine.spark.instances.InstanceFrame`, or of a DataFrame where nothing is fitted."""


def only_here(P: Any) -> Any:
    """P, unless it is elsewhere."""
    if is_spark_frame(P):
        raise TypeError("P is a Spark DataFrame; pass engine=SparkEngine(spark) to fit on it where it is")
    return P


def answered(P: Any, arrays: Arrays[Read], frame: Frame[Read]) -> Read:
    """The answer to questions about P, in its own form."""
    return frame(P) if is_spark_frame(P) else arrays(P)


def is_spark_frame(value: Any) -> bool:
    """Whether this is a Spark DataFrame; loads nothing of Spark."""
    kind = type(value)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql")
