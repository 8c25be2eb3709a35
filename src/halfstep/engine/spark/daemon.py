"""Python workers that begin with all that tasks need, on pages that the workers of an executor share.

`spark.python.daemon.module=halfstep.engine.spark.daemon`, set before the session starts: Spark's daemon forks
workers, and what it has imported they need not. Without it each worker imports for itself. Between two tasks Spark
collects garbage in a worker, 50 ms of walking through modules; here those are set aside, once for each that came.
What a task lets go is returned to the system.
"""

import contextlib
import ctypes
import gc
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from zipimport import ZipImportError, zipimporter

_MMAP_THRESHOLD, _LARGE = -3, 1 << 20  # glibc's number of the setting; bytes of an array with pages of its own


def without_archives(path: list[str]) -> list[str]:
    """A module path without Spark's archives of its own Python sources, where what they hold is installed beside them.

    Spark puts them first. What comes from an archive is compiled each time, and its table is read in every worker:
    0.6 s and 20 MB for the daemon, 60 ms and 20 MB for a worker.
    """
    archives = [name for name in path if Path(name).name == "pyspark.zip" or Path(name).name.startswith("py4j-")]
    others = [name for name in path if name not in archives]
    pyspark_here, py4j_here = (PathFinder.find_spec(name, others) for name in ("pyspark", "py4j"))
    if pyspark_here is None or pyspark_here.origin is None or py4j_here is None:
        return path
    sources = [name for name in archives if Path(name).name == "pyspark.zip"]
    try:
        installed = Path(pyspark_here.origin).with_name("version.py").read_bytes()
        shipped = {zipimporter(name).get_data("pyspark/version.py") for name in sources}
    except (OSError, ZipImportError):
        return path
    return others if shipped <= {installed} else path


def give_back() -> None:
    """Have arrays that are let go returned to the system: glibc learns to keep what it is given back, up to 32 MB."""
    with contextlib.suppress(AttributeError):  # other C libraries do not keep it
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # read when a worker first imports pyarrow


_left = without_archives(sys.path)
for archive in set(sys.path) - set(_left):
    sys.path_importer_cache.pop(archive, None)  # else its table is read again in every worker
sys.path[:] = _left

import pyspark.worker  # noqa: E402, F401
from pyspark.daemon import manager  # noqa: E402

from halfstep.engine.spark import tasks  # noqa: E402

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
    give_back()
    gc.callbacks.append(SetAside())
    gc.collect()
    manager()
