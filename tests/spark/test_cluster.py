"""A real standalone cluster on loopback, with processes of its own; one of its two workers is killed during a fit."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import halfstep as hs

pytestmark = pytest.mark.spark


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(log: Path, text: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while text not in log.read_text():
        assert time.monotonic() < end, f"no {text!r} after {seconds} s:\n{log.read_text()[-3000:]}"
        time.sleep(0.2)


@pytest.fixture
def cluster(tmp_path):
    """Address of a master with two workers, and the process group of one worker."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "OPENBLAS_NUM_THREADS": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    processes = []

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (tmp_path / f"{name}.log").open("wb") as log:
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]]
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        processes.append(process)
        return process

    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    options = ("--host", "127.0.0.1", "--webui-port", "0")
    try:
        start("master", "master.Master", "--port", str(port), *options)
        wait_for(tmp_path / "master.log", "Starting Spark master")
        workers = [
            start(f"worker{k}", "worker.Worker", "--cores", "1", "--memory", "1g", *options, address) for k in (0, 1)
        ]
        for k in (0, 1):
            wait_for(tmp_path / f"worker{k}.log", "Successfully registered with master")
        yield address, workers[1].pid
    finally:
        for process in processes:  # each leads a process group, executors included
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.parametrize(
    ("limit", "sweeps"),
    [
        pytest.param(2_000, 4, id="the larger side sent row by row, the smaller one broadcast"),
        pytest.param(0, 6, id="both sides sent row by row, and their chain cut before"),
    ],
)
def test_a_fit_survives_a_killed_worker_with_the_same_factors(cluster, pairs, tmp_path, limit, sweeps):
    address, worker = cluster
    pairs.to_parquet(tmp_path / "pairs.parquet")
    script = Path(__file__).with_name("cluster_fit.py")
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, str(script), address, str(tmp_path), *map(str, (worker, limit, sweeps))],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert run.returncode == 0, run.stderr[-5000:]
    result = np.load(tmp_path / "result.npz")
    assert result["executors"][0] == 2
    assert result["executors"][-1] == 1  # it was really lost
    local = hs.WALS(rank=8, max_iter=sweeps, tol=0.0, random_state=1).fit(pairs)
    for got, expected in ((result["users"], local.user_factors_), (result["items"], local.item_factors_)):
        assert np.abs(got - expected).max() < 1e-4 * np.abs(expected).max()
    np.testing.assert_allclose(result["objective"], [record["objective"] for record in local.history_], rtol=1e-5)
