"""Half-steps on Apache Spark: the same problem, the same core, the same answer, on many machines."""

from halfstep.engine.spark.engine import SparkEngine

__all__ = ["SparkEngine"]
