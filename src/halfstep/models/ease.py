"""EASE: every item from all others by one ridge regression, in closed form. Dense, so for catalogues of thousands."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from halfstep.core.fitted import FromFit
from halfstep.errors import check_number
from halfstep.models.item_based import ItemRecommender
from halfstep.models.item_matrix import DenseItems, ItemMatrix
from halfstep.models.memory import MemoryEstimate, machine_memory

MOST_ITEMS = 20_000


class EASE(ItemRecommender):
    """Scores R S, where S minimises |R - R S|^2 + reg |S|^2 over matrices with a diagonal of zeros (Steck, 2019).

    With P = (R'R + reg I)^-1 the answer is s_ij = -p_ij / p_jj, s_jj = 0. Exact, in float64; S is kept in float32.

    Parameters
    ----------
    reg : penalty, > 0; see docs/recommenders.md for where the default comes from.
    n_threads : None for all cores.

    At most 20,000 items: time grows with their cube, memory with their square. `EASE.estimate_memory(n_items)` says how
    much, before anything is computed.
    """

    similarity_ = FromFit[Any]("matrix.values")
    _kind = "EASE"

    def __init__(self, reg: float = 30.0, *, n_threads: int | None = None) -> None:
        self.reg = reg
        self.n_threads = n_threads

    @staticmethod
    def estimate_memory(n_items: int) -> MemoryEstimate:
        """Bytes that a fit needs at its peak beyond its input, and what stays."""
        check_number("n_items", n_items, at_least=1, whole=True)
        square = int(n_items) ** 2
        return MemoryEstimate(
            {
                "inverting": {"products of items": 8 * square, "work of the inverse": 8 * square},
                "keeping": {"inverse": 8 * square, "weights between items": 4 * square},
            }
        )

    def _check_parameters(self) -> None:
        check_number("reg", self.reg, above=0)

    def _matrix(self, cells: Any) -> ItemMatrix:
        n = cells.shape[1]
        if n > MOST_ITEMS:
            raise ValueError(
                f"X has {n:,} items; EASE takes at most {MOST_ITEMS:,}, whose inverse needs "
                f"{self.estimate_memory(MOST_ITEMS).peak / 1e9:.1f} GB. Use ItemGraph, or leave rare items out."
            )
        needed, there = self.estimate_memory(n).peak, machine_memory()
        if needed > there:
            raise MemoryError(
                f"EASE needs {needed / 1e9:.1f} GB for {n:,} items; this machine has {there / 1e9:.1f} GB. Use "
                "ItemGraph, or leave rare items out."
            )
        reg = float(self.reg)
        p = (cells.T @ cells).toarray()
        p[np.diag_indices(n)] += reg
        factor, failed = linalg.lapack.dpotrf(p.T, lower=1, overwrite_a=1)
        if failed:
            raise ValueError(f"reg={reg:g} is too small for these data: R'R + reg I is not positive definite.")
        inverse, _ = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
        return DenseItems(_weights(inverse))


def _weights(lower: Any) -> Any:
    """-p_ij / p_jj in float32 from the lower triangle of P, block by block."""
    n, diagonal = len(lower), np.diag(lower).copy()
    s = np.empty((n, n), np.float32)
    for start in range(0, n, 1024):
        rows, before = slice(start, min(start + 1024, n)), slice(0, start)
        own = np.tril(lower[rows, rows])
        s[rows, rows] = own + np.tril(own, -1).T
        s[rows, before] = lower[rows, before]
        s[before, rows] = lower[rows, before].T
    s /= -diagonal.astype(np.float32)
    s[np.diag_indices(n)] = 0.0
    return s
