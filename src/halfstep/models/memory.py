"""Memory a fit on one machine needs beyond its input, counted from what the code allocates. Sees sizes, no data."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from halfstep import _core
from halfstep.core import losses
from halfstep.core.initial import BLOCK_ROWS
from halfstep.engine.local import thread_count
from halfstep.errors import check_number, one_of

GRAM_SHARE, GRAM_PARTS = (
    16384,
    64,
)  # a Gram matrix is summed over shares of at least so many rows, at most so many parts
STRIP = 16  # columns of weights that a task solves
A_GROUP, A_ROW = 2**20, 20  # rows of a row group, mostly; bytes for each of them while one column is read and numbered
AN_ID = 64  # an id with what finds it
PANEL = 128  # rows gathered at a time by the kernels


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes a fit holds at once in each of its phases; `peak` is the largest sum. `str` is a table.

    phases : {"reading", "start", "sweeps"}, each a mapping of what is held to its bytes; from a file also "grouping"
        and "sorting", which come between the first two.
    """

    phases: Mapping[str, Mapping[str, int]]

    @property
    def peak(self) -> int:
        """Most bytes held at once, beyond the input and the interpreter."""
        return max(sum(items.values()) for items in self.phases.values())

    @property
    def items(self) -> Mapping[str, int]:
        """What is held in the phase with the peak."""
        return max(self.phases.values(), key=lambda items: sum(items.values()))

    def __str__(self) -> str:
        rows = [*self.items.items(), ("peak beyond the input", self.peak)]
        return "\n".join(f"{name:<38}{_readable(size):>10}" for name, size in rows)


def machine_memory() -> float:
    """Bytes of memory that this machine has; infinite where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def estimate_memory(
    n_users: int,
    n_items: int,
    nnz: int,
    rank: int = 64,
    *,
    dtype: str = "float32",
    weighted: bool = True,
    copied: bool = False,
    loss: Any = "squared",
    n_init: int = 1,
    user_features: tuple[int, int] | None = None,
    item_features: tuple[int, int] | None = None,
    file_rows: int | None = None,
    n_threads: int | None = None,
) -> MemoryEstimate:
    """Bytes that `fit` to a CSR matrix of `nnz` stored cells needs at its peak, beyond that matrix; itemised.

    weighted : the weights differ. Weights that are all the same are kept as one number.
    copied : the matrix is not a CSR of `dtype` with int32 indices, sorted and without repeated cells, so the fit
        makes one of it.
    user_features, item_features : columns and stored values of features, where there are any.
    file_rows : rows of the Parquet file that `fit` is given the path of, a row for each cell or more; the matrix is
        made from it then, so nothing is left out but the interpreter.
    Frames need more than this while their ids are numbered.
    """
    for name, value in (("n_users", n_users), ("n_items", n_items), ("nnz", nnz), ("rank", rank), ("n_init", n_init)):
        check_number(name, value, at_least=1, whole=True)
    if nnz > n_users * n_items:
        raise ValueError(f"nnz={nnz:,} cells do not fit into {n_users:,} users x {n_items:,} items.")
    one_of("dtype", dtype, ("float32", "float64"))
    itemsize, workers = np.dtype(dtype).itemsize, thread_count(n_threads)
    rows, small, large = n_users + n_items, min(n_users, n_items), max(n_users, n_items)
    weight = itemsize if weighted else 0
    cell = 4 + weight
    ours = {
        "given orientation": 8 * (n_users + 1) + (nnz * cell if copied or file_rows else 0),
        "other orientation": 8 * (n_items + 1) + nnz * cell,
    }
    # A worker: a gathered panel, the quadratic, three numbers for each cell of a row; longer rows are cut into chunks.
    quadratic, panel = (rank + 32) ** 2, max(rank, PANEL) * (rank + 32)
    worker = panel + quadratic + 3 * min(_core.long_row, large)
    chunks = quadratic * (large // _core.chunk_cells)
    gram_parts = min(GRAM_PARTS, -(-large // GRAM_SHARE))
    sweeps = {
        **ours,
        "factors": rows * rank * itemsize,
        **({"rows that a sweep began with": small * rank * itemsize} if dtype == "float32" else {}),
        "counts and penalties of rows": rows * (8 + 8 + itemsize),
        "scratch of the workers": (workers * worker + chunks) * itemsize,
        "Gram matrices": (gram_parts + 4) * 8 * rank**2,
    }
    for side, n, told in (("users", n_users, user_features), ("items", n_items, item_features)):
        if told is not None:
            sweeps |= _features(side, n, *told, rank, itemsize, workers)
    if not losses.get(loss).keeps_duals and user_features is None and item_features is None:
        sweeps["rows where a sweep ended"] = sweeps["factors"]  # of both sides while sweeps are coarse
    if losses.get(loss).keeps_duals:
        sweeps["dual variables of cells"] = 2 * nnz * itemsize
    start = {
        **ours,
        "random rows": 2 * small * rank * itemsize + BLOCK_ROWS * rank * 8,
        "counts and penalties of rows": rows * 32,
    }
    if n_init > 1:  # the best start so far, and when the next one begins also the last
        ended = small * rank * itemsize if "rows where a sweep ended" in sweeps else 0
        sweeps["factors of earlier starts"] = sweeps["factors"] + ended
        start["factors of earlier starts"] = sweeps["factors"] * min(n_init - 1, 2)
    reading = {"given orientation": ours["given orientation"], "checks of weights": 2 * nnz}
    if file_rows is None:
        return MemoryEstimate({"reading": reading, "start": start, "sweeps": sweeps})
    check_number("file_rows", file_rows, at_least=nnz, whole=True)
    ids = {"ids": rows * AN_ID, "a row group": min(file_rows, A_GROUP) * A_ROW}  # Arrow gives it back late
    grouped = {"cells grouped by item": 8 * (n_items + 1) + file_rows * cell}
    numbered = {"row numbers": 8 * file_rows, "weights": weight * file_rows}
    grouping = ids | numbered | grouped
    sorting = ids | grouped | {"given orientation": 8 * (n_users + 1) + file_rows * cell}
    phases = {"reading": ids | numbered, "grouping": grouping, "sorting": sorting}
    return MemoryEstimate(phases | {"start": ids | start, "sweeps": ids | sweeps})


def _features(side: str, n: int, p: int, nnz: int, rank: int, itemsize: int, workers: int) -> dict[str, int]:
    """What features of a side need: as given and with a constant; weights and what they say of rows, old and new, each
    with what moved it last, and means; scratch of strips."""
    strips = min(workers, -(-rank // STRIP)) * (p + n) * STRIP
    return {
        f"features of {side}": 2 * ((nnz + n) * (8 + 4) + 8 * n) + nnz * (itemsize + 4) + 16 * p,
        f"weights of features of {side}": (4 * p + 5 * n) * rank * itemsize + strips * itemsize,
    }


def _readable(size: int) -> str:
    power = min((len(str(size)) - 1) // 3, 4)
    return f"{size / 1000**power:,.1f} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"
