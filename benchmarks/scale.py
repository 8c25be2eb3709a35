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
import gc
import json
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


def now() -> Any:
    """Seconds on the clock and of the processor; other work on the machine hardly changes the second."""
    return np.array([time.perf_counter(), time.process_time()])


def tell(stage: str, seconds: Any = None, **more: Any) -> None:
    seconds = None if seconds is None else np.round(seconds, 2).tolist()
    held = {"peak": status("VmHWM"), "held": status("RssAnon")}
    print(json.dumps({"stage": stage, "seconds": seconds, **held, **more}), flush=True)


def forget_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


@contextmanager
def stage(name: str) -> Iterator[None]:
    forget_peak()
    begun = now()
    yield
    tell(name, now() - begun)


def run(path: str, told: dict[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    import halfstep as hs
    from halfstep.engine import LocalEngine

    class Watched(LocalEngine):
        def read(self, X: Any, columns: Any, **more: Any) -> Any:
            with stage("read"):
                found = super().read(X, columns, **more)
            forget_peak()
            sweeps[0] = now()
            return found

    some = Path(path).with_suffix(".first.parquet")  # what is imported by a fit is no part of it
    pq.write_table(pa.table({"user": [1, 2], "item": ["a", "b"], "weight": [1.0, 2.0]}), some)
    hs.WALS(rank=1, max_iter=2).fit(some).recommend([1], 1)
    some.unlink()
    tell("start")
    before = status("VmRSS")
    sweeps = [now()]
    model = hs.WALS(
        rank=told["rank"], max_iter=told["sweeps"], tol=0.0, random_state=0,
        engine=Watched(told["threads"], told["rows_in"]), callbacks=[lambda record: sweeps.append(now())],
    )  # fmt: skip
    model.fit(path if told["read"] == "file" else pq.read_table(path))
    each = np.diff(sweeps, axis=0).round(2)
    tell("fit", now() - sweeps[0], sweeps=each.tolist())
    cells = model.fitted_.cells
    estimate = hs.WALS.estimate_memory(
        *cells.shape, len(cells), told["rank"], weighted=isinstance(cells.weights, np.ndarray),
        n_threads=told["threads"], file_rows=pq.ParquetFile(path).metadata.num_rows,
    )  # fmt: skip
    facts = {"objective": model.objective_, "cells": len(cells), "shape": cells.shape, "before": before}
    asked = model.user_ids_[np.random.default_rng(0).permutation(cells.shape[0])[:10_000]]
    with stage("recommend"):
        model.recommend(asked, 10)
    saved = Path(path).with_suffix(".safetensors")
    with stage("save"):
        model.save(saved)
    facts |= {"estimate": estimate.peak, "model": saved.stat().st_size}
    del model, cells
    gc.collect()
    with stage("load"):
        loaded = hs.load(saved)
    del loaded
    gc.collect()
    with stage("load, mapped"):
        loaded = hs.load(saved, mmap=True)
    del loaded
    saved.unlink()
    tell("process", **facts)


def shown(rows: list[dict[str, Any]]) -> None:
    """The table, and the estimate beside what was measured."""
    by_name = {row["stage"]: row for row in rows}
    fit, whole = by_name["fit"], by_name["process"]
    sweep = np.median(fit["sweeps"], axis=0)
    names = {
        "start": "start, everything imported",
        "read": "read: ids, row numbers, cells by user",
        "fit": f"fit: {len(fit['sweeps'])} sweeps of {sweep[0]:.1f} s ({sweep[1]:.1f}), median, and users once more",
        "recommend": "recommend 10 items to 10,000 users",
        "save": f"save ({whole['model'] / 1e6:,.0f} MB)",
        "load": "load",
        "load, mapped": "load(mmap=True)",
    }
    lines = []
    for name, said in names.items():
        row = by_name[name]
        spent = ["", ""] if row["seconds"] is None else [f"{part:.1f}" for part in row["seconds"]]
        lines.append([said, *spent, *(f"{row[of] / 1e9:.2f}" for of in ("peak", "held"))])
    header = ["stage", "seconds", "processor seconds", "peak, GB", "anonymous after it, GB"]
    print("\n" + table(header, lines))
    measured = max(by_name[name]["peak"] for name in ("read", "fit")) - whole["before"]
    users, items = whole["shape"]
    print(
        f"\n{users:,} users x {items:,} items, {whole['cells']:,} cells; peak of the process "
        f"{max(row['peak'] for row in rows) / 1e9:.2f} GB. Reading and fit beyond the start: {measured / 1e9:.2f} GB, "
        f"estimate_memory {whole['estimate'] / 1e9:.2f} GB, {whole['estimate'] / measured:.2f} of it."
    )


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
    parser.add_argument("--rows-in", default=None, help="a folder for the factors while they are fitted")
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
        made = time.perf_counter() - begun
        print(f"{path.stat().st_size / 1e6:,.0f} MB of Parquet, made in {made:.0f} s", flush=True)
        command = [sys.executable, __file__, "--stages", str(path), *sys.argv[1:]]
        rows: list[dict[str, Any]] = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:  # type: ignore[union-attr]
                rows.append(json.loads(line))
                print(line, end="", flush=True)
        shown(rows)
    finally:
        if not told.keep:
            path.unlink(missing_ok=True)
