"""Python workers that begin with all that tasks need, on pages that the workers of an executor share.

`spark.python.daemon.module=halfstep.engine.spark.daemon`, set before the session starts: Spark's daemon forks
workers, and what it has imported they need not. Without it each worker imports for itself. Between two tasks Spark
collects garbage in a worker, 50 ms of walking through modules; here those are set aside, once for each that came.
"""

import gc
import sys

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

from halfstep.engine.spark import tasks

__all__ = ["manager", "tasks"]


class SetAside:
    """A callback of the collector: what is there after a full collection is not walked through again, once for each
    time that modules have been imported; so what other code leaves behind is still collected.
    """

    def __init__(self) -> None:
        self.modules = 0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2 and len(sys.modules) != self.modules:
            self.modules = len(sys.modules)
            gc.freeze()


if __name__ == "__main__":
    gc.callbacks.append(SetAside())
    gc.collect()
    manager()
