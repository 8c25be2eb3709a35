"""Cells kept from a fit, to judge its rankings by: which they are, and what a ranking of them is worth.

Knows matrices and ranking metrics, no model. `judge` has the protocols of evaluations; this is for what a fit decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep import metrics
from halfstep.errors import one_of

RANKING = {
    "ndcg": metrics.ndcg_at_k,
    "recall": metrics.recall_at_k,
    "truncated_recall": metrics.truncated_recall_at_k,
    "precision": metrics.precision_at_k,
    "map": metrics.average_precision_at_k,
    "mrr": metrics.reciprocal_rank,
    "hit_rate": metrics.hit_rate_at_k,
}
SHARE, MOST_USERS, MOST_NUMBERS = 5, 1000, 25_000_000


@dataclass(frozen=True)
class RankingMetric:
    """A metric of full rankings and its depth, such as "ndcg@10"; larger is better."""

    name: str
    depth: int

    @classmethod
    def of(cls, text: str) -> Self:
        name, _, depth = str(text).partition("@")
        one_of("metric", name, RANKING)
        if depth and not (depth.isdecimal() and int(depth) > 0):
            raise ValueError(f"metric={text!r} needs a whole number after the @, such as '{name}@10'.")
        return cls(name, int(depth or 10))

    def __str__(self) -> str:
        return f"{self.name}@{self.depth}"

    def __call__(self, ranked: NDArray[Any], hidden: Any) -> float:
        """The mean over the rows of `hidden` that have a cell."""
        return float(np.mean(RANKING[self.name](ranked, sp.csr_matrix(hidden), min(self.depth, ranked.shape[1]))))


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What some users have and what they were found to have beyond it.

    rows (k,) : users of the fit. seen, hidden : CSR (k, items); no user without a hidden cell.
    """

    rows: NDArray[np.int64]
    seen: Any
    hidden: Any

    @classmethod
    def of(cls, train: Any, hidden: Any, seed: int = 0) -> Self:
        """Some of the users who have a cell in `hidden`, drawn by the seed; both CSR (users, items)."""
        fresh = sp.csr_array(hidden - hidden.multiply(train != 0))
        fresh.eliminate_zeros()
        rows = np.flatnonzero(np.diff(fresh.indptr))
        if not len(rows):
            raise ValueError("validation has no cell beyond those of X; give cells that were kept from the fit.")
        most = max(1, min(MOST_USERS, MOST_NUMBERS // max(train.shape[1], 1)))
        if len(rows) > most:
            rows = np.sort(np.random.default_rng(seed).permutation(rows)[:most])
        return cls(rows, sp.csr_array(train)[rows], fresh[rows])

    def value(self, metric: RankingMetric, ranked: NDArray[Any]) -> float:
        return metric(ranked, self.hidden)


def keep_some(cells: Any, seed: int) -> tuple[Any, Any]:
    """CSR cells to learn from, and a fifth of every row with at least three cells, kept apart."""
    cells = sp.csr_array(cells)
    order = np.random.default_rng(seed).random(cells.nnz)
    row = np.repeat(np.arange(cells.shape[0]), np.diff(cells.indptr))
    place = np.empty(cells.nnz, np.int64)
    place[np.lexsort((order, row))] = np.arange(cells.nnz)
    counts = np.diff(cells.indptr)
    n_kept = np.where(counts >= 3, np.maximum(counts // SHARE, 1), 0)
    kept = place - cells.indptr[row] < n_kept[row]

    def part(mask: NDArray[np.bool_]) -> Any:
        return sp.csr_array((cells.data[mask], (row[mask], cells.indices[mask])), shape=cells.shape)

    return part(~kept), part(kept)
