"""One small Spark session for all tests of this folder, and interactions with everything that is awkward in them."""

import os
import sys

import numpy as np
import pandas as pd
import pytest

from halfstep.core.extrapolate import Momentum


@pytest.fixture(autouse=True)
def plain_sweeps(monkeypatch):
    """Sweeps on a cluster follow no momentum, so those they are held against do not either."""
    monkeypatch.setattr(Momentum, "share", lambda self: 0.0)


@pytest.fixture(scope="session")
def spark():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    session = (
        SparkSession.builder.master("local[2]")
        .appName("halfstep tests")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.python.daemon.module", "halfstep.engine.spark.daemon")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.codegen.wholeStage", "false")  # small data: compiling costs more than it saves
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def pairs() -> pd.DataFrame:
    """String users, integer items, weights; repeated pairs, weights of zero, an item with a tenth of all
    interactions, and a user with every item."""
    rng = np.random.default_rng(0)
    n, m, cells = 150, 60, 1500
    users, items = rng.integers(0, n, cells), rng.integers(0, m, cells)
    items[: cells // 10] = 7
    users = np.concatenate([users, np.full(m, 3), users[:5], [151]])
    items = np.concatenate([items, np.arange(m), items[:5], [0]])
    weights = rng.integers(1, 5, len(users)).astype(float)
    weights[-1] = 0.0  # a user without any observed cell
    return pd.DataFrame({"user": [f"u{k}" for k in users], "item": items * 10, "weight": weights})


@pytest.fixture(scope="session")
def frame(spark, pairs):
    return spark.createDataFrame(pairs).repartition(3).persist()
