"""The driver of test_cluster.py: fits on a standalone cluster, and kills a worker in the middle of each.

python cluster_fit.py MASTER FOLDER SWEEPS KIND:LIMIT:WORKER_PID ...: writes FOLDER/KIND-LIMIT.npz for each. The worker
dies after half of the sweeps; LIMIT is the broadcast limit in bytes.
"""

import os
import signal
import sys
import warnings

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

import halfstep as hs
from halfstep.data.sweeps import SweepFile
from halfstep.engine.spark import SparkEngine

master, folder, sweeps = sys.argv[1], sys.argv[2], int(sys.argv[3])
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
    .config("spark.python.daemon.module", "halfstep.engine.spark.daemon")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.codegen.wholeStage", "false")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")


def executors():
    return len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1  # the driver counts as one


def fit(kind, limit, worker):
    """What a fit ends with, by name. Before and after the kill the executors are counted."""
    seen = []

    def look(record):
        seen.append(executors())
        if record["iteration"] == sweeps // 2:
            os.killpg(worker, signal.SIGKILL)

    engine = SparkEngine(spark, blocks=4, broadcast_limit=limit, split=100)
    common = {"max_iter": sweeps, "tol": 0.0, "random_state": 1, "engine": engine, "callbacks": [look]}
    if kind == "CFEnsemble":
        common.pop("random_state")
        model = hs.CFEnsemble(rank=3, **common, positive="yes")
        model.fit(spark.createDataFrame(pd.read_parquet(f"{folder}/instances.parquet")), y="label")
        return {"objective": [r["objective"] for r in model.history_], "executors": seen}
    pairs = spark.createDataFrame(pd.read_parquet(f"{folder}/pairs.parquet"))
    if kind == "BayesMF":
        save = SweepFile.save

        def saved(self, number, *rest):
            save(self, number, *rest)
            look({"iteration": number})

        SweepFile.save = saved
        warnings.simplefilter("ignore")  # so few sweeps are no chain
        model = hs.BayesMF(rank=3, n_sweeps=sweeps, keep=4, random_state=1, checkpoint=f"{folder}/drawn", every=1,
                           engine=engine).fit(pairs, "weight")  # fmt: skip
        return {"users": model.fitted_.users, "items": model.fitted_.items, "executors": seen,
                "objective": [r["loss"] for r in model.history_]}  # fmt: skip
    if kind == "PLQMF":
        ratings = {"rank": 3, "loss": "absolute", "C": 1 / 60, "row_tol": 1e-8, "dtype": "float64"}
        model = hs.PLQMF(**ratings, **common).fit(pairs, "weight")
    else:
        told = spark.createDataFrame(pd.read_parquet(f"{folder}/users.parquet")) if kind == "features" else None
        model = hs.WALS(rank=8, feature_reg=0.3, **common).fit(pairs, user_features=told)
    users, items = (factors.to_array() for factors in model.fitted_.kept.solved)
    history = [record["objective"] for record in model.history_]
    return {"users": users, "items": items, "objective": history, "executors": seen}


for job in sys.argv[4:]:
    kind, limit, worker = job.split(":")
    np.savez(f"{folder}/{kind}-{limit}.npz", **fit(kind, int(limit), int(worker)))
spark.stop()
