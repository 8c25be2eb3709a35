"""A real standalone cluster on loopback, with processes of its own; one of its two workers is killed during a fit."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from spark_cluster import Cluster

import halfstep as hs

pytestmark = pytest.mark.spark


@pytest.fixture
def cluster(tmp_path):
    """A master with two workers, as the benchmark starts it."""
    started = Cluster(tmp_path, memory="1g")
    yield started
    started.stop()


SWEEPS = 20


@pytest.mark.parametrize(
    ("limit", "kind"),
    [
        pytest.param(2_000, "WALS", id="the larger side sent row by row, the smaller one broadcast"),
        pytest.param(0, "WALS", id="both sides sent row by row, and their chain cut before"),
        pytest.param(1 << 30, "PLQMF", id="both sides broadcast, what rows remember in the executors"),
    ],
)
def test_a_fit_survives_a_killed_worker_with_the_same_factors(cluster, pairs, tmp_path, limit, kind):
    pairs.to_parquet(tmp_path / "pairs.parquet")
    script = Path(__file__).with_name("cluster_fit.py")
    worker = cluster.processes[-1].pid
    run = subprocess.run(
        [sys.executable, str(script), cluster.address, str(tmp_path), *map(str, (worker, limit, SWEEPS, kind))],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert run.returncode == 0, run.stderr[-5000:]
    result = np.load(tmp_path / "result.npz")
    assert result["executors"][0] == 2
    assert result["executors"][-1] == 1  # it was really lost
    if kind == "WALS":
        local = hs.WALS(rank=8, max_iter=SWEEPS, tol=0.0, random_state=1, solver="exact").fit(pairs)
        for got, expected in ((result["users"], local.user_factors_), (result["items"], local.item_factors_)):
            assert np.abs(got - expected).max() < 1e-4 * np.abs(expected).max()
    else:
        settings = {"rank": 3, "loss": "absolute", "C": 1 / 60, "row_tol": 1e-8, "dtype": "float64"}
        local = hs.PLQMF(**settings, max_iter=SWEEPS, tol=0.0, random_state=1)
        local.fit(pairs[["user", "item"]], pairs.weight)
    np.testing.assert_allclose(result["objective"], [record["objective"] for record in local.history_], rtol=1e-5)
