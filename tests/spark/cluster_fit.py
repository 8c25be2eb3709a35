"""The driver of test_cluster.py: fits on a standalone cluster and, on request, kills a worker in the middle.

python cluster_fit.py MASTER FOLDER WORKER_PID LIMIT SWEEPS KIND: writes FOLDER/result.npz. The worker dies after half
of the sweeps; LIMIT is the broadcast limit in bytes, KIND WALS or PLQMF.
"""

import os
import signal
import sys

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

import halfstep as hs
from halfstep.engine.spark import SparkEngine

master, folder = sys.argv[1:3]
worker, limit, sweeps = map(int, sys.argv[3:6])
kind = sys.argv[6]
spark = (
    SparkSession.builder.master(master)
    .config("spark.driver.memory", "1g")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.executor.memory", "512m")
    .config("spark.executor.cores", "1")
    .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
    .config("spark.scheduler.maxRegisteredResourcesWaitingTime", "120s")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.codegen.wholeStage", "false")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
executors = []


def kill_a_worker(record):
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    executors.append(len(tracker.getExecutorInfos()) - 1)  # the driver counts as one
    if record["iteration"] == sweeps // 2:
        os.killpg(worker, signal.SIGKILL)


pairs = pd.read_parquet(f"{folder}/pairs.parquet")
engine = SparkEngine(spark, blocks=4, broadcast_limit=limit, split=100)
settings = {"max_iter": sweeps, "tol": 0.0, "random_state": 1, "engine": engine, "callbacks": [kill_a_worker]}
if kind == "WALS":
    model = hs.WALS(rank=8, **settings).fit(spark.createDataFrame(pairs))
else:
    ratings = {"rank": 3, "loss": "absolute", "C": 1 / 60, "row_tol": 1e-8, "dtype": "float64"}
    model = hs.PLQMF(**ratings, **settings).fit(spark.createDataFrame(pairs), "weight")
users, items = (factors.to_array() for factors in model.fitted_.kept.solved)
np.savez(
    f"{folder}/result.npz",
    users=users,
    items=items,
    objective=[record["objective"] for record in model.history_],
    executors=executors,
)
spark.stop()
