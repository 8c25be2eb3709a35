"""A real standalone cluster on loopback, with processes of its own; one of its workers is killed during each fit."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from spark_cluster import Cluster

import halfstep as hs
from halfstep.data.datasets.generated import make_predictions

pytestmark = pytest.mark.spark
SWEEPS = 10  # half of them are more half-steps than a chain has


@pytest.fixture
def cluster(tmp_path):
    """A master with three workers, as the benchmark starts it: two fits lose one each."""
    started = Cluster(tmp_path, memory="1g", workers=3)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def instances():
    P, y, _ = make_predictions(120, 5, missing=0.2, labels=0.4, random_state=0)
    named = pd.DataFrame(P, columns=[f"p{j}" for j in range(5)])
    named["label"] = pd.Series(np.where(np.isnan(y), None, np.where(y == 1, "yes", "no")), dtype=object)
    return named


@pytest.fixture(scope="module")
def users():
    return pd.DataFrame({"user": [f"u{k}" for k in range(140)], "job": [f"j{k % 5}" for k in range(140)]})


@pytest.mark.parametrize(
    "fits",
    [
        # the larger side sent row by row, the smaller one broadcast; what is drawn goes whole to everybody
        pytest.param([("WALS", 2_000), ("BayesMF", 0)], id="WALS mixed, BayesMF"),
        # both sides sent row by row, and their chain cut before; sums over instances
        pytest.param([("WALS", 0), ("CFEnsemble", 0)], id="WALS routed, CFEnsemble"),
        # both sides broadcast, what rows remember in the executors; weights of features that lost rows need
        pytest.param([("PLQMF", 1 << 30), ("features", 0)], id="PLQMF, WALS with features"),
    ],
)
def test_fits_survive_killed_workers_with_the_same_answers(cluster, pairs, instances, users, tmp_path, fits):
    pairs.to_parquet(tmp_path / "pairs.parquet")
    instances.to_parquet(tmp_path / "instances.parquet")
    users.to_parquet(tmp_path / "users.parquet")
    script = Path(__file__).with_name("cluster_fit.py")
    jobs = [
        f"{kind}:{limit}:{worker.pid}"
        for (kind, limit), worker in zip(fits, reversed(cluster.processes), strict=False)
    ]  # fmt: skip
    run = subprocess.run(
        [sys.executable, str(script), cluster.address, str(tmp_path), str(SWEEPS), *jobs],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert run.returncode == 0, run.stderr[-5000:]
    for number, (kind, limit) in enumerate(fits):
        found = np.load(tmp_path / f"{kind}-{limit}.npz")
        assert len(found["objective"]) == SWEEPS
        assert found["executors"][0] == 3 - number
        assert found["executors"][-1] == 2 - number  # it was really lost
        check(kind, found, pairs, instances, users)


def check(kind, found, pairs, instances, users):
    """The same as on one machine."""
    settings = {"max_iter": SWEEPS, "tol": 0.0, "random_state": 1}
    if kind == "CFEnsemble":
        local = hs.CFEnsemble(rank=3, max_iter=SWEEPS, tol=0.0, positive="yes")
        local.fit(instances.drop(columns="label").to_numpy(), instances.label.tolist())
        assert found["objective"] == pytest.approx([r["objective"] for r in local.history_], rel=1e-4)
        return
    if kind == "BayesMF":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            local = hs.BayesMF(rank=3, n_sweeps=SWEEPS, keep=4, random_state=1)
            local.fit(pairs[["user", "item"]], pairs.weight)
        # noise goes by the number of a row: rounding alone tells such chains apart, and sweeps make it grow
        assert found["objective"] == pytest.approx([r["loss"] for r in local.history_], rel=1e-2)
        return
    if kind == "PLQMF":
        local = hs.PLQMF(rank=3, loss="absolute", C=1 / 60, row_tol=1e-8, dtype="float64", **settings)
        local.fit(pairs[["user", "item"]], pairs.weight)
    else:
        told = users if kind == "features" else None
        local = hs.WALS(rank=8, feature_reg=0.3, solver="exact", **settings).fit(pairs, user_features=told)
        for got, expected in ((found["users"], local.user_factors_), (found["items"], local.item_factors_)):
            assert np.abs(got - expected).max() < 1e-4 * np.abs(expected).max()
    np.testing.assert_allclose(found["objective"], [record["objective"] for record in local.history_], rtol=1e-5)
