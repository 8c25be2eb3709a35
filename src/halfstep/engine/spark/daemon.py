"""Python workers that begin with all that tasks need, on pages that the workers of an executor share.

`spark.python.daemon.module=halfstep.engine.spark.daemon`, set before the session starts: Spark's daemon forks
workers, and what it has imported they need not. Without it each worker imports for itself.
"""

from pyspark.daemon import manager

from halfstep.engine.spark import tasks

__all__ = ["manager", "tasks"]

if __name__ == "__main__":
    manager()
