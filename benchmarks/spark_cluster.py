"""A Spark cluster for benchmarks and tests, and what can be seen of it: memory, processor time, shuffles, heap.

Knows processes, logs and settings of Spark. Must not know what runs on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

BLOCKS, CORES, MEMORY = 8, 1, "2g"


class Cluster:
    """A master and workers of one core on loopback, each the leader of a process group; ready when made."""

    def __init__(self, folder: Path, memory: str = "3g", workers: int = 2) -> None:
        import pyspark

        self.home, self.folder = Path(pyspark.__file__).parent, folder
        self.environment = os.environ | {
            "SPARK_HOME": str(self.home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_DAEMON_MEMORY": "256m",
            "OPENBLAS_NUM_THREADS": "1",
        }
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address = f"spark://127.0.0.1:{port}"
        self.processes: list[subprocess.Popen[bytes]] = []
        size = ("--cores", str(CORES), "--memory", memory)
        try:
            _wait_for(self._start("master.Master", "--port", str(port)), "Starting Spark master")
            for log in [self._start("worker.Worker", *size, self.address) for _ in range(workers)]:
                _wait_for(log, "Successfully registered with master")
        except BaseException:
            self.stop()
            raise

    def _start(self, kind: str, *arguments: str) -> Path:
        """A process of Spark; returns its log."""
        command = [str(self.home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
        options = ("--host", "127.0.0.1", "--webui-port", "0", *arguments)
        path = self.folder / f"{kind}{len(self.processes)}.log"
        with path.open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [*command, *options], stdout=log, stderr=log, env=self.environment, start_new_session=True
                )
            )
        return path

    def stop(self) -> None:
        for process in self.processes:  # each leads a process group, executors included
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for(log: Path, text: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while text not in log.read_text():
        if time.monotonic() > end:
            raise TimeoutError(f"no {text!r} after {seconds} s:\n{log.read_text()[-3000:]}")
        time.sleep(0.2)


class Watch(threading.Thread):
    """Peak memory in MB of the largest executor: its JVM and everything below it."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.parts, self.done = 0.0, (0.0, 0.0), threading.Event()
        self.start()

    def run(self) -> None:
        while not self.done.wait(0.5):
            for root, tree in executors().items():
                sizes = {process: _megabytes(process) for process in tree}
                if sum(sizes.values()) > self.peak:
                    self.peak = sum(sizes.values())
                    self.parts = sizes[root], self.peak - sizes[root]

    def stop(self) -> None:
        self.done.set()
        self.join()

    def found(self) -> dict[str, float]:
        return {"memory": self.peak, "jvm": self.parts[0], "python": self.parts[1]}


def executors() -> dict[int, list[int]]:
    """The JVM of every executor of this run, with itself and all processes below it."""
    children, mine = _children(), os.environ["HALFSTEP_EVENTS"].encode()  # `session` names it to executors
    found = {}
    for process in (process for below in children.values() for process in below):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{process}/cmdline").read_bytes()
            if b"CoarseGrainedExecutorBackend" in command and mine in command:
                found[process] = _tree(process, children)
    return found


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            found.setdefault(int(_stat(int(entry))[1]), []).append(int(entry))
    return found


def _tree(root: int, children: dict[int, list[int]]) -> list[int]:
    tree = [root]
    for process in tree:
        tree += children.get(process, [])
    return tree


_SECONDS: tuple[dict[int, float], dict[int, float]] = ({}, {})
"""Of every process that was seen, those that Spark has ended since too: of executors, and of this driver."""


def processor_seconds() -> np.ndarray:
    """Processor time used so far by all executors, JVM and Python workers, and by this driver, Python and JVM."""
    theirs = [process for tree in executors().values() for process in tree]
    for seen, processes in zip(_SECONDS, (theirs, _tree(os.getpid(), _children())), strict=True):
        for process in processes:
            with contextlib.suppress(OSError):
                seen[process] = sum(map(int, _stat(process)[11:13])) / os.sysconf("SC_CLK_TCK")
    return np.array([sum(seen.values()) for seen in _SECONDS])


def _stat(process: int) -> list[str]:
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()


def _megabytes(process: int) -> float:
    """Proportional set size: pages that several workers share count once."""
    try:
        return int(Path(f"/proc/{process}/smaps_rollup").read_text().split("Pss:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        return 0.0


def session(address: str, name: str, memory: str = MEMORY):
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(address)
        .appName(name)
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", memory)
        .config("spark.executor.extraJavaOptions", f"-Xlog:gc:file={os.environ['HALFSTEP_EVENTS']}/../gc-{name}-%p.log")
        .config("spark.executor.cores", str(CORES))
        .config("spark.python.daemon.module", "halfstep.engine.spark.daemon")
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(BLOCKS))
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", os.environ["HALFSTEP_EVENTS"])
        .config("spark.eventLog.compress", "false")
        .config("spark.eventLog.rolling.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def shuffled(folder: str) -> dict[str, tuple[int, int]]:
    """Bytes written to shuffles, by application: by jobs of a group that begins with "measured", and by those of our
    sweeps after the first."""
    found: dict[str, tuple[int, int]] = {}
    for path in Path(folder).iterdir():
        name, total, later, stages, counted = "", 0, 0, set(), set()
        for line in path.read_text().splitlines():
            event = json.loads(line)
            name = event.get("App Name", name)
            if event["Event"] == "SparkListenerJobStart":
                group = event["Properties"].get("spark.jobGroup.id", "")
                counted |= set(event["Stage IDs"]) if group.startswith("measured") else set()
                stages |= set(event["Stage IDs"]) if group.endswith("later sweeps") else set()
            if event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
                size = event["Task Metrics"]["Shuffle Write Metrics"]["Shuffle Bytes Written"]
                total += size if event["Stage ID"] in counted else 0
                later += size if event["Stage ID"] in stages else 0
        found[name] = total, later
    return found


def heap_in_use(folder: str, name: str) -> float:
    """MB: the largest use of the heap after a collection, over the executors of a contender."""
    logs = [path.read_text() for path in Path(folder).glob(f"gc-{name}-*.log")]
    return max((float(found) for log in logs for found in re.findall(r"\d+M->(\d+)M\(", log)), default=0.0)
