"""Ranks of 512 and 1,024: processor seconds to the exact solver's rankings. `python benchmarks/high_rank.py [rank ...]`

ESCO, background 0.03, penalty 0.0015 (n + 0.03 N), starts of N(0, 0.1), the same for all. The aim is the validation
NDCG@10 of the exact solver's fifth sweep, less half a percent; what is counted is the processor time of sweeps (both
threads), not that of judging.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from _matrices import cut, sets

import halfstep as hs
from halfstep.models.recommend import top_k

BACKGROUND, REG, THREADS, SWEEPS = 0.03, 0.0015, 2, 15


def ours(cells: Any, rank: int, solver: str) -> Iterator[Callable[[], tuple[Any, Any]]]:
    model = hs.WALS(
        rank,
        BACKGROUND,
        REG,
        solver=solver,
        init="normal",
        max_iter=1,
        tol=0,
        warm_start=True,
        random_state=0,
        n_threads=THREADS,
    )
    while True:
        yield lambda: model.fit(cells).fitted_.rows


def irspack(cells: Any, rank: int) -> Iterator[Callable[[], tuple[Any, Any]]]:
    from irspack.recommenders.ials import IALSTrainer, LossType, SolverType

    trainer = IALSTrainer(
        sp.csr_matrix(cells, dtype=np.float32), rank, BACKGROUND, REG, 1.0, 0.1, SolverType.IALSPP, 3, 64,
        LossType.IALSPP, 0, THREADS, 5, 7,
    )  # fmt: skip

    def sweep() -> tuple[Any, Any]:
        trainer.run_epoch()
        return trainer.core_trainer.user, trainer.core_trainer.item

    while True:
        yield sweep


def run(steps: Iterator[Callable[[], tuple[Any, Any]]], seen: Any, hidden: Any, aim: float | None) -> Any:
    """Values after every sweep, and the processor seconds; ends at the aim, or after five sweeps without one."""
    rows, values, seconds = np.flatnonzero(np.diff(hidden.indptr)), [], 0.0
    for sweep in steps:
        begun = time.process_time()
        users, items = sweep()
        seconds += time.process_time() - begun
        left, right = (np.ascontiguousarray(side, np.float32) for side in (users[rows], items))
        places, _ = top_k(left, right, 10, seen[rows], THREADS)
        values.append(float(np.mean(hs.metrics.ndcg_at_k(places, hidden[rows], 10))))
        if (aim is None and len(values) == 5) or (aim is not None and values[-1] >= aim) or len(values) == SWEEPS:
            return values, seconds
    raise AssertionError("endless")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    ((_, cells),) = sets(["ESCO"], parts=(1,))
    seen, hidden = cut(cells, 301, 0)
    seen = sp.csr_array(seen.astype(np.float32))
    print("| rank | solver | seconds | sweeps | NDCG@10 | of irspack's time |\n|" + " --- |" * 6)
    for rank in [int(given) for given in sys.argv[1:]] or [512, 1024]:
        exact, spent = run(ours(seen, rank, "exact"), seen, hidden, None)
        aim = exact[-1] * 0.995
        found = {"exact": (exact, spent)}
        found["subspace"] = run(ours(seen, rank, "subspace"), seen, hidden, aim)
        found["irspack iALS++"] = run(irspack(seen, rank), seen, hidden, aim)
        theirs = found["irspack iALS++"][1]
        for name, (values, seconds) in found.items():
            short = "" if values[-1] >= aim else " (not reached)"
            took = f"{seconds:.1f} | {len(values)} | {values[-1]:.4f}{short} | {seconds / theirs:.2f}"
            print(f"| {rank} | {name} | {took} |", flush=True)
