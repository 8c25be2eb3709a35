"""WALS on Spark against Spark's own ALS, on one standalone cluster of two workers; and against the local engine.

    python benchmarks/spark.py [--small] [--interactions 2000000] [--rank 64] [--sweeps 5] [--least] [--shuffles]

Same cluster, same data, same number of blocks, same settings of the executors, one run: `WALS` with all rows broadcast,
`WALS` with the larger side sent row by row, `ALS`; and `WALS` on half of the data. All warm up with a fit first.
Seconds of a sweep: between the ends of sweeps of the next fit for ours; for ALS, which has no history, from fits of one
and of `sweeps` sweeps. Also as processor time of executors and driver, which a busy machine changes little. After the
fit the ten best items of every user, `recommend_for_all` (what they have left out) against `recommendForAllUsers`.
Memory: the largest sum, over one executor, of the proportional set size of its JVM and the Python workers below it
(pages that processes share count once), sampled every 0.5 s during the first fit; every contender has executors of
its own. Heap: the largest use of an executor's heap right after a collection, from the log of the collector.
The objective is that of WALS, for both (ALS:
confidence 1 + alpha, so weight 1 and background 1/(1 + alpha), scaled).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from spark_cluster import BLOCKS, CORES, MEMORY, Cluster, Watch, heap_in_use, processor_seconds, session, shuffled

LISTED = 10
LEAST = ("450m", "512m", "640m", "768m", "1g", "1536m")  # Spark takes no less than 450 MB
SETTINGS = {"background": 0.05, "reg": 0.003, "reg_scaling": "count", "solver": "exact"}


def interactions(n_cells: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Users and items of a power law with 16 latent tastes: about ten interactions a user, ten users to an item."""
    rng = np.random.default_rng(seed)
    n, m = n_cells // 10, n_cells // 100
    users = (n * rng.random(n_cells) ** 1.5).astype(np.int64)
    taste = rng.integers(0, 16, n)[users]
    items = ((m // 16) * rng.random(n_cells) ** 3).astype(np.int64) * 16 + np.where(
        rng.random(n_cells) < 0.7, taste, rng.integers(0, 16, n_cells)
    )
    pairs = np.unique(users * m + items)
    return {"user": pairs // m, "item": pairs % m}


def run_ours(address: str, path: str, out: str, job: dict) -> dict:
    """Two fits of WALS; the first warms up, and its memory counts. Writes factors, returns what was measured."""
    import halfstep as hs
    from halfstep.engine.spark import SparkEngine

    spark = session(address, job["name"], job["memory"])
    engine, ends, sweeps = SparkEngine(spark, blocks=BLOCKS, broadcast_limit=job["limit"]), [], job["sweeps"]

    def mark(record: dict[str, float]) -> None:  # what is shuffled from now on belongs to later sweeps
        ends.append((time.perf_counter(), processor_seconds()))
        spark.sparkContext.setJobGroup("measured, later sweeps", "")

    def fitted(**more: object) -> hs.WALS:
        model = hs.WALS(rank=job["rank"], max_iter=sweeps, tol=0.0, random_state=0, engine=engine, **SETTINGS, **more)
        return model.fit(spark.read.parquet(path))

    watch = Watch()
    fitted().fitted_.kept.unpersist()
    watch.stop()
    spark.sparkContext.setJobGroup("measured", "")
    begun = time.perf_counter()
    model = fitted(callbacks=[mark])
    total = time.perf_counter() - begun
    lists = listed(spark, lambda: model.recommend_for_all(LISTED))
    users, items = (factors.to_array() for factors in model.fitted_.kept.solved)
    np.savez(out, users=users, items=items)
    each, busy = ((b - a) / (sweeps - 1) for a, b in zip(ends[0], ends[-1], strict=True))
    shipped = model.fitted_.kept.given.cells.shipped
    spark.stop()
    return {"seconds": each, "busy": busy.tolist(), "total": total, "shipped": shipped} | lists | watch.found()


def run_als(address: str, path: str, out: str, job: dict) -> dict:
    """The same of Spark's ALS."""
    from pyspark.ml.recommendation import ALS

    spark = session(address, job["name"], job["memory"])
    watch = Watch()
    frame = spark.read.parquet(path).selectExpr("cast(user as int)", "cast(item as int)", "1.0 as rating").persist()
    frame.count()
    # ALS: confidence 1 + alpha on observed cells and 1 elsewhere, ours times 1 / background; lam is reg * count
    alpha = 1 / SETTINGS["background"] - 1
    common = {
        "rank": job["rank"], "implicitPrefs": True, "alpha": alpha,
        "regParam": SETTINGS["reg"] / SETTINGS["background"],
        "numUserBlocks": BLOCKS, "numItemBlocks": BLOCKS, "seed": 0,
        "userCol": "user", "itemCol": "item", "ratingCol": "rating",
    }  # fmt: skip
    times, sweeps = {}, job["sweeps"]
    for count in (sweeps, 1, sweeps):  # the first warms up, as it does for ours; its memory is what counts
        spark.sparkContext.setJobGroup("measured" if times.keys() == {1, sweeps} else "warm", "")
        begun, used = time.perf_counter(), processor_seconds()
        model = ALS(maxIter=count, **common).fit(frame)
        times[count] = time.perf_counter() - begun, processor_seconds() - used
        watch.stop()
    lists = listed(spark, lambda: model.recommendForAllUsers(LISTED))
    users = model.userFactors.orderBy("id").toPandas()
    items = model.itemFactors.orderBy("id").toPandas()
    factors = {"users": np.stack(users.features), "items": np.stack(items.features)}
    np.savez(out, **{name: values.astype(np.float32) for name, values in factors.items()})
    each, busy = ((b - a) / (sweeps - 1) for a, b in zip(times[1], times[sweeps], strict=True))
    spark.stop()
    return {"seconds": each, "busy": busy.tolist(), "total": times[sweeps][0]} | lists | watch.found()


def listed(spark, make) -> dict:
    """Seconds and processor time of the lists of everybody, the second of two runs; nothing is kept of them."""
    spark.sparkContext.setJobGroup("lists", "")
    for _ in range(2):
        begun, used = time.perf_counter(), processor_seconds()
        make().write.format("noop").mode("overwrite").save()
        found = {"listed": time.perf_counter() - begun, "listed_busy": (processor_seconds() - used).tolist()}
    return found


def objective_of(found, data: dict[str, np.ndarray]) -> float:
    """The WALS objective with reg_scaling="count" of given factors."""
    ids = [np.unique(data[name], return_inverse=True) for name in ("user", "item")]
    U, V = found["users"].astype(np.float64), found["items"].astype(np.float64)
    z = np.concatenate([
        np.einsum("kd,kd->k", U[rows], V[columns])
        for rows, columns in zip(*(np.array_split(codes, 50) for _, codes in ids), strict=True)
    ])  # fmt: skip
    w0, reg = SETTINGS["background"], SETTINGS["reg"]
    penalty = sum(
        float(np.bincount(codes) @ np.einsum("kd,kd->k", X, X)) for (_, codes), X in zip(ids, (U, V), strict=True)
    )
    everything = float(np.sum((U.T @ U) * (V.T @ V)))
    return float(((1 - z) ** 2).sum() + w0 * (everything - (z**2).sum()) + reg * penalty)


def shuffle_table(rank: int, sizes: tuple[int, ...] = (50_000, 100_000, 200_000)) -> None:
    """Bytes shuffled by a sweep at three sizes, measured and by the model of docs/scale.md; in local mode."""
    import pandas as pd

    import halfstep as hs
    from halfstep.engine.spark import SparkEngine

    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HALFSTEP_EVENTS"] = folder
        for size in sizes:
            spark = session("local[2]", f"{size}")

            def mark(record: dict[str, float], spark: object = spark) -> None:
                spark.sparkContext.setJobGroup("measured, later sweeps", "")

            engine = SparkEngine(spark, blocks=BLOCKS, broadcast_limit=0)
            model = hs.WALS(rank=rank, max_iter=2, tol=0.0, random_state=0, engine=engine, callbacks=[mark])
            model.fit(spark.createDataFrame(pd.DataFrame(interactions(size))))
            cells = model.fitted_.kept.given.cells
            spark.stop()
            # one sweep after the mark, and the half-step of users that ends a fit: items are sent twice
            modelled = 4 * rank * (cells.shipped[0] + 2 * cells.shipped[1])
            measured = shuffled(folder)[f"{size}"][1]
            print(
                f"{len(cells):>9,} cells, {cells.shape}: measured {measured / 2**20:8.2f} MB, "
                f"model {modelled / 2**20:8.2f} MB, ratio {measured / modelled:.3f}"
            )


def start(cluster: Cluster, folder: str, role: str, job: dict) -> dict | None:
    """One contender in a process of its own; None where it failed."""
    command = [sys.executable, __file__, "--inside", role, cluster.address, folder, json.dumps(job)]
    try:
        run = subprocess.run(command, env=cluster.environment, capture_output=True, text=True, timeout=3600)
    except subprocess.TimeoutExpired:
        print(f"{job['name']}: not done after an hour")
        return None
    if run.returncode:
        print(f"{job['name']} failed: {run.stderr.strip().splitlines()[-1][:300]}")
        return None
    return json.loads(run.stdout.splitlines()[-1]) | {"heap": heap_in_use(folder, job["name"])}


def busy(seconds: list[float]) -> str:
    return f"{sum(seconds):.2f} s (executors {seconds[0]:.2f}, driver {seconds[1]:.2f})"


def report(name: str, result: dict, value: float) -> None:
    print(
        f"{name:12s} sweep {result['seconds']:6.2f} s, processor time {busy(result['busy'])}   whole fit "
        f"{result['total']:6.1f} s   executor {result['memory']:5.0f} MB (JVM {result['jvm']:.0f}, Python "
        f"{result['python']:.0f}; heap after collections {result['heap']:.0f})   "
        f"lists of all {result['listed']:.1f} s, processor time {busy(result['listed_busy'])}   "
        f"objective {value:.6g}   load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def compare_with_local(data: dict[str, np.ndarray], folder: str, name: str, rank: int, sweeps: int) -> None:
    """Factors of the same seed after the same sweeps on this machine: |difference| / |factors|, Frobenius norms."""
    import pandas as pd

    import halfstep as hs

    local = hs.WALS(rank=rank, max_iter=sweeps, tol=0.0, random_state=0, **SETTINGS).fit(pd.DataFrame(data))
    ours = np.load(f"{folder}/{name}.npz")
    for side, mine in (("users", local.user_factors_), ("items", local.item_factors_)):
        distance = np.linalg.norm(ours[side] - mine) / np.linalg.norm(mine)
        print(f"local and Spark after {sweeps} sweeps, {side}: relative difference of factors {distance:.2e}")
    print(f"local sweep {local.history_[-1]['seconds'] / local.n_iter_:.2f} s on all cores")


def least_memory(cluster: Cluster, folder: str, jobs: dict[str, tuple[str, dict]]) -> None:
    """The smallest spark.executor.memory with which each contender ends a fit of two sweeps."""
    for name, (role, job) in jobs.items():
        for memory in LEAST:
            result = start(cluster, folder, role, job | {"name": f"{name}-{memory}", "memory": memory, "sweeps": 2})
            if result:
                print(
                    f"{name}: spark.executor.memory={memory} is enough, sweep {result['seconds']:.2f} s, executor "
                    f"{result['memory']:.0f} MB (JVM {result['jvm']:.0f}, Python {result['python']:.0f})",
                    flush=True,
                )
                break


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interactions", type=int, default=2_000_000)
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--sweeps", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="a tenth of it: 200,000 interactions, three sweeps")
    parser.add_argument("--least", action="store_true", help="also the least executor memory that each can do with")
    parser.add_argument("--shuffles", action="store_true", help="only the bytes shuffled at three sizes")
    parser.add_argument("--only", choices=("broadcast", "row-by-row", "ALS", "half"), action="append")
    parser.add_argument("--inside", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.small:
        arguments.interactions, arguments.sweeps = 200_000, 3
    if arguments.shuffles:
        shuffle_table(arguments.rank)
        return
    if arguments.inside:
        role, address, folder, text = arguments.inside
        job = json.loads(text)
        run = run_als if role == "als" else run_ours
        print(json.dumps(run(address, f"{folder}/{job['data']}", f"{folder}/{job['name']}.npz", job)))
        return
    import pandas as pd

    data = {count: interactions(count) for count in (arguments.interactions, arguments.interactions // 2)}
    pairs = data[arguments.interactions]
    users = len(np.unique(pairs["user"])) * arguments.rank * 4
    common = {"data": f"{arguments.interactions}.parquet", "rank": arguments.rank, "sweeps": arguments.sweeps,
              "memory": MEMORY}  # fmt: skip
    jobs = {
        "broadcast": ("ours", common | {"limit": max(64 * 2**20, users)}),
        "row-by-row": ("ours", common | {"limit": users // 2}),
        "ALS": ("als", common),
        "half": ("ours", common | {"limit": max(64 * 2**20, users), "data": f"{arguments.interactions // 2}.parquet"}),
    }
    print(
        f"{len(pairs['user']):,} interactions, rank {arguments.rank}, {BLOCKS} blocks, 2 executors of {CORES} core; "
        f"load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        for count, frame in data.items():
            pd.DataFrame(frame).to_parquet(f"{folder}/{count}.parquet")
        os.environ["HALFSTEP_EVENTS"] = f"{folder}/events"
        os.mkdir(f"{folder}/events")
        cluster = Cluster(Path(folder))
        results = {}
        try:
            for name, (role, job) in jobs.items():
                if arguments.only in (None, []) or name in arguments.only:
                    result = start(cluster, folder, role, job | {"name": name})
                    if result:
                        results[name] = result
                        found = data[int(job["data"].removesuffix(".parquet"))]
                        report(name, result, objective_of(np.load(f"{folder}/{name}.npz"), found))
            if arguments.least:
                least_memory(cluster, folder, {name: jobs[name] for name in ("broadcast", "row-by-row", "ALS")})
        finally:
            cluster.stop()
        for name, (total, later) in shuffled(f"{folder}/events").items():
            if name in results:
                more = f", a sweep {later / (arguments.sweeps - 1) / 2**20:.1f} MB" if later else ""
                print(f"shuffled by {name}: {total / 2**20:.1f} MB{more}")
        summarise(results, arguments.rank)
        ours = next((name for name in ("broadcast", "row-by-row") if name in results), None)
        if ours:
            compare_with_local(pairs, folder, ours, arguments.rank, arguments.sweeps)


def summarise(results: dict[str, dict], rank: int) -> None:
    """The ratios that docs/scale.md speaks of."""
    for name in ("broadcast", "row-by-row"):
        if name in results and "ALS" in results:
            mine, theirs = results[name], results["ALS"]
            print(
                f"{name}: a sweep of ALS takes {theirs['seconds'] / mine['seconds']:.2f} times as long, "
                f"{sum(theirs['busy']) / sum(mine['busy']):.2f} times the processor time; our executor takes "
                f"{mine['memory'] / theirs['memory']:.2f} of its memory, "
                f"{mine['heap'] / theirs['heap']:.2f} of its heap; its lists of all users take "
                f"{theirs['listed'] / mine['listed']:.2f} times as long as ours, "
                f"{sum(theirs['listed_busy']) / sum(mine['listed_busy']):.2f} times the processor time"
            )
    if {"broadcast", "half"} <= results.keys():
        whole, half = results["broadcast"], results["half"]
        print(
            f"twice the data: a sweep takes {whole['seconds'] / half['seconds']:.2f} times as long, "
            f"{sum(whole['busy']) / sum(half['busy']):.2f} times the processor time"
        )
    if "row-by-row" in results:
        users, items = (count * rank * 4 / 2**20 for count in results["row-by-row"]["shipped"])
        print(f"the model of docs/scale.md, rows sent one by one: users {users:.1f} MB, items {items:.1f} MB a sweep")


if __name__ == "__main__":
    main()
