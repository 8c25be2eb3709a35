"""WALS on interactions that are many: seconds and peak memory of every stage, in one process that starts from a file.

    python benchmarks/scale.py                     1M users x 200K items, 100M interactions, rank 64 (tens of minutes)
    python benchmarks/scale.py --small             100K x 20K, 10M
    python benchmarks/scale.py --ids text --weights --folder /tmp
    python benchmarks/scale.py --small --read frame      the same cells as one pyarrow table, for comparison
    python benchmarks/scale.py --rows-in /tmp            factors in mapped files while they are fitted

The Parquet file is made first, a row group at a time from the seed: users and items follow power laws, no pair comes
twice, ids are scattered, rows are in no order. Each stage forgets the peak of the one before (`clear_refs`), so its
peak is what the process held then, the interpreter and mapped files included; the last line is that of the process.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _machine import describe, table

SIZES = {"full": (1_000_000, 200_000, 100_000_000), "small": (100_000, 20_000, 10_000_000)}
GROUP = 1_000_000
STEEPNESS = 1.6, 2.0  # rows n r^p, r uniform: the larger p, the heavier the head


# ---------------------------------------------------------------------- the file


def pairs_of_group(group: int, groups: int, n_users: int, n_items: int, n: int, seed: int) -> tuple[Any, Any]:
    """n different (user, item) pairs with (user + item) mod groups == group: no two groups share a pair."""
    rng, keys = np.random.default_rng([seed, group]), np.empty(0, np.int64)
    while len(keys) < n:
        more = n - len(keys) + n // 50
        users, items = (
            (size * rng.random(more) ** steep).astype(np.int64)
            for size, steep in zip((n_users, n_items), STEEPNESS, strict=True)
        )
        items = items // groups * groups + (group - users) % groups
        inside = items < n_items
        keys = np.unique(np.concatenate([keys, users[inside] * n_items + items[inside]]))
    keys = rng.permutation(keys)[:n]
    return keys // n_items, keys % n_items


def write(path: Path, size: tuple[int, int, int], ids: str, weights: bool, seed: int = 0) -> None:
    """The Parquet file, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n_users, n_items, cells = size
    names = []
    for side, n in enumerate(size[:2]):
        numbers = np.random.default_rng([seed, -1 - side + 2**32]).permutation(n) * np.int64(1_000_003) + 17
        names.append(pa.array(numbers) if ids == "int" else pa.array([f"{'ui'[side]}{k:014d}" for k in numbers]))
    groups = -(-cells // GROUP)
    kind = pa.int64() if ids == "int" else pa.string()
    fields = [("user_id", kind), ("item_id", kind), *([("weight", pa.float32())] if weights else [])]
    with pq.ParquetWriter(path, pa.schema(fields)) as file:
        for group in range(groups):
            n = min(GROUP, cells - group * GROUP)
            rows = pairs_of_group(group, groups, n_users, n_items, n, seed)
            columns = [name.take(pa.array(places)) for name, places in zip(names, rows, strict=True)]
            if weights:
                columns.append(pa.array(np.random.default_rng([seed, group, 1]).integers(1, 6, n).astype(np.float32)))
            file.write_table(pa.table(columns, names=[name for name, _ in fields]), row_group_size=GROUP)


# ---------------------------------------------------------------------- the stages, in a process of their own


def status(field: str) -> int:
    """Bytes."""
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith(field)).split()[1]) * 1024


def tell(stage: str, seconds: float | None, **more: Any) -> None:
    held = {"peak": status("VmHWM"), "held": status("VmRSS")}
    print(json.dumps({"stage": stage, "seconds": seconds, **held, **more}), flush=True)


def forget_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


@contextmanager
def stage(name: str) -> Iterator[None]:
    forget_peak()
    begun = time.perf_counter()
    yield
    tell(name, time.perf_counter() - begun)


def run(path: str, told: dict[str, Any]) -> None:
    import halfstep as hs
    from halfstep.engine import LocalEngine

    class Watched(LocalEngine):
        def read(self, X: Any, columns: Any, **more: Any) -> Any:
            with stage("read"):
                found = super().read(X, columns, **more)
            forget_peak()
            return found

    def source() -> Any:
        if told["read"] == "file":
            return path
        import pyarrow.parquet as pq

        return pq.read_table(path)

    tell("start", None)
    before = status("VmRSS")
    sweeps: list[float] = []
    model = hs.WALS(
        rank=told["rank"], max_iter=told["sweeps"], tol=0.0, random_state=0, n_threads=told["threads"],
        engine=Watched(told["threads"]), callbacks=[lambda record: sweeps.append(record["seconds"])],
    )  # fmt: skip
    begun = time.perf_counter()
    model.fit(source())
    spent = time.perf_counter() - begun
    steps = np.diff([0.0, *sweeps])
    tell("fit", spent, sweep=float(np.median(steps)), sweeps=[round(s, 2) for s in steps])
    cells = model.fitted_.cells
    estimate = hs.WALS.estimate_memory(
        *cells.shape, len(cells), told["rank"], weighted=isinstance(cells.weights, np.ndarray),
        n_threads=told["threads"],
    )  # fmt: skip
    some = model.user_ids_[np.random.default_rng(0).permutation(cells.shape[0])[:10_000]]
    with stage("recommend"):
        model.recommend(some, 10)
    saved = Path(path).with_suffix(".safetensors")
    with stage("save"):
        model.save(saved)
    facts = {"objective": model.objective_, "cells": len(cells), "shape": cells.shape, "before": before}
    facts |= {"estimate": estimate.peak, "model": saved.stat().st_size}
    del model, cells
    with stage("load"):
        hs.load(saved)
    with stage("load, mapped"):
        hs.load(saved, mmap=True)
    saved.unlink()
    print(json.dumps({"stage": "process", "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, **facts}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--cells", type=int)
    parser.add_argument("--ids", choices=("int", "text"), default="int")
    parser.add_argument("--weights", action="store_true", help="1 to 5, instead of the same for every cell")
    parser.add_argument("--read", choices=("file", "frame"), default="file")
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--sweeps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=None, help="where the file is made; the temporary folder")
    parser.add_argument("--keep", action="store_true", help="leave the file, and take it if it is there")
    parser.add_argument("--stages", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.stages:
        run(told.stages, vars(told) | {"folder": None})
        sys.exit()
    size = SIZES["small" if told.small else "full"]
    size = (*size[:2], told.cells or size[2])
    folder = told.folder or Path(tempfile.gettempdir())
    path = folder / f"halfstep-scale-{size[2]}-{told.ids}{'-weights' if told.weights else ''}.parquet"
    print(describe())
    try:
        begun = time.perf_counter()
        if not path.exists():
            write(path, size, told.ids, told.weights)
        print(f"{path.stat().st_size / 1e6:,.0f} MB of Parquet, made in {time.perf_counter() - begun:.0f} s", flush=True)
        command = [sys.executable, __file__, "--stages", str(path), *sys.argv[1:]]
        rows = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:  # type: ignore[union-attr]
                rows.append(json.loads(line))
                print(line, end="", flush=True)
    finally:
        if not told.keep:
            path.unlink(missing_ok=True)
