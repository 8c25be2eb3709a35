"""The estimate of a fit's memory against what a process really takes, and what each argument does to it."""

import subprocess
import sys
from pathlib import Path

import pytest

from halfstep import WALS

MEASURE = """
import sys
import numpy as np, scipy.sparse as sp
from halfstep import WALS

def status(field):
    return int(next(line for line in open("/proc/self/status") if line.startswith(field)).split()[1]) * 1024

weighted, rank = sys.argv[1] == "weighted", int(sys.argv[2])
users, items, per_user = 30_000, 8_000, 80
indices = np.tile(np.arange(per_user, dtype=np.int32) * 100, (users, 1))
indices += np.random.default_rng(0).integers(0, 100, indices.shape, dtype=np.int32)
weights = np.ones(indices.size, np.float32)
if weighted:
    weights += np.arange(indices.size, dtype=np.float32) % 5
X = sp.csr_array((weights, indices.ravel(), np.arange(users + 1, dtype=np.int32) * per_user), shape=(users, items))
WALS(rank=rank, max_iter=1, n_threads=2).fit(X[:100])
open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far
before = status("VmRSS")
WALS(rank=rank, max_iter=5, random_state=0, n_threads=2).fit(X)
print(status("VmHWM") - before, WALS.estimate_memory(users, items, X.nnz, rank, weighted=weighted, n_threads=2).peak)
"""


FROM_FILE = """
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from halfstep import WALS

def status(field):
    return int(next(line for line in open("/proc/self/status") if line.startswith(field)).split()[1]) * 1024

users, items, per_user, path = 80_000, 8_000, 100, sys.argv[1]
rng = np.random.default_rng(0)
with pq.ParquetWriter(path, pa.schema([("user", pa.int64()), ("item", pa.int64())])) as file:
    for first in range(0, users, 10_000):
        columns = np.arange(per_user) * 80 + rng.integers(0, 80, (10_000, per_user))
        rows = np.repeat(np.arange(first, first + 10_000) * 977, per_user)
        file.write_table(pa.table([rows, columns.ravel()], names=["user", "item"]))
small = path + ".small.parquet"
pq.write_table(pq.read_table(path).slice(0, 1000), small)
WALS(rank=8, max_iter=1, n_threads=2).fit(small)
pa.default_memory_pool().release_unused()
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
X = WALS(rank=32, max_iter=1, random_state=0, n_threads=2).fit(path).fitted_.cells
told = dict(weighted=False, file_rows=users * per_user, n_threads=2)
print(status("VmHWM") - before, WALS.estimate_memory(*X.shape, len(X), 32, **told).peak)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux to measure the peak")
def test_estimate_from_a_file_is_within_a_fifth_of_the_measured_peak(tmp_path: Path) -> None:
    run = [sys.executable, "-c", FROM_FILE, str(tmp_path / "a.parquet")]
    measured, estimated = map(int, subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())
    assert 0.8 < estimated / measured < 1.2


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux to measure the peak")
@pytest.mark.parametrize(("weights", "rank"), [("weighted", "16"), ("constant", "64")])
def test_estimate_is_within_a_fifth_of_the_measured_peak(weights: str, rank: str) -> None:
    run = [sys.executable, "-c", MEASURE, weights, rank]
    measured, estimated = map(int, subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())
    assert 0.8 < estimated / measured < 1.2


def test_items_sum_to_the_peak_and_are_readable() -> None:
    estimate = WALS.estimate_memory(100_000, 20_000, 10_000_000, 64, n_threads=2)
    assert sum(estimate.items.values()) == estimate.peak
    assert estimate.items["factors"] == 120_000 * 64 * 4
    assert estimate.items["other orientation"] == 20_001 * 8 + 10_000_000 * 8
    assert "peak beyond the input" in str(estimate)
    assert "80.2 MB" in str(estimate)


def test_what_costs_more_is_counted() -> None:
    sizes = (50_000, 10_000, 4_000_000, 32)
    plain = WALS.estimate_memory(*sizes, n_threads=1).peak
    assert WALS.estimate_memory(*sizes, n_threads=1, weighted=False).peak == plain - 4 * 4_000_000
    assert WALS.estimate_memory(*sizes, n_threads=1, copied=True).peak == plain + 8 * 4_000_000
    assert WALS.estimate_memory(*sizes, n_threads=1, n_init=3).peak > plain + 60_000 * 32 * 4
    kinked = plain + 2 * 4_000_000 * 4 - 60_000 * 32 * 4  # dual variables of cells; no rows where a sweep ended
    assert WALS.estimate_memory(*sizes, n_threads=1, loss="absolute").peak == kinked
    assert WALS.estimate_memory(*sizes, n_threads=4).peak > plain
    assert WALS.estimate_memory(*sizes, n_threads=1, dtype="float64").peak > 1.5 * plain


def test_a_file_costs_what_its_rows_cost_while_they_are_sorted() -> None:
    told = {"n_threads": 1, "weighted": False}
    given = WALS.estimate_memory(50_000, 10_000, 40_000_000, 8, **told)
    from_file = WALS.estimate_memory(50_000, 10_000, 40_000_000, 8, **told, file_rows=50_000_000)
    assert from_file.peak > given.peak + 4 * 40_000_000
    assert from_file.items["row numbers"] == 8 * 50_000_000
    assert from_file.phases["sweeps"]["given orientation"] == 8 * 50_001 + 4 * 40_000_000
    with pytest.raises(ValueError, match="file_rows=3 must be a whole number of at least 40000000"):
        WALS.estimate_memory(50_000, 10_000, 40_000_000, 8, file_rows=3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((10, 10, 101, 2), "nnz=101 cells do not fit into 10 users x 10 items"),
        ((0, 10, 5, 2), "n_users=0 must be a whole number of at least 1"),
        ((10, 10, 5, 2.5), "rank=2.5 must be a whole number of at least 1"),
    ],
)
def test_impossible_sizes_are_refused(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WALS.estimate_memory(*arguments)


def test_features_are_part_of_the_estimate():
    plain = WALS.estimate_memory(13_000, 3_000, 120_000, 128)
    told = WALS.estimate_memory(13_000, 3_000, 120_000, 128, user_features=(20_000, 400_000))
    weights = 20_000 * 128 * 4
    assert told.peak > plain.peak + 4 * weights  # weights and their last step, old and new
    assert "features of users" in told.phases["sweeps"]
